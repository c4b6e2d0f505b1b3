//! Waivers: a check that may be red until a day does not decide the run; after that day it fails it.
//!
//! Refuses to know: where waivers are written down.

use super::Rules;
use crate::record::{CheckVerdict, Reason, Verdict, Waiver};

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
        expire(check, &waiver);
    } else {
        check.notes.push(note(check.verdict, &waiver));
    }
    check.waiver = Some(waiver);
}

fn note(verdict: Verdict, waiver: &Waiver) -> String {
    let (expires, owner, issue) = (&waiver.expires, &waiver.owner, &waiver.issue);
    match verdict {
        Verdict::Pass => {
            format!("its waiver (until {expires}, {owner}, {issue}) is not needed: delete it")
        }
        red => format!(
            "{}, waived until {expires} by {owner}: {} ({issue})",
            red.name(),
            waiver.reason
        ),
    }
}

fn expire(check: &mut CheckVerdict, waiver: &Waiver) {
    let text = format!(
        "its waiver expired on {} ({}, {}: {}): delete it from gates/waivers.toml, or give it a new day; without \
         it: {}, {}",
        waiver.expires,
        waiver.owner,
        waiver.issue,
        waiver.reason,
        check.verdict.name(),
        check.reason.text
    );
    check.verdict = Verdict::Fail;
    check.reason = Reason {
        rule: "waiver-expired",
        text,
    };
}
