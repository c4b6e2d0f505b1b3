//! A case's launches: rows of `launches.csv` with the values of `samples.jsonl`.
//!
//! Main functions: [`samples`], [`launches`]. Refuses to know: what was stored of main.

use super::rows::Rows;
use super::{ReplayError, Values, WORKLOAD};
use serde::Deserialize;
use std::collections::BTreeMap;
use verdict::record::{
    Arm, EngineReading, Exit, Interleave, Launch, Phase, Reading, Sample, Stamps, Startup,
    Telemetry, TokenCounts,
};

#[derive(Deserialize)]
struct SamplesLine {
    launch: u32,
    metrics: BTreeMap<Values, Vec<Option<f64>>>,
}

/// A launch's values; a missing one was measured and lost.
pub type Metrics = BTreeMap<Values, Vec<Option<f64>>>;

/// The values of each launch, by its number.
pub fn samples(text: &str) -> Result<BTreeMap<u32, Metrics>, ReplayError> {
    let mut launches = BTreeMap::new();
    for (line, json) in (1..).zip(text.lines()) {
        let wrong = |what| ReplayError {
            file: "samples.jsonl",
            line,
            what,
        };
        let SamplesLine { launch, metrics } = serde_json::from_str(json).map_err(|error| {
            wrong(format!(
                "{error}; a line is {{\"launch\": 0, \"metrics\": {{\"tpot_us\": [20000, …]}}}}"
            ))
        })?;
        if launches.insert(launch, metrics).is_some() {
            let what = format!("launch {launch} was there before; a launch has one line");
            return Err(wrong(what));
        }
    }
    Ok(launches)
}

/// The launches in order of execution. The first `warmup` values of each are warm-up.
pub fn launches(
    text: &str,
    metrics: &BTreeMap<u32, Metrics>,
    warmup: usize,
) -> Result<Vec<Launch>, ReplayError> {
    let mut launches: Vec<Launch> = Vec::new();
    for row in Rows::read("launches.csv", text)? {
        let position = row.number("launch")?;
        let Some(metrics) = metrics.get(&position) else {
            let what = "has no line in samples.jsonl; an empty list says that nothing was measured";
            return Err(row.wrong(format!("launch {position} {what}")));
        };
        let block = row.number("block")?;
        if launches
            .last()
            .is_some_and(|last| last.position >= position || last.block > block)
        {
            let what = format!("launch {position} of block {block} comes too late");
            return Err(row.wrong(format!("{what}; rows must be in order of execution")));
        }
        launches.push(Launch {
            position,
            block,
            arm: arm(&row.text("arm")?).map_err(|what| row.wrong(what))?,
            engine_args: Vec::new(),
            page_cache: None,
            interleave: Interleave::Launches,
            fingerprint: row.text("fingerprint")?,
            startup: Startup::default(),
            exit: exit(row.number("exit")?),
            throttle_bits: Some(row.number("throttle_bits")?),
            log: String::new(),
            samples: requests(metrics.get(&Values::Tpot), warmup),
            clients: Vec::new(),
            telemetry: metrics.get(&Values::KvBytes).and_then(|v| readings(v)),
            rest: None,
            beside: None,
            killed: false,
            suites: Vec::new(),
        });
    }
    if launches.len() < metrics.len() {
        let (n, more) = (launches.len(), metrics.len());
        return Err(ReplayError {
            file: "launches.csv",
            line: 0,
            what: format!("{n} launches, and samples.jsonl has {more}; give each a row"),
        });
    }
    Ok(launches)
}

fn arm(name: &str) -> Result<Arm, String> {
    match name {
        "main" => Ok(Arm::Base),
        "pr" => Ok(Arm::Head),
        other => Err(format!("the arm {other:?}; arms are `pr` and `main`")),
    }
}

fn exit(code: u32) -> Exit {
    match code {
        0 => Exit::Stopped,
        code => Exit::Crashed {
            detail: format!("exit code {code}"),
            log_tail: String::new(),
        },
    }
}

/// One request a value; a launch without latencies sent one, to which its readings belong.
fn requests(values: Option<&Vec<Option<f64>>>, warmup: usize) -> Vec<Sample> {
    let Some(values) = values else {
        return vec![request(0, Phase::Measured, None)];
    };
    let phase = |i| match i < warmup {
        true => Phase::Warmup,
        false => Phase::Measured,
    };
    let values = values.iter().enumerate();
    values.map(|(i, v)| request(i, phase(i), *v)).collect()
}

/// A streamed answer of two tokens with this many microseconds between them; a negative time has its stamps
/// out of order, a missing one has no count of its tokens.
fn request(index: usize, phase: Phase, tpot_us: Option<f64>) -> Sample {
    let gap = tpot_us.map_or(0, |us| (us.abs() * 1e3).round() as u64);
    let is_negative = tpot_us.is_some_and(|us| us < 0.0);
    let events_ns = if is_negative {
        vec![gap, 0]
    } else {
        vec![0, gap]
    };
    Sample {
        workload: WORKLOAD.to_owned(),
        index: u32::try_from(index).unwrap_or(u32::MAX),
        phase,
        case: None,
        turn: None,
        streamed: true,
        setting: None,
        stamps: Stamps {
            events_ns,
            ..Stamps::default()
        },
        tokens: TokenCounts {
            completion: tpot_us.map(|_| 2),
            events: 2,
            ..TokenCounts::default()
        },
        finish_reason: None,
        status: None,
        fields: Default::default(),
        timings: None,
        text: None,
        text_sha256: String::new(),
        logprobs: Vec::new(),
        void: None,
    }
}

/// `None` where a value is missing: what is left would look like a whole gauge.
fn readings(kv_bytes: &[Option<f64>]) -> Option<Telemetry> {
    let reading = |(at_ns, bytes): (u64, &Option<f64>)| {
        Some(Reading {
            at_ns,
            engine: EngineReading {
                kv_bytes: Some((*bytes)?),
                ..EngineReading::default()
            },
            ..Reading::default()
        })
    };
    Some(Telemetry {
        readings: (0..).zip(kv_bytes).map(reading).collect::<Option<_>>()?,
        ..Telemetry::default()
    })
}
