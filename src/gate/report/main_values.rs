//! Sessions without a verdict against main: those that record main's values, and those that find none.

use verdict::record::{CheckVerdict, RuleId, RunRecord, RunVerdict, Verdict};

/// Whether it is main's values that were asked for, and nothing is wrong with them.
pub fn is_recorded(record: &RunRecord, verdict: &RunVerdict) -> bool {
    record.comparison.is_recording() && has_no_base(verdict)
}

/// Some comparison had nothing to compare with, and nothing else is red.
pub fn has_no_base(verdict: &RunVerdict) -> bool {
    let lacks =
        |check: &CheckVerdict| matches!(check.reason.rule, RuleId::NoBase | RuleId::NoStoredBase);
    let checks = || verdict.gates.iter().flat_map(|gate| &gate.checks);
    let is_red = |check: &CheckVerdict| check.verdict != Verdict::Pass && !check.is_waived();
    checks().any(lacks) && checks().filter(|check| is_red(check)).all(lacks)
}
