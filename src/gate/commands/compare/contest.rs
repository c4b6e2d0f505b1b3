//! Engines that are compared: what is asked, and each one's session.

use crate::session::results::Results;
use std::path::PathBuf;
use verdict::plan::{Contender, Plan, Selection};
use verdict::record::{Metric, RunRecord};

/// Which engines to compare, and how.
#[derive(Clone, Debug)]
pub struct Contest {
    /// Where the search for the project begins.
    pub start: PathBuf,
    pub selection: Selection,
    /// Names in gates/engines.toml; the first is the measure of the others.
    pub engines: Vec<String>,
    /// Launches of each; `None`: three, or with limits as many as the profile's last look needs.
    pub rounds: Option<u32>,
    /// What the first engine must keep against each of the others.
    pub at_most: Vec<AtMost>,
    /// The workload of the warm half, where the gates have several.
    pub workload: Option<String>,
    /// The result directory; `None`: a new one under `.gate/runs`.
    pub out: Option<PathBuf>,
    pub seed: Option<u64>,
}

/// One engine with its session.
pub struct Lane {
    pub contender: Contender,
    pub plan: Plan,
    pub results: Results,
    pub record: RunRecord,
}

/// A limit on the first engine: its metric is at most `times` that of each other engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AtMost {
    pub metric: Metric,
    pub times: f64,
}

impl AtMost {
    /// Metrics that can have a limit, all of them times: less is better.
    pub const METRICS: [Metric; 9] = [
        Metric::Ttft,
        Metric::Tpot,
        Metric::Itl,
        Metric::Icl,
        Metric::E2e,
        Metric::PortOpen,
        Metric::Ready,
        Metric::FirstToken,
        Metric::FirstResponse,
    ];
}
