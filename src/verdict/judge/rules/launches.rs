//! Rules on all launches of a check together.

use super::super::evidence::Values;
use super::super::view::{Unsteady, View};
use super::finding::{Finding, invalid};
use crate::judge::test_kind::zero_is_vacuous;
use crate::plan::WorkloadKind;
use crate::record::{Arm, Facts, MetricKind, RuleId};
use crate::stats;

/// Within-launch drift beyond this, and …
const STEADY_DRIFT: f64 = 0.02;
/// … this sure, is no steady state.
const STEADY_P: f64 = 0.001;
/// So many dropped blocks, and more than half, and the machine is unfit.
const DROPPED_BLOCKS: usize = 4;
/// Head throttles in this many more launches than base: head causes it.
const HEAD_THROTTLES: usize = 3;
/// Arms whose answers differ in length by more than this share are not comparable.
const TOKENS_APART: f64 = 0.02;

/// Arms that answer with different numbers of tokens did different work.
pub fn token_parity(view: &View<'_, '_>) -> Option<Finding> {
    if !view.case.is_by_clock() || !view.is_regression() {
        return None;
    }
    let mean = |arm| view.of(arm).tally.mean_tokens();
    let (base, head) = mean(Arm::Base).zip(mean(Arm::Head))?;
    let apart = (head - base).abs() / base.max(head).max(1.0);
    if apart <= TOKENS_APART {
        return None;
    }
    invalid(RuleId::TokenParity, Facts::Tokens { base, head })
}

pub fn vacuous(view: &View<'_, '_>) -> Option<Finding> {
    if !zero_is_vacuous(view.case.check.metric, view.is_regression()) {
        return None;
    }
    // A limit is head's alone: that base's gauge lives bounds nothing in head.
    let seen = || view.arms().iter().map(|&arm| &view.of(arm).values);
    let launches: usize = seen().map(|values| values.n).sum();
    if launches == 0 || !seen().all(Values::are_zero) {
        return None;
    }
    invalid(RuleId::Vacuous, Facts::Zeros { launches })
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
    let mut groups: Vec<(Option<Arm>, Vec<f64>)> = arms
        .map(|&arm| (Some(arm), drifts(arm).collect()))
        .collect();
    let pooled = groups.iter().flat_map(|(_, group)| group).copied();
    groups.push((None, pooled.collect()));
    groups.into_iter().find_map(|(arm, group)| {
        let drift = stats::mean(&group)?;
        let is_clear = drift.abs() > STEADY_DRIFT && drift_p(&group) < STEADY_P;
        is_clear.then_some(Unsteady { arm, drift })
    })
}

pub fn not_steady(view: &View<'_, '_>) -> Option<Finding> {
    let Unsteady { arm, drift } = view.case.unsteady?;
    invalid(RuleId::NotSteady, Facts::Drift { arm, drift })
}

/// Two-sided p that the mean drift is not zero.
fn drift_p(drifts: &[f64]) -> f64 {
    match stats::one_sample(drifts) {
        Ok(e) => 2.0 * e.p_greater(0.0).min(e.p_less(0.0)),
        Err(stats::Degenerate::NoVariance) => 0.0,
        Err(_) => 1.0,
    }
}

pub fn throttled(view: &View<'_, '_>) -> Option<Finding> {
    if !view.case.is_by_clock() {
        return None;
    }
    let scope = view.scope;
    let n = |arm| *scope.throttled.of(arm);
    let (base, head) = (n(Arm::Base), n(Arm::Head));
    let interleaved = view.comparison.arms().len() == 2;
    if interleaved && head >= base + HEAD_THROTTLES {
        let facts = Facts::ThrottledLaunches { base, head };
        return invalid(RuleId::HeadThrottles, facts);
    }
    let (dropped, blocks) = (scope.dropped, scope.blocks);
    if dropped < DROPPED_BLOCKS || 2 * dropped <= blocks {
        return None;
    }
    invalid(
        RuleId::Throttled,
        Facts::ThrottledBlocks { dropped, blocks },
    )
}
