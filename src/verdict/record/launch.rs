//! One start of an engine process, from spawn to exit: the unit of replication.

use super::{ClientHealth, Rest, Sample, SuiteRun, Telemetry};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// Order of execution in the session, from 0.
    pub position: u32,
    /// Which block it belongs to, from 0: one launch of each arm, in random order.
    pub block: u32,
    pub arm: Arm,
    /// The gates' own arguments to the engine (`engine_args`); gates with equal ones share launches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engine_args: Vec<String>,
    /// What the gates asked of the engine's files before the start; gates with equal ones share launches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_cache: Option<PageCache>,
    /// Whether the other arm's engine ran at the same time.
    #[serde(default, skip_serializing_if = "Interleave::is_of_launches")]
    pub interleave: Interleave,
    /// The machine's fingerprint when the launch began.
    pub fingerprint: String,
    pub startup: Startup,
    pub exit: Exit,
    /// NVML throttle reasons seen during the launch, those of its rest left out, or-ed; `None` where there is
    /// no NVML.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttle_bits: Option<u32>,
    /// Log of the engine, relative to the result directory.
    pub log: String,
    pub samples: Vec<Sample>,
    /// Runs of the project's own tests, after all requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suites: Vec<SuiteRun>,
    /// The load client's own health, one a workload that ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<ClientHealth>,
    /// What was read beside the launch, off the measuring threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<Telemetry>,
    /// How long the machine was left to cool before the launch was measured, and how that was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<Rest>,
    /// What the engine did while the other arm's had the turn, where they took turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
    /// It did not end within the time that it has after SIGTERM, and was killed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub killed: bool,
}

/// An engine that waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// Seconds that it waited.
    pub waited_s: f64,
    /// CPU seconds that its processes used meanwhile, read to the clock tick.
    pub cpu_s: f64,
}

/// NVML reasons that void a block: hardware slowdown, software thermal, hardware thermal, power brake.
/// Not 0x4, the software power cap, which is a GPU's normal state under load.
const THROTTLE_BITS: u32 = 0x8 | 0x20 | 0x40 | 0x80;

impl Launch {
    /// Whether a GPU of the engine throttled while the launch was measured.
    pub fn is_throttled(&self) -> bool {
        self.throttle_bits
            .is_some_and(|bits| bits & THROTTLE_BITS != 0)
    }

    /// Whether the engines of both were started as the same gates ask.
    pub fn is_alike(&self, other: &Self) -> bool {
        self.engine_args == other.engine_args
            && self.page_cache == other.page_cache
            && self.interleave == other.interleave
    }

    /// Health of the load client that ran this workload (`gate/workload`).
    pub fn client(&self, workload: &str) -> Option<&ClientHealth> {
        self.clients
            .iter()
            .find(|client| client.workload == workload)
    }
}

/// Whether the engine's files are in the page cache when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PageCache {
    /// Evicted before the start.
    Cold,
    /// Read before the start.
    Warm,
}

impl PageCache {
    /// The name in gate files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
        }
    }
}

/// What base and head take turns in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Interleave {
    /// One engine runs at a time.
    #[default]
    Launches,
    /// The engines of a block run at the same time, and answer in turn: never both at once.
    Requests,
}

impl Interleave {
    /// The name in gate files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Launches => "launches",
            Self::Requests => "requests",
        }
    }

    fn is_of_launches(&self) -> bool {
        *self == Self::Launches
    }
}

/// Times of the start, in nanoseconds from the session's start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Startup {
    pub spawn_ns: u64,
    /// The port accepted a connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port_open_ns: Option<u64>,
    /// The readiness probe that was answered with a token was sent: the engine's first generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_ns: Option<u64>,
    /// A token was generated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_ns: Option<u64>,
    /// Share of the pages of the engine's files that were in memory just before the spawn, where a gate
    /// asked for a state of the page cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident_share: Option<f64>,
    /// The engine's own stages, where its metrics name them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Stage>,
    /// Files of the working tree that are not what the arm was built from, and that were read until the engine was ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tree_files: Vec<String>,
    /// The kernel did not let them be watched: there may be more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tree_unwatched: bool,
}

/// One stage of the engine's start-up, as the engine reports it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    pub name: String,
    pub ms: f64,
}

/// What each of the engine's own stages took in these starts, in the order in which the engine names them.
pub fn by_stage<'a>(starts: impl Iterator<Item = &'a Startup>) -> Vec<(String, Vec<f64>)> {
    let mut named: Vec<(String, Vec<f64>)> = Vec::new();
    for stage in starts.flat_map(|start| &start.stages) {
        match named.iter_mut().find(|(name, _)| *name == stage.name) {
            Some((_, times)) => times.push(stage.ms),
            None => named.push((stage.name.clone(), vec![stage.ms])),
        }
    }
    named
}

/// How a launch ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "kebab-case")]
pub enum Exit {
    /// Stopped by us after its work.
    Stopped,
    /// Never became ready: died or ran out of time before a token was generated.
    NeverReady { detail: String, log_tail: String },
    /// Died while it was measured.
    Crashed { detail: String, log_tail: String },
    /// Alive, but a request got no answer within its timeout.
    Hung { detail: String, log_tail: String },
    /// Not started: the engine's files are not those that the session was begun with.
    Altered { detail: String },
}

impl Exit {
    /// Whether the engine did what it was started for.
    pub fn is_clean(&self) -> bool {
        matches!(self, Self::Stopped)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arm {
    /// Main, or what `--base` named.
    Base,
    /// The change.
    Head,
}

impl Arm {
    pub const BOTH: [Self; 2] = [Self::Base, Self::Head];

    pub fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Head => "head",
        }
    }
}
