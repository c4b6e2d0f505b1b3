//! The vocabulary: what every stage of the gate talks about, as plain data with no logic.
//!
//! [`RunRecord`] is everything measured in one session, raw. The verdict is never stored in it and can
//! always be recomputed from it. Words are those of `docs/glossary.md`; times are nanoseconds on the
//! session's monotonic clock, counted from the session's start.
//!
//! Refuses to know: files, clocks, HTTP, how a number is judged or shown.

mod launch;
mod metric;
mod run;
mod sample;
mod verdict;

pub use launch::{Exit, Launch, Stage, Startup};
pub use metric::{Direction, Metric, MetricKind, Statistic, Unit};
pub use run::{Arm, Build, Comparison, Ending, Input, Machine, RUN_FORMAT, RunRecord, StoredBase};
pub use sample::{Phase, Sample, ServerTimings, Stamps, TokenCounts, TokenLogprob, Void, VoidRule};
pub use verdict::{CheckVerdict, Decision, GateVerdict, Reason, RunVerdict, Verdict};
