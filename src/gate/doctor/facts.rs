//! Readings of a machine for `gate doctor`.

use client::telemetry::GpuAtRest;
use std::path::PathBuf;
use verdict::record::{Isolation, Machine};

/// One reading of a machine, at rest. `None` stands wherever it does not tell.
#[derive(Clone, Debug)]
pub struct Facts {
    pub machine: Machine,
    /// Free for an ordinary user on the disk of the project.
    pub disk_free_bytes: Option<u64>,
    /// Load average of the last minute: processes that run or wait for a processor.
    pub load: Option<f64>,
    /// The processors' frequency governor.
    pub governor: Option<String>,
    /// Most files that a process may have open.
    pub open_files: Option<u64>,
    pub is_root: bool,
    /// Isolation that a session would have here; the error is a sentence.
    pub isolation: Result<Isolation, String>,
    /// Every program that the project names, looked for as a shell would.
    pub programs: Vec<Program>,
    /// `engine.files` and the tokenizer, those of the build left out.
    pub files: Vec<Found>,
    /// `host.cache`, in the project's order.
    pub caches: Vec<Found>,
    /// The error is a sentence: why GPUs cannot be asked.
    pub gpus: Result<Vec<GpuAtRest>, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub name: String,
    pub path: Option<PathBuf>,
}

/// A file or folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// As the project names it.
    pub name: String,
    /// Of everything in it; `None`: it is not there.
    pub bytes: Option<u64>,
}
