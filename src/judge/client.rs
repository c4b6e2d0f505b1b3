//! Rules on the load client itself: where its own delay could have moved a result by more than the check
//! can bear, the launch is no measurement of the engine.
//!
//! What could have moved it: requests that left late (in an open loop latency counts from the intended
//! moment), reads without the kernel's stamp (they are as late as the client's event loop), events whose
//! time is an upper bound only, and streams that were asked for and never in flight. Last, the server's own
//! times: two clocks of the same requests that contradict each other.

use super::invalid::{Finding, invalid};
use super::view::{Reading, View};
use super::words::{number, percent};
use crate::metrics::{contradiction, is_in_part};
use crate::plan::Rule;
use crate::record::{ClientHealth, Launch, Metric, Phase, Sample, Statistic};
use crate::stats;

/// Share of ambiguous events that a tail can bear, and that a middle can.
const AMBIGUOUS_TAIL: f64 = 0.01;
const AMBIGUOUS_MIDDLE: f64 = 0.1;
/// Share of the streams asked for that must have been in flight.
const STREAMS: f64 = 0.9;

/// The first rule that holds.
pub(super) fn find(view: &View<'_, '_>) -> Option<Finding> {
    if !view.case.treatment.is_timed() {
        return None;
    }
    let launches = || view.arms().iter().flat_map(|&arm| view.kept(arm));
    launches()
        .find_map(|reading| late(view, reading))
        .or_else(|| launches().find_map(|reading| ambiguous(view, reading)))
        .or_else(|| launches().find_map(|reading| streams_not_reached(view, reading)))
        .or_else(|| launches().find_map(|reading| server_timings(view, reading)))
}

fn late(view: &View<'_, '_>, reading: &Reading<'_>) -> Option<Finding> {
    let check = view.case.check;
    let value = reading.measure.as_ref().ok()?.value;
    let samples = samples(view, reading.launch);
    let tail = is_tail(check.statistic);
    let sent = sent_late(&samples, tail).filter(|_| counts_from_intention(check.metric));
    let read = read_late(view, reading.launch, &samples, tail);
    let delay = sent.unwrap_or(0.0) + read.unwrap_or(0.0);
    // A delay at the ends of a stream is shared by its tokens.
    let scale = match check.metric {
        Metric::Tpot | Metric::TpotBase => value * gaps(&samples),
        Metric::Ttft | Metric::E2e | Metric::Icl | Metric::Itl | Metric::WallTtft => value,
        Metric::FirstToken | Metric::FirstResponse => value,
        _ => return None,
    };
    let moved = delay / scale;
    let bearable = match check.rule {
        Rule::Regression { margin, .. } => margin,
        // As far as the value is from the limit, it cannot have been moved across.
        Rule::Ceiling { limit } | Rule::Floor { limit } => (limit / value - 1.0).abs(),
    };
    if moved.is_nan() || moved <= bearable {
        return None;
    }
    let launch = reading.launch;
    let text = format!(
        "launch {} ({}): the load client was late by {} ms, {} of what {} measures, and {} can be borne: give \
         it a processor of its own, or less load",
        launch.position,
        launch.arm.name(),
        number(delay),
        percent(moved),
        check.metric,
        percent(bearable)
    );
    invalid("client-late", text)
}

fn is_tail(statistic: Statistic) -> bool {
    matches!(statistic, Statistic::P95 | Statistic::P99 | Statistic::Max)
}

fn counts_from_intention(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::Ttft | Metric::WallTtft | Metric::PrefillRate
    )
}

fn samples<'s>(view: &View<'_, '_>, launch: &'s Launch) -> Vec<&'s Sample> {
    let (workload, part) = (&view.case.workload.id, &view.case.check.part);
    let mine = launch.samples.iter().filter(|s| {
        s.workload == *workload
            && s.phase == Phase::Measured
            && s.void.is_none()
            && is_in_part(part, s)
    });
    mine.collect()
}

