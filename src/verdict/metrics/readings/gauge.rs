//! Numbers of what was read beside the requests: the engine's KV gauges, its process's memory.
//!
//! A reading belongs to a workload where its moment lies between the first request's sending and the
//! last answer's end.

use crate::metrics::{LaunchMeasure, Place, Undefined, Why, reduce};
use crate::plan::WorkloadKind;
use crate::record::{GpuReading, Reading, Sample, Statistic};
use crate::stats;

/// Share of the readings that must have a gauge's value.
const COVERED: f64 = 0.9;
/// Fewest readings above 0 over which growth is told.
const GROWTH_READINGS: usize = 8;
/// The chance that readings without growth show some.
const CHANCE: f64 = 0.001;
/// Growth is told over the medians of at most so many spans of equal time, which a robust slope over all
/// pairs can bear.
const SPANS: usize = 60;

pub fn kv_bytes(at: &Place<'_>, statistic: Statistic) -> Result<LaunchMeasure, Undefined> {
    let series = engine_gauge(at, "KV bytes", |r| r.engine.kv_bytes)?;
    of_gauge(at, statistic, &series, bytes)
}

pub fn kv_usage(at: &Place<'_>, statistic: Statistic) -> Result<LaunchMeasure, Undefined> {
    let series = engine_gauge(at, "KV usage", |r| r.engine.kv_usage)?;
    of_gauge(at, statistic, &series, percent)
}

/// By how much the KV cache in use grew: exp(slope of its logarithm × span) − 1, in bytes or, where the
/// engine tells a share only, in that. Readings of 0, of an engine that rests, stay out; a gauge that
/// always reads 0 is dead, and its growth undefined.
pub fn kv_growth(at: &Place<'_>) -> Result<LaunchMeasure, Undefined> {
    match engine_gauge(at, "KV bytes", |r| r.engine.kv_bytes) {
        Err(undefined) if undefined.why == Why::NoGauge("KV bytes") => {
            let series = engine_gauge(at, "KV bytes", |r| r.engine.kv_usage)?;
            growth(at, &series, percent)
        }
        series => growth(at, &series?, bytes),
    }
}

/// The same of the engine's resident memory.
pub fn rss_growth(at: &Place<'_>) -> Result<LaunchMeasure, Undefined> {
    let series = gauge(at, |r| r.rss_bytes.map(|bytes| bytes as f64))?;
    if series.is_empty() {
        return Err(at.undefined(Why::NoMemory, None));
    }
    growth(at, &series, bytes)
}

/// A gauge that the check names.
pub fn named(at: &Place<'_>, statistic: Statistic) -> Result<LaunchMeasure, Undefined> {
    let named = at.part.named.as_ref();
    let name = named.map(|n| n.series.to_string()).unwrap_or_default();
    let series = gauge(at, |r| r.gauges.get(&name).copied())?;
    if series.is_empty() {
        return Err(at.undefined(Why::NoSeries(name), None));
    }
    let allow_zero = named.is_some_and(|named| named.allow_zero);
    if !allow_zero && series.iter().all(|(_, v)| v.abs() <= 0.0) {
        let n = series.len();
        return Err(at.undefined(Why::AlwaysZero { n }, None));
    }
    of_gauge(at, statistic, &series, shown)
}

/// Memory on the engine's GPUs: that of its processes where the driver tells it, else that of all.
pub fn gpu_memory(at: &Place<'_>, statistic: Statistic) -> Result<LaunchMeasure, Undefined> {
    let own = at.launch.telemetry.as_ref().map(|t| t.engine_gpus());
    let own = own.unwrap_or_default();
    let sum = |r: &Reading, value: fn(&GpuReading) -> Option<u64>| {
        let gpus = r.gpus.iter().filter(|gpu| own.contains(&gpu.index));
        let bytes: Option<u64> = gpus.map(value).sum();
        bytes
            .filter(|_| !r.gpus.is_empty())
            .map(|bytes| bytes as f64)
    };
    let device = gauge(at, |r| sum(r, |gpu| gpu.memory_used_bytes))?;
    // Not every driver tells it.
    let process = gauge(at, |r| sum(r, |gpu| gpu.engine_memory_bytes)).unwrap_or_default();
    let (series, of) = match process.len() >= device.len() {
        true => (process, "the engine's processes"),
        false => (device, "all processes on the engine's GPUs"),
    };
    if series.is_empty() {
        return Err(at.undefined(Why::NoGpu, None));
    }
    let mut measure = of_gauge(at, statistic, &series, bytes)?;
    measure.remarks.push(format!("of {of}"));
    Ok(measure)
}

