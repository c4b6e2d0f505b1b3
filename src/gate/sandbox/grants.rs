//! Paths of a machine that a child may see: the system, devices, and the toolchains and
//! model stores in the user's home; not the rest of the home, other users' files, or what a CI runner keeps beside the work.

use super::masked_paths::masked_paths;
use std::env;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Folders in a home that hold toolchains and caches of models, none of which is a secret. Of `.cargo` the files that
/// may hold a registry's token are left out, and so are git's settings.
const HOME_READ: [&str; 19] = [
    ".cargo/bin",
    ".cargo/env",
    ".cargo/git",
    ".cargo/registry",
    ".cache",
    ".conda",
    ".local/bin",
    ".local/lib",
    ".local/share/uv",
    ".nvm",
    ".ollama/models",
    ".pyenv",
    ".rustup",
    ".triton",
    "anaconda3",
    "go",
    "miniconda3",
    "miniforge3",
    ".npm",
];

/// Beneath these everything is hidden that is not granted by name: homes, others' temporary files, and sockets of
/// services, of which a container engine's gives the whole machine away.
const CLOSED: [&str; 4] = ["/home", "/root", "/run", "/tmp"];

/// Parts of `/run` that name resolution and GPUs need.
const RUN_READ: [&str; 4] = [
    "/run/nvidia-persistenced",
    "/run/resolvconf",
    "/run/systemd/resolve",
    "/run/udev",
];

/// Devices that a program may use, by the beginning of their names. No disks, to
/// which root would write, and no terminals, into which a program can type.
const DEVICES: [&str; 13] = [
    "null",
    "zero",
    "full",
    "random",
    "urandom",
    "shm",
    "nvidia",
    "dri",
    "kfd",
    "infiniband",
    "hugepages",
    "accel",
    "dxg",
];

/// Grants of the machine to every child.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    pub read: Vec<PathBuf>,
    pub devices: Vec<PathBuf>,
    /// Folders and files that hold secrets.
    pub hidden: Vec<PathBuf>,
}

impl Machine {
    /// Reads the grants of this machine. The project's `tree` is granted to each child by itself.
    pub fn read(tree: &Path) -> Self {
        let home = home();
        let runner = runner();
        let mut hidden: Vec<PathBuf> = CLOSED.iter().map(PathBuf::from).collect();
        hidden.extend(home.clone());
        hidden.extend(runner.iter().cloned());
        hidden.extend(["/dev".into(), tree.to_path_buf()]);
        let mut read = all_but(Path::new("/"), &hidden);
        let in_home = home.iter();
        read.extend(in_home.flat_map(|home| HOME_READ.iter().map(|name| home.join(name))));
        read.extend(RUN_READ.iter().map(PathBuf::from));
        read.extend(on_path(home.as_deref()));
        let hidden = masked_paths(home.as_deref(), &runner);
        Self {
            read: without(&read, &hidden),
            devices: devices(),
            hidden,
        }
    }
}

/// The user's home; a service whose home is the whole machine has none.
pub fn home() -> Option<PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from)?;
    home.parent().is_some().then_some(home)
}

