//! A case of a replay set, the exchange format `gate-replay/1`, as a record that can be judged.
//!
//! Main functions: [`manifest`], [`case`]. A set holds `manifest.json` with the gate's numbers, and a folder a
//! case: `launches.csv`, `samples.jsonl` (one line a launch, raw values with their warm-up) and `history.csv`
//! (main's stored sessions). A latency becomes the gap between the two tokens of an answer, a counter what
//! telemetry read of the engine: so the values pass every rule that a session's own pass.
//!
//! Refuses to know: files, verdicts, and what a case should be judged as.

mod gate;
mod launches;
mod rows;
#[cfg(test)]
mod tests;

use super::record::empty;
use gate::{GateNumbers, inputs};
use launches::{launches, samples};
use rows::Rows;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use verdict::record::{RunRecord, StoredBase};

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
}

impl Manifest {
    /// Shares the budgets otherwise than the set says.
    pub fn spend(&mut self, spending: &str) {
        spending.clone_into(&mut self.gate.spending);
    }
}

/// The texts of a case's files.
#[derive(Clone, Copy, Debug)]
pub struct CaseFiles<'a> {
    pub launches: &'a str,
    pub samples: &'a str,
    pub history: &'a str,
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

/// Reads `manifest.json`.
pub fn manifest(text: &str) -> Result<Manifest, ReplayError> {
    let file = "manifest.json";
    let wrong = |line, what| ReplayError { file, line, what };
    let manifest: Manifest = serde_json::from_str(text).map_err(|error| {
        let what = format!("{error}; it is made by the set's generator");
        wrong(error.line(), what)
    })?;
    if manifest.format != FORMAT {
        let what = format!(
            "the format is {:?}, and {FORMAT:?} can be read",
            manifest.format
        );
        return Err(wrong(0, what));
    }
    // A case is a folder's name, and leads nowhere else.
    let is_name = |case: &&String| !case.is_empty() && !case.contains(['/', '\\']) && *case != "..";
    match manifest.cases.iter().find(|case| !is_name(case)) {
        Some(case) => Err(wrong(0, format!("{case:?} is no name of a case's folder"))),
        None => Ok(manifest),
    }
}

/// A case as a session: its launches, main's stored sessions, and the files of its plan.
pub fn case(manifest: &Manifest, files: &CaseFiles<'_>) -> Result<RunRecord, ReplayError> {
    let metrics = samples(files.samples)?;
    let mut record = empty(FORMAT.to_owned(), DAY.to_owned());
    record.launches = launches(files.launches, &metrics, manifest.gate.warmup_requests)?;
    if let Some(first) = record.launches.first() {
        record.machine.fingerprint.clone_from(&first.fingerprint);
    }
    let measured: BTreeSet<Values> = metrics.values().flat_map(BTreeMap::keys).copied().collect();
    if measured.contains(&Values::Tpot) {
        record.stored = history(files.history)?;
    }
    record.profile = GATE.to_owned();
    record.gates = vec![GATE.to_owned()];
    record.inputs = inputs(&manifest.gate, &measured);
    Ok(record)
}

/// Main's stored sessions: the median of each launch, ms per token.
fn history(text: &str) -> Result<Vec<StoredBase>, ReplayError> {
    let mut sessions: Vec<StoredBase> = Vec::new();
    for row in Rows::read("history.csv", text)? {
        let (id, fingerprint) = (row.text("session")?, row.text("fingerprint")?);
        let ms: f64 = row.number::<f64>("tpot_us_median")? / 1e3;
        if sessions.last().is_none_or(|last| last.id != id) {
            sessions.push(StoredBase {
                id,
                created: DAY.to_owned(),
                commit: None,
                fingerprint,
                values: BTreeMap::new(),
            });
        }
        if let Some(session) = sessions.last_mut() {
            let values = session.values.entry(format!("{GATE}/tpot")).or_default();
            values.push(ms);
        }
    }
    Ok(sessions)
}
