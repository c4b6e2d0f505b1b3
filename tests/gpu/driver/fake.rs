//! A driver that is none, for a process to find, and what it tells at the process's end.
//!
//! Main types: [`FakeGpu`] and [`Report`]. Its library is the emulator's with more in it, and built in the same way; where
//! there is no g++, a test is skipped with a line, or fails if INFERGATE_REQUIRE_CLIENTS is 1. Refuses to know: what is
//! in it.

use engine::Element;
use engine::cuda::emulated::EmulatorSources;
use fixture::skip::skip;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// The names under which libraries are looked for; both are one here.
const DRIVER: &str = "libcuda.so";
const BLAS: &str = "libcublasLt.so";
/// Printed by each test, and repeats it.
const SEED: &str = "FAKE_CUDA_SEED";

pub(crate) struct FakeGpu {
    /// With the libraries, and for the report.
    folder: TempDir,
    /// Of the order in which blocks and warps run.
    seed: String,
}

/// What the fake driver wrote when its process ended.
#[derive(Debug)]
pub(crate) struct Report(Value);

impl FakeGpu {
    /// Whose kernels are in bf16.
    pub(crate) fn build() -> Option<Self> {
        let mut sources = EmulatorSources::of(Path::new(env!("CARGO_MANIFEST_DIR")));
        sources.folders.push("tests/gpu/driver");
        sources.files.extend([
            "tests/gpu/driver/cuda.cpp",
            "tests/gpu/driver/kernels.cpp",
            "tests/gpu/driver/cublaslt.cpp",
            "tests/gpu/driver/gpu.cpp",
        ]);
        match sources.built(Element::Bf16) {
            Ok(library) => Some(Self::with(&library)),
            Err(error) if error.to_string().contains("g++ cannot be run") => {
                skip(&error.to_string());
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Whose libraries are this one.
    pub(crate) fn with(library: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in [DRIVER, BLAS] {
            symlink(library, folder.path().join(name)).unwrap();
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let seed = std::env::var(SEED).unwrap_or_else(|_| now.as_nanos().to_string());
        println!("{SEED}={seed}");
        Self { folder, seed }
    }

    /// What a process needs to find it.
    pub(crate) fn environment(&self) -> [(&'static str, String); 4] {
        let installed = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
        let path = |path: &Path| path.to_str().unwrap().to_owned();
        [
            (
                "LD_LIBRARY_PATH",
                format!("{}:{installed}", path(self.folder.path())),
            ),
            ("INFERGATE_KERNEL_CACHE", path(&self.kernels())),
            ("FAKE_CUDA_REPORT", path(&self.report_path())),
            (SEED, self.seed.clone()),
        ]
    }

    /// Where its libraries are, and nothing else.
    pub(crate) fn libraries(&self) -> &Path {
        self.folder.path()
    }

    /// Where compiled kernels are kept, from one run of the tests to the next.
    pub(crate) fn kernels(&self) -> PathBuf {
        Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels")
    }

    pub(crate) fn report(&self) -> Report {
        Report(serde_json::from_slice(&fs::read(self.report_path()).unwrap()).unwrap())
    }

    fn report_path(&self) -> PathBuf {
        self.folder.path().join("report.json")
    }
}

impl Report {
    /// Nothing was called that must not be, and all that was taken was given back.
    #[track_caller]
    pub(crate) fn is_clean(&self) {
        let mistakes = self.0["mistakes"].as_array().unwrap();
        assert!(mistakes.is_empty(), "{mistakes:#?}");
        let left = self.0["left"].as_object().unwrap();
        assert!(left.values().all(|count| *count == 0), "{left:#?}");
    }

    pub(crate) fn calls(&self, name: &str) -> u64 {
        self.0["calls"][name].as_u64().unwrap_or_default()
    }

    pub(crate) fn most_bytes(&self) -> u64 {
        self.0["most_bytes"].as_u64().unwrap()
    }
}
