//! Cost of a launch in time: the start, and each gate's requests.
//!
//! Refuses to know: what is made of it.

use crate::baseline::Spent;
use verdict::plan::{Gate, Plan};
use verdict::record::{Interleave, Launch, RunRecord};
use verdict::stats;

/// The gate's share of a launch, in the mean over the session's sound launches that did its work: a gate with `launches = 1`
/// works in the first one only. `None` where there is none.
pub fn spent(plan: &Plan, record: &RunRecord, gate: &Gate) -> Option<Spent> {
    let same = |launch: &&Launch| gate.is_run_by(launch) && launch.exit.is_clean();
    let sharing: Vec<&Gate> = plan
        .gates
        .iter()
        .filter(|other| other.shares_launches_with(gate))
        .collect();
    let launches: Vec<&Launch> = record.launches.iter().filter(same).collect();
    let starts = launches.iter().map(|launch| {
        let work: f64 = sharing.iter().map(|gate| work_s(gate, launch)).sum();
        (whole_s(record, launch) - work).max(0.0)
    });
    let work = launches.iter().map(|launch| work_s(gate, launch));
    let (starts, mut work): (Vec<f64>, Vec<f64>) = (starts.collect(), work.collect());
    work.retain(|seconds| *seconds > 0.0);
    Some(Spent {
        start_s: stats::mean(&starts)?,
        work_s: stats::mean(&work).unwrap_or_default(),
    })
}

/// From a launch's start to the next one's; for the last to the session's end. Launches that ran at the same time share
/// it.
fn whole_s(record: &RunRecord, launch: &Launch) -> f64 {
    let is_together = |other: &&Launch| {
        let is_twin = other.block == launch.block && other.is_alike(launch);
        other.position == launch.position || (took_turns(launch) && is_twin)
    };
    let together: Vec<&Launch> = record.launches.iter().filter(is_together).collect();
    let spawned = |launches: &mut dyn Iterator<Item = &Launch>| {
        let spawned = launches.map(|launch| launch.startup.spawn_ns as f64);
        spawned.min_by(f64::total_cmp)
    };
    let last = together.iter().map(|l| l.position).max();
    let mut later = record.launches.iter().filter(|l| Some(l.position) > last);
    let end = spawned(&mut later).unwrap_or(record.elapsed_s * 1e9);
    let begin = spawned(&mut together.iter().copied()).unwrap_or(end);
    ((end - begin) / 1e9).max(0.0) / together.len() as f64
}

fn took_turns(launch: &Launch) -> bool {
    launch.interleave == Interleave::Requests
}

/// Over the gate's workloads: from the first request sent to the last one answered, and its own tests. Of a launch that
/// took turns the time in which some request was in flight: between its turns the other one works.
fn work_s(gate: &Gate, launch: &Launch) -> f64 {
    let of = |workload: &str| {
        let samples = launch.samples.iter().filter(|s| s.workload == workload);
        let mut flights: Vec<(u64, u64)> = samples
            .filter_map(|s| {
                Some((
                    s.stamps.send_ns,
                    s.stamps.ended_ns().or(s.stamps.headers_ns)?,
                ))
            })
            .collect();
        flights.sort_unstable();
        let begun = flights.first().map_or(0, |flight| flight.0);
        let (mut end, mut idle_ns) = (begun, 0);
        for (send, done) in flights {
            idle_ns += send.saturating_sub(end);
            end = end.max(done);
        }
        let idle_ns = if took_turns(launch) { idle_ns } else { 0 };
        let sent_s = end.saturating_sub(begun).saturating_sub(idle_ns) as f64 / 1e9;
        let suites = launch.suites.iter().filter(|run| run.workload == workload);
        let tested_s: f64 = suites
            .map(|run| run.ended_ns.saturating_sub(run.begun_ns) as f64 / 1e9)
            .sum();
        sent_s + tested_s
    };
    gate.workloads.iter().map(|workload| of(&workload.id)).sum()
}
