//! The validated plan: what will be launched, sent and checked. Built by `plan::read`, never by hand
//! outside tests; every limit in it is positive and finite, every name resolves.

mod check;
mod workload;

pub use crate::record::Rule;
pub use check::{Bound, Check, EngineSeries, Named, Part, RequestBounds, Slo};
pub use workload::{
    Answers, Arrivals, BAD_REQUESTS, FirstRequest, GoldenCase, GoldenToken, Goldens, Logprobs,
    Matrix, Mixed, PromptBlocks, QUESTIONS, REPEATED, STORIES, Session, Shape, Staggered, Steady,
    Suite, TaskCase, Tasks, TextCase, TextPrompt, Texts, Trace, TraceEntry, TracePrompt, Turn,
    Workload, WorkloadKind,
};

use super::settings::store::BaselineStore;
use crate::record::{Described, Interleave, Launch, PageCache};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A whole session's definition.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub engine: Engine,
    pub telemetry: Telemetry,
    pub design: Design,
    pub baseline: BaselineConfig,
    pub calibration: CalibrationConfig,
    pub host: Host,
    pub gates: Vec<Gate>,
    /// Of these gates' checks.
    pub waivers: Vec<Waiver>,
}

impl Plan {
    /// What checks read of the engine's `/metrics` by name: counters, and gauges.
    pub fn named_series(&self) -> (Vec<EngineSeries>, Vec<EngineSeries>) {
        let (mut counters, mut gauges) = (Vec::new(), Vec::new());
        for check in self.gates.iter().flat_map(|gate| &gate.checks) {
            let Some(named) = &check.part.named else {
                continue;
            };
            let into = match check.metric.is_of_windows() {
                true => &mut counters,
                false => &mut gauges,
            };
            into.extend(named.over.iter().chain([&named.series]).cloned());
        }
        for list in [&mut counters, &mut gauges] {
            list.sort();
            list.dedup();
        }
        (counters, gauges)
    }

    /// The most sound blocks that can tell anything: those of the last look, or fewer where no workload runs in
    /// so many launches.
    pub fn most_blocks(&self) -> u32 {
        let last = self.design.looks.last().copied().unwrap_or_default();
        let wanted = self.gates.iter().map(|gate| gate.blocks_of(last));
        wanted.max().unwrap_or(last)
    }
}

/// What a machine must have; `None` asks for nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Host {
    pub cores: Option<u32>,
    pub memory_bytes: Option<f64>,
    /// Free on the disk of the project.
    pub disk_bytes: Option<f64>,
    pub gpus: Option<u32>,
    /// A part of the GPUs' name.
    pub gpu: Option<String>,
    /// Of each GPU.
    pub gpu_memory_bytes: Option<f64>,
    pub programs: Vec<String>,
    pub caches: Vec<Cached>,
    /// Isolation that builds and engines must have.
    pub sandbox: SandboxSetting,
}

/// `[host] sandbox`: how builds and engines are kept from the gate's files and processes (docs/sandbox.md).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SandboxSetting {
    /// Every layer that the kernel allows.
    #[default]
    Auto,
    Landlock,
    Namespaces,
    /// As this user.
    User(String),
    None,
}

impl fmt::Display for SandboxSetting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => out.write_str("auto"),
            Self::Landlock => out.write_str("landlock"),
            Self::Namespaces => out.write_str("namespaces"),
            Self::User(name) => write!(out, "user:{name}"),
            Self::None => out.write_str("none"),
        }
    }
}

/// What is fetched once and then read by every launch, such as a model's weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Cached {
    /// A file or folder, from the project's root or the user's own folder (`~/`).
    pub path: String,
    /// The least that a whole one has.
    pub bytes: Option<f64>,
    /// The command that fetches it.
    pub warm: String,
}

/// A check that may be red for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiver {
    /// `gate/check`.
    pub check: String,
    pub reason: String,
    /// Who answers for it.
    pub owner: String,
    /// Where it is followed up.
    pub issue: String,
    /// The last day on which it holds, in UTC: `2027-01-15`.
    pub expires: String,
}

