//! Main's own history: what its stored sessions say of how it moved, step by step and altogether.
//!
//! [`tell`] is a pure function of the stored entries. For each check they fall into series of comparable
//! sessions; in each, change points, the trend and the sum of small steps (creep) are looked for. A session
//! that was measured in turn with a frozen release, the anchor, gives the ratio of main to it, in which the
//! machine cancels; only such series can raise an alarm. docs/history.md holds the formulas and the reasons.
//!
//! Main type: [`History`]. Refuses to know: where entries are stored, plans, how a history is shown.

mod creep;
mod notes;
mod scale;
mod series;
mod steps;

pub use crate::baseline::{Note, NoteOutcome};
pub use creep::{Creep, RATIOS};
pub use series::{differences, tell};
pub use steps::{Point, Step};

use verdict::record::Metric;
use verdict::stats::{self, Scale, Trend};

/// A check whose history is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Watched {
    /// `gate/check`.
    pub id: String,
    pub gate: String,
    pub metric: Metric,
    /// What all small steps together may come to: 0.01 is 1 %.
    pub margin: f64,
}

/// When a session is too old to say anything of today.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Age {
    /// RFC 3339.
    pub now: String,
    pub most_days: u32,
}

/// What the stored sessions say, check by check.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    pub checks: Vec<CheckHistory>,
    /// On sessions at which no step is told, oldest first.
    pub notes: Vec<Note>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CheckHistory {
    pub id: String,
    pub metric: Metric,
    pub margin: f64,
    /// In the order in which they began.
    pub series: Vec<Series>,
}

/// Sessions that can be compared with one another.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The machine's fingerprint.
    pub machine: String,
    /// What became different from the series before; empty for the first.
    pub since: Vec<String>,
    /// Name and commit of the frozen release that every value is relative to.
    pub anchor: Option<(String, String)>,
    /// No newer series has taken its place.
    pub is_live: bool,
    /// Its newest session is older than the configured age.
    pub is_old: bool,
    pub scale: Scale,
    /// Oldest first.
    pub points: Vec<Point>,
    pub steps: Vec<Step>,
    /// Change a session on the series' scale.
    pub trend: Option<Trend>,
    /// `None` without an anchor and where differences are not relative.
    pub creep: Option<Creep>,
}

/// What a history comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Quiet,
    /// Main became worse, step by step or at once, and still is.
    Worse,
    /// Too few or too old sessions beside an anchor to say either.
    Unknown,
}

impl History {
    pub fn outcome(&self) -> Outcome {
        if self.checks.iter().any(CheckHistory::is_worse) {
            Outcome::Worse
        } else if self.checks.is_empty() || !self.checks.iter().all(CheckHistory::is_known) {
            Outcome::Unknown
        } else {
            Outcome::Quiet
        }
    }
}

impl CheckHistory {
    /// The series that can raise an alarm.
    fn judged(&self) -> impl Iterator<Item = &Series> {
        self.series.iter().filter(|series| series.is_judged())
    }

    pub fn is_worse(&self) -> bool {
        self.judged().any(Series::is_worse)
    }

    /// Some anchored series has sessions enough, and recent ones.
    pub fn is_known(&self) -> bool {
        let enough = |series: &Series| series.points.len() >= RATIOS && !series.is_old;
        self.judged().any(enough)
    }
}

impl Series {
    fn is_judged(&self) -> bool {
        self.is_live && self.anchor.is_some()
    }

    /// A creep, or a step for the worse that was not made good.
    pub fn is_worse(&self) -> bool {
        self.creep.as_ref().is_some_and(|creep| creep.is_alarm)
            || self.steps.iter().any(|step| step.is_alarm)
    }

    /// Mean of the values from the last step on.
    pub fn level(&self) -> f64 {
        let from = self.steps.last().map_or(0, |step| step.change.at);
        let values: Vec<f64> = self.points[from..].iter().map(|p| p.value).collect();
        stats::mean(&values).unwrap_or(f64::NAN)
    }
}
