//! The fake driver's library, built by g++ once for each state of its sources, and what it tells at the end.
//!
//! Main types: [`FakeGpu`] and [`Report`]. The kernels are those that NVRTC makes for the GPU that it shows; where
//! either compiler is missing, tests are skipped with a line, or fail if INFERGATE_REQUIRE_CLIENTS is 1.

use crate::common::repository;
use crate::process::gate;
use crate::skip::skip;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;

/// Its own sources, and what they include.
const FOLDERS: [&str; 3] = ["tests/driver", "tests/emulator", "kernels"];
/// The names under which the libraries are looked for.
const DRIVER: &str = "libcuda.so";
const BLAS: &str = "libcublasLt.so";

pub(crate) struct FakeGpu {
    libraries: PathBuf,
    /// For the report.
    folder: TempDir,
}

/// What the fake driver wrote when its process ended.
#[derive(Debug)]
pub(crate) struct Report(Value);

impl FakeGpu {
    /// With kernels at hand, for a model in bf16. `None`, with a line, where a compiler is missing.
    pub(crate) fn of_bf16() -> Option<Self> {
        // Tests begin at once: the first compiles, and the others wait for what it leaves.
        static COMPILING: Mutex<()> = Mutex::new(());
        let _alone = COMPILING.lock().unwrap_or_else(PoisonError::into_inner);
        let gpu = Self::with(built()?);
        // It ends behind the kernels.
        let output = gpu.serve(&[("FAKE_CUDA_FAIL", "cuStreamCreate:1:999")]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        if stderr.contains("no CUDA compiler") {
            skip(stderr.trim());
            return None;
        }
        assert!(stderr.contains("cuStreamCreate"), "{stderr}");
        Some(gpu)
    }

    /// Whatever these libraries are.
    pub(crate) fn with(libraries: PathBuf) -> Self {
        Self {
            libraries,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// What a process needs to find it.
    pub(crate) fn environment(&self) -> [(&'static str, String); 3] {
        let installed = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
        [
            (
                "LD_LIBRARY_PATH",
                format!("{}:{installed}", self.libraries.display()),
            ),
            (
                "INFERGATE_KERNEL_CACHE",
                kept().join("kernels").display().to_string(),
            ),
            ("FAKE_CUDA_REPORT", self.report_path().display().to_string()),
        ]
    }

    /// `gate serve --backend cuda` that must end by itself.
    pub(crate) fn serve(&self, more: &[(&str, &str)]) -> Output {
        let mut command = gate(&["serve", "--port", "0", "--backend", "cuda"]);
        command.envs(self.environment()).envs(more.iter().copied());
        command.stdout(Stdio::null()).output().unwrap()
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

/// What is built stays from one run of the tests to the next.
fn kept() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("fake-gpu")
}

/// The folder with both libraries, which are one.
fn built() -> Option<PathBuf> {
    let folder = kept().join(digest());
    if !folder.exists() {
        fs::create_dir_all(kept()).unwrap();
        let making = tempfile::tempdir_in(kept()).unwrap();
        compile(&making.path().join(DRIVER))?;
        symlink(DRIVER, making.path().join(BLAS)).unwrap();
        fs::rename(making.keep(), &folder).unwrap();
    }
    Some(folder)
}

fn digest() -> String {
    let mut files: Vec<PathBuf> = FOLDERS
        .iter()
        .flat_map(|folder| fs::read_dir(repository().join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending != "rs"))
        .collect();
    files.sort();
    let mut digest = Sha256::new();
    for file in files.iter().filter(|path| path.is_file()) {
        digest.update(fs::read(file).unwrap());
    }
    let digest = digest.finalize();
    digest[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn compile(library: &Path) -> Option<()> {
    let flags = "-std=c++20 -O2 -Wall -Wextra -Werror -Wno-unknown-pragmas -shared -fPIC -DEMULATED -DELEMENT=0";
    let output = Command::new("g++")
        .args(flags.split(' '))
        .args(["cuda", "cublaslt", "gpu"].map(|name| format!("tests/driver/{name}.cpp")))
        .args(["tests/emulator/emulator.cpp", "-o"])
        .arg(library)
        .current_dir(repository())
        .output();
    match output {
        Ok(output) => assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) => {
            skip(&format!("g++ cannot be run: {error}"));
            return None;
        }
    }
    Some(())
}
