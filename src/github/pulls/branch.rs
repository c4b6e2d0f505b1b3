//! The commit at a branch's head, and the tree of a commit.

use crate::{Client, Error, Sha, segment};
use serde::Deserialize;

/// The commit at the head of a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tip {
    pub sha: Sha,
    /// Id of its tree: two commits with one tree hold the same files.
    pub tree: Sha,
}

#[derive(Deserialize)]
struct Branch {
    commit: Commit,
}

#[derive(Deserialize)]
struct Commit {
    sha: String,
    commit: Inner,
}

#[derive(Deserialize)]
struct Inner {
    tree: Tree,
}

#[derive(Deserialize)]
struct Tree {
    sha: String,
}

impl Client {
    /// `None`: there is no such branch.
    pub async fn tip(&self, branch: &str) -> Result<Option<Tip>, Error> {
        let route = self.route(&format!("/branches/{}", segment(branch)));
        match self.get::<Branch>(&route).await {
            Ok(branch) => Ok(Some(branch.commit.tip()?)),
            Err(error) if error.status() == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub async fn commit(&self, sha: &Sha) -> Result<Tip, Error> {
        let route = self.route(&format!("/commits/{sha}"));
        self.get::<Commit>(&route).await?.tip()
    }
}

impl Commit {
    fn tip(&self) -> Result<Tip, Error> {
        Ok(Tip {
            sha: Sha::parse(&self.sha)?,
            tree: Sha::parse(&self.commit.tree.sha)?,
        })
    }
}
