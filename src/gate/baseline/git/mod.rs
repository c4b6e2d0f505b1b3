//! A store on a branch of its own, by the plumbing of the `git` command: no working tree, no index and no HEAD
//! of anybody's is touched, and no hook runs.
//!
//! Every change is one commit on the branch's newest, pushed only if the branch still is what the commit stands
//! on. Where somebody was faster it is made again on top of his: files only ever come and go whole, and no two
//! writers choose one name, so there is nothing to merge by hand.
//!
//! Main type: [`GitStore`]. Refuses to know: what a record holds.

mod command;
mod tree;

use super::name::RecordName;
use super::remote::{Listing, Record, RemoteError, check_size};
use command::{Failure, Git};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};
use tree::{Change, Tip};

/// Tries of one push. Of n writers at once each try lets one through.
const TRIES: u32 = 40;
/// The longest wait between two of them.
const LONGEST_WAIT: Duration = Duration::from_secs(3);

/// A branch of a remote.
#[derive(Debug)]
pub struct GitStore {
    git: Git,
    remote: String,
    branch: String,
    /// As errors name it.
    name: String,
    /// Git's ids of what was listed last. A name keeps its content, so they stay right.
    listed: RefCell<BTreeMap<RecordName, String>>,
}

/// What stands on the branch: its newest commit, and the files in it with their git ids.
#[derive(Default)]
struct Standing {
    tip: Option<Tip>,
    listing: Listing,
    ids: BTreeMap<RecordName, String>,
}

impl GitStore {
    pub fn open(root: &Path, remote: &str, branch: &str) -> Result<Self, RemoteError> {
        let name = super::redact::redact(&format!("git:{branch}@{remote}"));
        let store = Self {
            git: Git::new(root),
            remote: remote.to_owned(),
            branch: branch.to_owned(),
            name,
            listed: RefCell::default(),
        };
        match store.git.run(&["rev-parse", "--git-dir"]) {
            Ok(_) => Ok(store),
            Err(Failure::Missing(source)) => Err(RemoteError::NoGit {
                store: store.name,
                source,
            }),
            Err(Failure::Said(cause)) => Err(RemoteError::NoRepository {
                store: store.name,
                cause,
            }),
        }
    }

    pub fn list(&self) -> Result<Listing, RemoteError> {
        let Standing { listing, ids, .. } = self.standing()?;
        self.listed.replace(ids);
        Ok(listing)
    }

    pub fn read(&self, wanted: &[(RecordName, u64)]) -> Result<Vec<Record>, RemoteError> {
        check_size(&self.name, wanted.iter().map(|(_, bytes)| *bytes))?;
        // What was listed is here: objects were fetched with it.
        let listed = self.listed.borrow();
        let ids = wanted.iter().filter_map(|(name, _)| {
            let id = listed.get(name)?;
            Some((name.clone(), id.clone()))
        });
        let ids: Vec<(RecordName, String)> = ids.collect();
        self.ask("read", tree::read(&self.git, &ids))
    }

    pub fn add(&self, records: &[Record]) -> Result<Vec<RecordName>, RemoteError> {
        let mut added = Vec::new();
        self.change(|standing| {
            let is_new = |record: &&Record| !standing.ids.contains_key(&record.0);
            let new: Vec<&Record> = records.iter().filter(is_new).collect();
            added = new.iter().map(|(name, _)| name.clone()).collect();
            Change {
                add: new,
                ..Change::default()
            }
        })?;
        Ok(added)
    }

    /// Replaces those that are as they were when they were listed last. Names what was replaced.
    pub fn replace(&self, records: &[Record]) -> Result<Vec<RecordName>, RemoteError> {
        let listed = self.listed.borrow().clone();
        let mut replaced = Vec::new();
        self.change(|standing| {
            let is_same = |record: &&Record| {
                let id = listed.get(&record.0);
                id.is_some() && standing.ids.get(&record.0) == id
            };
            let replace: Vec<&Record> = records.iter().filter(is_same).collect();
            replaced = replace.iter().map(|(name, _)| name.clone()).collect();
            Change {
                replace,
                ..Change::default()
            }
        })?;
        Ok(replaced)
    }

    pub fn remove(&self, names: &[RecordName]) -> Result<(), RemoteError> {
        self.change(|standing| Change {
            remove: names
                .iter()
                .filter(|name| standing.ids.contains_key(name))
                .collect(),
            ..Change::default()
        })
    }

