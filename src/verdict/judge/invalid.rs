//! The rules by which a check is no measurement, or shows an engine that does not answer: in the order
//! in which they are tried, most basic first. The table with reasons stands in `docs/verdict.md`.
//!
//! Main function: [`find`]. What a rule says of one launch by itself is asked once a launch
//! ([`OF_A_LAUNCH`]), the rest after every block from what the launches have left behind.

use super::sight::Sight;
use super::treatment::zero_is_vacuous;
use super::view::View;
use super::words::number;
use super::{Rules, client, late, machine, voids};
use crate::metrics::LaunchMeasure;
use crate::plan::WorkloadKind;
use crate::plural::count;
use crate::record::{Arm, Build, Comparison, Exit, Launch, Metric, MetricKind, RunRecord, Verdict};
use crate::stats;
use std::ops::Range;

/// More launches of one arm in a row than this, and the machine's drift is taken for a change.
const LONGEST_RUN: usize = 2;
/// Within-launch drift beyond this, and …
const STEADY_DRIFT: f64 = 0.02;
/// … this sure, is no steady state.
const STEADY_P: f64 = 0.001;
/// A latency with fewer distinct values is no clock's.
const DISTINCT: usize = 3;
/// So many dropped blocks, and more than half, and the machine is unfit.
const DROPPED_BLOCKS: usize = 4;
/// The head throttles so many launches more than the base: its own doing.
const HEAD_THROTTLES: usize = 3;
/// Arms whose answers differ in length by more than this share are not comparable.
const TOKENS_APART: f64 = 0.02;

/// A rule's finding.
#[derive(Clone)]
pub struct Finding {
    pub verdict: Verdict,
    pub rule: &'static str,
    pub text: String,
}

pub fn invalid(rule: &'static str, text: String) -> Option<Finding> {
    Some(Finding {
        verdict: Verdict::Invalid,
        rule,
        text,
    })
}

