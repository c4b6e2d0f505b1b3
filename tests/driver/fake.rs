//! A driver that is none, for a process to find, and what it tells at the process's end.
//!
//! Main types: [`FakeGpu`] and [`Report`]. Its library is built by g++ once for each state of its sources; where there is
//! no g++, a test is skipped with a line, or fails if INFERGATE_REQUIRE_CLIENTS is 1. Refuses to know: what is in it.

use crate::skip::skip;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// Its own sources, and what they include.
const FOLDERS: [&str; 3] = ["tests/driver", "tests/emulator", "kernels"];
/// The names under which libraries are looked for; both are one here.
const DRIVER: &str = "libcuda.so";
const BLAS: &str = "libcublasLt.so";
/// Printed by each test, and repeats it.
const SEED: &str = "FAKE_CUDA_SEED";
const FLAGS: &str = "-std=c++20 -O2 -Wall -Wextra -Werror -Wno-unknown-pragmas -shared -fPIC -DEMULATED -DELEMENT=0";

pub(crate) struct FakeGpu {
    libraries: PathBuf,
    /// For the report.
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
        Some(Self::with(built()?))
    }

    /// Whatever these libraries are.
    pub(crate) fn with(libraries: PathBuf) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let seed = std::env::var(SEED).unwrap_or_else(|_| now.as_nanos().to_string());
        println!("{SEED}={seed}");
        Self {
            libraries,
            folder: tempfile::tempdir().unwrap(),
            seed,
        }
    }

    /// What a process needs to find it.
    pub(crate) fn environment(&self) -> [(&'static str, String); 4] {
        let installed = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
        let path = |path: &Path| path.to_str().unwrap().to_owned();
        [
            (
                "LD_LIBRARY_PATH",
                format!("{}:{installed}", path(&self.libraries)),
            ),
            ("INFERGATE_KERNEL_CACHE", path(&kept().join("kernels"))),
            ("FAKE_CUDA_REPORT", path(&self.report_path())),
            (SEED, self.seed.clone()),
        ]
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

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder with the libraries.
fn built() -> Option<PathBuf> {
    // Tests begin at once: the first compiles, and the others wait.
    static COMPILING: Mutex<()> = Mutex::new(());
    let _alone = COMPILING.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = kept().join(digest());
    if !folder.exists() {
        fs::create_dir_all(kept()).unwrap();
        let making = tempfile::tempdir_in(kept()).unwrap();
        compile(&making.path().join(DRIVER))?;
        symlink(DRIVER, making.path().join(BLAS)).unwrap();
        let made = making.keep();
        // Another process may have been first.
        if let Err(error) = fs::rename(&made, &folder) {
            assert!(folder.exists(), "{error}");
            fs::remove_dir_all(made).unwrap();
        }
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
    let mut digest = Sha256::new_with_prefix(FLAGS);
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
    let output = Command::new("g++")
        .args(FLAGS.split(' '))
        .args(["cuda", "kernels", "cublaslt", "gpu"].map(|name| format!("tests/driver/{name}.cpp")))
        .args(["tests/emulator/emulator.cpp", "-o"])
        .arg(library)
        .current_dir(repository())
        .output();
    match output {
        Ok(output) => {
            let log = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{log}");
            Some(())
        }
        Err(error) => {
            skip(&format!("g++ cannot be run: {error}"));
            None
        }
    }
}
