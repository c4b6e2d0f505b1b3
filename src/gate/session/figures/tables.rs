//! A session as tables for other programs: a row for each check of a launch, a row for each request.

use crate::report::{Cell, csv};
use std::borrow::Cow;
use verdict::judge;
use verdict::metrics::{e2e_ms, first_shared, tpot_ms, ttft_ms};
use verdict::plan::{self, Plan, PlanError};
use verdict::record::{Exit, Extent, Launch, Phase, RunRecord, Sample, Unit};

/// A row for each check of each launch that was to measure it, in order of execution.
///
/// # Errors
/// The record's own gates cannot be read.
pub fn launches_csv(record: &RunRecord) -> Result<String, PlanError> {
    const HEADER: [&str; 16] = [
        "machine",
        "launch",
        "block",
        "arm",
        "gate",
        "check",
        "metric",
        "statistic",
        "unit",
        "value",
        "samples",
        "why_no_value",
        "exit",
        "spawn_s",
        "port_open_s",
        "ready_s",
    ];
    let mut rows = Vec::new();
    for session in sessions(record) {
        let plan = plan::from_record(&session)?;
        rows.extend(of_launches(&plan, &session));
    }
    Ok(csv(HEADER, rows))
}

fn of_launches(plan: &Plan, session: &RunRecord) -> Vec<Vec<Cell>> {
    let checks = plan.gates.iter().flat_map(|gate| &gate.checks);
    let mut rows: Vec<(u32, Vec<Cell>)> = Vec::new();
    for check in checks {
        for (launch, measure) in judge::launch_measures(plan, session, &check.id) {
            let start = &launch.startup;
            let since = |at: Option<u64>| Some(seconds(at?.saturating_sub(start.spawn_ns)));
            let (value, samples, why) = match &measure {
                Ok(measure) => (Some(measure.value), Some(measure.samples), String::new()),
                Err(undefined) => (None, None, undefined.why.to_string()),
            };
            let gate = check.id.split('/').next().unwrap_or_default();
            let row = vec![
                launch.fingerprint.as_str().into(),
                launch.position.into(),
                launch.block.into(),
                launch.arm.name().into(),
                gate.into(),
                check.id.as_str().into(),
                check.metric.name().into(),
                check.statistic.name().into(),
                unit(check.metric.unit()).into(),
                value.into(),
                samples.into(),
                why.as_str().into(),
                exit(launch).into(),
                Some(seconds(start.spawn_ns)).into(),
                since(start.port_open_ns).into(),
                since(start.ready_ns).into(),
            ];
            rows.push((launch.position, row));
        }
    }
    rows.sort_by_key(|(position, _)| *position);
    rows.into_iter().map(|(_, row)| row).collect()
}

/// A row for each request, warm-up included, launch by launch in the order of the record. A void request has no times.
pub fn requests_csv(record: &RunRecord) -> String {
    const HEADER: [&str; 20] = [
        "machine",
        "launch",
        "block",
        "arm",
        "workload",
        "index",
        "phase",
        "case",
        "turn",
        "streamed",
        "prompt_tokens",
        "cached_tokens",
        "output_tokens",
        "intended_s",
        "send_s",
        "ttft_ms",
        "tpot_ms",
        "e2e_ms",
        "void",
        "void_reason",
    ];
    let launches = record.launches.iter();
    let rows = launches.flat_map(|launch| launch.samples.iter().map(|it| of_request(launch, it)));
    csv(HEADER, rows)
}

fn of_request(launch: &Launch, sample: &Sample) -> Vec<Cell> {
    let sound = sample.void.is_none();
    let time = |of: Option<f64>| Cell::Number(of.filter(|_| sound));
    let (void, why) = match &sample.void {
        Some(void) => (void.rule.name(), void.detail.as_str()),
        None => ("", ""),
    };
    vec![
        launch.fingerprint.as_str().into(),
        launch.position.into(),
        launch.block.into(),
        launch.arm.name().into(),
        sample.workload.as_str().into(),
        sample.index.into(),
        match sample.phase {
            Phase::Warmup => "warmup",
            Phase::Measured => "measured",
        }
        .into(),
        sample.case.as_deref().unwrap_or_default().into(),
        sample.turn.into(),
        sample.streamed.into(),
        sample.tokens.prompt.into(),
        sample.tokens.cached.into(),
        sample.tokens.completion.into(),
        Some(seconds(sample.stamps.intended_ns)).into(),
        Some(seconds(sample.stamps.send_ns)).into(),
        // Of a first event that came together with the second an upper bound alone is known.
        time(ttft_ms(sample).ok().filter(|_| !first_shared(sample))),
        time(tpot_ms(sample).ok()),
        time(e2e_ms(sample).ok()),
        void.into(),
        why.into(),
    ]
}

/// The sessions that a record holds: one a machine.
fn sessions(record: &RunRecord) -> Vec<Cow<'_, RunRecord>> {
    match record.extent {
        Extent::Whole | Extent::Shard { .. } => vec![Cow::Borrowed(record)],
        Extent::Merged { .. } => {
            // The number of checks is the error budget's; no value depends on it.
            let sessions = record.shard_sessions(1).into_iter();
            sessions.map(Cow::Owned).collect()
        }
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn exit(launch: &Launch) -> &'static str {
    match launch.exit {
        Exit::Stopped => "stopped",
        Exit::NeverReady { .. } => "never-ready",
        Exit::Crashed { .. } => "crashed",
        Exit::Hung { .. } => "hung",
        Exit::Altered { .. } => "altered",
    }
}

/// The unit of the column `value`.
fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Milliseconds => "ms",
        Unit::MillisecondsPerToken => "ms/token",
        Unit::MicrosecondsPerToken => "us/token",
        Unit::Tokens => "tokens",
        Unit::TokensPerSecond => "tokens/s",
        Unit::Ratio => "ratio",
        Unit::Cases => "cases",
        Unit::Fraction => "fraction",
        Unit::Nats => "nats",
        Unit::Bytes => "bytes",
        Unit::Number => "",
        Unit::PerToken => "1/token",
        Unit::PerRequest => "1/request",
        Unit::JoulesPerToken => "J/token",
    }
}
