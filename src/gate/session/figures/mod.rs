//! What the page draws of a session, from its record.

mod tables;

pub use tables::{launches_csv, requests_csv};

use crate::report::{CheckFigures, Over, PERCENTILES, Series, Start};
use std::collections::{BTreeMap, BTreeSet};
use verdict::judge;
use verdict::metrics::is_in_part;
use verdict::plan::{Check, Plan, Rule};
use verdict::record::{
    Arm, CheckVerdict, Direction, Extent, GpuReading, Launch, Metric, Reading, RunRecord,
    RunVerdict,
};
use verdict::stats;

/// Points of a line over time: more are not seen.
const POINTS: usize = 600;
/// Tokens of an answer that are drawn one by one.
const TOKENS: usize = 600;

/// Every check's values.
pub fn of_checks(plan: &Plan, record: &RunRecord, verdict: &RunVerdict) -> Vec<CheckFigures> {
    let judged = verdict.gates.iter().flat_map(|gate| &gate.checks);
    let judged: BTreeMap<&str, &CheckVerdict> = judged.map(|c| (c.id.as_str(), c)).collect();
    let checks = plan.gates.iter().flat_map(|gate| &gate.checks);
    let checks = checks.filter_map(|check| Some((check, *judged.get(check.id.as_str())?)));
    // Checks of one workload read the same events.
    let mut drawn = BTreeSet::new();
    checks
        .map(|(check, judged)| {
            let figures = of_check(plan, record, check, judged);
            let is_new = is_of_events(check) && drawn.insert(&check.workload);
            let tokens = match is_new {
                true => events(record, check),
                false => Default::default(),
            };
            CheckFigures { tokens, ..figures }
        })
        .collect()
}

fn of_check(plan: &Plan, record: &RunRecord, check: &Check, judged: &CheckVerdict) -> CheckFigures {
    let measures = judge::launch_measures(plan, record, &check.id);
    let mut launches = Vec::new();
    let mut requests: [Vec<f64>; 2] = Default::default();
    for (launch, measure) in measures {
        let Some(measure) = measure.ok().filter(|_| launch.exit.is_clean()) else {
            continue;
        };
        launches.push((launch.position, launch.arm, measure.value));
        requests[place(launch.arm)].extend(measure.series.iter());
    }
    let percentiles = requests.map(|mut values| {
        values.sort_by(f64::total_cmp);
        match values.as_slice() {
            [] => Vec::new(),
            values => PERCENTILES.iter().map(|share| at(values, *share)).collect(),
        }
    });
    CheckFigures {
        check: check.id.clone(),
        unit: check.metric.unit(),
        limits: limits(check, judged),
        launches,
        percentiles,
        tokens: Default::default(),
    }
}

/// The quantile of sorted values, between neighbours linear (Hyndman and Fan's type 7), as `stats::quantile` has it.
fn at(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let below = sorted[place.floor() as usize];
    let above = sorted[place.ceil() as usize];
    below + (above - below) * place.fract()
}

fn place(arm: Arm) -> usize {
    usize::from(arm == Arm::Head)
}

/// Margin and ceiling around base's value, or the limit.
fn limits(check: &Check, judged: &CheckVerdict) -> Vec<(&'static str, f64)> {
    match check.rule {
        Rule::Ceiling { limit } | Rule::Floor { limit } => vec![("limit", limit)],
        Rule::Regression { margin, ceiling } => {
            let Some(base) = judged.base else {
                return Vec::new();
            };
            let at = |change: f64| match check.metric.direction() {
                Direction::LowerIsBetter => base * (1.0 + change),
                Direction::HigherIsBetter => base / (1.0 + change),
            };
            vec![("margin", at(margin)), ("ceiling", at(ceiling))]
        }
    }
}

fn is_of_events(check: &Check) -> bool {
    matches!(check.metric, Metric::Tpot | Metric::Icl | Metric::Itl)
}

/// Median time before each event of an answer.
fn events(record: &RunRecord, check: &Check) -> [Series; 2] {
    let mut gaps: [Vec<Vec<f64>>; 2] = Default::default();
    for launch in &record.launches {
        let samples = launch.samples.iter();
        let own = samples.filter(|sample| {
            sample.workload == check.workload
                && sample.void.is_none()
                && is_in_part(&check.part, sample)
        });
        let gaps = &mut gaps[place(launch.arm)];
        for sample in own {
            let events = sample.stamps.events_ns.windows(2).take(TOKENS);
            for (at, pair) in events.enumerate() {
                if gaps.len() <= at {
                    gaps.push(Vec::new());
                }
                gaps[at].push(pair[1].saturating_sub(pair[0]) as f64 / 1e6);
            }
        }
    }
    gaps.map(|gaps| {
        let medians = gaps.iter().zip(2_u32..);
        let medians =
            medians.filter_map(|(gaps, token)| Some((f64::from(token), stats::median(gaps)?)));
        medians.collect()
    })
}

/// One thing that is read beside launches.
type Read = fn(&Reading, &[&GpuReading]) -> Option<f64>;

