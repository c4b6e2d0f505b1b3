//! Private temporary folders of a session's children, in the system's folder for temporary files, since the name of
//! a socket in them must be short. They go with the session; of one that was killed, the next session removes them.

use super::build::remove;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const PREFIX: &str = "infergate-";

/// Stores of models in the user's cache: a child reads them there.
const MODEL_STORES: [&str; 4] = ["huggingface", "llama.cpp", "modelscope", "torch"];

#[derive(Debug)]
pub(super) struct Scratch {
    folder: TempDir,
    link: PathBuf,
}

impl Scratch {
    /// `link` is where the next session finds this one's.
    pub(super) fn open(link: &Path) -> io::Result<Self> {
        if let Ok(left) = fs::read_link(link) {
            let name = left.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(PREFIX) && left.parent() == Some(&std::env::temp_dir()) {
                remove(&left)?;
            }
        }
        remove(link)?;
        let folder = TempDir::with_prefix(PREFIX)?;
        // Children may run as another user, who owns a folder in it.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o711))?;
        symlink(folder.path(), link)?;
        Ok(Self {
            folder,
            link: link.to_path_buf(),
        })
    }

    /// A child's own folder, made where it is not there.
    pub(super) fn of(&self, child: &str) -> io::Result<PathBuf> {
        let folder = self.folder.path().join(child);
        fs::create_dir_all(folder.join("tmp"))?;
        fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
        Ok(folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = remove(&self.link);
    }
}

/// Caches of an engine's own in `folder`, the same for both arms at a session's start: empty, but for links to the
/// user's stores of models.
pub(super) fn engine_caches(folder: &Path) -> io::Result<Vec<(String, String)>> {
    let cache = folder.join("cache");
    fs::create_dir_all(&cache)?;
    for store in MODEL_STORES {
        let (real, link) = (user_cache().join(store), cache.join(store));
        if real.is_dir() && link.symlink_metadata().is_err() {
            symlink(real, link)?;
        }
    }
    Ok(variables(&[
        ("TMPDIR", folder.join("tmp")),
        ("XDG_CACHE_HOME", cache.clone()),
        ("TRITON_CACHE_DIR", cache.join("triton")),
        ("CUDA_CACHE_PATH", cache.join("cuda")),
    ]))
}

/// Caches of a build's own in `folder`.
pub(super) fn build_caches(folder: &Path, tmp: &Path) -> Vec<(String, String)> {
    let cache = folder.join("cache");
    variables(&[
        ("TMPDIR", tmp.join("tmp")),
        ("CARGO_HOME", folder.join("cargo")),
        ("XDG_CACHE_HOME", cache.clone()),
        ("GOMODCACHE", cache.join("go-mod")),
        ("npm_config_cache", cache.join("npm")),
    ])
}

pub(super) fn variables(all: &[(&str, PathBuf)]) -> Vec<(String, String)> {
    let text = |(name, path): &(&str, PathBuf)| ((*name).to_owned(), path.display().to_string());
    all.iter().map(text).collect()
}

/// The user's own folder of caches.
fn user_cache() -> PathBuf {
    let own = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    own.unwrap_or_else(|| home().join(".cache"))
}

/// The user's own Cargo home.
pub(super) fn user_cargo() -> PathBuf {
    let own = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    own.unwrap_or_else(|| home().join(".cargo"))
}

pub(super) fn home() -> PathBuf {
    std::env::var_os("HOME")
        .map(PathBuf::from)
        .unwrap_or_default()
}

/// Copies what a build needs of a Cargo home: settings, and packages, which Cargo checks against Cargo.lock as it
/// unpacks them.
pub(super) fn seed_cargo(from: &Path, to: &Path) -> io::Result<()> {
    for part in ["registry/index", "registry/cache", "git/db"] {
        add_missing(&from.join(part), &to.join(part))?;
    }
    for file in ["config.toml", "config"] {
        let (from, to) = (from.join(file), to.join(file));
        if from.is_file() {
            fs::copy(from, to)?;
        }
    }
    Ok(())
}

/// Copies the files that are not there yet.
fn add_missing(from: &Path, to: &Path) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(from) else {
        return Ok(());
    };
    fs::create_dir_all(to)?;
    for entry in entries {
        let entry = entry?;
        let (kind, to) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            add_missing(&entry.path(), &to)?;
        } else if kind.is_file() && to.symlink_metadata().is_err() {
            fs::copy(entry.path(), &to)?;
        }
    }
    Ok(())
}