/// A rule that one launch keeps or breaks by itself.
type LaunchRule = fn(&Rules<'_>, &Sight<'_, '_>) -> Option<Finding>;

/// Those rules, in the order in which they are tried.
pub const OF_A_LAUNCH: [LaunchRule; 12] = [
    machine::page_cache,
    machine::gpu_shared,
    machine::busy,
    missing_value,
    impossible_value,
    too_few_samples,
    late::client_late,
    client::ambiguous,
    client::streams_not_reached,
    client::server_timings,
    client::implausible_phases,
    constant_latency,
];

/// So many of them come before the parity of tokens.
const BEFORE_PARITY: usize = OF_A_LAUNCH.len() - 1;

/// The first rule that holds.
pub fn find(rules: &Rules<'_>, view: &View<'_, '_>) -> Option<Finding> {
    rules
        .session
        .clone()
        .or_else(|| not_interleaved(rules, view))
        .or_else(|| launch_failed(view))
        .or_else(|| voids::find(view))
        .or_else(|| of_a_launch(view, 0..BEFORE_PARITY))
        .or_else(|| token_parity(view))
        .or_else(|| of_a_launch(view, BEFORE_PARITY..OF_A_LAUNCH.len()))
        .or_else(|| vacuous(view))
        .or_else(|| not_steady(view))
        .or_else(|| throttled(view))
}

/// What these rules found first in the launches that the check reads.
fn of_a_launch(view: &View<'_, '_>, mut rules: Range<usize>) -> Option<Finding> {
    rules.find_map(|rule| {
        let mut arms = view.arms().iter();
        arms.find_map(|&arm| view.of(arm).broken(rule))
    })
}

/// Over the whole record and not only up to the look: a machine that changed during a session was not
/// the machine that the session says it was.
pub fn fingerprint_changed(record: &RunRecord) -> Option<Finding> {
    let first = record.launches.first()?;
    let mut launches = record.launches.iter();
    let other = launches.find(|l| l.fingerprint != first.fingerprint)?;
    invalid(
        "fingerprint-changed",
        format!(
            "the machine changed within the session: {:?} at launch {}, {:?} at launch {}",
            first.fingerprint, first.position, other.fingerprint, other.position
        ),
    )
}

/// An engine whose files were written to while the session ran: what was measured of it is nobody's commit.
pub fn altered(record: &RunRecord) -> Option<Finding> {
    let is_altered = |launch: &&Launch| matches!(launch.exit, Exit::Altered { .. });
    let launch = record.launches.iter().find(is_altered)?;
    invalid("engine-altered", describe_exit(launch))
}

/// Two commits with one artifact: nothing of the change was measured.
pub fn one_artifact(record: &RunRecord) -> Option<Finding> {
    let base = Build::of(&record.builds, Arm::Base)?;
    let head = Build::of(&record.builds, Arm::Head)?;
    if record.comparison != Comparison::Interleaved || !base.is_same_engine(head) {
        return None;
    }
    invalid(
        "one-artifact",
        "head and base are different sources with one artifact, equal to the byte: the change was not measured. Let \
         engine.build.artifact name all that the engine is started from"
            .to_owned(),
    )
}

fn not_interleaved(rules: &Rules<'_>, view: &View<'_, '_>) -> Option<Finding> {
    // Nothing tells the order in which another tool's launches ran: they are taken as if interleaved.
    if rules.record.is_imported() {
        return None;
    }
    let longest = view.scope.longest;
    let arm = longest.arm?;
    if view.comparison.arms().len() < 2 || longest.launches <= LONGEST_RUN {
        return None;
    }
    let text = view.scope.say(|| {
        format!(
            "{} launches of {} in a row from launch {}: a drift of the machine would count as a change",
            longest.launches,
            arm.name(),
            longest.from
        )
    });
    invalid("not-interleaved", text)
}

fn launch_failed(view: &View<'_, '_>) -> Option<Finding> {
    match (view.of(Arm::Base).failed, view.of(Arm::Head).failed) {
        (None, Some(head)) if view.lacks_base() => {
            let text = view.scope.say(|| {
                format!(
                    "{}, and base was not launched: nothing to compare with",
                    describe_exit(head)
                )
            });
            invalid("launch-failed", text)
        }
        (None, Some(head)) => Some(Finding {
            verdict: Verdict::Fail,
            rule: "reliability",
            text: view
                .scope
                .say(|| format!("{}, and no launch of base did", describe_exit(head))),
        }),
        (Some(base), Some(head)) => {
            let text = view.scope.say(|| {
                let (base, head) = (describe_exit(base), describe_exit(head));
                format!("both arms failed: {base}; {head}")
            });
            invalid("launch-failed", text)
        }
        (Some(base), None) if view.arms().contains(&Arm::Base) => invalid(
            "launch-failed",
            view.scope
                .say(|| format!("{}: nothing to compare with", describe_exit(base))),
        ),
        _ => None,
    }
}

fn describe_exit(launch: &Launch) -> String {
    let (what, detail) = match &launch.exit {
        Exit::Stopped => ("ended well", ""),
        Exit::NeverReady { detail, .. } => ("never became ready", detail.as_str()),
        Exit::Crashed { detail, .. } => ("crashed", detail.as_str()),
        Exit::Hung { detail, .. } => ("hung", detail.as_str()),
        Exit::Altered { detail } => ("was not started", detail.as_str()),
    };
    let (arm, position) = (launch.arm.name(), launch.position);
    let colon = if detail.is_empty() { "" } else { ": " };
    format!("launch {position} ({arm}) {what}{colon}{detail}")
}

/// Arms that answer with different numbers of tokens did different work.
fn token_parity(view: &View<'_, '_>) -> Option<Finding> {
    if !view.case.is_by_clock() || !view.is_regression() {
        return None;
    }
    let mean = |arm| view.of(arm).tally.mean_tokens();
    let (base, head) = mean(Arm::Base).zip(mean(Arm::Head))?;
    let apart = (head - base).abs() / base.max(head).max(1.0);
    if apart <= TOKENS_APART {
        return None;
    }
    let text = view.scope.say(|| {
        format!(
            "head answers with {} tokens a request, base with {}: they did not do the same work; force the \
             length, or see why one stops",
            number(head),
            number(base)
        )
    });
    invalid("token-parity", text)
}

fn missing_value(_: &Rules<'_>, sight: &Sight<'_, '_>) -> Option<Finding> {
    let undefined = sight.measure.as_ref().err()?;
    invalid("missing-value", undefined.to_string())
}

fn impossible_value(_: &Rules<'_>, sight: &Sight<'_, '_>) -> Option<Finding> {
    let metric = sight.check.metric;
    let measure = sight.measure.as_ref().ok()?;
    let mut all = measure.series.iter().chain([&measure.value]);
    let at = sight.launch.position;
    if let Some(v) = all.clone().find(|v| !v.is_finite()) {
        return invalid(
            "not-finite",
            format!("launch {at}: {metric} of {v} is no number"),
        );
    }
    let wrong = match metric.kind() {
        MetricKind::Latency if is_gap(metric) => return no_gap(sight, measure),
        // Noise tilts a line that is flat, and a flat one has a slope of 0.
        MetricKind::Latency if metric.is_fitted() => None,
        MetricKind::Latency => all.find(|&&v| v <= 0.0),
        MetricKind::Counter | MetricKind::Share => all.find(|&&v| v < 0.0),
        MetricKind::Score => None,
    };
    let v = wrong?;
    invalid(
        "not-positive",
        format!("launch {at}: {metric} of {v} cannot be"),
    )
}

/// Single gaps of 0 are events that came in one segment, and [`client::ambiguous`] tells how many can be borne. In the
/// launch's value they are too many for anyone.
fn no_gap(sight: &Sight<'_, '_>, measure: &LaunchMeasure) -> Option<Finding> {
    let (metric, at) = (sight.check.metric, sight.launch.position);
    let text = match measure.series.iter().find(|&&v| v < 0.0) {
        Some(v) => format!("launch {at}: {metric} of {v} cannot be"),
        None if measure.value > 0.0 => return None,
        None => format!(
            "launch {at}: {metric} of {} says nothing: most events arrived together with another",
            measure.value
        ),
    };
    invalid("not-positive", text)
}

fn is_gap(metric: Metric) -> bool {
    matches!(metric, Metric::Icl | Metric::Itl)
}

fn too_few_samples(_: &Rules<'_>, sight: &Sight<'_, '_>) -> Option<Finding> {
    let need = sight.check.min_samples;
    let got = sight.measure.as_ref().ok()?.samples;
    if got >= need {
        return None;
    }
    let (at, arm) = (sight.launch.position, sight.launch.arm.name());
    let workload = &sight.workload.id;
    invalid(
        "too-few-samples",
        format!("launch {at} ({arm}): {got} sound requests of {workload} where {need} are needed"),
    )
}

fn constant_latency(_: &Rules<'_>, sight: &Sight<'_, '_>) -> Option<Finding> {
    let metric = sight.check.metric;
    let measure = sight.measure.as_ref().ok()?;
    if metric.kind() != MetricKind::Latency || !is_stuck(measure) {
        return None;
    }
    let (at, n) = (sight.launch.position, measure.series.len());
    invalid(
        "constant-latency",
        format!("launch {at}: {n} values of {metric} take fewer than {DISTINCT} different values"),
    )
}

fn is_stuck(measure: &LaunchMeasure) -> bool {
    let mut seen: Vec<u64> = Vec::with_capacity(DISTINCT);
    for bits in measure.series.iter().map(|v| v.to_bits()) {
        if !seen.contains(&bits) {
            seen.push(bits);
        }
        if seen.len() == DISTINCT {
            return false;
        }
    }
    measure.series.len() >= DISTINCT
}

fn vacuous(view: &View<'_, '_>) -> Option<Finding> {
    let check = view.case.check;
    let why = zero_is_vacuous(check.metric, view.is_regression())?;
    // A limit is head's alone: that base's gauge lives bounds nothing in head.
    let seen = || view.arms().iter().map(|&arm| &view.of(arm).values);
    let n: usize = seen().map(|values| values.n).sum();
    if n == 0 || !seen().all(|values| values.are_zero()) {
        return None;
    }
    let text = view.scope.say(|| {
        let n = count(n, "launch");
        format!("{} is 0 in all of {n}: {why}", check.metric)
    });
    invalid("vacuous", text)
}

/// A mean drift within launches, and where it was seen.
#[derive(Clone, Copy)]
pub struct Unsteady {
    arms: &'static str,
    drift: f64,
}

/// Mean over launches of ln(median of the last third / median of the first third), per arm that the check reads and
/// pooled. Only for requests of one shape: a conversation's turns are meant to differ.
pub fn unsteady(view: &View<'_, '_>) -> Option<Unsteady> {
    let case = view.case;
    let timed = case.check.metric.kind() == MetricKind::Latency;
    if !timed || !matches!(case.workload.kind, WorkloadKind::Steady(_)) {
        return None;
    }
    let drifts = |arm| case.of(arm).looked_at().filter_map(|r| r.drift);
    let arms = view.arms().iter();
    let mut groups: Vec<(&str, Vec<f64>)> = arms
        .map(|&arm| (arm.name(), drifts(arm).collect()))
        .collect();
    let pooled = groups.iter().flat_map(|(_, group)| group).copied();
    groups.push(("both arms", pooled.collect()));
    groups.into_iter().find_map(|(arms, group)| {
        let drift = stats::mean(&group)?;
        let is_clear = drift.abs() > STEADY_DRIFT && drift_p(&group) < STEADY_P;
        is_clear.then_some(Unsteady { arms, drift })
    })
}

fn not_steady(view: &View<'_, '_>) -> Option<Finding> {
    let Unsteady { arms, drift } = view.case.unsteady?;
    let text = view.scope.say(|| {
        format!(
            "{} moves by {:+.1} % within a launch ({arms}, last third against first): the warm-up is too short",
            view.case.check.metric,
            drift.exp_m1() * 100.0
        )
    });
    invalid("not-steady", text)
}

/// ln(median of the last third / median of the first); `None` for fewer than three values and where it is
/// no number.
pub fn within_launch_drift(series: &[f64]) -> Option<f64> {
    let third = series.len() / 3;
    let first = stats::median(series.get(..third)?)?;
    let last = stats::median(&series[series.len() - third..])?;
    Some((last / first).ln()).filter(|d| d.is_finite())
}

/// Two-sided p that the mean drift is not zero.
fn drift_p(drifts: &[f64]) -> f64 {
    match stats::one_sample(drifts) {
        Ok(e) => 2.0 * e.p_greater(0.0).min(e.p_less(0.0)),
        Err(stats::Degenerate::NoVariance) => 0.0,
        Err(_) => 1.0,
    }
}

fn throttled(view: &View<'_, '_>) -> Option<Finding> {
    if !view.case.is_by_clock() {
        return None;
    }
    let scope = view.scope;
    let n = |arm| *scope.throttled.of(arm);
    let (base, head) = (n(Arm::Base), n(Arm::Head));
    let interleaved = view.comparison.arms().len() == 2;
    if interleaved && head >= base + HEAD_THROTTLES {
        let text = scope.say(|| {
            format!(
                "head throttles: {head} of its launches against {base} of base: it may draw more power"
            )
        });
        return invalid("head-throttles", text);
    }
    let (dropped, blocks) = (scope.dropped, scope.blocks);
    if dropped < DROPPED_BLOCKS || 2 * dropped <= blocks {
        return None;
    }
    let text = scope.say(|| {
        format!(
            "the GPU throttled in {dropped} of {blocks} blocks: it needs cooling, or the room does"
        )
    });
    invalid("throttled", text)
}