/// What was read beside all launches, over time; what was never read has no entry.
pub fn readings(record: &RunRecord) -> Vec<Over> {
    let rows: [(&'static str, &'static str, Read); 7] = [
        ("GPU clock", "MHz", |_, gpus| {
            middle(gpus, |gpu| gpu.sm_clock_mhz.map(f64::from))
        }),
        ("GPU temperature", "°C", |_, gpus| {
            middle(gpus, |gpu| gpu.temperature_c.map(f64::from))
        }),
        ("GPU power", "W", |_, gpus| middle(gpus, |gpu| gpu.power_w)),
        ("GPU throttling, reasons' bits", "", |_, gpus| {
            middle(gpus, |gpu| gpu.throttle_bits.map(f64::from))
        }),
        ("KV cache in use", "%", |reading, _| {
            reading.engine.kv_usage.map(|share| share * 100.0)
        }),
        ("Requests running", "", |reading, _| reading.engine.running),
        ("Engine memory", "MiB", |reading, _| {
            reading.rss_bytes.map(|bytes| bytes as f64 / 1_048_576.0)
        }),
    ];
    let mut overs: Vec<Over> = rows
        .iter()
        .map(|(name, unit, read)| over(record, name, unit, &|launch| read_all(launch, *read)))
        .collect();
    overs.push(over(
        record,
        "Time that the host took",
        "processors",
        &|launch| rates(launch, |reading| reading.steal_s),
    ));
    // Machines of a merged run have clocks of their own.
    let is_one = !matches!(record.extent, Extent::Merged { .. });
    overs.retain(|over| is_one && over.base.len() + over.head.len() > 1);
    overs
}

fn middle(gpus: &[&GpuReading], of: fn(&GpuReading) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = gpus.iter().filter_map(|gpu| of(gpu)).collect();
    stats::median(&values)
}

fn read_all(launch: &Launch, read: Read) -> Vec<(u64, f64)> {
    let Some(telemetry) = &launch.telemetry else {
        return Vec::new();
    };
    let own = telemetry.engine_gpus();
    let of = |reading: &Reading| {
        let gpus = reading.gpus.iter();
        let gpus: Vec<&GpuReading> = gpus.filter(|gpu| own.contains(&gpu.index)).collect();
        Some((reading.at_ns, read(reading, &gpus)?))
    };
    telemetry.readings.iter().filter_map(of).collect()
}

/// A counter of seconds as processors, between one reading and the next.
fn rates(launch: &Launch, counter: fn(&Reading) -> Option<f64>) -> Vec<(u64, f64)> {
    let readings = launch.telemetry.iter().flat_map(|it| &it.readings);
    let read: Vec<(u64, f64)> = readings
        .filter_map(|reading| Some((reading.at_ns, counter(reading)?)))
        .collect();
    let pairs = read.windows(2).filter(|pair| pair[1].0 > pair[0].0);
    let rate = |pair: &[(u64, f64)]| {
        let seconds = (pair[1].0 - pair[0].0) as f64 / 1e9;
        (pair[1].0, ((pair[1].1 - pair[0].1) / seconds).max(0.0))
    };
    pairs.map(rate).collect()
}

fn over(
    record: &RunRecord,
    name: &'static str,
    unit: &'static str,
    read: &dyn Fn(&Launch) -> Vec<(u64, f64)>,
) -> Over {
    let readings = record.launches.iter().flat_map(|l| &l.telemetry);
    let first = readings.flat_map(|it| &it.readings).map(|r| r.at_ns).min();
    let first = first.unwrap_or(0);
    let of = |arm: Arm| -> Series {
        let launches = record.launches.iter().filter(|launch| launch.arm == arm);
        let mut all: Vec<(u64, f64)> = launches.flat_map(read).collect();
        all.sort_by_key(|(at, _)| *at);
        let step = all.len().div_ceil(POINTS).max(1);
        let seconds = |at: u64| at.saturating_sub(first) as f64 / 1e9;
        let kept = all.into_iter().step_by(step);
        kept.map(|(at, value)| (seconds(at), value)).collect()
    };
    Over {
        name,
        unit,
        base: of(Arm::Base),
        head: of(Arm::Head),
    }
}

/// Start-up by stage, where a check judges it: the engine's own stages, and what of the time until it was ready they
/// leave.
pub fn starts(plan: &Plan, record: &RunRecord) -> Vec<Start> {
    let mut checks = plan.gates.iter().flat_map(|gate| &gate.checks);
    let is_of_start = |check: &Check| {
        matches!(
            check.metric,
            Metric::Ready
                | Metric::PortOpen
                | Metric::FirstToken
                | Metric::FirstResponse
                | Metric::Stage
        )
    };
    if !checks.any(is_of_start) || matches!(record.extent, Extent::Merged { .. }) {
        return Vec::new();
    }
    let arms = Arm::BOTH.into_iter();
    let starts = arms.filter_map(|arm| start(record, arm));
    starts.collect()
}

fn start(record: &RunRecord, arm: Arm) -> Option<Start> {
    let launches = record.launches.iter().filter(|launch| launch.arm == arm);
    let starts: Vec<_> = launches.map(|launch| &launch.startup).collect();
    let ready = starts
        .iter()
        .filter_map(|start| Some(start.ready_ns?.saturating_sub(start.spawn_ns) as f64 / 1e6));
    let ready = stats::mean(&ready.collect::<Vec<_>>())?;
    let mut stages: Vec<(String, Vec<f64>)> = Vec::new();
    for stage in starts.iter().flat_map(|start| &start.stages) {
        match stages.iter_mut().find(|(name, _)| *name == stage.name) {
            Some((_, times)) => times.push(stage.ms),
            None => stages.push((stage.name.clone(), vec![stage.ms])),
        }
    }
    let mut stages: Vec<(String, f64)> = stages
        .into_iter()
        .filter_map(|(name, times)| Some((name, stats::mean(&times)?)))
        .collect();
    let told: f64 = stages.iter().map(|(_, ms)| *ms).sum();
    if ready > told {
        stages.push(("the rest, to the first token".to_owned(), ready - told));
    }
    Some(Start { arm, stages })
}
