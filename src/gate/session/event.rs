//! Progress of a command, for whoever shows it.

use crate::measure::Progress;
use crate::selftest::Row;
use std::time::Duration;
use verdict::record::{Comparison, RunVerdict, Verdict};

/// Progress of a session, for a terminal or a log.
#[derive(Clone, Debug)]
pub enum Event {
    Building {
        what: String,
    },
    Built {
        what: String,
        seconds: f64,
    },
    /// A session goes on: what is kept of it.
    Resumed {
        launches: u32,
        elapsed: Duration,
        /// A launch was cut off; it is measured again.
        is_cut_off: bool,
    },
    /// Measuring begins: at most this number of blocks, within this time.
    Measuring {
        comparison: Comparison,
        blocks: u32,
        budget: Duration,
    },
    /// An A/A session of a calibration begins; counted from 1.
    Session {
        number: u32,
        of: u32,
    },
    /// … and ended.
    SessionDone {
        number: u32,
        of: u32,
        verdict: Verdict,
    },
    /// An engine of a comparison is launched; rounds count from 0.
    Engine {
        name: String,
        round: u32,
    },
    Progress(Progress),
    /// A search over commits goes a step further, or an engine is waited for: a line for whoever waits.
    Step {
        line: String,
    },
    /// `gate selftest` begins with a fault; they count from 1.
    Planting {
        what: &'static str,
        number: usize,
        of: usize,
    },
    Planted(Row),
    /// A block is done; this is how things stand.
    Looked {
        blocks: u32,
        verdict: RunVerdict,
    },
}