/// A gauge over time: seconds from the first reading, value.
type Series = Vec<(f64, f64)>;

/// How a gauge's value stands in a sentence.
type Shown = fn(f64) -> String;

fn bytes(bytes: f64) -> String {
    const MIB: f64 = 1_048_576.0;
    match bytes < MIB {
        true => format!("{bytes:.0} bytes"),
        false => format!("{:.1} MiB", bytes / MIB),
    }
}

/// A number of the engine's: whole, or to six digits.
pub fn shown(v: f64) -> String {
    if v.fract().abs() <= 0.0 {
        return format!("{v:.0}");
    }
    let digits = (5.0 - v.abs().log10().floor()).clamp(0.0, 12.0) as usize;
    let text = format!("{v:.digits$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0 + 0.0)
}

fn engine_gauge(
    at: &Place<'_>,
    name: &'static str,
    value: impl Fn(&Reading) -> Option<f64>,
) -> Result<Series, Undefined> {
    let series = gauge(at, value)?;
    if series.is_empty() {
        return Err(at.undefined(Why::NoGauge(name), None));
    }
    Ok(series)
}

fn gauge(at: &Place<'_>, value: impl Fn(&Reading) -> Option<f64>) -> Result<Series, Undefined> {
    let telemetry = at.launch.telemetry.as_ref();
    let telemetry = telemetry.ok_or_else(|| at.undefined(Why::NoTelemetry, None))?;
    let samples = at.measured()?;
    let begin = samples.iter().map(|s| s.stamps.send_ns).min();
    let end = samples.iter().filter_map(|s| s.stamps.done_ns).max();
    let (begin, end) = (begin.unwrap_or(0), end.unwrap_or(u64::MAX));
    if let Some((first, last)) = stays_short(at, &samples) {
        return Err(at.undefined(Why::NoConversation { first, last }, None));
    }
    let within = telemetry
        .readings
        .iter()
        .filter(|r| (begin..=end).contains(&r.at_ns));
    let seconds = |r: &Reading| (r.at_ns - begin) as f64 / 1e9;
    let all = within.clone().count();
    let series: Series = within
        .filter_map(|r| Some((seconds(r), value(r)?)))
        .collect();
    let have = series.len();
    let is_patchy = have > 0 && have + 1 < all && (have as f64) < COVERED * all as f64;
    match is_patchy {
        true => Err(at.undefined(Why::Patchy { have, all }, None)),
        false => Ok(series),
    }
}

/// Prompt tokens of a conversation's first and last turn, where they do not rise.
fn stays_short(at: &Place<'_>, samples: &[&Sample]) -> Option<(u32, u32)> {
    if !matches!(at.workload.kind, WorkloadKind::Session(_)) {
        return None;
    }
    let first = samples.iter().min_by_key(|sample| sample.index)?;
    let last = samples.iter().max_by_key(|sample| sample.index)?;
    let (first, last) = (first.tokens.prompt?, last.tokens.prompt?);
    (samples.len() > 1 && last <= first).then_some((first, last))
}

fn of_gauge(
    at: &Place<'_>,
    statistic: Statistic,
    series: &[(f64, f64)],
    shown: Shown,
) -> Result<LaunchMeasure, Undefined> {
    let values: Vec<f64> = series.iter().map(|(_, v)| *v).collect();
    let value = reduce(statistic, &values).map_err(|why| at.undefined(why, None))?;
    let mut measure = LaunchMeasure::single(value, values.len());
    let quantile = |p| stats::quantile(&values, p).map(|q| q.value);
    if let (Some(least), Some(median), Some(most)) = (quantile(0.0), quantile(0.5), quantile(1.0)) {
        measure.remarks.push(format!(
            "from {} to {}, median {}, over {} readings",
            shown(least),
            shown(most),
            shown(median),
            values.len()
        ));
    }
    Ok(measure)
}

fn growth(at: &Place<'_>, series: &[(f64, f64)], shown: Shown) -> Result<LaunchMeasure, Undefined> {
    let (times, values): (Vec<f64>, Vec<f64>) =
        series.iter().copied().filter(|(_, v)| *v > 0.0).unzip();
    let (n, need) = (values.len(), GROWTH_READINGS);
    if n == 0 && series.len() >= need {
        let n = series.len();
        return Err(at.undefined(Why::AlwaysZero { n }, None));
    }
    let too_few = || at.undefined(Why::TooFewReadings { n, need }, None);
    if n < need {
        return Err(too_few());
    }
    let (spans, medians) = medians_over_time(&times, &values);
    let logs: Vec<f64> = medians.iter().map(|v| v.ln()).collect();
    let slope = stats::theil_sen_slope(&spans, &logs).ok_or_else(too_few)?;
    let length = spans.last().unwrap_or(&0.0) - spans.first().unwrap_or(&0.0);
    let mut measure = LaunchMeasure::single((slope * length).exp_m1(), n);
    let least = stats::theil_sen_least(&spans, &logs, CHANCE).unwrap_or(f64::NEG_INFINITY);
    let at_least = (least * length).exp_m1();
    measure.at_least = Some(at_least);
    let sure = format!("at least {}", percent(at_least));
    measure.remarks.push(sure);
    if let Some((head, tail)) = stats::head_tail_medians(&medians) {
        let (head, tail) = (shown(head), shown(tail));
        let remark = format!("{head} in the first fifth, {tail} in the last");
        measure.remarks.push(remark);
    }
    Ok(measure)
}

/// Medians of the values within spans of equal time, with the spans' middles.
fn medians_over_time(times: &[f64], values: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let (Some(first), Some(last)) = (times.first(), times.last()) else {
        return (Vec::new(), Vec::new());
    };
    let width = (last - first) / SPANS as f64;
    if values.len() <= SPANS || width <= 0.0 {
        return (times.to_vec(), values.to_vec());
    }
    let span = |t: f64| (((t - first) / width) as usize).min(SPANS - 1);
    let mut spans: Vec<Vec<f64>> = vec![Vec::new(); SPANS];
    for (t, v) in times.iter().zip(values) {
        spans[span(*t)].push(*v);
    }
    let middle = |i: usize| first + (i as f64 + 0.5) * width;
    let medians = spans.iter().enumerate();
    medians
        .filter_map(|(i, values)| Some((middle(i), stats::median(values)?)))
        .unzip()
}

#[cfg(test)]
mod tests {
    use crate::metrics::testing::{check, launch, steady, streamed};
    use crate::metrics::{LaunchMeasure, Undefined, Why, measure};
    use crate::plan::{EngineSeries, Named, Session, WorkloadKind};
    use crate::record::{EngineReading, GpuReading, Metric, Reading, Statistic, Telemetry};

    /// One request from 0 to 1 s, and readings every 10 ms of which the gauge is given.
    fn of(
        metric: Metric,
        statistic: Statistic,
        gauge: impl Fn(u64) -> Option<f64>,
    ) -> Result<LaunchMeasure, Undefined> {
        let mut sample = streamed("w", 0, 10.0, 10.0, 90);
        sample.stamps.done_ns = Some(1_000_000_000);
        let mut l = launch(0, vec![sample]);
        let readings = (0..150).map(|i| Reading {
            at_ns: i * 10_000_000,
            engine: EngineReading {
                kv_bytes: gauge(i),
                ..EngineReading::default()
            },
            rss_bytes: gauge(i).map(|v| v as u64),
            ..Reading::default()
        });
        l.telemetry = Some(Telemetry {
            every_ms: 10,
            readings: readings.collect(),
            ..Telemetry::default()
        });
        measure(&check(metric, statistic), &steady("w"), &l)
    }

    #[test]
    fn the_gauge_counts_within_the_workload_alone() {
        let m = of(Metric::KvBytes, Statistic::Max, |i| Some(i as f64)).unwrap();
        assert_eq!((m.value, m.samples), (100.0, 101));
        let mib = |i: u64| Some(i as f64 * 1_048_576.0);
        assert_eq!(
            of(Metric::KvBytes, Statistic::Max, mib).unwrap().remarks,
            ["from 0 bytes to 100.0 MiB, median 50.0 MiB, over 101 readings"]
        );
        assert_eq!(
            of(Metric::KvBytes, Statistic::Max, |_| None)
                .unwrap_err()
                .why,
            Why::NoGauge("KV bytes")
        );
        let bare = launch(0, vec![streamed("w", 0, 10.0, 10.0, 9)]);
        let c = check(Metric::KvBytes, Statistic::Max);
        let undefined = measure(&c, &steady("w"), &bare).unwrap_err();
        assert_eq!(undefined.why, Why::NoTelemetry);
    }

    #[test]
    fn a_gauge_that_is_often_missing_has_no_value() {
        // Of 101 readings, 11 of the busy ones lack it; an edge may.
        let often = |i: u64| (!(20..31).contains(&i)).then_some(1e6);
        let seldom = |i: u64| (!(20..30).contains(&i)).then_some(1e6);
        for metric in [Metric::KvBytes, Metric::KvGrowth, Metric::RssGrowth] {
            let statistic = match metric.is_single() {
                true => Statistic::Single,
                false => Statistic::Max,
            };
            let patchy = of(metric, statistic, often).unwrap_err().why;
            assert_eq!(patchy, Why::Patchy { have: 90, all: 101 }, "{metric}");
            assert!(of(metric, statistic, seldom).is_ok(), "{metric}");
        }
    }

    /// A model that only thinks answers with no text, so that each turn is sent alone.
    #[test]
    fn a_conversation_that_does_not_grow_bounds_no_memory() {
        let of = |last: u32| {
            let turn = |index: u32, prompt: u32| {
                let mut sample = streamed("w", index, 10.0, 10.0, 9);
                sample.tokens.prompt = Some(prompt);
                sample
            };
            let mut l = launch(0, vec![turn(0, 40), turn(1, 30), turn(2, last)]);
            let reading = |i: u64| Reading {
                at_ns: i * 1_000_000,
                rss_bytes: Some(1_000_000),
                ..Reading::default()
            };
            l.telemetry = Some(Telemetry {
                every_ms: 1,
                readings: (0..90).map(reading).collect(),
                ..Telemetry::default()
            });
            let mut workload = steady("w");
            workload.kind = WorkloadKind::Session(Session {
                turns: 3,
                warmup_turns: 0,
                message_words: 1,
                reply_tokens: 9,
                spacing: None,
                duration: None,
            });
            measure(&check(Metric::RssGrowth, Statistic::Single), &workload, &l)
        };
        assert!(of(60).is_ok());
        let short = of(40).unwrap_err().why;
        assert_eq!(
            short,
            Why::NoConversation {
                first: 40,
                last: 40
            }
        );
    }

    /// One request from 0 to 1 s, and these readings every 100 ms.
    fn beside(
        check: &crate::plan::Check,
        reading: impl Fn(u64) -> Reading,
    ) -> Result<LaunchMeasure, Undefined> {
        let mut sample = streamed("w", 0, 10.0, 10.0, 90);
        sample.stamps.done_ns = Some(1_000_000_000);
        let mut l = launch(0, vec![sample]);
        let readings = (0..15).map(|i| Reading {
            at_ns: i * 100_000_000,
            ..reading(i)
        });
        l.telemetry = Some(Telemetry {
            readings: readings.collect(),
            ..Telemetry::default()
        });
        measure(check, &steady("w"), &l)
    }

    #[test]
    fn numbers_of_the_engine_are_short() {
        for (v, expect) in [
            (0.0, "0"),
            (1600.0, "1600"),
            (0.060_000_000_000_000_005, "0.06"),
            (-1_234.567_89, "-1234.57"),
        ] {
            assert_eq!(super::shown(v), expect);
        }
    }

    #[test]
    fn a_gauge_by_name_is_the_one_that_the_check_names() {
        let mut c = check(Metric::Gauge, Statistic::Max);
        let named = |allow_zero| {
            Some(Named {
                series: EngineSeries {
                    name: "batch".into(),
                    labels: vec![("kind".into(), "decode".into())],
                },
                over: None,
                allow_zero,
            })
        };
        c.part.named = named(false);
        let reading = |name: &'static str, value: fn(u64) -> f64| {
            move |i| Reading {
                gauges: [(name.to_owned(), value(i))].into(),
                ..Reading::default()
            }
        };
        let name = "batch{kind=\"decode\"}";
        let m = beside(&c, reading(name, |i| i as f64)).unwrap();
        assert_eq!((m.value, m.samples), (10.0, 11));
        let other = beside(&c, reading("batch", |i| i as f64)).unwrap_err().why;
        assert_eq!(other, Why::NoSeries(name.into()));
        let dead = beside(&c, reading(name, |_| 0.0)).unwrap_err().why;
        assert_eq!(dead, Why::AlwaysZero { n: 11 });
        c.part.named = named(true);
        assert!(beside(&c, reading(name, |_| 0.0)).is_ok());
    }

    #[test]
    fn gpu_memory_is_the_engines_own_where_the_driver_tells() {
        const GIB: u64 = 1 << 30;
        let gpu = |index, engine_processes, engine_memory_bytes| GpuReading {
            index,
            engine_processes: Some(engine_processes),
            engine_memory_bytes,
            memory_used_bytes: Some(10 * GIB),
            ..GpuReading::default()
        };
        let c = check(Metric::GpuMemory, Statistic::Max);
        let of = |own: fn(u64) -> Option<u64>| {
            beside(&c, |i| Reading {
                gpus: vec![gpu(0, 1, own(i)), gpu(1, 0, None)],
                ..Reading::default()
            })
        };
        let peak = of(|i| Some(if i == 5 { 4 * GIB } else { GIB })).unwrap();
        assert!((peak.value / GIB as f64 - 4.0).abs() < 1e-9);
        assert_eq!(peak.remarks[1], "of the engine's processes");
        let device = of(|i| (i > 0).then_some(GIB)).unwrap();
        assert!((device.value / GIB as f64 - 10.0).abs() < 1e-9);
        assert_eq!(device.remarks[1], "of all processes on the engine's GPUs");
        let none = beside(&c, |_| Reading::default()).unwrap_err().why;
        assert_eq!(none, Why::NoGpu);
    }

    #[test]
    fn growth_is_over_the_whole_workload() {
        // ×2 over 1 s, with a wild reading and two of an engine at rest.
        let doubling = |i: u64| match i {
            30 => Some(1e12),
            40 | 41 => Some(0.0),
            _ => Some(1e6 * (2.0_f64).powf(i as f64 / 100.0)),
        };
        let growth = of(Metric::KvGrowth, Statistic::Single, doubling).unwrap();
        assert!((growth.value - 1.0).abs() < 0.05, "{}", growth.value);
        let at_least = format!("at least {}", super::percent(growth.at_least.unwrap()));
        let ends = "1.0 MiB in the first fifth, 1.8 MiB in the last";
        assert_eq!(growth.remarks, [at_least.as_str(), ends]);
        // All but the wild one lie on the line: what is shown for sure is nearly all of it.
        let least = growth.at_least.unwrap();
        assert!((least - 1.0).abs() < 0.05, "{least}");
        let page_by_page = |i: u64| Some([3e5, 6e5][(i.count_ones() % 2) as usize]);
        let noise = of(Metric::KvGrowth, Statistic::Single, page_by_page).unwrap();
        assert!(noise.at_least.unwrap() <= 0.0, "{:?}", noise.at_least);
        assert!(noise.remarks[0].starts_with("at least "), "{noise:?}");
        let rss = of(Metric::RssGrowth, Statistic::Single, |_| Some(5e6)).unwrap();
        assert!(rss.value.abs() < 1e-12);
        let dead = of(Metric::KvGrowth, Statistic::Single, |_| Some(0.0));
        assert_eq!(dead.unwrap_err().why, Why::AlwaysZero { n: 101 });
        // 101 readings, of which seven have a logarithm.
        let seldom = of(Metric::KvGrowth, Statistic::Single, |i| {
            Some(if i % 15 == 0 { 4096.0 } else { 0.0 })
        });
        assert_eq!(
            seldom.unwrap_err().why,
            Why::TooFewReadings { n: 7, need: 8 }
        );
    }
}
