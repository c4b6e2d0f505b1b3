//! A case of a replay set, from its files to a record.

use super::gate::inputs;
use super::launches::{launches, samples};
use super::rows::Rows;
use super::{CaseFiles, DAY, FORMAT, GATE, Manifest, ReplayError, Values};
use crate::import::record::empty;
use std::collections::{BTreeMap, BTreeSet};
use verdict::record::{
    Certified, Citation, LaunchNoise, RunRecord, Standing, Statistic, StoredBase,
};

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
    for (values, declared) in &manifest.metrics {
        let known = statistics();
        let unknown = |name: &&String| !known.contains(&name.as_str());
        if let Some(name) = declared.statistic.as_ref().filter(unknown) {
            let what = format!(
                "`metrics.{}.statistic` is {name:?}; use one of {}, or leave it out",
                values.key(),
                known.join(", ")
            );
            return Err(wrong(0, what));
        }
        let is_of_times = *values == Values::Tpot && declared.statistic.is_none();
        if declared.slo.is_some() && !is_of_times {
            let what = format!(
                "`metrics.{}.slo` is a bound on `tpot_us` without a `statistic`; leave one of them out",
                values.key()
            );
            return Err(wrong(0, what));
        }
    }
    // A case is a folder's name, and leads nowhere else.
    let is_name = |case: &&String| !case.is_empty() && !case.contains(['/', '\\']) && *case != "..";
    match manifest.cases.iter().find(|case| !is_name(case)) {
        Some(case) => Err(wrong(0, format!("{case:?} is no name of a case's folder"))),
        None => Ok(manifest),
    }
}

/// Those of many values a launch.
fn statistics() -> Vec<&'static str> {
    let many = Statistic::ALL
        .into_iter()
        .filter(|s| *s != Statistic::Single);
    many.map(Statistic::name).collect()
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
    if measured.contains(&Values::Tpot) && manifest.judges_medians() {
        record.stored = history(files.history)?;
    }
    record.profile = GATE.to_owned();
    record.gates = vec![GATE.to_owned()];
    record.inputs = inputs(manifest, &measured);
    let noise = files.noise.filter(|_| manifest.judges_medians());
    record.calibration = noise.map(cited).into_iter().collect();
    Ok(record)
}

fn cited(noise: LaunchNoise) -> Citation {
    Citation {
        gate: GATE.to_owned(),
        standing: Standing::Valid(Certified {
            created: DAY.to_owned(),
            sessions: 0,
            false_alarms: 0,
            interval: (0.0, 1.0),
            blocks: 0,
            effects: BTreeMap::new(),
            noise: BTreeMap::from([(format!("{GATE}/tpot"), noise)]),
        }),
        learned: None,
    }
}

/// The blocks of A/A sessions, session by session: logarithms of base and head.
pub fn calibration_blocks(text: &str) -> Result<Vec<Vec<(f64, f64)>>, ReplayError> {
    let mut sessions: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for row in Rows::read("calibration.csv", text)? {
        let id = row.text("session")?;
        let [base, head] = ["base_us", "head_us"].map(|column| row.number::<f64>(column));
        let block = (base?.ln(), head?.ln());
        match sessions.last_mut().filter(|(last, _)| *last == id) {
            Some((_, blocks)) => blocks.push(block),
            None => sessions.push((id, vec![block])),
        }
    }
    Ok(sessions.into_iter().map(|(_, blocks)| blocks).collect())
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
