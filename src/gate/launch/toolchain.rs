//! A build's toolchain: the compilers on PATH, and the environment variables that they read.

use super::environment::secret_names;
use super::identity::program;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const PROGRAMS: [&str; 20] = [
    "ar", "as", "c++", "cargo", "cc", "clang", "clang++", "cmake", "g++", "gcc", "go", "hipcc",
    "ld", "make", "ninja", "nvcc", "python3", "rustc", "uv", "zig",
];

/// Variables that compilers and build tools read. `CUDA_VISIBLE_DEVICES` changes no build.
const VARIABLES: [&str; 27] = [
    "AR",
    "AS",
    "CC",
    "CFLAGS",
    "CPATH",
    "CPLUS_INCLUDE_PATH",
    "CPPFLAGS",
    "CUDAARCHS",
    "CUDACXX",
    "CUDAFLAGS",
    "CUDAHOSTCXX",
    "CUDA_HOME",
    "CUDA_PATH",
    "CXX",
    "CXXFLAGS",
    "C_INCLUDE_PATH",
    "GOFLAGS",
    "GOTOOLCHAIN",
    "LDFLAGS",
    "LIBRARY_PATH",
    "NVCC_APPEND_FLAGS",
    "NVCC_PREPEND_FLAGS",
    "RUSTC",
    "RUSTC_WRAPPER",
    "RUSTFLAGS",
    "RUSTUP_TOOLCHAIN",
    "TORCH_CUDA_ARCH_LIST",
];

/// Prefixes of further ones.
const FAMILIES: [&str; 9] = [
    "CARGO_BUILD_",
    "CARGO_ENCODED_",
    "CARGO_PROFILE_",
    "CARGO_TARGET_",
    "CC_",
    "CFLAGS_",
    "CGO_",
    "CMAKE_",
    "CXX_",
];

/// One line each, in an order that stays. A program is known by its file: none is started, since the tree may name it.
pub fn toolchain(root: &Path, env: &[(String, String)]) -> Vec<String> {
    let programs = PROGRAMS.iter().filter_map(|name| program(name, root, env));
    let mut lines: Vec<String> = programs
        .chain(rust_toolchains())
        .map(|path| file(&path))
        .collect();
    let secrets = secret_names();
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok()?;
        let is_of_family = FAMILIES.iter().any(|begin| name.starts_with(begin));
        let is_read = is_of_family || VARIABLES.contains(&name.as_str());
        // The build sees no secret. Cargo sets the other one for tests.
        let is_read = is_read && !secrets.contains(&name) && name != "CARGO_TARGET_TMPDIR";
        is_read.then(|| format!("{name}={}", value.to_string_lossy()))
    });
    lines.extend(variables);
    lines.sort();
    lines
}

/// Behind rustup's `rustc` is another one: its settings say which, and each is installed with its manifest.
fn rust_toolchains() -> Vec<PathBuf> {
    let home = std::env::var_os("RUSTUP_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".rustup")));
    let Some(home) = home else {
        return Vec::new();
    };
    let listed = fs::read_dir(home.join("toolchains")).into_iter().flatten();
    let folders = listed.flatten().map(|entry| entry.path());
    let manifests =
        folders.map(|folder| folder.join("lib/rustlib/multirust-channel-manifest.toml"));
    manifests.chain([home.join("settings.toml")]).collect()
}

fn file(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let state = path
        .metadata()
        .map(|it| (it.len(), it.mtime(), it.mtime_nsec()));
    format!("{}: {:?}", path.display(), state.ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn another_compiler_is_another_toolchain() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let env = [("PATH".to_owned(), folder.path().display().to_string())];
        let now = || toolchain(folder.path(), &env);
        let install = |name: &str, text: &str| {
            fs::write(path(name), text).unwrap();
            fs::set_permissions(path(name), fs::Permissions::from_mode(0o755)).unwrap();
        };
        let none = now();
        install("gcc-13", "13");
        assert_eq!(now(), none);
        symlink("gcc-13", path("cc")).unwrap();
        let first = now();
        assert_ne!(first, none);
        install("gcc-13", "13.1");
        let second = now();
        assert_ne!(second, first);
        assert_eq!(now(), second);
    }
}
