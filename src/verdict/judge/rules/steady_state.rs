//! Rule `not-steady`: values that drift within a launch, since the warm-up is too short.

use super::super::view::{Unsteady, View};
use super::finding::{Finding, invalid};
use crate::plan::WorkloadKind;
use crate::record::{Arm, Facts, MetricKind, RuleId};
use crate::stats;

/// Within-launch drift beyond this, and …
const STEADY_DRIFT: f64 = 0.02;
/// … this sure, is no steady state.
const STEADY_P: f64 = 0.001;

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
