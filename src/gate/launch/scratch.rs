//! Private temporary folders of a session's children, in the system's folder for temporary files, since the name of
//! a socket in them must be short. They go with the session; of one that was killed, the next session removes them.

use super::build::remove;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const PREFIX: &str = "infergate-";

/// Git's settings in a child's folder. It starts repositories that another user owns, as a sandbox's root sees them.
const GIT_SETTINGS: &str = "gitconfig";

/// Stores of models in the user's cache: a child reads them there.
const MODEL_STORES: [&str; 4] = ["huggingface", "llama.cpp", "modelscope", "torch"];

#[derive(Debug)]
pub struct Scratch {
    folder: TempDir,
    link: PathBuf,
}

impl Scratch {
    /// `link` is where the next session finds this one's.
    pub fn open(link: &Path) -> io::Result<Self> {
        if let Ok(left) = fs::read_link(link) {
            let name = left.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(PREFIX) && left.parent() == Some(&std::env::temp_dir()) {
                // What cannot be removed harms nobody: its name is not used again.
                let _ = remove(&left);
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

    /// The folder of a child that is started more than once, with whether it is new. Nothing is made in one that a
    /// child had: it may have put links in there.
    pub fn of(&self, child: &str) -> io::Result<(PathBuf, bool)> {
        let folder = self.folder.path().join(child);
        let is_new = folder.symlink_metadata().is_err();
        if is_new {
            fs::create_dir_all(folder.join("tmp"))?;
            fs::write(folder.join(GIT_SETTINGS), "[safe]\n\tdirectory = *\n")?;
            fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
        }
        Ok((folder, is_new))
    }

    /// The folder of a child that finds nothing of those before it.
    pub fn fresh(&self, child: &str) -> io::Result<PathBuf> {
        remove(&self.folder.path().join(child))?;
        Ok(self.of(child)?.0)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = remove(&self.link);
    }
}

/// Temporary files and git's settings of a child's own: the user's may hold tokens.
pub fn private(folder: &Path) -> Vec<(String, String)> {
    variables(&[
        ("TMPDIR", folder.join("tmp")),
        ("GIT_CONFIG_GLOBAL", folder.join(GIT_SETTINGS)),
    ])
}

/// Links from an engine's cache to the user's stores of models, which it reads there.
pub fn link_stores(folder: &Path) -> io::Result<()> {
    let cache = folder.join("cache");
    fs::create_dir(&cache)?;
    for store in MODEL_STORES {
        let real = user_cache().join(store);
        if real.is_dir() {
            symlink(real, cache.join(store))?;
        }
    }
    Ok(())
}

/// Caches of an engine's own in `folder`, the same for both arms at a session's start: empty, but for links to the
/// user's stores of models. Two libraries do not ask for a folder of caches or temporary files and are told by name.
pub fn engine_caches(folder: &Path) -> Vec<(String, String)> {
    let cache = folder.join("cache");
    variables(&[
        ("XDG_CACHE_HOME", cache.clone()),
        ("TRITON_CACHE_DIR", cache.join("triton")),
        ("CUDA_CACHE_PATH", cache.join("cuda")),
        ("FLASHINFER_WORKSPACE_BASE", cache),
        ("RAY_TMPDIR", folder.join("tmp")),
    ])
}

/// Caches of a build's own in `folder`, and no compiler that asks a service outside: what that keeps, others wrote.
pub fn build_caches(folder: &Path) -> Vec<(String, String)> {
    let cache = folder.join("cache");
    variables(&[
        ("CARGO_HOME", folder.join("cargo")),
        ("XDG_CACHE_HOME", cache.clone()),
        ("GOMODCACHE", cache.join("go-mod")),
        ("npm_config_cache", cache.join("npm")),
        ("RUSTC_WRAPPER", PathBuf::new()),
    ])
}

fn variables(all: &[(&str, PathBuf)]) -> Vec<(String, String)> {
    let text = |(name, path): &(&str, PathBuf)| ((*name).to_owned(), path.display().to_string());
    all.iter().map(text).collect()
}

/// The user's own folder of caches.
fn user_cache() -> PathBuf {
    let own = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    own.unwrap_or_else(|| home().join(".cache"))
}

/// The user's own Cargo home.
pub fn user_cargo() -> PathBuf {
    let own = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    own.unwrap_or_else(|| home().join(".cargo"))
}

pub fn home() -> PathBuf {
    std::env::var_os("HOME")
        .map(PathBuf::from)
        .unwrap_or_default()
}

/// Copies what a build needs of a Cargo home: settings without tokens, and where they are wanted the packages.
pub fn seed_cargo(from: &Path, to: &Path, with_packages: bool) -> io::Result<()> {
    if with_packages {
        seed_packages(from, to)?;
    }
    for file in SETTINGS {
        if let Ok(text) = fs::read_to_string(from.join(file)) {
            fs::write(to.join(file), without_tokens(&text).unwrap_or_default())?;
        }
    }
    Ok(())
}

/// Copies packages, which Cargo checks against Cargo.lock as it unpacks them. Of repositories their objects alone: their
/// settings and hooks name programs.
fn seed_packages(from: &Path, to: &Path) -> io::Result<()> {
    for part in ["registry/index", "registry/cache"] {
        add_missing(&from.join(part), &to.join(part))?;
    }
    let repositories = fs::read_dir(from.join("git/db")).into_iter().flatten();
    for repository in repositories {
        let from = repository?.path();
        let to = to.join("git/db").join(from.file_name().unwrap_or_default());
        for part in ["objects", "refs"] {
            add_missing(&from.join(part), &to.join(part))?;
        }
        for part in ["HEAD", "packed-refs", "FETCH_HEAD"] {
            copy_missing(&from.join(part), &to.join(part))?;
        }
        if to.is_dir() {
            let bare = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n";
            fs::write(to.join("config"), bare)?;
        }
    }
    Ok(())
}

/// Files of settings in a Cargo home.
pub const SETTINGS: [&str; 2] = ["config.toml", "config"];

/// Cargo's settings without what opens a registry; `None` if they are no TOML.
pub fn without_tokens(text: &str) -> Option<String> {
    let mut settings: toml::Table = text.parse().ok()?;
    let own = settings.remove("registry").into_iter();
    let named = settings.remove("registries").into_iter();
    let mut own: Vec<(&str, toml::Value)> = own.map(|of| ("registry", of)).collect();
    own.extend(named.map(|of| ("registries", of)));
    for (name, mut of) in own {
        strip(&mut of);
        settings.insert(name.to_owned(), of);
    }
    toml::to_string(&settings).ok()
}

/// True if a registry's token stands in Cargo's settings.
pub fn hold_token(text: &str) -> bool {
    let before = text.parse::<toml::Table>().ok();
    let after = without_tokens(text).and_then(|text| text.parse().ok());
    before != after
}

fn strip(value: &mut toml::Value) {
    if let Some(table) = value.as_table_mut() {
        table.retain(|key, _| key != "token" && key != "secret-key");
        table.iter_mut().for_each(|(_, value)| strip(value));
    }
}

/// Copies the files that are not there yet.
fn add_missing(from: &Path, to: &Path) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(from) else {
        return Ok(());
    };
    fs::create_dir_all(to)?;
    for entry in entries {
        let entry = entry?;
        let to = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => add_missing(&entry.path(), &to)?,
            false => copy_missing(&entry.path(), &to)?,
        }
    }
    Ok(())
}

/// Copies a file that is there, and not yet where it goes. No link is followed.
fn copy_missing(from: &Path, to: &Path) -> io::Result<()> {
    let is_file = from.symlink_metadata().is_ok_and(|found| found.is_file());
    if is_file && to.symlink_metadata().is_err() {
        fs::copy(from, to)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_registries_are_left_out() {
        let open = "[build]\njobs = 2\n\n[registries.ours]\nindex = \"sparse+https://a/\"\n";
        assert!(!hold_token(open));
        let closed =
            format!("{open}token = \"t\"\n[registry]\ntoken = \"u\"\nsecret-key = \"k\"\n");
        assert!(hold_token(&closed));
        let left: toml::Table = without_tokens(&closed).unwrap().parse().unwrap();
        assert_eq!(
            left["registries"]["ours"]["index"].as_str(),
            Some("sparse+https://a/")
        );
        assert_eq!(left["build"]["jobs"].as_integer(), Some(2));
        assert!(!hold_token(&without_tokens(&closed).unwrap()));
        assert_eq!(without_tokens("no TOML"), None);
    }
}
