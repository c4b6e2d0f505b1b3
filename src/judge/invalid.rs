//! The rules by which a check is no measurement, or shows an engine that does not answer: in the order
//! in which they are tried, most basic first. The table with reasons stands in `docs/verdict.md`.

use super::session::is_throttled;
use super::treatment::zero_is_vacuous;
use super::view::{Reading, View, values};
use super::voids;
use super::words::{count, number};
use super::{Rules, client, machine};
use crate::metrics::{LaunchMeasure, is_in_part};
use crate::plan::WorkloadKind;
use crate::record::{Arm, Comparison, Exit, Launch, MetricKind, Phase, Verdict};
use crate::stats;

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
pub(super) struct Finding {
    pub(super) verdict: Verdict,
    pub(super) rule: &'static str,
    pub(super) text: String,
}

pub(super) fn invalid(rule: &'static str, text: String) -> Option<Finding> {
    Some(Finding {
        verdict: Verdict::Invalid,
        rule,
        text,
    })
}

/// The first rule that holds.
pub(super) fn find(rules: &Rules<'_>, view: &View<'_, '_>) -> Option<Finding> {
    fingerprint_changed(view)
        .or_else(|| not_interleaved(view))
        .or_else(|| launch_failed(view))
        .or_else(|| voids::find(view))
        .or_else(|| machine::find(rules, view))
        .or_else(|| missing_value(view))
        .or_else(|| impossible_value(view))
        .or_else(|| too_few_samples(view))
        .or_else(|| client::find(view))
        .or_else(|| token_parity(view))
        .or_else(|| constant_latency(view))
        .or_else(|| vacuous(view))
        .or_else(|| not_steady(view))
        .or_else(|| throttled(view))
}

/// Over the whole record and not only up to the look: a machine that changed during a session was not
/// the machine that the session says it was.
fn fingerprint_changed(view: &View<'_, '_>) -> Option<Finding> {
    let launches = &view.record.launches;
    let first = launches.first()?;
    let other = launches
        .iter()
        .find(|l| l.fingerprint != first.fingerprint)?;
    invalid(
        "fingerprint-changed",
        format!(
            "the machine changed within the session: {:?} at launch {}, {:?} at launch {}",
            first.fingerprint, first.position, other.fingerprint, other.position
        ),
    )
}

fn not_interleaved(view: &View<'_, '_>) -> Option<Finding> {
    if !matches!(
        view.comparison,
        Comparison::Interleaved | Comparison::SameBuild
    ) {
        return None;
    }
    let runs = view.scope.launches.chunk_by(|a, b| a.arm == b.arm);
    let longest = runs.max_by_key(|run| run.len())?;
    if longest.len() <= LONGEST_RUN {
        return None;
    }
    let (arm, from) = (longest[0].arm.name(), longest[0].position);
    invalid(
        "not-interleaved",
        format!(
            "{} launches of {arm} in a row from launch {from}: a drift of the machine would count as a change",
            longest.len()
        ),
    )
}

