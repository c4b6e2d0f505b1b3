//! Cost of a launch in time: the start, and each gate's requests.
//!
//! Refuses to know: what is made of it.

use crate::baseline::Spent;
use verdict::plan::{Gate, Plan};
use verdict::record::{Launch, RunRecord};
use verdict::stats;

/// The gate's share of its launches, in the mean over the session's sound ones. `None` where there is none.
pub fn spent(plan: &Plan, record: &RunRecord, gate: &Gate) -> Option<Spent> {
    let same = |launch: &&Launch| {
        launch.engine_args == gate.engine_args
            && launch.page_cache == gate.page_cache
            && launch.exit.is_clean()
    };
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
    let (starts, work): (Vec<f64>, Vec<f64>) = (starts.collect(), work.collect());
    Some(Spent {
        start_s: stats::mean(&starts)?,
        work_s: stats::mean(&work)?,
    })
}

/// From a launch's start to the next one's; for the last to the session's end.
fn whole_s(record: &RunRecord, launch: &Launch) -> f64 {
    let later = record
        .launches
        .iter()
        .filter(|l| l.position > launch.position);
    let next = later
        .map(|l| l.startup.spawn_ns as f64)
        .min_by(f64::total_cmp);
    let end = next.unwrap_or(record.elapsed_s * 1e9);
    ((end - launch.startup.spawn_ns as f64) / 1e9).max(0.0)
}

/// Over the gate's workloads: from the first request sent to the last one answered, and its own tests.
fn work_s(gate: &Gate, launch: &Launch) -> f64 {
    let of = |workload: &str| {
        let samples = || launch.samples.iter().filter(|s| s.workload == workload);
        let begin = samples().map(|s| s.stamps.send_ns).min();
        let ends = samples().filter_map(|s| s.stamps.done_ns.or(s.stamps.headers_ns));
        let suites = launch.suites.iter().filter(|run| run.workload == workload);
        let tested_s: f64 = suites
            .map(|run| run.ended_ns.saturating_sub(run.begun_ns) as f64 / 1e9)
            .sum();
        let sent_s = begin
            .zip(ends.max())
            .map_or(0.0, |(begin, end)| end.saturating_sub(begin) as f64 / 1e9);
        sent_s + tested_s
    };
    gate.workloads.iter().map(|workload| of(&workload.id)).sum()
}
