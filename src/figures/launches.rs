//! The cold half of a column: what a session's launches say of the start and of the first request after it.

use super::{Column, Row};
use crate::record::{Launch, Sample};
use crate::stats;
use std::collections::BTreeMap;

/// Fills the cold rows: medians over the clean launches. Where the first request of some launches belongs to
/// another workload than that of most, those launches enter the rows without a request alone.
pub fn cold(column: &mut Column, launches: &[&Launch]) {
    let started: Vec<&Launch> = launches
        .iter()
        .copied()
        .filter(|launch| launch.exit.is_clean())
        .collect();
    let over = |values: Vec<f64>| stats::median(&values);
    let since_spawn = |launch: &Launch, to: Option<u64>| Some(ms(launch.startup.spawn_ns, to?));
    let port = started
        .iter()
        .filter_map(|l| since_spawn(l, l.startup.port_open_ns));
    column.put(Row::PortOpen, over(port.collect()));
    let ready = started
        .iter()
        .filter_map(|l| since_spawn(l, l.startup.ready_ns));
    column.put(Row::Ready, over(ready.collect()));
    let firsts = same_workload(&started);
    let of = |value: &dyn Fn(&Launch, &Sample) -> Option<f64>| {
        over(firsts.iter().filter_map(|(l, s)| value(l, s)).collect())
    };
    let ttft = of(&|_, sample| Some(ms(sample.stamps.send_ns, first_event(sample)?)));
    column.put(Row::FirstTtft, ttft);
    let e2e = of(&|_, sample| Some(ms(sample.stamps.send_ns, last_event(sample)?)));
    column.put(Row::FirstE2e, e2e);
    let token = of(&|launch, sample| since_spawn(launch, first_event(sample)));
    column.put(Row::ColdToken, token);
    let response = of(&|launch, sample| since_spawn(launch, last_event(sample)));
    column.put(Row::ColdResponse, response);
    let counts: Vec<f64> = firsts
        .iter()
        .filter_map(|(_, sample)| sample.tokens.completion)
        .map(f64::from)
        .collect();
    column.first_output_tokens = stats::mean(&counts);
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
