//! Numbers of what was read at both ends of the measured part, when no request was in flight: the engine's own
//! counters, and the energy of its GPUs.
//!
//! A matrix has such a part for each pass of each cell; the rises of those that the check reads are added.

use super::gauge::shown;
use crate::metrics::{LaunchMeasure, Place, Undefined, Why};
use crate::plan::{EngineSeries, Named};
use crate::record::{Metric, Phase, Sample, Window};

/// GPUs renew their energy counter some ten times a second: over a second one renewal is a tenth at the most.
const LEAST_ENERGY_NS: u64 = 1_000_000_000;

/// A metric `counter_…` of the check's series.
pub fn of_counter(at: &Place<'_>, metric: Metric) -> Result<LaunchMeasure, Undefined> {
    let named = at.part.named.as_ref();
    let named = named.ok_or_else(|| at.undefined(Why::WrongWorkload(metric), None))?;
    let counted = Counted::of(at)?;
    let rise = counted.rise(at, &named.series)?;
    let requests = counted.samples.len();
    let mut remark = format!(
        "`{}` rose by {}; requests {requests}",
        named.series,
        shown(rise.by),
    );
    let value = match metric {
        Metric::CounterTotal => rise.total,
        Metric::CounterPerRequest => rise.by / requests as f64,
        Metric::CounterPerToken => {
            let tokens = counted.tokens(at)?;
            remark += &format!(", output tokens {tokens}");
            rise.by / tokens as f64
        }
        Metric::CounterRatio => rise.by / divisor(at, named, &counted, &mut remark)?,
        _ => rise.by,
    };
    if value <= 0.0 && !named.allow_zero {
        let why = Why::NeverMoved(named.series.to_string());
        return Err(at.undefined(why, None));
    }
    let mut measure = LaunchMeasure::single(value, requests);
    measure.remarks.push(remark);
    Ok(measure)
}

fn divisor(
    at: &Place<'_>,
    named: &Named,
    counted: &Counted<'_>,
    remark: &mut String,
) -> Result<f64, Undefined> {
    let over = named.over.as_ref().unwrap_or(&named.series);
    let by = counted.rise(at, over)?.by;
    if by <= 0.0 {
        return Err(at.undefined(Why::NeverMoved(over.to_string()), None));
    }
    *remark += &format!("; `{over}` by {}", shown(by));
    Ok(by)
}

/// Joules of the engine's GPUs over the output tokens.
pub fn energy_per_token(at: &Place<'_>) -> Result<LaunchMeasure, Undefined> {
    let counted = Counted::of(at)?;
    let gpus = at.launch.telemetry.as_ref().map(|t| t.engine_gpus());
    let gpus = gpus.unwrap_or_default();
    if gpus.is_empty() {
        return Err(at.undefined(Why::NoGpu, None));
    }
    let mut joules = 0.0;
    for window in &counted.windows {
        let ns = window.end.at_ns.saturating_sub(window.begin.at_ns);
        if ns < LEAST_ENERGY_NS {
            return Err(at.undefined(Why::TooShortForEnergy { ms: ns / 1_000_000 }, None));
        }
        for gpu in &gpus {
            let used = |window: &Window| {
                let (begin, end) = (&window.begin.energy_mj, &window.end.energy_mj);
                end.get(gpu)?.checked_sub(*begin.get(gpu)?)
            };
            let used = used(window).ok_or_else(|| at.undefined(Why::NoEnergy(*gpu), None))?;
            joules += used as f64 / 1e3;
        }
    }
    let tokens = counted.tokens(at)?;
    let mut measure = LaunchMeasure::single(joules / tokens as f64, counted.samples.len());
    let n = gpus.len();
    measure
        .remarks
        .push(format!("{joules:.1} J; GPUs {n}, output tokens {tokens}"));
    Ok(measure)
}

/// The measured requests with the stretches that hold them all.
struct Counted<'a> {
    /// In order of time; at least one.
    windows: Vec<&'a Window>,
    /// At least one, all sound.
    samples: Vec<&'a Sample>,
}

struct Rise {
    by: f64,
    /// The counter's value at the end.
    total: f64,
}

impl<'a> Counted<'a> {
    fn of(at: &Place<'a>) -> Result<Self, Undefined> {
        let mut samples = at.all();
        samples.retain(|sample| sample.phase == Phase::Measured);
        if samples.is_empty() {
            return Err(at.undefined(Why::NoSamples, None));
        }
        // The engine counts what it did for a void request too, and nothing tells how much that was.
        if let Some(void) = samples.iter().find(|sample| sample.void.is_some()) {
            return Err(at.undefined(Why::VoidCounted, Some(void)));
        }
        let telemetry = at.launch.telemetry.as_ref();
        let telemetry = telemetry.ok_or_else(|| at.undefined(Why::NoTelemetry, None))?;
        let holds = |w: &Window, s: &Sample| (w.first..=w.last).contains(&s.index);
        let mut windows: Vec<&Window> = telemetry.windows.iter().collect();
        windows.retain(|w| w.workload == at.workload.id && samples.iter().any(|s| holds(w, s)));
        if !samples.iter().all(|s| windows.iter().any(|w| holds(w, s))) {
            return Err(at.undefined(Why::NoWindow, None));
        }
        Ok(Self { windows, samples })
    }

    fn rise(&self, at: &Place<'_>, series: &EngineSeries) -> Result<Rise, Undefined> {
        let name = series.to_string();
        let mut rise = Rise {
            by: 0.0,
            total: 0.0,
        };
        for window in &self.windows {
            let ends = [&window.begin, &window.end].map(|edge| edge.counters.get(&name).copied());
            let [Some(begin), Some(end)] = ends else {
                return Err(at.undefined(Why::NoCounter(name), None));
            };
            for (from, to) in [(rise.total, begin), (begin, end)] {
                if to < from {
                    let why = Why::CounterReset {
                        name,
                        from: shown(from),
                        to: shown(to),
                    };
                    return Err(at.undefined(why, None));
                }
            }
            rise.by += end - begin;
            rise.total = end;
        }
        Ok(rise)
    }

    /// Output tokens; at least one.
    fn tokens(&self, at: &Place<'_>) -> Result<u64, Undefined> {
        let mut tokens = 0;
        for sample in &self.samples {
            let n = sample.tokens.completion;
            let n = n.ok_or_else(|| at.undefined(Why::NoUsage, Some(sample)))?;
            tokens += u64::from(n);
        }
        match tokens {
            0 => Err(at.undefined(Why::NoOutputTokens, None)),
            tokens => Ok(tokens),
        }
    }
}

#[cfg(test)]
mod tests;
