//! `gates/*.toml` → [`Plan`]: values with their places, validated types, diagnostics with carets.
//!
//! A plan is read from a directory, or again from the files that a record kept, by the same code, so that
//! a verdict can be recomputed from the record alone.
//!
//! Refuses to know: how a number is measured or judged, and the command line.

mod cost;
mod gates;
mod model;
mod read;
mod settings;
mod source;

pub use cost::estimate::effort;
pub use cost::least::{RECORDED_BLOCKS, TooLong, least_s, least_session_s, refuse_too_long};
pub use cost::shards::{Piece, ShardPlan, shards};
pub use gates::compatibility::{MIN_SAMPLES, lack};
pub use gates::goldens::read as read_goldens;
pub use gates::trace::{TraceLine, TurnLine, conversations, entries as trace_entries};
pub use model::{
    Answers, Arrivals, BAD_REQUESTS, BaselineConfig, Bound, Build, CALIBRATED_LAUNCHES, Cached,
    CalibrationConfig, Check, Contender, Cooldown, Design, Engine, EngineMetrics, EngineSeries,
    FirstRequest, Gate, GoldenCase, GoldenToken, Goldens, Host, LAUNCHES, Logprobs, Matrix, Mixed,
    Named, Part, Plan, Plausible, PromptBlocks, QUESTIONS, REPEATED, RequestBounds, Rule, STORIES,
    SandboxSetting, Session, Shape, Slo, Spending, Staggered, Steady, Suite, TaskCase, Tasks,
    Telemetry, TextCase, TextPrompt, Texts, Trace, TraceEntry, TracePrompt, Turn, Waiver, Workload,
    WorkloadKind,
};
pub use read::{
    GitHubRules, PlanError, Selection, baseline_config, baseline_directory, calibration_config,
    engine_config, find_root, from_directory, from_inputs, from_record, gates_not_run,
    github_config, github_rules, refuse_unfilled,
};
pub use settings::engines::contenders;
pub use settings::github::{Comments, Conclusion, DEFAULT_NAME, Forks, GitHubConfig};
pub use settings::labels::{LabelRule, Needed};
pub use settings::project::{CLIENT_HEADERS, REQUEST_KEYS};
pub use settings::store::BaselineStore;
pub use settings::waivers::WAIVERS_FILE;
pub use source::diagnostic::Diagnostic;
