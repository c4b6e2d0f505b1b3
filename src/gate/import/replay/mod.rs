//! A case of a replay set, the exchange format `gate-replay/1`, as a record that can be judged.
//!
//! Main functions: [`manifest`], [`case()`]. A set holds `manifest.json` with the gate's numbers, and a folder a
//! case: `launches.csv`, `samples.jsonl` (one line a launch, raw values with their warm-up), `history.csv`
//! (main's stored sessions) and, where the machine is calibrated, `calibration.csv` (blocks of A/A sessions). A latency becomes the gap between the two tokens of an answer, a counter what
//! telemetry read of the engine: so the values pass every rule that a session's own pass.
//!
//! Refuses to know: files, verdicts, and what a case should be judged as.

mod case;
mod gate;
mod launches;
mod rows;
#[cfg(test)]
mod tests;

pub use case::{calibration_blocks, case, manifest};

use gate::GateNumbers;
use serde::Deserialize;
use std::collections::BTreeMap;
use verdict::record::{LaunchNoise, Statistic};

const FORMAT: &str = "gate-replay/1";
const GATE: &str = "replay";
const WORKLOAD: &str = "replay/requests";
/// Stored sessions of the format have no dates: they count as new.
const DAY: &str = "1970-01-01T00:00:00Z";

/// What is wrong with a file of the set: the line (0: the whole file), the cause, the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {what}", place(.file, *.line))]
pub struct ReplayError {
    pub file: &'static str,
    pub line: usize,
    pub what: String,
}

fn place(file: &str, line: usize) -> String {
    match line {
        0 => file.to_owned(),
        line => format!("{file}:{line}"),
    }
}

/// A set: its cases and how they are judged.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Manifest {
    format: String,
    /// Folders under `cases/`.
    pub cases: Vec<String>,
    gate: GateNumbers,
    #[serde(default)]
    metrics: BTreeMap<Values, Declared>,
}

/// What a set says of its values.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Declared {
    /// How a launch's values become one, by its name in gate files; left out: as in gate files.
    statistic: Option<String>,
    /// Instead: the share of requests whose time per token is within this bound, as of `goodput` in gate files.
    slo: Option<String>,
}

impl Manifest {
    /// Shares the budgets otherwise than the set says.
    pub fn spend(&mut self, spending: &str) {
        spending.clone_into(&mut self.gate.spending);
    }

    /// How a launch's values become one, where the set says.
    fn statistic(&self, values: Values) -> Option<&str> {
        self.metrics.get(&values)?.statistic.as_deref()
    }

    fn slo(&self, values: Values) -> Option<&str> {
        self.metrics.get(&values)?.slo.as_deref()
    }

    /// Whether launches' medians are judged, which main's stored sessions and calibration hold and no others.
    fn judges_medians(&self) -> bool {
        let median = Statistic::Median.name();
        let is_median = self.statistic(Values::Tpot).is_none_or(|s| s == median);
        is_median && self.slo(Values::Tpot).is_none()
    }
}

/// The texts of a case's files.
#[derive(Clone, Copy, Debug)]
pub struct CaseFiles<'a> {
    pub launches: &'a str,
    pub samples: &'a str,
    pub history: &'a str,
    /// What calibration knows of the machine.
    pub noise: Option<LaunchNoise>,
}

/// What the format's values become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
enum Values {
    /// Microseconds per output token, one value a request.
    #[serde(rename = "tpot_us")]
    Tpot,
    /// Bytes of KV cache in use, one value a reading.
    #[serde(rename = "kv_bytes")]
    KvBytes,
}

impl Values {
    /// The key of the set's files.
    fn key(self) -> &'static str {
        match self {
            Self::Tpot => "tpot_us",
            Self::KvBytes => "kv_bytes",
        }
    }
}
