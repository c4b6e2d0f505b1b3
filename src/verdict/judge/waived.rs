//! Waivers: a check that may be red until a day does not decide the run; after that day it fails it.
//!
//! Refuses to know: where waivers are written down.

use super::Rules;
use crate::record::{CheckVerdict, Facts, Reason, RuleId, Verdict, Waiver};

/// Marks a check's verdict where a waiver names it. The session's own day counts, so that a record is
/// judged alike on any day.
pub fn mark(rules: &Rules<'_>, check: &mut CheckVerdict) {
    let waivers = &rules.plan.waivers;
    let Some(given) = waivers.iter().find(|waiver| waiver.check == check.id) else {
        return;
    };
    // RFC 3339 begins with the day, and days so written sort as they follow one another.
    let today = rules.record.created.get(..given.expires.len());
    let waiver = Waiver {
        reason: given.reason.clone(),
        owner: given.owner.clone(),
        issue: given.issue.clone(),
        expires: given.expires.clone(),
        is_expired: today.is_none_or(|today| today > given.expires.as_str()),
    };
    if waiver.is_expired {
        let placeholder = Reason::new(RuleId::WaiverExpired, Facts::None);
        let before = Box::new(std::mem::replace(&mut check.reason, placeholder));
        let was = std::mem::replace(&mut check.verdict, Verdict::Fail);
        check.reason.facts = Facts::WaiverExpired { was, before };
    }
    check.waiver = Some(waiver);
}
