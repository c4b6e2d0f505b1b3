//! The validated plan: what will be launched, sent and checked. Built by `plan::read`, never by hand
//! outside tests; every limit in it is positive and finite, every name resolves.

use crate::record::{Metric, Statistic};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// A whole session's definition.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub engine: Engine,
    pub design: Design,
    pub baseline: BaselineConfig,
    pub gates: Vec<Gate>,
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
    /// Gauge of the engine's `/metrics` with a label `stage` and the seconds that each start-up stage took.
    pub startup_metric: Option<String>,
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
    /// Numbers of sound blocks after which the judge looks, rising; the last is the cap.
    pub looks: Vec<u32>,
    /// False-alarm budget of the whole run (Holm over checks).
    pub alpha: f64,
    /// Chance that a check passes although its effect is at the ceiling.
    pub beta: f64,
    /// Wall time for measuring; at its end the session stops as it stands.
    pub budget: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaselineConfig {
    /// Directory of the store, relative to the project's root.
    pub directory: PathBuf,
    /// Stored sessions older than this carry no verdict.
    pub max_age_days: u32,
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
    Session(Session),
    Goldens(Goldens),
    Tasks(Tasks),
}

/// Independent requests of one shape with forced output length, unique prompts, streamed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steady {
    pub requests: u32,
    /// Further requests sent first and kept out of every metric.
    pub warmup: u32,
    pub prompt_tokens: u32,
    pub output_tokens: u32,
    /// Requests in flight.
    pub concurrency: u32,
}

/// One conversation over the chat route; each turn sends the whole history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub turns: u32,
    /// First turns that no metric counts.
    pub warmup_turns: u32,
    pub message_words: u32,
    pub reply_tokens: u32,
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
    pub metric: Metric,
    pub statistic: Statistic,
    pub rule: Rule,
    /// Samples that a launch must have, warm-up left out; fewer make the check invalid.
    pub min_samples: u32,
    /// Line of the rule in the gate's file, for annotations.
    pub line: u32,
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
