//! The remark that the machine has moved: what base measured today is not what main's stored sessions let one
//! expect, though the fingerprint is the same. Both arms feel it, so that no verdict rests on it.
//!
//! Refuses to know: what moved it.

use super::treatment::Treatment;
use super::view::{View, values};
use super::words::signed_percents;
use crate::record::Arm;
use crate::stats;

/// So unlikely under sessions that vary as main's did.
const SURE: f64 = 0.001;

/// The remark, where base was measured, and enough stored sessions are there.
pub fn remark(view: &View<'_, '_>) -> Option<String> {
    let (Treatment::Timed(scale), Ok(stored)) = (view.case.treatment, &view.case.stored) else {
        return None;
    };
    if !scale.is_relative() || !view.comparison.arms().contains(&Arm::Base) {
        return None;
    }
    let mean = |values: &[f64]| {
        let values: Vec<f64> = values.iter().map(|v| scale.forward(*v)).collect();
        stats::mean(&values)
    };
    let today = mean(&values(view.of(Arm::Base).kept.iter()))?;
    let sessions: Vec<f64> = stored.sessions.iter().filter_map(|s| mean(s)).collect();
    let e = stats::prediction(today, &sessions).ok()?;
    if 2.0 * e.p_greater(0.0).min(e.p_less(0.0)) >= SURE {
        return None;
    }
    let (low, high) = e.interval(1.0 - SURE);
    let change = signed_percents(e.est.exp_m1(), (low.exp_m1(), high.exp_m1()));
    Some(format!(
        "the machine has moved: base is {change} from the {} stored sessions of main; both arms feel it alike",
        sessions.len()
    ))
}
