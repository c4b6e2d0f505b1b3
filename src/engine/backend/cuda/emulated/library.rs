//! The emulator as a library: built by g++ once for each element type and state of its sources.
//!
//! Main type: [`EmulatorSources`]. Refuses to know: what is in it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::backend::cuda::device::DeviceError;
use crate::backend::cuda::sources::Element;
use crate::digest;

const FLAGS: [&str; 10] = [
    "-std=c++20",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Werror",
    // CUDA's.
    "-Wno-unknown-pragmas",
    "-shared",
    "-fPIC",
    // A launch's indices are read through the thread's register.
    "-ftls-model=initial-exec",
    "-DEMULATED",
];

/// Where the emulator's sources are, and where what is built of them may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmulatorSources {
    /// Of this project.
    pub repository: PathBuf,
    pub build: PathBuf,
    /// What is compiled into one library, and the folders of all that it includes.
    pub files: Vec<&'static str>,
    pub folders: Vec<&'static str>,
}

impl EmulatorSources {
    /// The sources below the repository's root, built below its `target`.
    pub fn of(repository: &Path) -> Self {
        Self {
            repository: repository.to_owned(),
            build: repository.join("target").join("emulator"),
            files: vec!["tests/gpu/emulator/emulator.cpp"],
            folders: vec!["kernels", "tests/gpu/emulator"],
        }
    }

    /// The library, named by the digest of all that it is made of.
    pub fn built(&self, element: Element) -> Result<PathBuf, DeviceError> {
        let unreadable = |path: &Path, error: std::io::Error| {
            DeviceError::Missing(format!("{} cannot be read: {error}", path.display()))
        };
        let mut parts = vec![[&FLAGS[..], &self.files].concat().concat().into_bytes()];
        for folder in &self.folders {
            let folder = self.repository.join(folder);
            let entries = std::fs::read_dir(&folder).map_err(|error| unreadable(&folder, error))?;
            let mut files: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
            files.sort();
            // Tests lie beside some, and are not part of it.
            let is_source =
                |file: &&PathBuf| file.is_file() && file.extension() != Some("rs".as_ref());
            for file in files.iter().filter(is_source) {
                parts.push(std::fs::read(file).map_err(|error| unreadable(file, error))?);
            }
        }
        let digest = digest::of_parts(parts.iter().map(Vec::as_slice));
        let path = self.build.join(format!("{element}-{}.so", &digest[..16]));
        // Each once a process: threads that test would all compile the same.
        static COMPILING: [Mutex<()>; 3] = [const { Mutex::new(()) }; 3];
        let compiling = &COMPILING[element.number() as usize];
        let _alone = compiling.lock().unwrap_or_else(PoisonError::into_inner);
        if !path.exists() {
            compile(self, element, &path)?;
        }
        Ok(path)
    }
}

fn compile(sources: &EmulatorSources, element: Element, path: &Path) -> Result<(), DeviceError> {
    let failed = |error: std::io::Error| {
        DeviceError::Missing(format!("{} cannot be written: {error}", path.display()))
    };
    std::fs::create_dir_all(&sources.build).map_err(failed)?;
    let folder = tempfile::tempdir_in(&sources.build).map_err(failed)?;
    let made = folder.path().join("emulator.so");
    let output = Command::new("g++")
        .args(FLAGS)
        .arg(format!("-DELEMENT={}", element.number()))
        .args(&sources.files)
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