    /// Commits and pushes what `wanted` says of the branch as it stands, anew for each try; nothing where it
    /// says nothing.
    fn change<'r>(
        &self,
        mut wanted: impl FnMut(&Standing) -> Change<'r>,
    ) -> Result<(), RemoteError> {
        let mut said = String::new();
        for tried in 0..TRIES {
            let standing = self.standing()?;
            if let Some((name, why)) = standing.listing.refused.first() {
                let what = format!("{name} ({why})");
                let store = self.name.clone();
                return Err(RemoteError::Foreign { store, what });
            }
            let change = wanted(&standing);
            if change.is_empty() {
                return Ok(());
            }
            let tip = standing.tip.as_ref();
            let commit = self.ask("write", tree::commit(&self.git, tip, &change))?;
            match self.push(tip, &commit) {
                Ok(()) => return Ok(()),
                Err(Failure::Said(last)) if self.was_too_late(&last, tip)? => {
                    said = last;
                    wait(tried);
                }
                Err(failure) => return self.ask("push to", Err(failure)),
            }
        }
        Err(RemoteError::Contended {
            store: self.name.clone(),
            tries: TRIES,
            said,
        })
    }

    /// The branch is to become `commit`, if it still is `tip`.
    fn push(&self, tip: Option<&Tip>, commit: &str) -> Result<(), Failure> {
        let reference = self.reference();
        let expected = tip.map_or("", |tip| tip.0.as_str());
        self.git.run(&[
            "push",
            "--quiet",
            "--no-verify",
            "--no-signed",
            "--no-recurse-submodules",
            &format!("--force-with-lease={reference}:{expected}"),
            "--",
            &self.remote,
            &format!("{commit}:{reference}"),
        ])?;
        Ok(())
    }

    /// Whether a push failed since another writer was there first. The remote is asked rather than its words
    /// believed, but for the moment in which the other one still holds the lock.
    fn was_too_late(&self, said: &str, tip: Option<&Tip>) -> Result<bool, RemoteError> {
        const OF_A_RACE: [&str; 5] = [
            "cannot lock ref",
            "failed to update ref",
            "incorrect old value",
            "stale info",
            "fetch first",
        ];
        Ok(OF_A_RACE.iter().any(|part| said.contains(part)) || self.tip()?.as_ref() != tip)
    }

    fn reference(&self) -> String {
        format!("refs/heads/{}", self.branch)
    }

    /// The branch's newest commit, asked of the remote; `None` where there is no such branch.
    fn tip(&self) -> Result<Option<Tip>, RemoteError> {
        let reference = self.reference();
        let said = self.git.run(&["ls-remote", "--", &self.remote, &reference]);
        let said = self.ask("reach", said)?;
        let lines = String::from_utf8_lossy(&said).into_owned();
        let of_branch = lines.lines().find_map(|line| {
            let (id, name) = line.split_once('\t')?;
            (name == reference).then(|| Tip(id.to_owned()))
        });
        Ok(of_branch)
    }

    /// Brings the branch's objects here. They are kept under a reference of our own, so that the next fetch
    /// brings no more than what is new.
    fn standing(&self) -> Result<Standing, RemoteError> {
        let Some(mut tip) = self.tip()? else {
            return Ok(Standing::default());
        };
        if !tree::is_here(&self.git, &tip) {
            tip = self.fetch()?;
        }
        let files = self.ask("read", tree::files(&self.git, &tip))?;
        let mut standing = Standing {
            tip: Some(tip),
            ..Standing::default()
        };
        for file in files {
            let why = file.why_not();
            let name = standing.listing.take(&file.path, file.bytes, why);
            if let Some(name) = name {
                standing.ids.insert(name, file.id);
            }
        }
        standing.listing.check(&self.name)?;
        Ok(standing)
    }

    fn fetch(&self) -> Result<Tip, RemoteError> {
        let kept = format!("refs/infergate/{}", self.branch);
        let fetched = self.git.run(&[
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-recurse-submodules",
            "--no-auto-maintenance",
            "--refmap=",
            "--",
            &self.remote,
            &format!("+{}:{kept}", self.reference()),
        ]);
        self.ask("fetch from", fetched)?;
        let id = self
            .git
            .run(&["rev-parse", "--verify", &format!("{kept}^{{commit}}")]);
        let id = self.ask("read", id)?;
        Ok(Tip(String::from_utf8_lossy(&id).trim().to_owned()))
    }

    fn ask<T>(&self, what: &'static str, answer: Result<T, Failure>) -> Result<T, RemoteError> {
        answer.map_err(|failure| match failure {
            Failure::Missing(source) => RemoteError::NoGit {
                store: self.name.clone(),
                source,
            },
            Failure::Said(cause) => RemoteError::Failed {
                store: self.name.clone(),
                what,
                cause,
            },
        })
    }
}

/// Longer from try to try and never equally long, so that two writers do not meet again.
fn wait(tried: u32) {
    let most = Duration::from_millis(20 << tried.min(10)).min(LONGEST_WAIT);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let nanos = now.map_or(0, |now| now.subsec_nanos()) ^ std::process::id().rotate_left(16);
    std::thread::sleep(most.mul_f64(f64::from(nanos % 1_000) / 1_000.0));
}
