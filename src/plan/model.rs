//! The validated plan: what will be launched, sent and checked. Built by `plan::read`, never by hand
//! outside tests; every limit in it is positive and finite, every name resolves.

use super::store::BaselineStore;
use crate::record::{CacheState, Metric, PageCache, Statistic};
use std::collections::BTreeMap;
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
    /// How its weights are quantised; `None`: they are not.
    pub quantised: Option<String>,
    /// The precision that it computes in; `None`: not said.
    pub precision: Option<String>,
    pub tags: Vec<String>,
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
}

/// Which part of an error budget each look has. The docs tell when which is better (docs/decisions/0016).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spending {
    /// Equal parts, as if the looks knew nothing of one another.
    #[default]
    Bonferroni,
    /// Much of it early.
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
    pub workloads: Vec<Workload>,
    pub checks: Vec<Check>,
}

/// A named stream of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// `gate/workload`.
    pub id: String,
    /// Only the first so many launches of each arm run it; `None`: all.
    pub launches: Option<u32>,
    pub kind: WorkloadKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum WorkloadKind {
    Steady(Steady),
    Mixed(Mixed),
    Trace(Trace),
    FirstRequest(FirstRequest),
    Matrix(Matrix),
    Staggered(Staggered),
    Session(Session),
    Goldens(Goldens),
    Tasks(Tasks),
}

/// When requests that do not depend on each other are sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// So many in flight; each slot sends its next as soon as its last was answered.
    Closed { concurrency: u32 },
    /// An open loop: exponential gaps with this mean rate, requests a second.
    Poisson { rate: f64 },
    /// An open loop: equal gaps.
    Constant { rate: f64 },
    /// An open loop: so many at once, again and again.
    Burst { size: u32, every: Duration },
    /// An open loop: these moments from the start, rising.
    Recorded { at: Vec<Duration> },
}

/// Independent requests of one shape with forced output length, unique prompts, streamed.
#[derive(Clone, Debug, PartialEq)]
pub struct Steady {
    pub requests: u32,
    /// Further requests sent first and kept out of every metric.
    pub warmup: u32,
    pub prompt_tokens: u32,
    pub output_tokens: u32,
    pub arrivals: Arrivals,
}

/// Independent requests of several shapes, drawn by weight: a soak.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixed {
    pub requests: u32,
    pub warmup: u32,
    /// At least one.
    pub shapes: Vec<Shape>,
    pub arrivals: Arrivals,
    /// The last moment, from the start, at which a request is sent.
    pub duration: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    pub prompt_tokens: u32,
    pub output_tokens: u32,
    /// Share of requests, relative to the other shapes'.
    pub weight: u32,
    /// Streamed, or answered whole.
    pub streamed: bool,
}

/// Recorded traffic, replayed: lengths and moments of real requests, with prompts of our own.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// In the order of their moments.
    pub entries: Vec<TraceEntry>,
    /// First entries that no metric counts.
    pub warmup: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceEntry {
    /// From the trace's start, the configured speed-up applied.
    pub at: Duration,
    pub prompt_tokens: u32,
    pub output_tokens: u32,
}

/// One request, the first that the engine gets after it became ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstRequest {
    pub prompt_tokens: u32,
    pub output_tokens: u32,
}

/// Every combination of batch, cache, streaming and context, several times over, in a random order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix {
    pub batches: Vec<u32>,
    pub caches: Vec<CacheState>,
    pub streamed: Vec<bool>,
    /// Prompt tokens.
    pub contexts: Vec<u32>,
    pub output_tokens: u32,
    /// Repetitions of each cell.
    pub passes: u32,
    /// Requests that each of the batch's slots sends in a row within one pass.
    pub rounds: u32,
    /// Requests sent before the first cell.
    pub warmup: u32,
}

/// Users that arrive one after another, measured alone in turn and together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staggered {
    pub users: u32,
    /// Time between two arrivals.
    pub offset: Duration,
    pub prompt_tokens: u32,
    pub output_tokens: u32,
    pub passes: u32,
    pub warmup: u32,
}

/// One conversation over the chat route; each turn sends the whole history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub turns: u32,
    /// First turns that no metric counts.
    pub warmup_turns: u32,
    pub message_words: u32,
    pub reply_tokens: u32,
    /// Time from one turn's intended moment to the next; `None`: as soon as the last was answered.
    pub spacing: Option<Duration>,
    /// The last moment, from the start, at which a turn begins.
    pub duration: Option<Duration>,
}

/// Greedy and teacher-forced comparison with a reference implementation's output.
#[derive(Clone, Debug, PartialEq)]
pub struct Goldens {
    pub cases: Vec<GoldenCase>,
    /// A first divergence where the reference's two best tokens lie closer than this is no mismatch.
    pub near_tie_nats: f64,
    /// How many best tokens to ask for.
    pub top_k: u32,
    /// Text of the token ids that the cases' `top` lists name, by which an engine's answer is told.
    /// Ids of the cases' own tokens need not be repeated here.
    pub texts: BTreeMap<u32, String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct GoldenCase {
    pub id: String,
    pub prompt_ids: Vec<u32>,
    pub ignore_eos: bool,
    pub tokens: Vec<GoldenToken>,
    pub text: String,
    /// `stop` or `length`.
    pub finish: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct GoldenToken {
    pub id: u32,
    pub text: String,
    pub logprob: f64,
    /// Best token ids with their log-probabilities, best first.
    pub top: Vec<(u32, f64)>,
}

/// Problems with one right answer, over the chat route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tasks {
    pub cases: Vec<TaskCase>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskCase {
    pub id: String,
    pub task: String,
    /// (role, content)
    pub messages: Vec<(String, String)>,
    /// The whole answer, compared after trimming white space.
    pub expect: String,
    pub max_tokens: u32,
}

/// One rule of a gate on one metric of one workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// `gate/check`.
    pub id: String,
    /// The [`Workload::id`] whose samples it reads.
    pub workload: String,
    /// Which of them.
    pub part: Part,
    pub metric: Metric,
    pub statistic: Statistic,
    pub rule: Rule,
    /// Samples that a launch must have, warm-up left out; fewer make the check invalid.
    pub min_samples: u32,
    /// Line of the rule in the gate's file, for annotations.
    pub line: u32,
}

/// A part of a workload's samples; `None` in all: the whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    pub batch: Option<u32>,
    pub context: Option<u32>,
    pub cache: Option<CacheState>,
    pub streamed: Option<bool>,
    /// Of [`Metric::Stage`]: the stage's name.
    pub stage: Option<String>,
    /// Of [`Metric::Goodput`]: bounds in milliseconds that a good request keeps, at least one.
    pub slo: Option<Slo>,
}

/// Bounds that a request must keep, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slo {
    pub ttft_ms: Option<f64>,
    pub tpot_ms: Option<f64>,
    pub e2e_ms: Option<f64>,
}

/// Limits are in the metric's unit; margins are fractions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Head against base: fails when worse by more than `margin`, passes when shown to be worse by
    /// less than `ceiling`.
    Regression { margin: f64, ceiling: f64 },
    /// Head's value must not exceed `limit`.
    Ceiling { limit: f64 },
    /// Head's value must reach `limit`.
    Floor { limit: f64 },
}
