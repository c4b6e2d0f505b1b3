//! `verdict.json`, format `infergate-verdict/1`: own copies of the types, so that the format stays when
//! the vocabulary changes. Reference: docs/formats.md.

use super::pretty::pretty_json;
use super::reasons;
use serde::Serialize;
use std::collections::BTreeMap;
use verdict::record::{
    CellVerdict, CheckVerdict, Citation, Comparison, Extent, GateVerdict, Rule, RunRecord,
    RunVerdict, Standing,
};

const FORMAT: &str = "infergate-verdict/1";

#[derive(Serialize)]
struct JsonRun<'a> {
    format: &'static str,
    verdict: &'static str,
    summary: String,
    profile: &'a str,
    comparison: &'static str,
    blocks: u32,
    launches: usize,
    elapsed_s: f64,
    saved_s: f64,
    commits: Vec<JsonCommit<'a>>,
    /// Of a run over several machines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shards: Vec<Shard<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    calibration: Option<Calibration<'a>>,
    gates: Vec<Gate<'a>>,
}

#[derive(Serialize)]
struct Shard<'a> {
    gates: &'a [String],
    /// Its fingerprint.
    machine: &'a str,
}

#[derive(Serialize)]
struct JsonCommit<'a> {
    arm: &'static str,
    commit: Option<&'a str>,
    dirty: bool,
}

/// What is known of the machine's own noise; absent in records of sessions that looked for nothing.
#[derive(Serialize)]
struct Calibration<'a> {
    /// As the other reports say it.
    cited: Vec<String>,
    gates: Vec<Calibrated<'a>>,
}

#[derive(Serialize)]
struct Calibrated<'a> {
    gate: &'a str,
    /// `valid`, `void` or `missing`.
    standing: &'static str,
    created: Option<&'a str>,
    /// A/A sessions, and those of them that failed.
    sessions: Option<u32>,
    false_alarms: Option<u32>,
    /// Of their rate; fractions.
    interval: Option<(f64, f64)>,
    /// Check id → the smallest change found after `blocks` blocks with 95 % power.
    blocks: Option<u32>,
    smallest_effects: Option<&'a BTreeMap<String, f64>>,
}

#[derive(Serialize)]
struct Gate<'a> {
    gate: &'a str,
    title: &'a str,
    verdict: &'static str,
    checks: Vec<Check<'a>>,
}

/// What a value is held against: fractions of base's, or a value in the metric's unit.
#[derive(Serialize)]
#[serde(untagged)]
enum JsonLimit {
    Change { margin: f64, ceiling: f64 },
    AtMost { at_most: f64 },
    AtLeast { at_least: f64 },
}

#[derive(Serialize)]
struct Check<'a> {
    id: &'a str,
    metric: &'static str,
    statistic: &'static str,
    verdict: &'static str,
    rule: &'static str,
    reason: String,
    base: Option<f64>,
    head: Option<f64>,
    /// Relative: 0.03 is +3 %.
    change: Option<f64>,
    interval: Option<(f64, f64)>,
    limit: JsonLimit,
    p_fail: Option<f64>,
    p_pass: Option<f64>,
    base_launches: u32,
    head_launches: u32,
    smallest_effect: Option<f64>,
    notes: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cells: Vec<JsonCell>,
    waiver: Option<Waiver<'a>>,
}

/// One cell of a matrix.
#[derive(Serialize)]
struct JsonCell {
    batch: u32,
    cache: &'static str,
    context: u32,
    streamed: bool,
    /// `OK`, `WARN` or `FAIL`.
    outcome: &'static str,
    e2e_ms: Option<f64>,
}

/// Where one is not expired, a failure by the check's own rule and an open check do not count.
#[derive(Serialize)]
struct Waiver<'a> {
    reason: &'a str,
    owner: &'a str,
    issue: &'a str,
    expires: &'a str,
    expired: bool,
}