/// How the engine under test is built, started and asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Engine {
    pub build: Option<Build>,
    /// Command line that starts the server; `{artifact}` and `{port}` are filled in by launch.
    pub serve: Vec<String>,
    pub env: Vec<(String, String)>,
    /// The model's name in requests.
    pub model: String,
    /// How long a start may take until a token was generated.
    pub ready_timeout: Duration,
    /// How long a request may be silent.
    pub request_timeout: Duration,
    /// Token ids from which random prompts are drawn, as a half-open range; `None`: text prompts only.
    pub prompt_ids: Option<(u32, u32)>,
    /// The engine understands `return_token_ids`: then every token of a stream has its event.
    pub return_token_ids: bool,
    /// The engine can be told to go on to a set length (`ignore_eos`, `min_tokens`).
    pub forces_length: bool,
    /// The engine sends usage at a stream's end when asked to (`stream_options.include_usage`).
    pub stream_usage: bool,
    /// The engine leaves a connection open after an answer. Where it closes it without saying so first, the
    /// next request would be lost.
    pub keep_alive: bool,
    /// Prompts of workloads go over the chat route, as one message of a user.
    pub chat: bool,
    /// Further headers of every request, by name: visible ASCII. No secrets, since they stand in a file of the project.
    pub headers: Vec<(String, String)>,
    /// Further keys of every request, by name.
    pub request: Vec<(String, Value)>,
    /// A `tokenizer.json` of the served model, relative to the project's root: text prompts then have an
    /// exact length, and outputs are counted by the client too.
    pub tokenizer: Option<PathBuf>,
    /// Files that the engine reads at its start, for gates about the page cache and to tell one engine from
    /// another: paths relative to the project's root; `{artifact}` is the built file.
    pub files: Vec<String>,
    /// Gauge of the engine's `/metrics` with a label `stage` and the seconds that each start-up stage took.
    pub startup_metric: Option<String>,
    /// Names of the engine's own metrics.
    pub metrics: EngineMetrics,
    pub plausible: Plausible,
}

/// Names in the engine's Prometheus exposition, without labels; what has several label sets is summed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineMetrics {
    pub kv_bytes: Option<String>,
    pub kv_usage: Option<String>,
    pub running: Option<String>,
    pub waiting: Option<String>,
    pub preemptions: Option<String>,
    pub prefix_hits: Option<String>,
    pub prefix_queries: Option<String>,
}

impl EngineMetrics {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What no engine on this machine can undercut; `None`: nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Plausible {
    /// Least time per output token, ms: for example bytes of weights / memory bandwidth.
    pub tpot_floor_ms: Option<f64>,
    /// Least time per computed prompt token, µs.
    pub prefill_floor_us: Option<f64>,
}

/// An engine that is compared with others, and what a reader of the comparison must know of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Contender {
    /// The name in the table, and of its folder of results.
    pub name: String,
    /// Never built by us.
    pub engine: Engine,
    pub described: Described,
}

/// How an artifact comes from sources.
#[derive(Clone, Debug, PartialEq)]
pub struct Build {
    pub command: Vec<String>,
    pub env: Vec<(String, String)>,
    /// Path of the built artifact relative to the tree that was built.
    pub artifact: PathBuf,
    pub timeout: Duration,
}

/// Fewer launches an arm than this carry no t-test.
pub const LAUNCHES: u32 = 4;
/// … and fewer than this, where calibration has shown how much they vary.
pub const CALIBRATED_LAUNCHES: u32 = 3;

/// Design of the session: looks, error budgets, time.
#[derive(Clone, Debug, PartialEq)]
pub struct Design {
    pub profile: String,
    /// Gates that run where none is named; empty: all.
    pub gates: Vec<String>,
    /// Numbers of sound blocks after which the judge looks, rising; the last is the cap.
    pub looks: Vec<u32>,
    /// False-alarm budget of the whole run (Holm over checks).
    pub alpha: f64,
    /// Chance that a check passes although its effect is at the ceiling.
    pub beta: f64,
    /// How the looks share the two budgets.
    pub spending: Spending,
    /// Wall time for measuring; at its end the session stops as it stands.
    pub budget: Duration,
    /// How long a launch may run until what it has so far is saved too.
    pub checkpoint_every: Duration,
    /// `None`: no launch waits for the machine to cool.
    pub cooldown: Option<Cooldown>,
    /// What base and head take turns in, where a gate bears it.
    pub interleave: Interleave,
}

