//! What of our environment a child process may see: everything but secrets.
//!
//! The engine under test and its build are somebody's pull request: a token in their environment is a
//! token given away. What a child truly needs is named in `gate.toml` (`engine.env`).

/// Parts of variable names that mark a secret, upper case.
const SECRET_PARTS: [&str; 6] = ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "PRIVATE_KEY"];

/// Prefixes of variables with which GitHub's runner hands out credentials and writes outputs.
const SECRET_PREFIXES: [&str; 3] = ["ACTIONS_", "GITHUB_", "RUNNER_"];

/// Names of our own environment that a child must not inherit.
pub(super) fn secret_names() -> Vec<String> {
    std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|name| is_secret(name))
        .collect()
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_PREFIXES.iter().any(|p| name.starts_with(p))
        || SECRET_PARTS.iter().any(|p| name.contains(p))
        || name.ends_with("_KEY")
        || name.ends_with("_PAT")
}

#[cfg(test)]
mod tests {
    use super::is_secret;

    #[test]
    fn secrets_are_known_by_name() {
        for name in ["GITHUB_TOKEN", "GH_TOKEN", "AWS_SECRET_ACCESS_KEY", "npm_token", "OPENAI_API_KEY",
            "ACTIONS_RUNTIME_TOKEN", "GITHUB_OUTPUT", "DB_PASSWORD"] {
            assert!(is_secret(name), "{name}");
        }
        for name in ["PATH", "HOME", "CUDA_VISIBLE_DEVICES", "CARGO_HOME", "LD_LIBRARY_PATH", "RUST_LOG"] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
