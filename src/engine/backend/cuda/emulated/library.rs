//! The emulator as a library: built by g++ once for each element type and state of its sources.
//!
//! Main function: [`built`]. Refuses to know: what is in it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::digest;
use crate::engine::backend::cuda::device::DeviceError;
use crate::engine::backend::cuda::sources::Element;

/// Where the emulator's sources are, and where what is built of them may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmulatorSources {
    /// Of this project.
    pub repository: PathBuf,
    pub build: PathBuf,
}

impl EmulatorSources {
    /// The sources below the repository's root, built below its `target`.
    pub fn of(repository: &Path) -> Self {
        Self {
            repository: repository.to_owned(),
            build: repository.join("target").join("emulator"),
        }
    }
}

/// The emulator's library, named by the digest of all that it is made of.
pub(super) fn built(sources: &EmulatorSources, element: Element) -> Result<PathBuf, DeviceError> {
    let unreadable = |path: &Path, error: std::io::Error| {
        DeviceError::Missing(format!("{} cannot be read: {error}", path.display()))
    };
    let mut parts = Vec::new();
    for folder in ["kernels", "tests/emulator"] {
        let folder = sources.repository.join(folder);
        let entries = std::fs::read_dir(&folder).map_err(|error| unreadable(&folder, error))?;
        let mut files: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
        files.sort();
        for file in files.iter().filter(|file| file.is_file()) {
            parts.push(std::fs::read(file).map_err(|error| unreadable(file, error))?);
        }
    }
    let digest = digest::of_parts(parts.iter().map(Vec::as_slice));
    let path = sources
        .build
        .join(format!("{element}-{}.so", &digest[..16]));
    // Once a process: threads that test would all compile the same.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if !path.exists() {
        compile(sources, element, &path)?;
    }
    Ok(path)
}

fn compile(sources: &EmulatorSources, element: Element, path: &Path) -> Result<(), DeviceError> {
    let failed = |error: std::io::Error| {
        DeviceError::Missing(format!("{} cannot be written: {error}", path.display()))
    };
    std::fs::create_dir_all(&sources.build).map_err(failed)?;
    let folder = tempfile::tempdir_in(&sources.build).map_err(failed)?;
    let made = folder.path().join("emulator.so");
    let output = Command::new("g++")
        .args(["-std=c++20", "-O2", "-shared", "-fPIC", "-DEMULATED"])
        .arg(format!("-DELEMENT={}", element.number()))
        .arg("tests/emulator/emulator.cpp")
        .arg("-o")
        .arg(&made)
        .current_dir(&sources.repository)
        .output()
        .map_err(|error| DeviceError::Missing(format!("g++ cannot be run: {error}")))?;
    if !output.status.success() {
        let log = String::from_utf8_lossy(&output.stderr);
        return Err(DeviceError::Missing(format!(
            "g++ refuses the emulator:\n{log}"
        )));
    }
    std::fs::rename(made, path).map_err(failed)
}
