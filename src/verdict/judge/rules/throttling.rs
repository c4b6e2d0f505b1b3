//! Rules `throttled` and `head-throttles`: blocks dropped since a GPU or a processor throttled.

use super::super::continuous::loss;
use super::super::test_kind::{TestKind, test_kind_of};
use super::super::view::{View, values};
use super::finding::{Finding, invalid};
use crate::plan::Rule;
use crate::record::{Arm, Facts, Reason, RuleId};
use crate::stats::{self, Scale};

/// So many dropped blocks, and more than half, and the machine is unfit.
const DROPPED_BLOCKS: usize = 4;
/// Head throttles in this many more launches than base: head causes it.
const HEAD_THROTTLES: usize = 3;

pub fn throttled(view: &View<'_, '_>) -> Option<Finding> {
    if !view.case.check.metric.is_by_clock() {
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

/// Head throttled in more launches than base, and passes only without them: what it loses by its own heat was dropped. It
/// passes by Welch's test of all launches, those of dropped blocks too.
pub fn passes_without_throttled(view: &View<'_, '_>) -> Option<Reason> {
    let Rule::Regression { ceiling, .. } = view.case.check.rule else {
        return None;
    };
    let n = |arm| *view.scope.throttled.of(arm);
    let (base, head) = (n(Arm::Base), n(Arm::Head));
    let dropped = [Arm::Base, Arm::Head].map(|arm| &view.of(arm).dropped);
    if head <= base || dropped.iter().all(|values| values.is_empty()) {
        return None;
    }
    let scale = match test_kind_of(view.case.check) {
        TestKind::Timed(scale) => scale,
        TestKind::Exact | TestKind::Share => Scale::Log,
    };
    let of = |arm| -> Vec<f64> {
        let kept = values(view.of(arm).looked_at()).into_iter();
        let all = kept.chain(view.of(arm).dropped.iter().copied());
        all.map(|value| scale.forward(value)).collect()
    };
    let change = stats::welch(&of(Arm::Head), &of(Arm::Base)).ok();
    let direction = view.case.check.metric.direction();
    let passes = change.is_some_and(|change| {
        let loss = loss(&change, direction);
        loss.est <= 0.0 || loss.p_less(ceiling.ln_1p()) <= view.case.budgets.beta
    });
    let facts = Facts::PassesWithoutThrottled {
        base,
        head,
        change: change.map(|change| change.est.exp_m1()),
        ceiling,
    };
    (!passes).then(|| Reason::new(RuleId::HeadThrottles, facts))
}
