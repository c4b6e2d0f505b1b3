//! Answers that ended before the length that was asked for, where no length could be forced: sound, and
//! worth a remark, since a shorter answer is quicker.
//!
//! Where a length was forced such an answer is void; where arms differ by it, `token-parity` holds.

use super::view::View;
use super::words::number;
use crate::plan::WorkloadKind;
use crate::record::Arm;

/// One remark for each arm that ended answers by itself. Goldens and tasks are meant to end.
pub(super) fn remarks(view: &View<'_, '_>) -> Vec<String> {
    let kind = &view.case.workload.kind;
    if matches!(kind, WorkloadKind::Goldens(_) | WorkloadKind::Tasks(_)) {
        return Vec::new();
    }
    let arms = view.arms().iter();
    arms.filter_map(|&arm| remark(view, arm)).collect()
}

fn remark(view: &View<'_, '_>, arm: Arm) -> Option<String> {
    let tally = &view.of(arm).tally;
    let mean = number(tally.mean_ended_tokens()?);
    let (ended, all, arm) = (tally.ended, tally.all, arm.name());
    Some(format!(
        "{ended} of {all} answers of {arm} ended by themselves, after {mean} tokens on average"
    ))
}
