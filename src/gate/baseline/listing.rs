//! Contents of a store beyond this machine, and its errors.

use super::bounds::{MOST_BYTES, MOST_BYTES_IN_ALL, MOST_RECORDS};
use super::name::RecordName;
use std::collections::BTreeMap;

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

/// Contents of a store.
#[derive(Debug, Default)]
pub struct Listing {
    /// Name → bytes.
    pub records: BTreeMap<RecordName, u64>,
    /// Entries that are no record: the name, escaped, and the reason.
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

/// Refuses a listing that is too large to be read at once.
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
