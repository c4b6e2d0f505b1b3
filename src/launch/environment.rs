//! What of our environment a child process may see: everything but secrets.
//!
//! The engine under test and its build are somebody's pull request: a token in their environment is a
//! token given away. What a child truly needs is named in `gate.toml` (`engine.env`).

/// Words of a variable's name (between underscores) that mark a secret by how they end, upper case.
const SECRET_WORDS: [&str; 12] = [
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASS",
    "PASSPHRASE",
    "CREDENTIAL",
    "CREDENTIALS",
    "KEY",
    "PAT",
    "AUTH",
    "COOKIE",
];

/// Names that hold a secret without saying so.
const SECRET_NAMES: [&str; 2] = ["DATABASE_URL", "REDIS_URL"];

/// Prefixes of variables with which GitHub's runner hands out credentials and writes outputs.
const SECRET_PREFIXES: [&str; 3] = ["ACTIONS_", "GITHUB_", "RUNNER_"];

/// Prefixes of what `cargo run` tells the program that it starts about its own package. A build below it would take them for
/// its own, and build scripts that look at them (ring's) would begin everything anew.
const CARGO_PREFIXES: [&str; 2] = ["CARGO_PKG_", "CARGO_MANIFEST_"];

/// Names of our own environment that a child must not inherit.
pub(super) fn secret_names() -> Vec<String> {
    std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|name| is_secret(name) || CARGO_PREFIXES.iter().any(|p| name.starts_with(p)))
        .collect()
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_PREFIXES
        .iter()
        .any(|prefix| name.starts_with(prefix))
        || SECRET_NAMES.contains(&name.as_str())
        || name
            .split('_')
            .any(|word| SECRET_WORDS.iter().any(|end| word.ends_with(end)))
}

#[cfg(test)]
mod tests {
    use super::is_secret;

    #[test]
    fn secrets_are_known_by_name() {
        for name in [
            "GITHUB_TOKEN",
            "GH_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "npm_token",
            "OPENAI_API_KEY",
            "ACTIONS_RUNTIME_TOKEN",
            "GITHUB_OUTPUT",
            "DB_PASSWORD",
            "SSH_AUTH_SOCK",
            "DOCKER_AUTH_CONFIG",
            "SSH_KEY_PASSPHRASE",
            "DATABASE_URL",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in [
            "PATH",
            "HOME",
            "CUDA_VISIBLE_DEVICES",
            "CARGO_HOME",
            "LD_LIBRARY_PATH",
            "RUST_LOG",
            "TOKENIZERS_PARALLELISM",
            "VLLM_MAX_TOKENS",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