/// Which part of an error budget each look has. The docs tell when which is better (docs/decisions/0016).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spending {
    /// Equal parts, as if the looks knew nothing of one another.
    Bonferroni,
    /// Much of it early.
    #[default]
    Pocock,
    /// Nearly all of it late.
    ObrienFleming,
}

impl Spending {
    pub const ALL: [Self; 3] = [Self::Bonferroni, Self::Pocock, Self::ObrienFleming];

    /// The name in gate files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bonferroni => "bonferroni",
            Self::Pocock => "pocock",
            Self::ObrienFleming => "obrien-fleming",
        }
    }

    /// The one that was there before there was a choice.
    pub fn equal() -> Self {
        Self::Bonferroni
    }

    /// Whether it is that one.
    pub fn is_equal(&self) -> bool {
        *self == Self::Bonferroni
    }
}

/// Waiting for the machine to be as it is under sustained load, before each launch is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Cooldown {
    /// The most that all launches of a session wait together.
    pub budget: Duration,
    /// Load before the reference is taken: a fresh machine is faster than it can stay.
    pub burst: Duration,
    /// A probe this much slower than the arm's reference means: still hot.
    pub within: f64,
    /// Time between two probes.
    pub pause: Duration,
}

/// What is read beside the launches.
#[derive(Clone, Debug, PartialEq)]
pub struct Telemetry {
    /// Time between readings.
    pub every: Duration,
    /// `host:port/path` of a Prometheus exporter of GPU values (NVIDIA's DCGM exporter), for machines where
    /// NVML cannot be asked.
    pub gpu_exporter: Option<String>,
    /// Processors' worth of other processes' work above which a launch is disturbed; `None`: told only.
    pub others_cpu: Option<f64>,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self {
            every: Duration::from_millis(250),
            gpu_exporter: None,
            others_cpu: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaselineConfig {
    /// Directory of the store, relative to the project's root.
    pub directory: PathBuf,
    /// Stored sessions older than this carry no verdict.
    pub max_age_days: u32,
    /// The frozen release that main is recorded beside: a git ref.
    pub anchor: Option<String>,
    /// Where CI keeps main's records beyond one machine.
    pub store: Option<BaselineStore>,
    /// Records older than this may be pruned; `None`: none is.
    pub keep_days: Option<u32>,
}

/// Where certificates are kept and how long they hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalibrationConfig {
    /// Directory of the certificates, relative to the project's root.
    pub directory: PathBuf,
    /// Certificates older than this are not cited.
    pub max_age_days: u32,
}

impl Default for CalibrationConfig {
    fn default() -> Self {
        Self {
            directory: ".gate/calibration".into(),
            max_age_days: 90,
        }
    }
}

/// One gate: what to send and what must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    pub name: String,
    pub title: String,
    /// File that defines it, relative to the project's root.
    pub file: String,
    /// Hex SHA-256 of its definition (file text, data files and profile): part of a baseline's key.
    pub hash: String,
    /// Extra arguments to the engine; gates with equal ones share launches.
    pub engine_args: Vec<String>,
    /// State of the page cache that the engine's files must have at its start; part of the same.
    pub page_cache: Option<PageCache>,
    /// What base and head take turns in: requests, where the profile says so and nothing that the gate measures is changed
    /// by an engine that waits beside; part of the same.
    pub interleave: Interleave,
    pub workloads: Vec<Workload>,
    pub checks: Vec<Check>,
}

impl Gate {
    /// Whether one launch of the engine serves both.
    pub fn shares_launches_with(&self, other: &Self) -> bool {
        self.engine_args == other.engine_args
            && self.page_cache == other.page_cache
            && self.interleave == other.interleave
    }

    /// Blocks of `all` in which some workload of the gate runs.
    pub fn blocks_of(&self, all: u32) -> u32 {
        let limits = self.workloads.iter().map(|workload| workload.launches);
        limits
            .map(|limit| limit.unwrap_or(all))
            .max()
            .unwrap_or(all)
            .min(all)
    }

    /// Whether the launch's engine was started as the gate asks.
    pub fn is_run_by(&self, launch: &Launch) -> bool {
        launch.engine_args == self.engine_args
            && launch.page_cache == self.page_cache
            && launch.interleave == self.interleave
    }
}
