//! Answers that ended before the length that was asked for, where no length could be forced: sound, and
//! worth a remark, since a shorter answer is quicker. A blank one has a remark of its own.
//!
//! Where a length was forced such an answer is void; where arms differ by it, `token-parity` holds.

use super::view::View;
use super::words::number;
use crate::plan::WorkloadKind;
use crate::record::Arm;

/// Remarks on each arm that ended answers by itself or gave blank ones. Goldens and tasks are meant to end, texts are answered
/// with themselves.
pub fn remarks(view: &View<'_, '_>) -> Vec<String> {
    let kind = &view.case.workload.kind;
    use WorkloadKind::{Goldens, Tasks, Texts};
    if matches!(kind, Goldens(_) | Texts(_) | Tasks(_)) {
        return Vec::new();
    }
    let arms = view.arms().iter();
    let both = |&arm| [remark(view, arm), blank(view, arm)];
    arms.flat_map(both).flatten().collect()
}

fn blank(view: &View<'_, '_>, arm: Arm) -> Option<String> {
    let tally = &view.of(arm).tally;
    let (blank, all, arm) = (tally.blank, tally.all, arm.name());
    (blank > 0)
        .then(|| format!("{blank} of {all} answers of {arm} are blank: see whether they should be"))
}

fn remark(view: &View<'_, '_>, arm: Arm) -> Option<String> {
    let tally = &view.of(arm).tally;
    let mean = number(tally.mean_ended_tokens()?);
    let (ended, all, arm) = (tally.ended, tally.all, arm.name());
    Some(format!(
        "{ended} of {all} answers of {arm} ended by themselves, after {mean} tokens on average"
    ))
}
