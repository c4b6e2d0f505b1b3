//! Pull requests as they are now: [`Pull`], the files that one changes, and how a commit differs from a branch.

use super::permission::PersonKind;
use crate::wire::{Account, Label};
use crate::{Client, Error, Refusal, Sha, segment};
use serde::Deserialize;

/// GitHub lists no more files of a pull request ("List pull requests files").
pub const MOST_FILES: usize = 3_000;
/// GitHub lists no more files of a comparison ("Compare two commits").
pub const MOST_COMPARED: usize = 300;

/// What GitHub says of a pull request at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pull {
    pub number: u64,
    pub is_open: bool,
    /// The commit at its head.
    pub head_sha: Sha,
    /// `OWNER/NAME` that the head lies in; `None`: that repository is gone.
    pub head_repository: Option<String>,
    /// Branch that it goes into, a name that anybody may have chosen.
    pub base_branch: String,
    pub default_branch: String,
    /// Login of its author; `None`: the account is gone.
    pub author: Option<String>,
    pub author_kind: PersonKind,
    pub labels: Vec<String>,
    /// Files that it changes, all told.
    pub changed_files: usize,
}

/// A file that a pull request changes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ChangedFile {
    pub filename: String,
    /// Where it was before a rename.
    pub previous_filename: Option<String>,
}

#[derive(Deserialize)]
struct PullWire {
    number: u64,
    state: String,
    head: PullSide,
    base: PullSide,
    user: Option<Account>,
    labels: Vec<Label>,
    changed_files: usize,
}

#[derive(Deserialize)]
struct PullSide {
    sha: String,
    #[serde(rename = "ref")]
    branch: String,
    repo: Option<Repo>,
}

#[derive(Deserialize)]
struct Repo {
    full_name: String,
    default_branch: String,
}

/// How a commit differs from a branch: by its own words, whatever is pushed meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The newest commit that both hold: what the commit is measured against.
    pub merge_base: Sha,
    /// The files that it changes since; GitHub stops at [`MOST_COMPARED`].
    pub files: Vec<ChangedFile>,
}

#[derive(Deserialize)]
struct Compared {
    merge_base_commit: Commit,
    #[serde(default)]
    files: Vec<ChangedFile>,
}

#[derive(Deserialize)]
struct Commit {
    sha: String,
}

impl Client {
    pub async fn pull(&self, number: u64) -> Result<Pull, Error> {
        let route = self.route(&format!("/pulls/{number}"));
        let wire: PullWire = self.get(&route).await?;
        let malformed = |cause: &str| Error::Malformed {
            request: format!("GET {route}"),
            cause: cause.into(),
        };
        let Some(base) = &wire.base.repo else {
            return Err(malformed("it goes into no repository"));
        };
        if wire.number != number || !self.repository().is(&base.full_name) {
            return Err(malformed("it is another pull request"));
        }
        Ok(Pull {
            number,
            is_open: wire.state == "open",
            head_sha: Sha::parse(&wire.head.sha)?,
            head_repository: wire.head.repo.map(|repo| repo.full_name),
            base_branch: wire.base.branch,
            default_branch: base.default_branch.clone(),
            author_kind: wire
                .user
                .as_ref()
                .map_or(PersonKind::Other, |user| PersonKind::of(&user.kind)),
            author: wire.user.map(|user| user.login),
            labels: wire.labels.into_iter().map(|label| label.name).collect(),
            changed_files: wire.changed_files,
        })
    }

    /// The files that it changes, every page; GitHub stops at [`MOST_FILES`].
    pub async fn changed_files(&self, number: u64) -> Result<Vec<ChangedFile>, Error> {
        let pages = MOST_FILES.div_ceil(crate::http::client::PER_PAGE) as u32;
        let route = self.route(&format!("/pulls/{number}/files"));
        self.pages(&route, pages).await
    }

    /// Compares a commit with a branch or another commit. `None`: they have no commit in common.
    pub async fn compare(&self, base: &str, head: &Sha) -> Result<Option<Comparison>, Error> {
        let between = format!("{}...{head}", segment(base));
        // Pages are of commits; the files stand on the first.
        let route = self.route(&format!("/compare/{between}?per_page=1"));
        let compared: Compared = match self.get(&route).await {
            Err(Error::Refused(refusal)) if is_unrelated(&refusal) => return Ok(None),
            answer => answer?,
        };
        Ok(Some(Comparison {
            merge_base: Sha::parse(&compared.merge_base_commit.sha)?,
            files: compared.files,
        }))
    }
}

/// GitHub says so of an orphan branch by 404 and these words; another 404 is a commit or a branch that is not there.
fn is_unrelated(refusal: &Refusal) -> bool {
    let words = refusal.message.to_ascii_lowercase();
    refusal.status == 404 && words.contains("no common ancestor")
}

impl Pull {
    /// Whether the head lies in another repository than this one.
    pub fn is_from_fork(&self, repository: &crate::Repository) -> bool {
        let head = self.head_repository.as_deref();
        !head.is_some_and(|head| repository.is(head))
    }
}
