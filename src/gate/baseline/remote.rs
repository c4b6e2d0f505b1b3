//! A store beyond this machine: a branch of a git repository, or a bucket. Both hold immutable files by name, so
//! that two who add at once cannot be in each other's way.
//!
//! Main type: [`Remote`]. Refuses to know: what a record holds.

use super::bounds::{MOST_BYTES, MOST_BYTES_IN_ALL, MOST_RECORDS};
use super::git::GitStore;
use super::name::RecordName;
use super::objects::ObjectsStore;
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    #[error("cannot run git, which the store {store} needs")]
    NoGit {
        store: String,
        source: std::io::Error,
    },
    #[error("the store {store} needs a git repository around gates/gate.toml: {cause}")]
    NoRepository { store: String, cause: String },
    #[error("the store {store} cannot be opened: {cause}")]
    Address { store: String, cause: String },
    #[error("cannot {what} the store {store}: {cause}")]
    Failed {
        store: String,
        what: &'static str,
        cause: String,
    },
    #[error(
        "the branch of {store} is no store: it holds {what}; name a branch of its own in `baseline.store`"
    )]
    Foreign { store: String, what: String },
    #[error(
        "the store {store} is larger than a pull takes: {what}; `gate baseline prune` makes it smaller"
    )]
    TooLarge { store: String, what: String },
    #[error("others kept adding to {store}: {tries} tries came too late; the last: {said}")]
    Contended {
        store: String,
        tries: u32,
        said: String,
    },
    #[error(
        "{store} holds another record under the name {name}, and records never change: what is here is not pushed"
    )]
    Other { store: String, name: String },
}

/// What a store holds.
#[derive(Debug, Default)]
pub struct Listing {
    /// Name → bytes.
    pub records: BTreeMap<RecordName, u64>,
    /// What is there and is no record by its name or its kind: its name, fit to be shown, and why.
    pub refused: Vec<(String, String)>,
}

impl Listing {
    /// Adds what is called so; `why` says what else is wrong with it.
    pub fn take(&mut self, text: &str, bytes: u64, why: Option<&str>) -> Option<RecordName> {
        let name = match (RecordName::parse(text), why) {
            (Ok(name), None) if bytes <= MOST_BYTES => name,
            (Ok(_), None) => {
                let why = format!("it has {bytes} bytes, more than a record may have");
                self.refused.push((shown(text), why));
                return None;
            }
            (_, Some(why)) => {
                self.refused.push((shown(text), why.to_owned()));
                return None;
            }
            (Err(error), None) => {
                self.refused.push((shown(text), error.to_string()));
                return None;
            }
        };
        self.records.insert(name.clone(), bytes);
        Some(name)
    }

    pub fn check(&self, store: &str) -> Result<(), RemoteError> {
        let all = self.records.len() + self.refused.len();
        let what = (all > MOST_RECORDS).then(|| format!("more than {MOST_RECORDS} records"));
        too_large(store, what)
    }
}

/// Whether so many bytes may be read at once.
pub fn check_size(store: &str, bytes: impl Iterator<Item = u64>) -> Result<(), RemoteError> {
    let all: u64 = bytes.sum();
    let what = (all > MOST_BYTES_IN_ALL).then(|| format!("{} MiB", all >> 20));
    too_large(store, what)
}

fn too_large(store: &str, what: Option<String>) -> Result<(), RemoteError> {
    match what {
        None => Ok(()),
        Some(what) => Err(RemoteError::TooLarge {
            store: store.to_owned(),
            what,
        }),
    }
}

/// A name of anybody's as one short line.
fn shown(name: &str) -> String {
    let line: String = name.chars().take(100).collect();
    line.escape_debug().to_string()
}

/// A record's name and its bytes.
pub type Record = (RecordName, Vec<u8>);

/// One of the two.
pub enum Remote {
    Git(GitStore),
    Objects(ObjectsStore),
}

impl Remote {
    /// A branch, by the `git` of the repository that `root` stands in.
    pub fn git(root: &Path, remote: &str, branch: &str) -> Result<Self, RemoteError> {
        GitStore::open(root, remote, branch).map(Self::Git)
    }

    /// A bucket or a directory; credentials come from the environment.
    pub fn objects(url: &str) -> Result<Self, RemoteError> {
        ObjectsStore::open(url).map(Self::Objects)
    }

    pub async fn list(&self) -> Result<Listing, RemoteError> {
        match self {
            Self::Git(store) => store.list(),
            Self::Objects(store) => store.list().await,
        }
    }

    /// Those of the last listing.
    pub async fn read(&self, wanted: &[(RecordName, u64)]) -> Result<Vec<Record>, RemoteError> {
        match self {
            Self::Git(store) => store.read(wanted),
            Self::Objects(store) => store.read(wanted).await,
        }
    }

    /// Adds those that are not there. Names what was added.
    pub async fn add(&self, records: &[Record]) -> Result<Vec<RecordName>, RemoteError> {
        match self {
            Self::Git(store) => store.add(records),
            Self::Objects(store) => store.add(records).await,
        }
    }

    /// Replaces those of the last listing by the same records, signed. Names what was replaced.
    pub async fn replace(&self, records: &[Record]) -> Result<Vec<RecordName>, RemoteError> {
        match self {
            Self::Git(store) => store.replace(records),
            Self::Objects(store) => store.replace(records).await,
        }
    }

    /// Removes those that are there.
    pub async fn remove(&self, names: &[RecordName]) -> Result<(), RemoteError> {
        match self {
            Self::Git(store) => store.remove(names),
            Self::Objects(store) => store.remove(names).await,
        }
    }
}
