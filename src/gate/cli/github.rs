//! Arguments of all commands that use GitHub, with Actions' variables as defaults.

use super::output;
use crate::session::GitHubOptions;
use anyhow::Context;
use clap::Args;
use github::actions;
use std::env;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
pub struct GitHubArgs {
    /// Repository on GitHub; the token is read from GITHUB_TOKEN or GH_TOKEN alone
    #[arg(
        long,
        value_name = "OWNER/NAME",
        env = "GITHUB_REPOSITORY",
        hide_env_values = true
    )]
    repo: Option<String>,
    /// Address of GitHub's API; that of an Enterprise server ends in /api/v3
    #[arg(
        long,
        value_name = "URL",
        env = "GITHUB_API_URL",
        hide_env_values = true,
        default_value = "https://api.github.com"
    )]
    api_url: String,
    /// The most time to wait for GitHub, all requests together, where it is down or wants us to wait
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = patience)]
    patience: Duration,
    /// Id of the account that the token writes as [default: what GitHub says, else github.bot_id of
    /// gates/gate.toml, else the id of Actions' bot on github.com]
    #[arg(long, value_name = "ID", visible_alias = "comment-author-id")]
    bot_id: Option<u64>,
}

impl GitHubArgs {
    pub fn options(self) -> GitHubOptions {
        let Self {
            repo,
            api_url,
            patience,
            bot_id,
        } = self;
        GitHubOptions {
            repository: repo.unwrap_or_default(),
            api_url,
            patience,
            bot_id,
            on_wait: output::note,
        }
    }
}

/// A variable that Actions sets; an empty one is none.
pub fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Hands values to later steps of the job, where there is a job.
pub fn set_outputs(outputs: &[(&str, &str)]) -> anyhow::Result<()> {
    match variable("GITHUB_OUTPUT").map(PathBuf::from) {
        Some(path) => {
            actions::set_outputs(&path, outputs).context("cannot hand outputs to Actions")
        }
        None => Ok(()),
    }
}

/// Shows lines on standard output. Within Actions a line that begins like a command is none.
pub fn show(lines: &[String]) -> anyhow::Result<()> {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    output::print(&text).context("cannot write to standard output")
}

/// Seconds, or `90s`, `5m`, `1h`; `0`: no waiting at all.
fn patience(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no time; write `90s`, `5m` or `1h`");
    let (number, unit) = match text.char_indices().next_back() {
        Some((at, 's' | 'm' | 'h')) => text.split_at(at),
        _ => (text, "s"),
    };
    let number: u32 = number.parse().map_err(|_| wrong())?;
    let seconds = match unit {
        "h" => 3_600,
        "m" => 60,
        _ => 1,
    };
    Ok(Duration::from_secs(u64::from(number) * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_has_a_unit() {
        for (text, seconds) in [
            ("0", 0),
            ("300", 300),
            ("90s", 90),
            ("5m", 300),
            ("2h", 7_200),
        ] {
            assert_eq!(patience(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "m", "-5m", "5 m", "5d", "1.5h", "99999999999s", "é"] {
            assert!(patience(text).is_err(), "{text}");
        }
    }
}
