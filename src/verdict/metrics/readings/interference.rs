//! Work of the machine and gauges of the engine beside a workload, one number each.
//!
//! Main function: [`beside`]. A source that was not read gives nothing: never 0. Refuses to know: what is usual.

use crate::record::{GpuReading, Launch, Reading};
use crate::stats;

/// Bytes in a MiB.
const MIB: f64 = 1_048_576.0;

/// Name with its unit → value, in a fixed order. Of readings while `workload` (`gate/workload`) ran; of the whole
/// launch where none fell within.
pub fn beside(launch: &Launch, workload: &str) -> Vec<(&'static str, f64)> {
    let readings = readings(launch, workload);
    let own = launch
        .telemetry
        .as_ref()
        .map(|t| t.engine_gpus())
        .unwrap_or_default();
    let gpu = |value: fn(&GpuReading) -> Option<f64>| -> Vec<f64> {
        let gpus = readings.iter().flat_map(|reading| &reading.gpus);
        gpus.filter(|gpu| own.contains(&gpu.index))
            .filter_map(value)
            .collect()
    };
    let gauge = |value: fn(&Reading) -> Option<f64>| -> Vec<f64> {
        readings
            .iter()
            .filter_map(|reading| value(reading))
            .collect()
    };
    let most = |values: &[f64]| stats::quantile(values, 1.0).map(|q| q.value);
    let last = || launch.telemetry.as_ref()?.readings.last();
    let throttled = launch.throttle_bits.map(f64::from);
    let rows = [
        (
            "GPU clock, MHz",
            stats::median(&gpu(|g| g.sm_clock_mhz.map(f64::from))),
        ),
        (
            "GPU memory clock, MHz",
            stats::median(&gpu(|g| g.memory_clock_mhz.map(f64::from))),
        ),
        (
            "peak GPU temperature, °C",
            most(&gpu(|g| g.temperature_c.map(f64::from))),
        ),
        ("GPU power, W", stats::median(&gpu(|g| g.power_w))),
        ("GPU throttle bits", throttled),
        (
            "peak GPU memory, MiB",
            most(&gpu(|g| g.memory_used_bytes.map(|b| b as f64 / MIB))),
        ),
        (
            "peak engine memory, MiB",
            most(&gauge(|r| r.rss_bytes.map(|b| b as f64 / MIB))),
        ),
        (
            "huge pages, MiB",
            last().and_then(|r| r.huge_bytes).map(|b| b as f64 / MIB),
        ),
        (
            "major page faults",
            last().and_then(|r| r.major_faults).map(|n| n as f64),
        ),
        ("engine CPU, cores", cores(&readings, |r| r.engine_cpu_s)),
        (
            "other processes' CPU, cores",
            cores(&readings, others_cpu_s).map(|cores| cores.max(0.0)),
        ),
        ("CPU steal, cores", cores(&readings, |r| r.steal_s)),
        (
            "peak KV cache, MiB",
            most(&gauge(|r| r.engine.kv_bytes.map(|b| b / MIB))),
        ),
        (
            "peak KV cache, %",
            most(&gauge(|r| r.engine.kv_usage.map(|share| share * 100.0))),
        ),
        ("peak running requests", most(&gauge(|r| r.engine.running))),
        ("peak waiting requests", most(&gauge(|r| r.engine.waiting))),
        ("preemptions", rise(&readings, |r| r.engine.preemptions)),
        ("prefix hits", rise(&readings, |r| r.engine.prefix_hits)),
        (
            "prefix queries",
            rise(&readings, |r| r.engine.prefix_queries),
        ),
    ];
    rows.into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

fn readings<'a>(launch: &'a Launch, workload: &str) -> Vec<&'a Reading> {
    let samples = || launch.samples.iter().filter(|s| s.workload == workload);
    let begin = samples().map(|s| s.stamps.send_ns).min().unwrap_or(0);
    let end = samples()
        .filter_map(|s| s.stamps.done_ns)
        .max()
        .unwrap_or(u64::MAX);
    let all = || launch.telemetry.iter().flat_map(|t| &t.readings);
    let within: Vec<&Reading> = all().filter(|r| (begin..=end).contains(&r.at_ns)).collect();
    match within.len() {
        0 | 1 => all().collect(),
        _ => within,
    }
}

fn others_cpu_s(reading: &Reading) -> Option<f64> {
    Some(reading.machine_cpu_s? - reading.engine_cpu_s? - reading.gate_cpu_s?)
}

/// Seconds of CPU time a second, from the first reading to the last.
fn cores(readings: &[&Reading], time: impl Fn(&Reading) -> Option<f64>) -> Option<f64> {
    let (first, last) = (readings.first()?, readings.last()?);
    let seconds = last.at_ns.checked_sub(first.at_ns)? as f64 / 1e9;
    (seconds > 0.0).then_some((time(last)? - time(first)?) / seconds)
}

/// By how much a counter rose.
fn rise(readings: &[&Reading], count: impl Fn(&Reading) -> Option<f64>) -> Option<f64> {
    Some(count(readings.last()?)? - count(readings.first()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::testing::{launch, streamed};
    use crate::record::{EngineReading, Telemetry};

    fn reading(at_ms: u64, waiting: Option<f64>, cpu_s: f64) -> Reading {
        Reading {
            at_ns: at_ms * 1_000_000,
            machine_cpu_s: Some(cpu_s),
            engine_cpu_s: Some(cpu_s / 2.0),
            gate_cpu_s: Some(0.0),
            engine: EngineReading {
                waiting,
                ..EngineReading::default()
            },
            ..Reading::default()
        }
    }

    fn check(readings: Vec<Reading>, expect: &[(&str, f64)]) {
        let mut l = launch(0, vec![streamed("w", 0, 50.0, 10.0, 6)]);
        l.samples[0].stamps.done_ns = Some(100_000_000);
        l.telemetry = Some(Telemetry {
            readings,
            ..Telemetry::default()
        });
        assert_eq!(beside(&l, "w"), expect);
    }

    #[test]
    fn only_what_was_read_is_told() {
        check(vec![], &[]);
        check(vec![Reading::default()], &[]);
        let cpu = [
            ("engine CPU, cores", 5.0),
            ("other processes' CPU, cores", 5.0),
        ];
        check(vec![reading(0, None, 0.0), reading(100, None, 1.0)], &cpu);
        let with_queue = [cpu[0], cpu[1], ("peak waiting requests", 3.0)];
        let later = reading(900, Some(9.0), 99.0);
        check(
            vec![
                reading(0, Some(3.0), 0.0),
                reading(100, Some(1.0), 1.0),
                later,
            ],
            &with_queue,
        );
    }
}
