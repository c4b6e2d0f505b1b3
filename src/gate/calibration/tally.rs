//! Counts of verdicts, and which failure of an A/A session is a false alarm.

use serde::{Deserialize, Serialize};
use verdict::plan::{Plan, Rule};
use verdict::record::{RunVerdict, Verdict};

/// How often each verdict was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tally {
    pub pass: u32,
    pub fail: u32,
    pub inconclusive: u32,
    pub invalid: u32,
}

impl Tally {
    pub fn add(&mut self, verdict: Verdict) {
        let count = match verdict {
            Verdict::Pass => &mut self.pass,
            Verdict::Fail => &mut self.fail,
            Verdict::Inconclusive => &mut self.inconclusive,
            Verdict::Invalid => &mut self.invalid,
        };
        *count += 1;
    }

    /// All but the invalid ones, which say nothing about a false alarm.
    pub fn judged(&self) -> u32 {
        self.pass + self.fail + self.inconclusive
    }
}

/// What an A/A session says about false alarms: its verdict, or `None` where limits alone failed. A
/// comparison of one build with itself that fails is a false alarm; a value beyond a limit may be so.
pub fn outcome(plan: &Plan, verdict: &RunVerdict) -> Option<Verdict> {
    if verdict.verdict != Verdict::Fail {
        return Some(verdict.verdict);
    }
    let checks = plan.gates.iter().flat_map(|gate| &gate.checks);
    let compares = |id: &str| {
        let mut checks = checks.clone();
        checks.any(|c| c.id == id && matches!(c.rule, Rule::Regression { .. }))
    };
    let mut judged = verdict.gates.iter().flat_map(|gate| &gate.checks);
    judged
        .any(|check| check.verdict == Verdict::Fail && compares(&check.id))
        .then_some(Verdict::Fail)
}