fn launch_failed(view: &View<'_, '_>) -> Option<Finding> {
    let failed = |arm| view.ran(arm).map(|r| r.launch).find(|l| !l.exit.is_clean());
    match (failed(Arm::Base), failed(Arm::Head)) {
        (None, Some(head)) => Some(Finding {
            verdict: Verdict::Fail,
            rule: "reliability",
            text: format!("{}, and no launch of base did", describe_exit(head)),
        }),
        (Some(base), Some(head)) => {
            let (base, head) = (describe_exit(base), describe_exit(head));
            invalid("launch-failed", format!("both arms failed: {base}; {head}"))
        }
        (Some(base), None) if view.arms().contains(&Arm::Base) => invalid(
            "launch-failed",
            format!("{}: nothing to compare with", describe_exit(base)),
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
    let mean = |arm| {
        let part = &view.case.check.part;
        let workload = &view.case.workload.id;
        let samples = view.kept(arm).flat_map(|r| &r.launch.samples);
        let mine = samples.filter(|s| {
            s.workload == *workload && s.phase == Phase::Measured && is_in_part(part, s)
        });
        let tokens = mine
            .filter(|s| s.void.is_none())
            .map(|s| s.tokens.completion);
        let tokens: Vec<f64> = tokens.flatten().map(f64::from).collect();
        stats::mean(&tokens)
    };
    let (base, head) = mean(Arm::Base).zip(mean(Arm::Head))?;
    let apart = (head - base).abs() / base.max(head).max(1.0);
    if apart <= TOKENS_APART {
        return None;
    }
    invalid(
        "token-parity",
        format!(
            "head answers with {} tokens a request, base with {}: they did not do the same work; force the \
             length, or see why one stops",
            number(head),
            number(base)
        ),
    )
}

fn read<'s, 'a>(view: &View<'s, 'a>) -> impl Iterator<Item = &'s Reading<'a>> {
    view.arms().iter().flat_map(|&arm| view.kept(arm))
}

fn measured<'s, 'a: 's>(
    view: &View<'s, 'a>,
) -> impl Iterator<Item = (&'s Launch, &'s LaunchMeasure)> {
    read(view).filter_map(|r| r.measure.as_ref().ok().map(|m| (r.launch, m)))
}

fn missing_value(view: &View<'_, '_>) -> Option<Finding> {
    let undefined = read(view).find_map(|r| r.measure.as_ref().err())?;
    invalid("missing-value", undefined.to_string())
}

fn impossible_value(view: &View<'_, '_>) -> Option<Finding> {
    let metric = view.case.check.metric;
    for (launch, measure) in measured(view) {
        let mut all = measure.series.iter().chain([&measure.value]);
        if let Some(v) = all.clone().find(|v| !v.is_finite()) {
            let at = launch.position;
            return invalid(
                "not-finite",
                format!("launch {at}: {metric} of {v} is no number"),
            );
        }
        let wrong = match metric.kind() {
            MetricKind::Latency => all.find(|&&v| v <= 0.0),
            MetricKind::Counter | MetricKind::Share => all.find(|&&v| v < 0.0),
            MetricKind::Score => None,
        };
        if let Some(v) = wrong {
            let at = launch.position;
            return invalid(
                "not-positive",
                format!("launch {at}: {metric} of {v} cannot be"),
            );
        }
    }
    None
}

fn too_few_samples(view: &View<'_, '_>) -> Option<Finding> {
    let need = view.case.check.min_samples;
    let (launch, measure) = measured(view).find(|(_, m)| m.samples < need)?;
    let (at, arm, got) = (launch.position, launch.arm.name(), measure.samples);
    let workload = &view.case.workload.id;
    invalid(
        "too-few-samples",
        format!("launch {at} ({arm}): {got} sound requests of {workload} where {need} are needed"),
    )
}

fn constant_latency(view: &View<'_, '_>) -> Option<Finding> {
    if view.case.check.metric.kind() != MetricKind::Latency {
        return None;
    }
    let stuck = |m: &LaunchMeasure| {
        let mut bits: Vec<u64> = m.series.iter().map(|v| v.to_bits()).collect();
        bits.sort_unstable();
        bits.dedup();
        m.series.len() >= DISTINCT && bits.len() < DISTINCT
    };
    let (launch, measure) = measured(view).find(|(_, m)| stuck(m))?;
    let (at, n, metric) = (
        launch.position,
        measure.series.len(),
        view.case.check.metric,
    );
    invalid(
        "constant-latency",
        format!("launch {at}: {n} values of {metric} take fewer than {DISTINCT} different values"),
    )
}

fn vacuous(view: &View<'_, '_>) -> Option<Finding> {
    let check = view.case.check;
    let why = zero_is_vacuous(check.metric, view.is_regression())?;
    let all: Vec<f64> = Arm::BOTH
        .iter()
        .flat_map(|&arm| values(view.kept(arm)))
        .collect();
    if all.is_empty() || all.iter().any(|v| v.abs() > 0.0) {
        return None;
    }
    let n = count(all.len(), "launch");
    invalid(
        "vacuous",
        format!("{} is 0 in all of {n}: {why}", check.metric),
    )
}

/// Mean over launches of ln(median of the last third / median of the first third), per arm and pooled.
/// Only for requests of one shape: a conversation's turns are meant to differ.
fn not_steady(view: &View<'_, '_>) -> Option<Finding> {
    let timed = view.case.check.metric.kind() == MetricKind::Latency;
    if !timed || !matches!(view.case.workload.kind, WorkloadKind::Steady(_)) {
        return None;
    }
    let drifts = |arm: Arm| -> Vec<f64> {
        let measured = view.looked_at(arm).filter_map(|r| r.measure.as_ref().ok());
        measured
            .filter_map(|m| within_launch_drift(&m.series))
            .collect()
    };
    let (base, head) = (drifts(Arm::Base), drifts(Arm::Head));
    let pooled: Vec<f64> = base.iter().chain(&head).copied().collect();
    let groups = [("base", &base), ("head", &head), ("both arms", &pooled)];
    let (name, drift) = groups.into_iter().find_map(|(name, group)| {
        let mean = stats::mean(group)?;
        (mean.abs() > STEADY_DRIFT && drift_p(group) < STEADY_P).then_some((name, mean))
    })?;
    let metric = view.case.check.metric;
    invalid(
        "not-steady",
        format!(
            "{metric} moves by {:+.1} % within a launch ({name}, last third against first): the warm-up is too short",
            drift.exp_m1() * 100.0
        ),
    )
}

fn within_launch_drift(series: &[f64]) -> Option<f64> {
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
    let launches = &view.scope.launches;
    let n = |arm| {
        launches
            .iter()
            .filter(|l| l.arm == arm && is_throttled(l))
            .count()
    };
    let (base, head) = (n(Arm::Base), n(Arm::Head));
    let interleaved = view.comparison.arms().len() == 2;
    if interleaved && head >= base + HEAD_THROTTLES {
        return invalid(
            "head-throttles",
            format!(
                "head throttles: {head} of its launches against {base} of base: it may draw more power"
            ),
        );
    }
    let mut blocks: Vec<u32> = launches.iter().map(|l| l.block).collect();
    blocks.sort_unstable();
    blocks.dedup();
    let dropped = view.scope.throttled.len();
    if dropped < DROPPED_BLOCKS || 2 * dropped <= blocks.len() {
        return None;
    }
    invalid(
        "throttled",
        format!(
            "the GPU throttled in {dropped} of {} blocks: it needs cooling, or the room does",
            blocks.len()
        ),
    )
}
