//! Samples of our own as JSON lines: what `gate dev proxy --record` and `gate load --out` write.

use super::{ImportError, Imported, NO_LAUNCHES, NO_START, Request, Tool, text};
use crate::figures::LoadResult;
use serde_json::Value;
use verdict::record::{Phase, Sample};

/// The samples of a file's documents.
///
/// # Errors
/// A line is no sample.
pub fn samples(documents: &[Value]) -> Result<Vec<Sample>, ImportError> {
    let lines = documents.iter().zip(1..);
    let read = |(line, number): (&Value, u32)| {
        let sample: Result<Sample, _> = serde_json::from_value(line.clone());
        sample.map_err(|error| Tool::Samples.wrong(format!("line {number}: {error}")))
    };
    lines.map(read).collect()
}

pub fn read(documents: &[Value]) -> Result<Imported, ImportError> {
    let samples = samples(documents)?;
    let measured = samples
        .iter()
        .filter(|sample| sample.phase == Phase::Measured);
    Ok(Imported {
        tool: Tool::Samples,
        version: None,
        model: None,
        load: None,
        requests: measured.map(of_sample).collect(),
        is_sample: false,
        summary: LoadResult::default(),
        missing: vec![NO_LAUNCHES.to_owned(), NO_START.to_owned()],
    })
}

/// Which request of its run a line is about.
pub fn request(line: &Value) -> Option<String> {
    let index = line.get("index").and_then(Value::as_u64)?;
    Some(format!(
        "{index} {}",
        text(line, "/workload").unwrap_or_default()
    ))
}

fn of_sample(sample: &Sample) -> Request {
    let stamps = &sample.stamps;
    let since = |at: u64| at.saturating_sub(stamps.intended_ns) as f64 / 1e6;
    let events = &stamps.events_ns;
    let gaps = events
        .windows(2)
        .map(|pair| pair[1].saturating_sub(pair[0]) as f64 / 1e6);
    // An answer that comes whole ends with its body.
    let last = events.last().copied().or(stamps.done_ns);
    Request {
        start_s: Some(stamps.intended_ns as f64 / 1e9),
        ttft_ms: events.first().copied().map(since),
        last_ms: last.map(since),
        gaps_ms: gaps.collect(),
        prompt: sample.tokens.prompt,
        output: sample.tokens.completion,
        rule: sample.void.as_ref().map(|void| void.rule),
        failed: sample
            .void
            .as_ref()
            .map(|void| format!("{}: {}", void.rule.name(), void.detail)),
    }
}
