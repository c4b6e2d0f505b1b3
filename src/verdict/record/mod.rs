//! The vocabulary: what every stage of the gate talks about, as plain data with no logic.
//!
//! [`RunRecord`] is everything measured in one session, raw. The verdict is never stored in it and can
//! always be recomputed from it. Words are those of `docs/glossary.md`; times are nanoseconds on the
//! session's monotonic clock, counted from the session's start.
//!
//! Refuses to know: files, clocks, HTTP, how a number is judged or shown.

mod bisection;
mod calibration;
mod client;
mod extent;
mod fingerprint;
mod launch;
mod metric;
mod reason;
mod remark;
mod rest;
mod rule;
mod run;
mod sample;
mod suite;
mod telemetry;
mod unseen;
mod verdict;

pub use bisection::short;
pub use bisection::{
    BISECTION_FORMAT, Bisection, Change, Commit, Conclusion, Finding, Sought, Step, Trial,
};
pub use calibration::{Certified, Citation, LaunchNoise, LearnedNoise, Standing};
pub use client::{ClientHealth, Spread};
pub use fingerprint::machine_changes;
pub use launch::{Arm, Beside, Exit, Interleave, Launch, PageCache, Stage, Startup, by_stage};
pub use metric::{Direction, Metric, MetricKind, Statistic, Unit};
pub use reason::{
    Advice, Cases, Ended, Facts, Failed, Held, Hypothesis, LaunchFact, Limit, LostRequest, Reason,
    Side, StoredSessions, Tested, TooFew, Verdict, Voids,
};
pub use remark::{FirstEvents, Remark, TwoModes};
pub use rest::Rest;
pub use rule::RuleId;
pub use run::{
    Build, ChangedGates, Comparison, Described, Ending, EngineFile, Extent, Input, Isolation,
    Layer, MERGED_FORMAT, Machine, RUN_FORMAT, RunRecord, Shard, StoredBase, UNKNOWN_MACHINE,
};
pub use sample::{
    CacheState, Condition, EARLIER_TURNS, ENDING, FREQUENCY_PENALTY, LEFT_CASE, PRESENCE_PENALTY,
    Phase, STOPS, SYSTEM_MESSAGE, Sample, ServerTimings, Setting, Stamps, TokenCounts,
    TokenLogprob, USUAL_TOKENS_AN_EVENT, Void, VoidRule, WITH, is_blank, is_ignorable,
};
pub use suite::{SuiteEnding, SuiteRun, Test, TestOutcome};
pub use telemetry::{Edge, EngineReading, GpuReading, Reading, Telemetry, Window};
pub use unseen::{is_unseen, visible};
pub use verdict::{
    CellOutcome, CellVerdict, CheckVerdict, Decision, GateVerdict, Rule, RunVerdict, Waiver,
};
