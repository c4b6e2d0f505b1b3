//! Options of `gate github publish`, and its stages: decide, keep on disk, post.
//!
//! The job that runs this holds a token and trusts no artifact: `artifact.rs` reads one as hostile input, `trusted.rs`
//! judges its measurements anew with main's gates. Everything is written below `keep` before anything is sent, and
//! what cannot be posted is told and no reason for another end. docs/publish.md is the reference.
//!
//! Main function: [`publish`](super::run::publish). Refuses to know: how GitHub is spoken to, and what a text
//! looks like.

use super::trusted::Trusted;
use crate::report::{Judged, Past, State};
use crate::session::GitHubOptions;
use github::Sha;
use std::path::PathBuf;
use verdict::record::{RunRecord, RunVerdict};

/// What is to be said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The commit is being measured.
    Pending,
    /// A result directory of another machine.
    From(PathBuf),
    /// It may not run, and why.
    NotRun(String),
    Cancelled,
    /// No path of the pull request needs a run.
    NotNeeded,
    /// Of the merge queue's commit: what was said of this one of the pull request holds, with the same tree and base.
    SameAs(Sha),
}

/// What to publish, and where.
#[derive(Clone, Debug)]
pub struct PublishOptions {
    /// Where the search for the project begins: main's checkout.
    pub start: PathBuf,
    pub subject: Subject,
    /// Number of the pull request.
    pub pull: u64,
    /// The commit that was authorised.
    pub head: Sha,
    /// The commit is the merge queue's, not the pull request's own head.
    pub is_queued: bool,
    /// The commit of main that it is measured against; a result needs it.
    pub base: Option<Sha>,
    pub profile: String,
    pub gates: Vec<String>,
    /// Where the texts are kept; `None`: below `.gate/publish`.
    pub keep: Option<PathBuf>,
    /// Whether there is to be a comment beside the check run.
    pub wants_comment: bool,
    /// `None`: nothing is posted.
    pub github: Option<GitHubOptions>,
    /// Main's commit that this workflow run is of, by Actions' word.
    pub main: Option<Sha>,
    /// The page of this workflow run.
    pub run_url: Option<String>,
    /// A person started the run. Only persons may have a failed commit measured again.
    pub is_by_hand: bool,
    /// Files that Actions names.
    pub output: Option<PathBuf>,
    pub summary: Option<PathBuf>,
}

/// What came of it.
#[derive(Debug)]
pub struct Published {
    pub end: End,
    /// Where everything is kept.
    pub directory: PathBuf,
    pub comment: String,
    pub comment_url: Option<String>,
    pub check_url: Option<String>,
    /// One sentence each: what could not be posted, what was left alone.
    pub remarks: Vec<String>,
    /// Workflow commands that show the red checks in the run's log.
    pub commands: Vec<String>,
}

/// What decides the exit code.
#[derive(Debug)]
pub enum End {
    /// Nothing was to be judged.
    Said,
    Judged(Box<(RunRecord, RunVerdict)>),
    NotMeasured,
    Refused,
}

/// All that is said of the commit, settled.
pub enum Content {
    Pending,
    NotRun(String),
    Cancelled,
    NotNeeded,
    NotMeasured(String),
    Refused(String),
    Judged(Box<JudgedAnew>),
}

/// An artifact's measurements under main's gates.
pub struct JudgedAnew {
    pub trusted: Trusted,
    pub past: Option<Past>,
    /// Where a failure sits.
    pub cause: Option<String>,
}

impl Content {
    pub fn state(&self) -> State<'_> {
        match self {
            Self::Pending => State::Pending,
            Self::NotRun(why) => State::NotRun { why },
            Self::Cancelled => State::Cancelled,
            Self::NotNeeded => State::NotNeeded,
            Self::NotMeasured(said) => State::NotMeasured { said },
            Self::Refused(why) => State::Refused { why },
            Self::Judged(judged) => State::Judged(Judged {
                record: &judged.trusted.record,
                verdict: &judged.trusted.verdict,
                past: judged.past.as_ref(),
                cause: judged.cause.as_deref(),
            }),
        }
    }

    pub fn end(self) -> End {
        match self {
            Self::Pending | Self::NotRun(_) | Self::Cancelled | Self::NotNeeded => End::Said,
            Self::NotMeasured(_) => End::NotMeasured,
            Self::Refused(_) => End::Refused,
            Self::Judged(judged) => {
                let Trusted {
                    record, verdict, ..
                } = judged.trusted;
                End::Judged(Box::new((record, verdict)))
            }
        }
    }
}
