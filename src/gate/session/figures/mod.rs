//! What the page draws of a session, from its record.

mod tables;

pub use tables::{launches_csv, requests_csv};

use crate::report::{Bar, CheckFigures, Contexts, Over, PERCENTILES, Series, Start};
use std::collections::{BTreeMap, BTreeSet};
use verdict::metrics::{ContextLine, is_in_part};
use verdict::plan::{Check, Plan, Rule, Workload};
use verdict::record::{
    Arm, CheckVerdict, Direction, Extent, GpuReading, Launch, Metric, MetricKind, Phase, Reading,
    RunRecord, RunVerdict, Sample, by_stage,
};
use verdict::{judge, metrics, stats};

/// Points of a line over time: more are not seen.
const POINTS: usize = 600;
/// Tokens of an answer that are drawn one by one.
const TOKENS: usize = 600;
/// Requests of a launch that are drawn as bars.
const BARS: usize = 48;

/// Every check's values.
pub fn of_checks(plan: &Plan, record: &RunRecord, verdict: &RunVerdict) -> Vec<CheckFigures> {
    let judged = verdict.gates.iter().flat_map(|gate| &gate.checks);
    let judged: BTreeMap<&str, &CheckVerdict> = judged.map(|c| (c.id.as_str(), c)).collect();
    let checks = plan.gates.iter().flat_map(|gate| &gate.checks);
    let checks = checks.filter_map(|check| Some((check, *judged.get(check.id.as_str())?)));
    // Checks of one workload read the same events and requests.
    let (mut drawn, mut fallen) = (BTreeSet::new(), BTreeSet::new());
    checks
        .map(|(check, judged)| {
            let mut figures = of_check(plan, record, check, judged);
            if is_of_events(check) && drawn.insert(&check.workload) {
                figures.tokens = events(record, check);
            }
            let workload = workload_of(plan, check);
            if let Some(workload) = workload.filter(|_| is_over_contexts(check)) {
                figures.contexts = Arm::BOTH.map(|arm| contexts(record, check, workload, arm));
            }
            if check.metric.kind() == MetricKind::Latency && fallen.insert(&check.workload) {
                figures.waterfall = Arm::BOTH.map(|arm| waterfall(record, check, arm));
            }
            figures
        })
        .collect()
}

fn workload_of<'a>(plan: &'a Plan, check: &Check) -> Option<&'a Workload> {
    let mut workloads = plan.gates.iter().flat_map(|gate| &gate.workloads);
    workloads.find(|workload| workload.id == check.workload)
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
        // Beyond its last request a percentile is the maximum by another name; a little is lost to rounding.
        let is_within = |share: &&f64| (1.0 - **share) * values.len() as f64 >= 1.0 - 1e-9;
        let shares = PERCENTILES.iter().take_while(is_within);
        shares.map(|share| at(&values, *share)).collect()
    });
    CheckFigures {
        check: check.id.clone(),
        unit: check.metric.unit(),
        limits: limits(check, judged),
        launches,
        percentiles,
        tokens: Default::default(),
        contexts: Default::default(),
        waterfall: Default::default(),
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
                Direction::HigherIsBetter => base * (1.0 - change),
            };
            vec![("margin", at(margin)), ("ceiling", at(ceiling))]
        }
    }
}

fn is_of_events(check: &Check) -> bool {
    matches!(check.metric, Metric::Tpot | Metric::Icl | Metric::Itl)
}

fn is_over_contexts(check: &Check) -> bool {
    let is_line = matches!(check.metric, Metric::TpotBase | Metric::TpotSlope);
    is_line || (check.metric == Metric::Tpot && check.part.context.is_none())
}

/// Medians of an arm's launches.
fn contexts(record: &RunRecord, check: &Check, workload: &Workload, arm: Arm) -> Option<Contexts> {
    let launches = sound(record, arm);
    let lines = launches.filter_map(|launch| metrics::context_line(check, workload, launch));
    let lines: Vec<ContextLine> = lines.collect();
    let mut at: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (context, tpot) in lines.iter().flat_map(|line| &line.points) {
        at.entry(context.round() as u64).or_default().push(*tpot);
    }
    let points = at.into_iter();
    let points = points.filter_map(|(x, ys)| Some((x as f64, stats::median(&ys)?)));
    let of = |value: fn(&ContextLine) -> f64| {
        stats::median(&lines.iter().map(value).collect::<Vec<f64>>())
    };
    Some(Contexts {
        points: points.collect(),
        base: of(|line| line.base)?,
        slope: of(|line| line.slope)?,
    })
}

fn sound(record: &RunRecord, arm: Arm) -> impl Iterator<Item = &Launch> {
    let launches = record.launches.iter();
    launches.filter(move |launch| launch.arm == arm && launch.exit.is_clean())
}

/// Requests of the arm's first sound launch that ran the workload, if some of them overlap.
fn waterfall(record: &RunRecord, check: &Check, arm: Arm) -> Vec<Bar> {
    let of = |launch: &Launch| -> Vec<Bar> {
        let samples = launch.samples.iter().filter(|sample| {
            sample.workload == check.workload
                && sample.phase == Phase::Measured
                && sample.void.is_none()
        });
        let mut bars: Vec<(u64, Bar)> = samples.filter_map(bar).collect();
        bars.sort_by_key(|(sent, _)| *sent);
        bars.truncate(BARS);
        let bars = bars.into_iter().map(|(_, bar)| bar);
        let bars: Vec<Bar> = bars.collect();
        let first = bars.iter().map(|bar| bar.due).fold(f64::INFINITY, f64::min);
        let from_first = |bar: Bar| Bar {
            due: bar.due - first,
            sent: bar.sent - first,
            first: bar.first - first,
            done: bar.done - first,
            ..bar
        };
        bars.into_iter().map(from_first).collect()
    };
    let mut all = sound(record, arm).map(of).filter(|bars| !bars.is_empty());
    let bars = all.next().unwrap_or_default();
    let is_overlapping = bars.windows(2).any(|pair| pair[1].sent < pair[0].done);
    match is_overlapping {
        true => bars,
        false => Vec::new(),
    }
}

/// When it was sent, and in ms of the session. Requests that were not answered have none.
fn bar(sample: &Sample) -> Option<(u64, Bar)> {
    let stamps = &sample.stamps;
    let ms = |ns: u64| ns as f64 / 1e6;
    let done = stamps.done_ns?;
    let bar = Bar {
        index: sample.index,
        due: ms(stamps.intended_ns.min(stamps.send_ns)),
        sent: ms(stamps.send_ns),
        first: ms(stamps.events_ns.first().copied().unwrap_or(done)),
        done: ms(done),
    };
    Some((stamps.send_ns, bar))
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
    let mut stages: Vec<(String, f64)> = by_stage(starts.iter().copied())
        .into_iter()
        .filter_map(|(name, times)| Some((name, stats::mean(&times)?)))
        .collect();
    let told: f64 = stages.iter().map(|(_, ms)| *ms).sum();
    if ready > told {
        stages.push(("the rest, to the first token".to_owned(), ready - told));
    }
    Some(Start { arm, stages })
}
