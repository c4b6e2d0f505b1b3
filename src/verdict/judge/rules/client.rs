//! Rules on the load client itself: where its own delay could have moved a result by more than the check
//! can bear, the launch is no measurement of the engine.
//!
//! What could have moved it: a client that was late (`late`), events whose time is an upper bound only, and
//! streams that were asked for and never in flight. Last, times that contradict each other: the server's own and the
//! streams', and those of two phases.

use super::super::Rules;
use super::finding::{Finding, doubt, of_launch};
use crate::judge::launch_view::LaunchView;
use crate::metrics::{self, first_shared};
use crate::plan::{Check, Rule};
use crate::record::{ClientHealth, LaunchFact, Metric, RuleId, Sample, Statistic};

/// Share of ambiguous events that a tail can bear.
pub const AMBIGUOUS_TAIL: f64 = 0.01;
/// Share of them that a middle can bear.
pub const AMBIGUOUS_MIDDLE: f64 = 0.1;
/// Share of the streams asked for that must have been in flight.
const STREAMS: f64 = 0.9;

pub fn is_tail(statistic: Statistic) -> bool {
    matches!(statistic, Statistic::P95 | Statistic::P99 | Statistic::Max)
}

/// True if a few requests hardly move the value: a median, or a line through the medians of cells.
pub fn reads_medians(check: &Check) -> bool {
    let is_of_cells = check.metric.is_fitted() || check.metric == Metric::Contention;
    check.statistic == Statistic::Median || is_of_cells
}

pub fn health<'a>(launch_view: &LaunchView<'_, 'a>) -> Option<&'a ClientHealth> {
    launch_view.launch.client(&launch_view.workload.id)
}

/// Too many events have an upper bound of their time alone.
pub fn ambiguous(_: &Rules<'_>, launch_view: &LaunchView<'_, '_>) -> Option<Finding> {
    let check = launch_view.check;
    if check.metric == Metric::Ttft && is_within_ceiling(launch_view) {
        return None;
    }
    let sound = launch_view.sound();
    let requests = |is_ambiguous: fn(&Sample) -> bool| {
        let ambiguous = sound.iter().filter(|s| is_ambiguous(s));
        (ambiguous.count(), sound.len())
    };
    let (events, bearable) = match check.metric {
        Metric::Ttft => (requests(first_shared), bearable_requests(check)),
        Metric::Icl | Metric::Itl => (metrics::ambiguous(sound), bearable_events(check)),
        metric if check.part.reads_tpot(metric) => {
            (launch_view.answers.with_first(), bearable_events(check))
        }
        _ => return None,
    };
    if let Some(share) = beyond(events, bearable) {
        let fact = LaunchFact::SharedEvents { share, bearable };
        return of_launch(launch_view, RuleId::AmbiguousEvents, fact);
    }
    let bearable = bearable_left_out(check);
    // Nobody knows whether they keep a bound on TPOT.
    let has_bound = check.part.slo.is_some_and(|slo| slo.tpot.is_some());
    let unknown = match has_bound {
        true => launch_view.answers.at_once(),
        false => left_out(launch_view),
    };
    let share = beyond((unknown, sound.len()), bearable)?;
    let fact = LaunchFact::AtOnce { share, bearable };
    of_launch(launch_view, RuleId::AmbiguousEvents, fact)
}

/// Answers that arrived at one moment, where the metric leaves them out.
pub fn left_out(launch_view: &LaunchView<'_, '_>) -> usize {
    match launch_view.check.metric {
        Metric::Tpot | Metric::DecodeRate => launch_view.answers.at_once(),
        _ => 0,
    }
}

/// A mean holds each of them by all that it is late.
fn bearable_requests(check: &Check) -> f64 {
    match check.statistic {
        Statistic::Mean => AMBIGUOUS_TAIL,
        _ => bearable_events(check),
    }
}

/// The mean of all gaps is what it was: where one is too long, the next is too short.
fn bearable_events(check: &Check) -> f64 {
    match is_tail(check.statistic) {
        true => AMBIGUOUS_TAIL,
        false => AMBIGUOUS_MIDDLE,
    }
}

