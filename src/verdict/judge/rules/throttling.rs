//! Rules `throttled` and `head-throttles`: blocks dropped since a GPU or a processor throttled.

use super::super::view::View;
use super::finding::{Finding, invalid};
use crate::record::{Arm, Facts, RuleId};

/// So many dropped blocks, and more than half, and the machine is unfit.
const DROPPED_BLOCKS: usize = 4;
/// Head throttles in this many more launches than base: head causes it.
const HEAD_THROTTLES: usize = 3;

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
