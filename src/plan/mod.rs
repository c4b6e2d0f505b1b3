//! `gates/*.toml` → [`Plan`]: raw serde types with spans, validated types, diagnostics with carets.

mod model;

pub use model::{
    BaselineConfig, Build, Check, Design, Engine, Gate, GoldenCase, GoldenToken, Goldens, Plan,
    Rule, Session, Steady, TaskCase, Tasks, Workload, WorkloadKind,
};
