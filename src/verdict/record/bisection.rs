//! A search for the commit of a regression: what was asked, every step with its numbers, and the answer.
//!
//! Main type: [`Bisection`], which is the file format `infergate-bisect/1`. It is written after each step, so a
//! search that was cut off goes on from it. Refuses to know: how a step is decided (`commands/bisect/`).

use super::Input;
use serde::{Deserialize, Serialize};

/// Name and version of the format.
pub const BISECTION_FORMAT: &str = "infergate-bisect/1";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bisection {
    /// [`BISECTION_FORMAT`].
    pub format: String,
    /// Name and version of the program that measured.
    pub tool: String,
    /// RFC 3339, UTC.
    pub created: String,
    pub profile: String,
    pub gate: String,
    /// Every session's own seed is this one and the session's number.
    pub seed: u64,
    /// The machine's fingerprint.
    pub machine: String,
    /// Every file that defines the plan, as it was read.
    pub inputs: Vec<Input>,
    /// GOOD, then the line of first parents up to BAD, oldest first.
    pub commits: Vec<Commit>,
    /// Check id; known once BAD was shown to be worse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// Name of the metric whose values the trials hold: of that check, or of the one that decided where BAD is no
    /// worse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// What is looked for, known by then too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sought: Option<Sought>,
    /// Sessions in their order: BAD against GOOD, then a commit against GOOD each, at last the culprit against
    /// its parent.
    pub trials: Vec<Trial>,
    /// What is known so far; final once [`Conclusion::is_final`] says so.
    pub conclusion: Conclusion,
}

impl Bisection {
    /// Launches of all sessions, and the seconds that measuring them took.
    pub fn cost(&self) -> (u32, f64) {
        let launches = self.trials.iter().map(|trial| trial.launches).sum();
        let seconds = self.trials.iter().map(|trial| trial.seconds).sum();
        (launches, seconds)
    }

    /// BAD against GOOD.
    pub fn confirmation(&self) -> Option<&Trial> {
        let mut trials = self.trials.iter().rev();
        trials.find(|trial| trial.step == Step::Confirm)
    }

    /// The last session that measured this commit against that one.
    pub fn measured(&self, against: usize, commit: usize) -> Option<&Trial> {
        let is_it = |trial: &&Trial| {
            trial.against as usize == against
                && trial.commit as usize == commit
                && trial.launches > 0
        };
        self.trials.iter().rev().find(is_it)
    }
}

/// One commit as git tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    pub id: String,
    /// The author's name.
    pub author: String,
    /// The author's date, RFC 3339.
    pub date: String,
    pub subject: String,
    /// It has several parents.
    pub is_merge: bool,
}

/// As many digits of a commit's id as people read.
pub fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

/// What tells a bad commit from a good one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Sought {
    /// A loss by a clock: ln of BAD's value over GOOD's, positive where BAD is worse.
    Loss { loss: f64 },
    /// A value that is the same in every launch of a build, and on the worse side of this, in the metric's unit.
    Value { threshold: f64 },
    /// An engine that fails.
    Failure,
}

/// What a session was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    Confirm,
    Search,
    Jump,
}

/// One commit that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    pub step: Step,
    /// Places in [`Bisection::commits`].
    pub commit: u32,
    pub against: u32,
    pub finding: Finding,
    /// Why, in a sentence; empty where the numbers say it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Hex SHA-256 of the commit's artifact, where it could be built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<String>,
    /// Values of `against` and of the commit, in the metric's unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<(f64, f64)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    pub launches: u32,
    /// Seconds of measuring.
    pub seconds: f64,
    /// Its result directory within the search's; empty where nothing was measured.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub directory: String,
}

/// A measured change.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// 0.03 is +3 % of the metric.
    pub relative: f64,
    /// The step's interval of the same, which holds at all its looks together.
    pub interval: (f64, f64),
    /// The loss (ln, positive is worse) with its standard error and degrees of freedom; none where the values
    /// are exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<(f64, f64, f64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// As good as GOOD.
    Good,
    /// As bad as BAD.
    Bad,
    /// Shown to have a part of the change only.
    Partly,
    /// Its last look left it open.
    Undecided,
    /// It cannot be built, or its engine does not work.
    Skipped,
    /// The measurement is broken.
    Invalid,
}

impl Finding {
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Partly => "partly",
            Self::Undecided => "undecided",
            Self::Skipped => "skipped",
            Self::Invalid => "invalid",
        }
    }
}

/// The answer. Numbers are places in [`Bisection::commits`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Conclusion {
    /// BAD was shown to be no worse.
    NoRegression,
    /// Whether BAD is worse was not shown.
    Unshown,
    /// A session's measurement is broken.
    Invalid,
    /// This commit brought it.
    Culprit { commit: u32 },
    /// One of these did; more cannot be told.
    Among { first: u32, last: u32 },
    /// The search goes on; so far it is one of these.
    Unfinished { first: u32, last: u32 },
}

impl Conclusion {
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Unfinished { .. } | Self::Invalid)
    }
}
