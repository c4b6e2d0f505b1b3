//! The cold half of a column: what a session's launches say of the start and of the first request after it.

use super::{Column, Row};
use std::collections::BTreeMap;
use verdict::record::{Launch, Sample, Startup, by_stage};
use verdict::stats;

/// Fills the cold rows and the start-up stages: medians over the clean launches. Where the first request of some
/// launches belongs to another workload than that of most, those launches enter the rows without a request alone.
pub fn cold(column: &mut Column, launches: &[&Launch]) {
    let started: Vec<&Launch> = launches
        .iter()
        .copied()
        .filter(|launch| launch.exit.is_clean())
        .collect();
    let of_start = |value: fn(&Startup) -> Option<f64>| {
        let launches = started.iter();
        launches
            .filter_map(|launch| Some((launch.block, value(&launch.startup)?)))
            .collect()
    };
    let port = of_start(|start| Some(ms(start.spawn_ns, start.port_open_ns?)));
    column.put_rounds(Row::PortOpen, port);
    let ready = of_start(|start| Some(ms(start.spawn_ns, start.ready_ns?)));
    column.put_rounds(Row::Ready, ready);
    let probe = of_start(|start| Some(ms(start.probe_ns?, start.ready_ns?)));
    column.put_rounds(Row::FirstGeneration, probe);
    let firsts = same_workload(&started);
    let of = |value: &dyn Fn(&Launch, &Sample) -> Option<f64>| {
        let values = firsts.iter();
        values
            .filter_map(|(launch, sample)| Some((launch.block, value(launch, sample)?)))
            .collect()
    };
    let ttft = of(&|_, sample| Some(ms(sample.stamps.send_ns, first_event(sample)?)));
    column.put_rounds(Row::FirstTtft, ttft);
    let e2e = of(&|_, sample| Some(ms(sample.stamps.send_ns, last_event(sample)?)));
    column.put_rounds(Row::FirstE2e, e2e);
    let token = of(&|launch, sample| Some(ms(launch.startup.spawn_ns, first_event(sample)?)));
    column.put_rounds(Row::ColdToken, token);
    let response = of(&|launch, sample| Some(ms(launch.startup.spawn_ns, last_event(sample)?)));
    column.put_rounds(Row::ColdResponse, response);
    let counts: Vec<f64> = firsts
        .iter()
        .filter_map(|(_, sample)| sample.tokens.completion)
        .map(f64::from)
        .collect();
    column.first_output_tokens = stats::mean(&counts);
    column.stages = stages(&started);
}

/// The median of each of the engine's own stages, in the order in which the engine names them.
fn stages(launches: &[&Launch]) -> Vec<(String, f64)> {
    by_stage(launches.iter().map(|launch| &launch.startup))
        .into_iter()
        .filter_map(|(name, values)| Some((name, stats::median(&values)?)))
        .collect()
}

/// Each launch with its first request, if that is sound, for the workload that comes first most often.
fn same_workload<'a>(launches: &[&'a Launch]) -> Vec<(&'a Launch, &'a Sample)> {
    let firsts: Vec<(&Launch, &Sample)> = launches
        .iter()
        .filter_map(|launch| {
            let first = launch.samples.iter().min_by_key(|s| s.stamps.send_ns)?;
            first.void.is_none().then_some((*launch, first))
        })
        .collect();
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, sample) in &firsts {
        *times.entry(sample.workload.as_str()).or_default() += 1;
    }
    let Some(most) = times.iter().max_by_key(|(_, n)| **n).map(|(name, _)| *name) else {
        return Vec::new();
    };
    firsts
        .into_iter()
        .filter(|(_, sample)| sample.workload == most)
        .collect()
}

/// Only a stream has a first token's time.
fn first_event(sample: &Sample) -> Option<u64> {
    sample
        .stamps
        .events_ns
        .first()
        .copied()
        .filter(|_| sample.streamed)
}

fn last_event(sample: &Sample) -> Option<u64> {
    sample.stamps.events_ns.last().copied()
}

fn ms(from: u64, to: u64) -> f64 {
    to.saturating_sub(from) as f64 / 1e6
}
