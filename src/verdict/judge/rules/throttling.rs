//! Rules `throttled` and `head-throttles`: blocks dropped since a GPU or a processor throttled.

use super::super::continuous::loss_with_dropped;
use super::super::view::View;
use super::finding::{Finding, invalid};
use crate::plan::Rule;
use crate::record::{Arm, Facts, Reason, RuleId};
use crate::stats::Degenerate;

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
/// passes by the check's own test of all launches, those of dropped blocks too.
pub fn passes_without_throttled(view: &View<'_, '_>) -> Option<Reason> {
    let Rule::Regression { ceiling, .. } = view.case.check.rule else {
        return None;
    };
    let n = |arm| *view.scope.throttled.of(arm);
    let (base, head) = (n(Arm::Base), n(Arm::Head));
    let has_dropped = !view.of(Arm::Head).dropped.is_empty();
    if head <= base || !has_dropped || !view.arms().contains(&Arm::Base) {
        return None;
    }
    let loss = match loss_with_dropped(view) {
        // All alike.
        Err(Degenerate::NoVariance) => return None,
        loss => loss.ok(),
    };
    let direction = view.case.check.metric.direction();
    let passes = loss.is_some_and(|loss| {
        loss.est <= 0.0 || loss.p_less(direction.loss(ceiling)) <= view.case.budgets.beta
    });
    let sign = direction.sign();
    let facts = Facts::PassesWithoutThrottled {
        base,
        head,
        change: loss.map(|loss| (sign * loss.est).exp_m1()),
        ceiling,
    };
    (!passes).then(|| Reason::new(RuleId::HeadThrottles, facts))
}
