//! A store beyond this machine: a branch of a git repository, or a bucket. Both hold immutable files by name, so
//! that two who add at once cannot be in each other's way.
//!
//! Main type: [`Remote`]. Refuses to know: what a record holds.

use super::git::GitStore;
use super::listing::{Listing, Record, RemoteError};
use super::name::RecordName;
use super::objects::ObjectsStore;
use std::path::Path;

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
