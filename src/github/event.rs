//! The webhook event that started a job, read as untrusted text.
//!
//! Main type: [`Event`]. Of an event's hundreds of fields a few are read, each into a checked type; names of
//! branches and people stay data. What an event says of the pull request is old when it is read: only the action,
//! the number, the commit and the sender are taken from it, all else is asked anew.

use super::http::error::{EventError, MOST_BYTES};
use super::pulls::permission::PersonKind;
use super::wire::{Account, Label};
use super::{Repository, Sha, clean};
use serde::Deserialize;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// An event of a pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub action: Action,
    pub number: u64,
    /// Head at the time of the event.
    pub head_sha: Sha,
    /// Whose doing it is.
    pub sender: String,
    pub sender_id: u64,
    pub sender_kind: PersonKind,
}

/// What happened, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Opened,
    Reopened,
    /// A push: the head is another commit.
    Synchronize,
    Labeled(String),
    Unlabeled(String),
    Closed,
    Other,
}

#[derive(Deserialize)]
struct EventWire {
    action: String,
    number: u64,
    pull_request: Pull,
    repository: Repo,
    sender: Sender,
    label: Option<Label>,
}

#[derive(Deserialize)]
struct Pull {
    number: u64,
    head: Head,
}

#[derive(Deserialize)]
struct Sender {
    id: u64,
    #[serde(flatten)]
    account: Account,
}

#[derive(Deserialize)]
struct Head {
    sha: String,
}

#[derive(Deserialize)]
pub struct Repo {
    full_name: String,
}

/// The file's text, where it is not too long.
pub fn text(path: &Path) -> Result<String, EventError> {
    let unreadable = |source| EventError::Unreadable {
        path: path.to_path_buf(),
        source,
    };
    let mut text = String::new();
    let file = File::open(path).map_err(unreadable)?;
    let read = file.take(MOST_BYTES + 1).read_to_string(&mut text);
    read.map_err(unreadable)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(EventError::TooLarge(path.to_path_buf()));
    }
    Ok(text)
}

/// An event of another repository is none.
pub fn is_of(repo: &Repo, repository: &Repository) -> Result<(), EventError> {
    match repository.is(&repo.full_name) {
        true => Ok(()),
        false => {
            let cause = format!("it is of {}, not of {repository}", repo.full_name);
            Err(EventError::Malformed(clean(&cause, 200)))
        }
    }
}

impl Event {
    /// Reads the file that `GITHUB_EVENT_PATH` names. `name`: `GITHUB_EVENT_NAME`.
    pub fn read(name: &str, path: &Path, repository: &Repository) -> Result<Self, EventError> {
        if name != "pull_request_target" {
            return Err(EventError::Other(clean(name, 60)));
        }
        Self::parse(&text(path)?, repository)
    }

    /// An event of another repository, or one that contradicts itself, is none.
    fn parse(text: &str, repository: &Repository) -> Result<Self, EventError> {
        let malformed = |cause: String| EventError::Malformed(clean(&cause, 200));
        let wire: EventWire = serde_json::from_str(text).map_err(|e| malformed(e.to_string()))?;
        is_of(&wire.repository, repository)?;
        if wire.number == 0 || wire.number != wire.pull_request.number {
            return Err(malformed("it names two pull requests".into()));
        }
        let head_sha = Sha::parse(&wire.pull_request.head.sha);
        let label = || wire.label.as_ref().map(|label| label.name.clone());
        let no_label = || malformed("it names no label".into());
        let action = match wire.action.as_str() {
            "opened" => Action::Opened,
            "reopened" => Action::Reopened,
            "synchronize" => Action::Synchronize,
            "closed" => Action::Closed,
            "labeled" => Action::Labeled(label().ok_or_else(no_label)?),
            "unlabeled" => Action::Unlabeled(label().ok_or_else(no_label)?),
            _ => Action::Other,
        };
        Ok(Self {
            action,
            number: wire.number,
            head_sha: head_sha.map_err(|e| malformed(e.to_string()))?,
            sender_id: wire.sender.id,
            sender_kind: PersonKind::of(&wire.sender.account.kind),
            sender: wire.sender.account.login,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const SHA: &str = "6dcb09b5b57875f334f61aebed695e2e4193db5e";

    fn event() -> Value {
        json!({
            "action": "labeled",
            "number": 12,
            "label": {"name": "gpu-approved"},
            "pull_request": {"number": 12, "head": {"sha": SHA, "ref": "$(touch x)", "repo": null}},
            "repository": {"full_name": "octocat/Hello-World"},
            "sender": {"login": "ada", "id": 11, "type": "User"},
        })
    }

    fn parse(event: &Value) -> Result<Event, EventError> {
        let repository = Repository::parse("octocat/hello-world").unwrap();
        Event::parse(&event.to_string(), &repository)
    }

    #[test]
    fn takes_what_it_needs() {
        let read = parse(&event()).unwrap();
        assert_eq!(read.action, Action::Labeled("gpu-approved".into()));
        assert_eq!((read.number, read.head_sha.as_str()), (12, SHA));
        assert_eq!(
            (read.sender.as_str(), read.sender_kind),
            ("ada", PersonKind::User)
        );
    }

    #[test]
    fn a_forged_event_is_refused() {
        for (pointer, value) in [
            ("/number", json!("12")),
            ("/number", json!(-1)),
            ("/number", json!(13)),
            ("/pull_request/number", json!(13)),
            ("/pull_request/head/sha", json!("main")),
            ("/pull_request/head/sha", json!(7)),
            ("/repository/full_name", json!("evil/Hello-World")),
            ("/sender", json!(null)),
            ("/sender/id", json!("11")),
            ("/label", json!(null)),
            ("/action", json!(["labeled"])),
        ] {
            let mut forged = event();
            *forged.pointer_mut(pointer).unwrap() = value.clone();
            let refused = parse(&forged);
            assert!(
                matches!(refused, Err(EventError::Malformed(_))),
                "{pointer} {value}"
            );
        }
        let deep = "[".repeat(100_000);
        let repository = Repository::parse("a/b").unwrap();
        assert!(Event::parse(&deep, &repository).is_err());
    }
}
