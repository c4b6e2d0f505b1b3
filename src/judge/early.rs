//! Answers that ended before the length that was asked for, where no length could be forced: sound, and
//! worth a remark, since a shorter answer is quicker.
//!
//! Where a length was forced such an answer is void; where arms differ by it, `token-parity` holds.

use super::view::View;
use super::words::number;
use crate::plan::WorkloadKind;
use crate::record::Arm;
use crate::stats;

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
    let (mut all, mut tokens) = (0_usize, Vec::new());
    for sample in view.kept(arm).flat_map(|r| view.samples(r.launch)) {
        all += 1;
        if sample.finish_reason.as_deref() == Some("stop") {
            tokens.push(f64::from(sample.tokens.completion.unwrap_or(0)));
        }
    }
    let mean = number(stats::mean(&tokens)?);
    let (ended, arm) = (tokens.len(), arm.name());
    Some(format!(
        "{ended} of {all} answers of {arm} ended by themselves, after {mean} tokens on average"
    ))
}
