//! Answers that are one token over and over: perhaps an engine that is broken, perhaps a model that knows no
//! better. Their times are those of real tokens, so they are told and no reason against a check.
//!
//! Refuses to know: how a repetition is found.

use super::view::View;
use crate::record::Arm;

/// One remark for each arm with such answers.
pub(super) fn remarks(view: &View<'_, '_>) -> Vec<String> {
    let arms = view.arms().iter();
    arms.filter_map(|&arm| remark(view, arm)).collect()
}

fn remark(view: &View<'_, '_>, arm: Arm) -> Option<String> {
    let samples = view.kept(arm).flat_map(|r| view.samples(r.launch));
    let (mut all, mut repeated) = (0_usize, 0_usize);
    for sample in samples {
        all += 1;
        repeated += usize::from(sample.tokens.repeats);
    }
    let name = arm.name();
    (repeated > 0).then(|| {
        format!("{repeated} of {all} answers of {name} are one token over and over: see whether they should be")
    })
}
