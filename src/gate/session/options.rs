//! Options and result of a session.

use std::path::PathBuf;
use verdict::plan::Selection;
use verdict::record::{RunRecord, RunVerdict};

/// The base that head is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// The merge-base with a pull request's target (GITHUB_BASE_REF), else with the default branch: origin/HEAD, main or master.
    Main,
    /// The merge-base with this ref.
    Ref(String),
    /// Main's stored sessions of this machine.
    Stored,
    /// The commit of this ref itself: a frozen release.
    Anchor(String),
}

/// Options of `gate check`.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the search for the project begins.
    pub start: PathBuf,
    pub selection: Selection,
    pub base: Base,
    /// The commit to check, with the gates of the working tree; `None`: the working tree itself.
    pub head: Option<String>,
    /// The result directory; `None`: a new one under `.gate/runs`.
    pub out: Option<PathBuf>,
    pub seed: Option<u64>,
    /// Further arguments to one arm's engine: compares configurations, or plants a fault.
    pub base_args: Vec<String>,
    pub head_args: Vec<String>,
    /// One build is meant to be measured against itself.
    pub same_build: bool,
    /// The gates of the whole run, of which this session is to be one shard; empty: it is the run.
    pub together: Vec<String>,
}

/// A session's result.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub record: RunRecord,
    pub verdict: RunVerdict,
    pub directory: PathBuf,
}
