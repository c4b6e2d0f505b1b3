//! Errors of GitHub's API: the request, GitHub's answer, and the remedy.
//!
//! GitHub's words are cleaned and cut, and never hold our token.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "no token for GitHub: set GITHUB_TOKEN (in Actions: `GITHUB_TOKEN: ${{{{ github.token }}}}`)"
    )]
    NoToken,
    #[error(
        "GITHUB_TOKEN holds no token: it has spaces, line ends or other characters that no token has"
    )]
    BadToken,
    #[error("`{0}` is no repository; write OWNER/NAME with --repo or GITHUB_REPOSITORY")]
    BadRepository(String),
    #[error("`{0}` is no commit; all 40 hex digits are needed")]
    BadSha(String),
    #[error(
        "the address of GitHub's API, `{address}`, is not usable: {cause}; set --api-url or GITHUB_API_URL"
    )]
    BadAddress { address: String, cause: String },
    #[error(
        "cannot make a client for GitHub: {0}; are CA certificates installed, or named by SSL_CERT_FILE?"
    )]
    Client(String),
    #[error(transparent)]
    Refused(Box<Refusal>),
    #[error(
        "{request}: GitHub cannot be reached: {cause}{}",
        patience(*attempts, *waited)
    )]
    Unreachable {
        request: String,
        cause: String,
        attempts: u32,
        waited: Duration,
    },
    #[error("{request}: GitHub's answer cannot be read: {cause}")]
    Malformed { request: String, cause: String },
    #[error("{request}: the list goes on after {pages} pages; that many are not read")]
    TooManyPages { request: String, pages: u32 },
    #[error(transparent)]
    Event(#[from] EventError),
    #[error("cannot write to {}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl Error {
    /// The status with which GitHub refused the request; `None`: it was not refused.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused(refusal) => Some(refusal.status),
            _ => None,
        }
    }

    /// Whether the request may succeed later, just as it is: GitHub is down, or wants us to wait.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused(refusal) => refusal.status >= 500 || refusal.is_limit,
            _ => false,
        }
    }
}

/// An answer that is no success.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{request}: GitHub refuses with {status}: {message}{}", told(remedy, *attempts, *waited))]
pub struct Refusal {
    /// Method and route.
    pub request: String,
    pub status: u16,
    /// GitHub's own words, cleaned and cut.
    pub message: String,
    /// What mends it; empty where nothing general can be said.
    pub remedy: String,
    /// A rate limit: nothing is wrong with the request itself.
    pub is_limit: bool,
    pub attempts: u32,
    /// Time spent waiting between the attempts.
    pub waited: Duration,
}

fn told(remedy: &str, attempts: u32, waited: Duration) -> String {
    let mut text = String::new();
    if !remedy.is_empty() {
        text.push_str("; ");
        text.push_str(remedy);
    }
    text + &patience(attempts, waited)
}

/// What was tried, where that was more than once.
fn patience(attempts: u32, waited: Duration) -> String {
    match attempts {
        0 | 1 => String::new(),
        _ => format!(
            " ({attempts} attempts, waited {:.0} s)",
            waited.as_secs_f64()
        ),
    }
}

/// What mends a refusal with this status. `permissions`: what GitHub says that the request needs
/// (`x-accepted-github-permissions`).
pub fn remedy(status: u16, is_limit: bool, permissions: Option<&str>) -> String {
    match (status, permissions) {
        _ if is_limit => "GitHub's rate limit: try again later, or with more --patience".into(),
        (300..=399, _) => {
            "nothing was done; if the repository was renamed or moved, use its new name: --repo or GITHUB_REPOSITORY"
                .into()
        }
        (401, _) => "the token in GITHUB_TOKEN is wrong, expired or revoked".into(),
        (403, Some(needed)) => {
            // As a workflow's file has it.
            let needed = needed.replace('_', "-").replace('=', ": ");
            format!("the token lacks a permission: the job needs `{needed}` under `permissions:`")
        }
        (403, None) => "the token lacks a permission: see `permissions:` of the job".into(),
        (404, _) => {
            "it is not there, or the token may not see it: check --repo and the job's `permissions:`".into()
        }
        (410, _) => "it was deleted, or is switched off in this repository".into(),
        (422, _) => "GitHub does not accept these values".into(),
        (500.., _) => "GitHub has trouble: see githubstatus.com, and try again".into(),
        _ => String::new(),
    }
}

/// GitHub sends no event greater than 25 MB, and one of a pull request has some 50 KB.
pub const MOST_BYTES: u64 = 4 << 20;

#[derive(Debug, thiserror::Error)]
pub enum EventError {
    #[error("cannot read the event at {}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("the event at {} has more than {MOST_BYTES} bytes", .0.display())]
    TooLarge(PathBuf),
    #[error("the event is not what GitHub sends: {0}")]
    Malformed(String),
    #[error(
        "`{0}` is no event of a pull request: use `on: pull_request_target` or `merge_group`, or name one with --pr"
    )]
    Other(String),
}