/// Everything below `folder` but the `hidden` paths and what is below them: the largest folders that hold none.
/// Links are left out; what they lead to is granted where it is.
pub fn all_but(folder: &Path, hidden: &[PathBuf]) -> Vec<PathBuf> {
    if hidden.iter().any(|path| path == folder) {
        return Vec::new();
    }
    if !hidden.iter().any(|path| path.starts_with(folder)) {
        return vec![folder.to_path_buf()];
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let kept = entries.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
    kept.flat_map(|entry| all_but(&entry.path(), hidden))
        .collect()
}

/// The `granted` paths without the `hidden` ones: no grant of a folder is one of a secret in it.
pub fn without(granted: &[PathBuf], hidden: &[PathBuf]) -> Vec<PathBuf> {
    let each = granted.iter();
    each.flat_map(|path| all_but(path, hidden)).collect()
}

/// Where programs on `PATH`, libraries and Python modules are found; of a folder `bin` the one around it too, since a
/// program's own files are there.
fn on_path(home: Option<&Path>) -> Vec<PathBuf> {
    let names = ["PATH", "LD_LIBRARY_PATH", "PYTHONPATH"];
    let lists = names.iter().filter_map(env::var_os);
    let found = lists.flat_map(|list| env::split_paths(&list).collect::<Vec<_>>());
    let single = [
        "VIRTUAL_ENV",
        "CUDA_HOME",
        "CUDA_PATH",
        "CONDA_PREFIX",
        "RUSTUP_HOME",
        "HF_HOME",
        "HF_HUB_CACHE",
    ];
    let single = single.iter().filter_map(env::var_os).map(PathBuf::from);
    let found = found.filter(|path| path.is_absolute());
    found
        .map(|path| around_bin(&path, home))
        .chain(single)
        .collect()
}

/// `X` of `X/bin`, else the folder itself; never a whole home, the root, or a folder that others use too.
pub fn around_bin(folder: &Path, home: Option<&Path>) -> PathBuf {
    let is_bin = folder
        .file_name()
        .is_some_and(|name| name == "bin" || name == "shims");
    let is_home = |path: &Path| Some(path) == home || path.parent() == Some(Path::new("/home"));
    let is_closed = |path: &Path| CLOSED.iter().any(|closed| path == Path::new(closed));
    // `~/.local` and `~/.cargo` hold more than programs.
    let is_shared = |path: &Path| path.ends_with(".local") || path.ends_with(".cargo");
    let is_own = |path: &&Path| {
        path.parent().is_some() && !is_home(path) && !is_closed(path) && !is_shared(path)
    };
    let around = folder.parent().filter(|_| is_bin).filter(is_own);
    around.unwrap_or(folder).to_path_buf()
}

fn devices() -> Vec<PathBuf> {
    let entries = fs::read_dir("/dev").into_iter().flatten().flatten();
    let meant = entries.filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_block = entry.file_type().is_ok_and(|kind| kind.is_block_device());
        !is_block && DEVICES.iter().any(|start| name.starts_with(start))
    });
    meant.map(|entry| entry.path()).collect()
}

/// The folder of the CI runner that this process works for: of the program `bin/Runner.Worker` above this one, else an
/// ancestor of the folders that its environment names.
fn runner() -> Option<PathBuf> {
    let named = ["RUNNER_TEMP", "RUNNER_WORKSPACE", "GITHUB_WORKSPACE"];
    let named = named.iter().filter_map(env::var_os).map(PathBuf::from);
    let is_runner = |path: &&Path| {
        [".runner", ".credentials"]
            .iter()
            .any(|file| path.join(file).exists())
    };
    let around = |path: PathBuf| path.ancestors().find(is_runner).map(Path::to_path_buf);
    programs_above().chain(named).filter_map(around).next()
}

/// The programs of this process's ancestors, the nearest first.
fn programs_above() -> impl Iterator<Item = PathBuf> {
    let above = |pid: &u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, rest) = text.rsplit_once(") ")?;
        rest.split(' ').nth(1)?.parse().ok()
    };
    let pids = std::iter::successors(Some(std::process::id()), above);
    pids.filter_map(|pid| fs::read_link(format!("/proc/{pid}/exe")).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_the_hidden_is_granted() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for path in ["a/secret", "a/open", "b"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        std::os::unix::fs::symlink(root.join("a/secret"), root.join("link")).unwrap();
        let granted = |hidden: &[&str]| {
            let hidden: Vec<PathBuf> = hidden.iter().map(|path| root.join(path)).collect();
            let mut found = all_but(root, &hidden);
            found.sort();
            found
        };
        let expect = |paths: &[&str]| paths.iter().map(|path| root.join(path)).collect::<Vec<_>>();
        assert_eq!(granted(&[]), [root]);
        assert_eq!(granted(&["a/secret"]), expect(&["a/open", "b"]));
        assert_eq!(granted(&["a", "b"]), expect(&[]));
        assert_eq!(
            granted(&["a/not-there"]),
            expect(&["a/open", "a/secret", "b"])
        );
    }

    #[test]
    fn a_programs_own_files_are_around_its_bin() {
        let home = Path::new("/home/ada");
        for (folder, expect) in [
            ("/opt/cuda/bin", "/opt/cuda"),
            ("/home/ada/venv/bin", "/home/ada/venv"),
            ("/home/ada/bin", "/home/ada/bin"),
            ("/home/ada/.local/bin", "/home/ada/.local/bin"),
            ("/home/ada/.cargo/bin", "/home/ada/.cargo/bin"),
            ("/home/eve/bin", "/home/eve/bin"),
            ("/tmp/bin", "/tmp/bin"),
            ("/bin", "/bin"),
            ("/opt/tool", "/opt/tool"),
        ] {
            assert_eq!(around_bin(Path::new(folder), Some(home)), Path::new(expect));
        }
    }
}
