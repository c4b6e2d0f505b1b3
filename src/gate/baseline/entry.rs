//! One gate in one session of main, and what makes two of them comparable.

use super::sign_off::SignOff;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What must be equal for two sessions to be comparable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// `None` in records of format 1, which did not say.
    pub profile: Option<String>,
    /// Check id → one value a launch, in the metric's unit.
    pub values: BTreeMap<String, Vec<f64>>,
    /// The frozen release that was launched in turn with main, where there was one.
    pub anchor: Option<Anchor>,
    /// What a launch's time went to, in the mean; `None` in records of formats 1 and 2.
    pub spent: Option<Spent>,
    /// Who vouches for it; `None` in records of formats 1 and 2.
    pub sign_off: Option<SignOff>,
}

/// Seconds of one launch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spent {
    /// Starting and stopping the engine, resting before it: all that gates which share launches share.
    pub start_s: f64,
    /// This gate's own requests.
    pub work_s: f64,
}

/// A frozen release beside main: what both share, the machine's mood above all, cancels in their ratio.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Anchor {
    /// The git ref as it was named.
    pub name: String,
    /// Full id of its commit.
    pub commit: String,
    /// Check id → one value a launch of the release, in the metric's unit.
    pub values: BTreeMap<String, Vec<f64>>,
}
