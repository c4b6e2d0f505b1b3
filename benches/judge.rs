//! How long the judge takes, and that it grows with the launches and not with their square:
//! `cargo bench --bench judge`.
//!
//! One record of many launches, a hundred requests each, under twenty checks that stay undecided to the last
//! look, so that every launch is read by every check and nothing ends early.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints its result, and a broken precondition of it is a panic"
)]

use fixture::records;
use nix::time::{ClockId, clock_gettime};
use std::time::Duration;
use verdict::judge::judge;
use verdict::plan::{Check, Plan, Rule};
use verdict::record::{Arm, Comparison, Launch, Metric, RunRecord, Sample, Statistic};

const LAUNCHES: [u32; 3] = [5_000, 10_000, 20_000];
const REQUESTS: u32 = 100;
/// The fastest of so many passes: other work on the machine only ever slows one down.
const PASSES: usize = 5;

fn main() {
    println!(
        "{:>9} {:>7} {:>12} {:>9} {:>8}",
        "launches", "checks", "requests", "seconds", "growth"
    );
    let mut before = None;
    for launches in LAUNCHES {
        let plan = plan(launches / 2);
        let record = record(launches / 2);
        let checks = plan.gates[0].checks.len();
        let seconds = (0..PASSES)
            .map(|_| seconds(&plan, &record))
            .fold(f64::INFINITY, f64::min);
        let growth = before.map_or("-".to_owned(), |b: f64| format!("{:.2}", seconds / b));
        println!(
            "{launches:>9} {checks:>7} {:>12} {seconds:>9.3} {growth:>8}",
            launches * REQUESTS
        );
        before = Some(seconds);
    }
}

fn seconds(plan: &Plan, record: &RunRecord) -> f64 {
    let begin = cpu();
    let verdict = judge(plan, record);
    let seconds = (cpu() - begin).as_secs_f64();
    // Read to the end, or it was not measured.
    assert_eq!(
        verdict.launches as usize,
        record.launches.len(),
        "{}",
        infergate::report::summary(&verdict)
    );
    seconds
}

/// Time of a processor that this thread has used: what it takes on a machine that does nothing else.
fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .unwrap()
        .into()
}

/// Looks at 4, 6, 8, 12, 16, 24, … blocks, up to the last.
fn plan(blocks: u32) -> Plan {
    let steps = (2..).flat_map(|power| [1 << power, 3 << (power - 1)]);
    let mut looks: Vec<u32> = steps.take_while(|look| *look < blocks).collect();
    looks.push(blocks);
    let metrics = [
        Metric::Tpot,
        Metric::Ttft,
        Metric::E2e,
        Metric::Icl,
        Metric::DecodeRate,
    ];
    let statistics = [
        Statistic::Median,
        Statistic::Mean,
        Statistic::P95,
        Statistic::Max,
    ];
    let checks = metrics
        .iter()
        .flat_map(|&metric| statistics.map(|statistic| check(metric, statistic)));
    let mut plan = records::plan(
        vec![records::workload(None, records::steady())],
        checks.collect(),
    );
    plan.design.looks = looks;
    plan
}

fn check(metric: Metric, statistic: Statistic) -> Check {
    let rule = Rule::Regression {
        margin: 0.01,
        ceiling: 0.03,
    };
    let mut check = records::check(&format!("{metric}-{statistic}"), metric, statistic, rule);
    check.min_samples = 30;
    check
}

/// Launches so far apart that a change of 2 %, between margin and ceiling, is never told from either.
fn record(blocks: u32) -> RunRecord {
    let mut random = 1_u64;
    let mut noise = || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 40) as f64 / f64::from(1 << 24) - 0.5
    };
    let mut launches: Vec<Launch> = records::blocks(blocks, |_, _| Vec::new());
    for launch in &mut launches {
        let shift = if launch.arm == Arm::Head { 1.02 } else { 1.0 };
        let level = 20e6 * shift * (2.5 * noise()).exp();
        launch.samples = (0..REQUESTS)
            .map(|i| request(i, level * (1.0 + 0.1 * noise())))
            .collect();
    }
    records::record(Comparison::Interleaved, launches)
}

/// Eight tokens, the first after ten times what each of the others takes.
fn request(index: u32, tpot_ns: f64) -> Sample {
    let mut sample = records::sample(index);
    sample.stamps.events_ns = (0..8)
        .map(|i| ((10.0 + f64::from(i)) * tpot_ns) as u64)
        .collect();
    sample.tokens.completion = Some(8);
    sample.tokens.events = 8;
    sample.text_sha256 = format!("{index:064x}");
    sample
}
