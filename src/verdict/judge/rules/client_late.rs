//! Rules on a late load client that could have moved a result more than its check bears.
//!
//! Requests may leave late, which counts where a time begins with the intended moment; and events may be
//! read late, where the kernel stamps none. A delay is held against the time that the metric is made of; for
//! goodput the requests are counted that missed their bounds by no more than the client's own delay.
//!
//! Main function: [`client_late`]. Refuses to know: why the client was late.

use super::super::Rules;
use super::client::{AMBIGUOUS_MIDDLE, health, is_tail, reads_medians};
use super::finding::{Finding, of_launch};
use crate::judge::launch_view::LaunchView;
use crate::metrics::{is_good, slo};
use crate::plan::{Rule, Slo};
use crate::record::{LaunchFact, Metric, RuleId, Sample};
use crate::stats;

/// The client of one launch was too late for the check.
pub fn client_late(_: &Rules<'_>, launch_view: &LaunchView<'_, '_>) -> Option<Finding> {
    let (check, samples) = (launch_view.check, launch_view.sound());
    if !check.metric.is_by_clock() {
        return None;
    }
    let value = launch_view.measure.as_ref().ok()?.value;
    let tail = is_tail(check.statistic);
    let sent = if counts_from_intention(check.metric) {
        sent_late(samples, tail).unwrap_or(0.0)
    } else {
        0.0
    };
    let read = read_late(launch_view, tail).unwrap_or(0.0);
    let delay = sent + read;
    let moved = if check.metric == Metric::Goodput {
        let slo = slo(check.part.slo.unwrap_or_default(), samples).ok()?;
        missed_by(samples, slo, read) / value
    } else if delay > 0.0 {
        delay / time(check.metric, value, samples)?
    } else {
        return None;
    };
    let bearable = match check.rule {
        Rule::Regression { margin, .. } => margin,
        // A delay makes requests miss their bounds: enough kept them all the same.
        Rule::Floor { limit } if check.metric == Metric::Goodput && value >= limit => return None,
        // As far as the value is from the limit, it cannot have been moved across.
        Rule::Ceiling { limit } | Rule::Floor { limit } => (limit / value - 1.0).abs(),
    };
    if moved.is_nan() || moved <= bearable {
        return None;
    }
    let fact = LaunchFact::ClientLate {
        delay_ms: delay,
        moved,
        bearable,
    };
    of_launch(launch_view, RuleId::ClientLate, fact)
}

/// The time in ms that a delay is a part of; `None` where the load client takes no part.
fn time(metric: Metric, value: f64, samples: &[&Sample]) -> Option<f64> {
    match metric {
        Metric::Ready | Metric::PortOpen | Metric::Stage => None,
        Metric::Ttft
        | Metric::E2e
        | Metric::Icl
        | Metric::Itl
        | Metric::WallTtft
        | Metric::GenerationStall => Some(value),
        Metric::FirstToken | Metric::FirstResponse => Some(value),
        // A delay at the ends of a stream is shared by its tokens.
        Metric::Tpot | Metric::TpotBase => Some(value * gaps(samples)),
        Metric::DecodeRate | Metric::TpotSlope | Metric::Contention => middle(samples, span_ms),
        Metric::PrefillRate | Metric::PrefillDrift => middle(samples, ttft_ms),
        // Metrics of whole requests.
        _ => middle(samples, e2e_ms),
    }
}

fn counts_from_intention(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::Ttft
            | Metric::WallTtft
            | Metric::PrefillRate
            | Metric::PrefillDrift
            | Metric::InterleavingBenefit
            | Metric::Goodput
    )
}

/// Share of the requests that would have kept their bounds but for the client's delay.
fn missed_by(samples: &[&Sample], slo: Slo, read: f64) -> f64 {
    let missed = |s: &&&Sample| {
        let sent = ms(s.stamps.intended_ns, s.stamps.send_ns);
        let forgiving = Slo {
            ttft_ms: slo.ttft_ms.map(|bound| bound + sent + read),
            tpot_ms: slo.tpot_ms.map(|bound| bound + read / gaps(&[s])),
            e2e_ms: slo.e2e_ms.map(|bound| bound + read),
        };
        is_good(s, slo) == Ok(false) && is_good(s, forgiving) == Ok(true)
    };
    samples.iter().filter(missed).count() as f64 / samples.len().max(1) as f64
}

/// How late requests left, ms: the mean, or for a tail the 99th percentile.
fn sent_late(samples: &[&Sample], tail: bool) -> Option<f64> {
    let lags = samples.iter().map(|s| &s.stamps);
    let lags: Vec<f64> = lags.map(|at| ms(at.intended_ns, at.send_ns)).collect();
    if tail {
        stats::quantile(&lags, 0.99).map(|q| q.value)
    } else {
        stats::mean(&lags)
    }
}

/// The client's delay in reading events without a kernel stamp, ms. A median tolerates a tenth of such requests.
fn read_late(launch_view: &LaunchView<'_, '_>, tail: bool) -> Option<f64> {
    let sound = launch_view.sound();
    let unstamped = sound.iter().filter(|s| !s.stamps.kernel_stamps).count();
    let tolerated = match reads_medians(launch_view.check) {
        true => AMBIGUOUS_MIDDLE * sound.len() as f64,
        false => 0.0,
    };
    if unstamped as f64 <= tolerated {
        return None;
    }
    let delay = health(launch_view)?.loop_delay_ms;
    Some(if tail { delay.p99 } else { delay.p50 })
}

/// Gaps between tokens of an answer, in the middle of the samples.
fn gaps(samples: &[&Sample]) -> f64 {
    let tokens = samples.iter().filter_map(|s| s.tokens.completion);
    let gaps: Vec<f64> = tokens.map(|n| f64::from(n.max(2) - 1)).collect();
    stats::median(&gaps).unwrap_or(1.0)
}

fn middle(samples: &[&Sample], time: fn(&Sample) -> Option<f64>) -> Option<f64> {
    let times: Vec<f64> = samples.iter().filter_map(|s| time(s)).collect();
    stats::median(&times)
}

fn ttft_ms(sample: &Sample) -> Option<f64> {
    let first = sample.stamps.events_ns.first()?;
    Some(ms(sample.stamps.intended_ns, *first))
}

fn span_ms(sample: &Sample) -> Option<f64> {
    let events = &sample.stamps.events_ns;
    Some(ms(*events.first()?, *events.last()?))
}

fn e2e_ms(sample: &Sample) -> Option<f64> {
    let last = sample.stamps.events_ns.last().copied();
    Some(ms(sample.stamps.send_ns, last.or(sample.stamps.done_ns)?))
}

fn ms(from_ns: u64, to_ns: u64) -> f64 {
    to_ns.saturating_sub(from_ns) as f64 / 1e6
}