/// The verdict as JSON, with a newline at its end. Deterministic.
pub fn verdict_json(record: &RunRecord, verdict: &RunVerdict) -> String {
    let run = JsonRun {
        format: FORMAT,
        verdict: verdict.verdict.name(),
        summary: reasons::summary(verdict),
        profile: &record.profile,
        comparison: comparison(record),
        blocks: verdict.blocks,
        launches: record.launches.len(),
        elapsed_s: record.elapsed_s,
        saved_s: verdict.saved_s,
        commits: commits(record),
        shards: shards(record),
        calibration: calibration(record),
        gates: verdict.gates.iter().map(gate).collect(),
    };
    pretty_json(&run)
}

pub fn comparison(record: &RunRecord) -> &'static str {
    match record.comparison {
        Comparison::Interleaved => "interleaved",
        Comparison::SameBuild => "same-build",
        Comparison::Stored => "stored",
        Comparison::Alone => "alone",
        Comparison::Anchored => "anchored",
    }
}

fn commits(record: &RunRecord) -> Vec<JsonCommit<'_>> {
    record
        .builds
        .iter()
        .map(|build| JsonCommit {
            arm: build.arm.name(),
            commit: build.commit.as_deref(),
            dirty: build.dirty,
        })
        .collect()
}

fn shards(record: &RunRecord) -> Vec<Shard<'_>> {
    let Extent::Merged { shards } = &record.extent else {
        return Vec::new();
    };
    let shards = shards.iter().map(|shard| Shard {
        gates: &shard.gates,
        machine: &shard.machine.fingerprint,
    });
    shards.collect()
}

fn calibration(record: &RunRecord) -> Option<Calibration<'_>> {
    let gates: Vec<_> = record.calibration.iter().map(calibrated).collect();
    let cited = super::citation::citations(record);
    (!gates.is_empty()).then_some(Calibration { cited, gates })
}

fn calibrated(citation: &Citation) -> Calibrated<'_> {
    let (standing, created, certified) = match &citation.standing {
        Standing::Valid(certified) => ("valid", Some(&certified.created), Some(certified)),
        Standing::Void { created, .. } => ("void", Some(created), None),
        Standing::Missing => ("missing", None, None),
    };
    Calibrated {
        gate: &citation.gate,
        standing,
        created: created.map(String::as_str),
        sessions: certified.map(|c| c.sessions),
        false_alarms: certified.map(|c| c.false_alarms),
        interval: certified.map(|c| c.interval),
        blocks: certified.map(|c| c.blocks),
        smallest_effects: certified.map(|c| &c.effects),
    }
}

fn gate(gate: &GateVerdict) -> Gate<'_> {
    Gate {
        gate: &gate.gate,
        title: &gate.title,
        verdict: gate.verdict.name(),
        checks: gate.checks.iter().map(check).collect(),
    }
}

fn check(check: &CheckVerdict) -> Check<'_> {
    Check {
        id: &check.id,
        metric: check.metric.name(),
        statistic: check.statistic.name(),
        verdict: check.verdict.name(),
        rule: check.reason.rule.name(),
        reason: reasons::sentence(check),
        base: check.base,
        head: check.head,
        change: check.change,
        interval: check.interval,
        limit: limit(check.rule),
        p_fail: check.p_fail,
        p_pass: check.p_pass,
        base_launches: check.launches.0,
        head_launches: check.launches.1,
        smallest_effect: check.smallest_effect,
        notes: reasons::notes(check),
        cells: check.cells.iter().map(cell).collect(),
        waiver: check.waiver.as_ref().map(|waiver| Waiver {
            reason: &waiver.reason,
            owner: &waiver.owner,
            issue: &waiver.issue,
            expires: &waiver.expires,
            expired: waiver.is_expired,
        }),
    }
}

fn limit(rule: Rule) -> JsonLimit {
    match rule {
        Rule::Regression { margin, ceiling } => JsonLimit::Change { margin, ceiling },
        Rule::Ceiling { limit } => JsonLimit::AtMost { at_most: limit },
        Rule::Floor { limit } => JsonLimit::AtLeast { at_least: limit },
    }
}

fn cell(cell: &CellVerdict) -> JsonCell {
    JsonCell {
        batch: cell.batch,
        cache: cell.cache.name(),
        context: cell.context,
        streamed: cell.streamed,
        outcome: cell.outcome.name(),
        e2e_ms: cell.e2e_ms,
    }
}
