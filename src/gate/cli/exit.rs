//! Exit codes: a documented type, so that scripts can rely on them (README.md, "Exit codes").

use crate::session::Outcome;
use std::process::ExitCode;
use verdict::record::{Ending, Exit as LaunchExit, RunRecord, RunVerdict, Verdict};

/// How `gate` ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Pass = 0,
    Fail = 1,
    /// Wrong arguments, or gates that cannot be read.
    Usage = 2,
    Inconclusive = 3,
    /// The measurement is broken.
    Invalid = 4,
    /// A build, a launch, the network or the disk failed.
    Infrastructure = 5,
    Interrupted = 130,
}

impl Exit {
    /// The exit code of a session that this process measured.
    pub fn of_session(outcome: &Outcome) -> Self {
        match outcome.record.ending {
            Ending::Interrupted => Self::Interrupted,
            _ => Self::of(&outcome.record, &outcome.verdict),
        }
    }

    /// The exit code of a judged run. An engine that never started in any arm is infrastructure, not a
    /// measurement.
    pub fn of(record: &RunRecord, verdict: &RunVerdict) -> Self {
        let never_ready = |exit: &LaunchExit| matches!(exit, LaunchExit::NeverReady { .. });
        match verdict.verdict {
            Verdict::Pass => Self::Pass,
            Verdict::Fail => Self::Fail,
            Verdict::Inconclusive => Self::Inconclusive,
            Verdict::Invalid if record.launches.iter().any(|l| never_ready(&l.exit)) => {
                Self::Infrastructure
            }
            Verdict::Invalid => Self::Invalid,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
