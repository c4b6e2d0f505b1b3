//! GitHub's merge queue: the branch that it makes of an entry, and the event by which it asks for checks.
//!
//! The queue merges a pull request, behind those before it, onto the base branch, and asks for the required checks of that
//! commit. Neither event nor commit names the pull request: the branch's name does. Main types: [`QueueBranch`],
//! [`QueueEvent`].

use crate::event;
use crate::http::error::EventError;
use crate::{Repository, Sha, clean};
use serde::Deserialize;
use std::path::Path;

/// Begins the name of each branch of a queue; GitHub alone makes them.
const PREFIX: &str = "gh-readonly-queue/";

/// `gh-readonly-queue/BASE/pr-NUMBER-SHA`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueBranch {
    pub name: String,
    /// The branch that the queue merges into.
    pub base_branch: String,
    /// The entry's own pull request.
    pub number: u64,
}

impl QueueBranch {
    /// `None`: it is no branch of a merge queue.
    pub fn parse(name: &str) -> Option<Self> {
        let (base_branch, entry) = name.strip_prefix(PREFIX)?.rsplit_once('/')?;
        let (number, _) = entry.strip_prefix("pr-")?.split_once('-')?;
        let number: u64 = number.parse().ok().filter(|number| *number > 0)?;
        (!base_branch.is_empty()).then(|| Self {
            name: name.to_owned(),
            base_branch: base_branch.to_owned(),
            number,
        })
    }
}

/// The queue asks for the checks of a commit of its own (`merge_group`, `checks_requested`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueEvent {
    pub branch: QueueBranch,
    pub head_sha: Sha,
}

#[derive(Deserialize)]
struct QueueWire {
    action: String,
    merge_group: Group,
    repository: event::Repo,
}

#[derive(Deserialize)]
struct Group {
    head_sha: String,
    head_ref: String,
}

impl QueueEvent {
    /// Name of the event in `GITHUB_EVENT_NAME`.
    pub const NAME: &str = "merge_group";

    /// Reads the file that `GITHUB_EVENT_PATH` names.
    pub fn read(path: &Path, repository: &Repository) -> Result<Self, EventError> {
        Self::parse(&event::text(path)?, repository)
    }

    fn parse(text: &str, repository: &Repository) -> Result<Self, EventError> {
        let malformed = |cause: String| EventError::Malformed(clean(&cause, 200));
        let wire: QueueWire = serde_json::from_str(text).map_err(|e| malformed(e.to_string()))?;
        event::is_of(&wire.repository, repository)?;
        if wire.action != "checks_requested" {
            let name = format!("{} {}", Self::NAME, wire.action);
            return Err(EventError::Other(clean(&name, 60)));
        }
        let head_ref = &wire.merge_group.head_ref;
        let branch = head_ref.strip_prefix("refs/heads/");
        let branch = branch.and_then(QueueBranch::parse);
        Ok(Self {
            branch: branch
                .ok_or_else(|| malformed(format!("`{head_ref}` is no branch of a merge queue")))?,
            head_sha: Sha::parse(&wire.merge_group.head_sha)
                .map_err(|error| malformed(error.to_string()))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branchs_name_holds_base_and_number() {
        let check = |name: &str, expect: Option<(&str, u64)>| {
            let branch = QueueBranch::parse(name);
            let found = branch
                .as_ref()
                .map(|branch| (branch.base_branch.as_str(), branch.number));
            assert_eq!(found, expect, "{name}");
        };
        check("gh-readonly-queue/main/pr-12-abc", Some(("main", 12)));
        check("gh-readonly-queue/a/b/pr-1-abc", Some(("a/b", 1)));
        for name in [
            "main",
            "gh-readonly-queue/pr-12-abc",
            "gh-readonly-queue//pr-12-abc",
            "gh-readonly-queue/main/pr-12",
            "gh-readonly-queue/main/pr-0-abc",
            "gh-readonly-queue/main/pr-x-abc",
            "x/gh-readonly-queue/main/pr-12-abc",
        ] {
            check(name, None);
        }
    }
}
