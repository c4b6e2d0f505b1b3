//! One gate in one session of main, and what makes two of them comparable.

use std::collections::BTreeMap;

/// What must be equal for two sessions to be comparable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Of the machine: hardware, driver, kernel.
    pub fingerprint: String,
    pub model: String,
    pub gate: String,
    /// Of the gate's definition, data files and profile included.
    pub gate_hash: String,
    /// The engine's command line, the artifact's place left open.
    pub engine: Vec<String>,
}

/// What one gate measured in one session of main.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub key: Key,
    /// Names the session; equal for all gates of one session.
    pub session: String,
    /// RFC 3339, UTC.
    pub created: String,
    pub commit: Option<String>,
    /// Check id → one value a launch, in the metric's unit.
    pub values: BTreeMap<String, Vec<f64>>,
}
