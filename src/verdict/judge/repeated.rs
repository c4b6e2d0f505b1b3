//! Answers that are one token over and over: perhaps an engine that is broken, perhaps a model that knows no
//! better. Their times are those of real tokens, so they are told and no reason against a check.
//!
//! Refuses to know: how a repetition is found.

use super::view::View;
use crate::record::Arm;

/// Share of head's answers, beyond base's share where base was measured, from which it is told: a small model
/// repeats itself now and then, in both arms alike.
const REMARKABLE: f64 = 0.05;

/// The remark on head, if there is one.
pub fn remark(view: &View<'_, '_>) -> Option<String> {
    let share = |arm| {
        let tally = &view.of(arm).tally;
        tally.repeated as f64 / tally.all.max(1) as f64
    };
    let beyond = share(Arm::Head) - share(Arm::Base);
    (beyond > REMARKABLE).then(|| {
        let tally = &view.of(Arm::Head).tally;
        let (repeated, all) = (tally.repeated, tally.all);
        format!("{repeated} of {all} answers of head are one token over and over: see whether they should be")
    })
}
