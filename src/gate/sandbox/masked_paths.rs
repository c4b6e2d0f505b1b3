//! Masked paths: places of secrets, hidden from a child where mounts are its own.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};

/// Those that exist, of the user, of the CI runner and of container engines; links resolved.
pub fn masked_paths(home: Option<&Path>, runner: &Option<PathBuf>) -> Vec<PathBuf> {
    const IN_HOME: [&str; 18] = [
        ".aws",
        ".azure",
        ".cargo/credentials",
        ".cargo/credentials.toml",
        ".config",
        ".docker",
        ".git-credentials",
        ".gnupg",
        ".kube",
        ".netrc",
        ".npmrc",
        ".pypirc",
        ".ssh",
        ".vault-token",
        ".bash_history",
        ".cache/huggingface/stored_tokens",
        ".cache/huggingface/token",
        ".local/share/uv/credentials",
    ];
    const OF_RUNNER: [&str; 6] = [
        ".credentials",
        ".credentials_rsaparams",
        ".runner",
        ".env",
        "_diag",
        "_work/_temp",
    ];
    let mut all: BTreeSet<PathBuf> = BTreeSet::new();
    all.extend(
        home.iter()
            .flat_map(|home| IN_HOME.iter().map(|name| home.join(name))),
    );
    all.extend(
        runner
            .iter()
            .flat_map(|runner| OF_RUNNER.iter().map(|name| runner.join(name))),
    );
    all.extend(env::var_os("RUNNER_TEMP").map(PathBuf::from));
    let of_models = env::var_os("HF_HOME").map(PathBuf::from);
    let tokens = ["token", "stored_tokens"];
    all.extend(
        of_models
            .iter()
            .flat_map(|home| tokens.map(|name| home.join(name))),
    );
    let sockets = [
        "/run/docker.sock",
        "/run/containerd",
        "/run/podman",
        "/run/user",
        "/run/crio",
    ];
    all.extend(sockets.iter().map(PathBuf::from));
    // What a link leads to is hidden; the link itself gives nothing away.
    let real = all.into_iter().filter_map(|path| path.canonicalize().ok());
    real.collect()
}