/// Share of answers that may be left out: they may be the slowest ones, which a median hardly reads, a mean and p95 read a
/// little, and p99, the greatest and a count of those within a bound are made of.
fn bearable_left_out(check: &Check) -> f64 {
    match check.statistic {
        _ if reads_medians(check) => AMBIGUOUS_MIDDLE,
        Statistic::Mean | Statistic::P95 => AMBIGUOUS_TAIL,
        Statistic::Median | Statistic::P99 | Statistic::Max | Statistic::Single => 0.0,
    }
}

/// A share that is greater than what can be borne.
fn beyond((ambiguous, all): (usize, usize), bearable: f64) -> Option<f64> {
    let share = ambiguous as f64 / all.max(1) as f64;
    (share > bearable).then_some(share)
}

/// A TTFT that is an upper bound, and not above its limit: the true one is not either.
fn is_within_ceiling(launch_view: &LaunchView<'_, '_>) -> bool {
    let value = launch_view.measure.as_ref().map(|measure| measure.value);
    matches!((launch_view.check.rule, value), (Rule::Ceiling { limit }, Ok(value)) if value <= limit)
}

/// The load that the gate names was not on the engine.
pub fn streams_not_reached(_: &Rules<'_>, launch_view: &LaunchView<'_, '_>) -> Option<Finding> {
    let health = health(launch_view).filter(|_| launch_view.check.metric.is_by_clock())?;
    let (asked, reached) = (health.streams_asked, health.streams_reached);
    if f64::from(reached) >= STREAMS * f64::from(asked) {
        return None;
    }
    of_launch(
        launch_view,
        RuleId::StreamsNotReached,
        LaunchFact::Streams { asked, reached },
    )
}

/// The server's own times are not those of the streams.
pub fn server_timings(_: &Rules<'_>, launch_view: &LaunchView<'_, '_>) -> Option<Finding> {
    if !launch_view.check.metric.is_by_clock() {
        return None;
    }
    let text = launch_view.answers.contradiction()?.to_owned();
    of_launch(launch_view, RuleId::ServerTimings, LaunchFact::Said(text))
}

/// Tokens that came faster than the engine's own prefill allows; a floor that is configured decides instead.
pub fn implausible_phases(rules: &Rules<'_>, launch_view: &LaunchView<'_, '_>) -> Option<Finding> {
    let floor = rules.plan.engine.plausible.tpot_floor_ms;
    if floor.is_some() || !reads_a_phase(launch_view) {
        return None;
    }
    let medians = reads_medians(launch_view.check);
    let text = launch_view.answers.implausible(medians)?.to_owned();
    of_launch(
        launch_view,
        RuleId::ImplausiblePhases,
        LaunchFact::Said(text),
    )
}

/// Head's tokens came in less than half of base's time, and answers end no sooner. Head is not blamed: a trade of TTFT
/// for TPOT looks like this too.
pub fn held_back(_: &Rules<'_>, launch_view: &LaunchView<'_, '_>) -> Option<Finding> {
    let check = launch_view.check;
    if !reads_gaps(check) || !matches!(check.rule, Rule::Regression { .. }) {
        return None;
    }
    let found = launch_view.answers.held_back()?;
    let fact = LaunchFact::HeldBack {
        sending: found.sending,
        whole: found.whole,
    };
    doubt(launch_view, RuleId::HeldBack, fact)
}

/// True if the check is about the times between tokens.
pub fn reads_gaps(check: &Check) -> bool {
    matches!(check.metric, Metric::Icl | Metric::Itl) || check.part.reads_tpot(check.metric)
}

/// True if the check is about one of the two phases; TTFT, E2E and throughput are what the client saw in any case.
fn reads_a_phase(launch_view: &LaunchView<'_, '_>) -> bool {
    launch_view.check.metric == Metric::PrefillRate || reads_gaps(launch_view.check)
}
