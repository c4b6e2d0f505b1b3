//! Exit codes: a documented type, so that scripts can rely on them (README.md, "Exit codes").

use crate::session::Outcome;
use std::process::ExitCode;
use verdict::record::{Ending, RunVerdict, Verdict};

/// How `gate` ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Pass = 0,
    Fail = 1,
    /// Wrong arguments, or gates that cannot be read.
    Usage = 2,
    Inconclusive = 3,
    /// No valid measurement.
    Invalid = 4,
    /// A build, the network or the disk failed: there is no verdict.
    Infrastructure = 5,
    Interrupted = 130,
}

impl Exit {
    /// The exit code of a session that this process measured.
    pub fn of_session(outcome: &Outcome) -> Self {
        match outcome.record.ending {
            Ending::Interrupted => Self::Interrupted,
            _ => Self::of(&outcome.verdict),
        }
    }

    /// The exit code of a judged run.
    pub fn of(verdict: &RunVerdict) -> Self {
        match verdict.verdict {
            Verdict::Pass => Self::Pass,
            Verdict::Fail => Self::Fail,
            Verdict::Inconclusive => Self::Inconclusive,
            Verdict::Invalid => Self::Invalid,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
