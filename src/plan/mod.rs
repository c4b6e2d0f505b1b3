//! `gates/*.toml` → [`Plan`]: values with their places, validated types, diagnostics with carets.
//!
//! A plan is read from a directory, or again from the files that a record kept, by the same code, so that
//! a verdict can be recomputed from the record alone.
//!
//! Refuses to know: how a number is measured or judged, and the command line.

mod check;
mod data;
mod diagnostic;
mod engines;
mod files;
mod fit;
mod gate;
mod model;
mod project;
mod quantity;
mod read;
mod section;
mod trace;
mod waivers;
mod workload;

pub use diagnostic::Diagnostic;
pub use engines::contenders;
pub use model::{
    Arrivals, BaselineConfig, Build, CalibrationConfig, Check, Contender, Cooldown, Design, Engine,
    EngineMetrics, FirstRequest, Gate, GoldenCase, GoldenToken, Goldens, Matrix, Mixed, Part, Plan,
    Plausible, Rule, Session, Shape, Slo, Spending, Staggered, Steady, TaskCase, Tasks, Telemetry,
    Trace, TraceEntry, Waiver, Workload, WorkloadKind,
};
pub use read::{
    PlanError, Selection, baseline_config, baseline_directory, find_root, from_directory,
    from_inputs,
};
pub use trace::entries as trace_entries;
