//! Environment of a child process: everything but secrets.
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
pub fn secret_names() -> Vec<String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, value)| {
            is_secret(name)
                || has_proxy_password(name, &value.to_string_lossy())
                || CARGO_PREFIXES.iter().any(|p| name.starts_with(p))
        })
        .map(|(name, _)| name)
        .collect()
}

/// Whether a proxy's address (`https_proxy`, `ALL_PROXY`) holds credentials: `http://USER:PASSWORD@HOST:PORT`.
fn has_proxy_password(name: &str, value: &str) -> bool {
    name.to_ascii_uppercase().ends_with("_PROXY") && value.contains('@')
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
    use super::{has_proxy_password, is_secret};

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

    #[test]
    fn proxies_with_credentials_are_withheld() {
        for (name, value, expect) in [
            ("HTTPS_PROXY", "http://user:secret@proxy:3128", true),
            ("https_proxy", "user:secret@proxy:3128", true),
            ("All_Proxy", "socks5://user@proxy", true),
            ("HTTPS_PROXY", "http://proxy:3128", false),
            ("no_proxy", "localhost,.example.com", false),
            ("HTTPS_PROXY", "", false),
            ("GIT_AUTHOR_EMAIL", "ada@example.com", false),
        ] {
            assert_eq!(has_proxy_password(name, value), expect, "{name}={value}");
        }
    }
}