/// How late requests left, ms: the mean, or for a tail the 99th percentile.
fn sent_late(samples: &[&Sample], tail: bool) -> Option<f64> {
    let lags = samples.iter().map(|s| &s.stamps);
    let lags: Vec<f64> = lags
        .map(|at| at.send_ns.saturating_sub(at.intended_ns) as f64 / 1e6)
        .collect();
    if tail {
        stats::quantile(&lags, 0.99).map(|q| q.value)
    } else {
        stats::mean(&lags)
    }
}

/// How late events may have been read where the kernel stamped none, ms.
fn read_late(view: &View<'_, '_>, launch: &Launch, samples: &[&Sample], tail: bool) -> Option<f64> {
    if samples.iter().all(|s| s.stamps.kernel_stamps) {
        return None;
    }
    let delay = health(view, launch)?.loop_delay_ms;
    Some(if tail { delay.p99 } else { delay.p50 })
}

fn health<'s>(view: &View<'_, '_>, launch: &'s Launch) -> Option<&'s ClientHealth> {
    let workload = &view.case.workload.id;
    launch.clients.iter().find(|c| c.workload == *workload)
}

/// Gaps between tokens of an answer, in the middle of the samples.
fn gaps(samples: &[&Sample]) -> f64 {
    let tokens = samples.iter().filter_map(|s| s.tokens.completion);
    let gaps: Vec<f64> = tokens.map(|n| f64::from(n.max(2) - 1)).collect();
    stats::median(&gaps).unwrap_or(1.0)
}

fn ambiguous(view: &View<'_, '_>, reading: &Reading<'_>) -> Option<Finding> {
    let check = view.case.check;
    if !matches!(check.metric, Metric::Icl | Metric::Itl | Metric::Ttft) {
        return None;
    }
    let samples = samples(view, reading.launch);
    let (ambiguous, events) = match check.metric {
        Metric::Ttft => (first_shared(&samples), samples.len()),
        _ => shared(&samples),
    };
    let share = ambiguous as f64 / events.max(1) as f64;
    let bearable = if is_tail(check.statistic) {
        AMBIGUOUS_TAIL
    } else {
        AMBIGUOUS_MIDDLE
    };
    if share <= bearable {
        return None;
    }
    let launch = reading.launch;
    let text = format!(
        "launch {} ({}): {} of the events arrived together with a later one, so that only an upper bound of \
         their time is known; {} can be borne",
        launch.position,
        launch.arm.name(),
        percent(share),
        percent(bearable)
    );
    invalid("ambiguous-events", text)
}

/// Streams whose first event shared its read with the second.
fn first_shared(samples: &[&Sample]) -> usize {
    let shared =
        |s: &&&Sample| matches!(s.stamps.events_ns[..], [first, second, ..] if first == second);
    samples.iter().filter(shared).count()
}

/// Events that shared their read, and all. One a stream is borne: its end (finish reason, usage, `[DONE]`)
/// follows the last token at once, and nearly always shares the read with it.
fn shared(samples: &[&Sample]) -> (usize, usize) {
    let shared = |s: &&Sample| (s.stamps.ambiguous_events as usize).saturating_sub(1);
    let events = samples.iter().map(|s| s.stamps.events_ns.len()).sum();
    (samples.iter().map(shared).sum(), events)
}

fn streams_not_reached(view: &View<'_, '_>, reading: &Reading<'_>) -> Option<Finding> {
    let launch = reading.launch;
    let health = health(view, launch)?;
    let (asked, reached) = (health.streams_asked, health.streams_reached);
    if f64::from(reached) >= STREAMS * f64::from(asked) {
        return None;
    }
    let text = format!(
        "launch {} ({}): {asked} streams were asked for, and at most {reached} were ever in flight",
        launch.position,
        launch.arm.name()
    );
    invalid("streams-not-reached", text)
}

fn server_timings(view: &View<'_, '_>, reading: &Reading<'_>) -> Option<Finding> {
    let launch = reading.launch;
    let text = contradiction(samples(view, launch))?;
    let (position, arm) = (launch.position, launch.arm.name());
    invalid(
        "server-timings",
        format!("launch {position} ({arm}): in the middle of its requests {text}"),
    )
}
