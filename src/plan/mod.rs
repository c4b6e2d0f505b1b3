//! `gates/*.toml` → [`Plan`]: values with their places, validated types, diagnostics with carets.
//!
//! A plan is read from a directory, or again from the files that a record kept, by the same code, so that
//! a verdict can be recomputed from the record alone.
//!
//! Refuses to know: how a number is measured or judged, and the command line.

mod data;
mod diagnostic;
mod files;
mod gate;
mod model;
mod project;
mod quantity;
mod read;
mod section;

pub use diagnostic::Diagnostic;
pub use model::{
    BaselineConfig, Build, Check, Design, Engine, Gate, GoldenCase, GoldenToken, Goldens, Plan,
    Rule, Session, Steady, TaskCase, Tasks, Workload, WorkloadKind,
};
pub use read::{PlanError, Selection, baseline_directory, find_root, from_directory, from_inputs};
