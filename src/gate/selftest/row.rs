//! One fault's session, judged by what should have seen the fault.
//!
//! Main type: [`Row`]. Red is a check that failed or became invalid; one that stayed undecided is neither red nor
//! a proof. Refuses to know: how the session came about.

use super::{Abroad, Fault};
use verdict::record::{CheckVerdict, RuleId, RunVerdict, Verdict};

/// What came of a planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caught {
    /// Every check that should be red is, as it should be.
    Caught,
    Missed,
    /// Nothing was planted.
    Clean,
    /// No check reads what the fault touches; it was not planted.
    NotCovered,
}

impl Caught {
    pub fn name(self) -> &'static str {
        match self {
            Self::Caught => "caught",
            Self::Missed => "MISSED",
            Self::Clean => "clean",
            Self::NotCovered => "NOT COVERED",
        }
    }
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub fault: &'static str,
    pub what: &'static str,
    pub outcome: Caught,
    /// Checks that should catch it, as they were judged; for an engine that is not ours those that did.
    pub seen: Vec<CheckVerdict>,
    /// Red checks that should not be.
    pub wrong: Vec<CheckVerdict>,
    /// Checks that passed, and that stayed undecided.
    pub passed: usize,
    pub open: usize,
    pub launches: usize,
    /// Seconds of the session, builds not counted.
    pub elapsed_s: f64,
    /// What to do about it, where there is something.
    pub advice: Option<String>,
}

impl Row {
    /// Whether nothing is wrong with it.
    pub fn is_good(&self) -> bool {
        let is_seen = matches!(self.outcome, Caught::Caught | Caught::Clean);
        is_seen && self.wrong.is_empty()
    }
}

/// How a session of so many launches and seconds answers the fault on the embedded engine.
pub fn grade(fault: &Fault, verdict: &RunVerdict, launches: usize, elapsed_s: f64) -> Row {
    let checks = || verdict.gates.iter().flat_map(|gate| &gate.checks);
    let is_due = |check: &&CheckVerdict| fault.caught_by.contains(&check.id.as_str());
    let may_be = |check: &&CheckVerdict| fault.also.contains(&check.id.as_str());
    let due: Vec<&CheckVerdict> = checks().filter(is_due).collect();
    let is_caught = |check: &&CheckVerdict| check.verdict == fault.verdict;
    let outcome = if fault.caught_by.is_empty() {
        Caught::Clean
    } else if due.len() == fault.caught_by.len() && due.iter().all(is_caught) {
        Caught::Caught
    } else {
        Caught::Missed
    };
    let count = |verdict| checks().filter(|check| check.verdict == verdict).count();
    Row {
        fault: fault.name,
        what: fault.what,
        outcome,
        seen: due.into_iter().cloned().collect(),
        wrong: checks()
            .filter(|check| is_red(check) && !is_due(check) && !may_be(check))
            .cloned()
            .collect(),
        passed: count(Verdict::Pass),
        open: count(Verdict::Inconclusive),
        launches,
        elapsed_s,
        advice: None,
    }
}

/// How a session of somebody else's gates answers the fault. What was red without it proves nothing, and an engine that
/// failed without it nothing either.
pub fn grade_abroad(
    (fault, abroad): (&Fault, &Abroad),
    verdict: &RunVerdict,
    clean: &[CheckVerdict],
    launches: usize,
    elapsed_s: f64,
) -> Row {
    let checks = || verdict.gates.iter().flat_map(|gate| &gate.checks);
    let is_new = |check: &&CheckVerdict| !clean.iter().any(|red| red.id == check.id);
    // Where an engine failed that has no fault, nothing was seen.
    let is_seen =
        |check: &&CheckVerdict| is_red(check) && check.reason.rule != RuleId::LaunchFailed;
    let seen = checks().filter(is_seen).filter(is_new);
    let seen: Vec<CheckVerdict> = seen.cloned().collect();
    let count = |verdict| checks().filter(|check| check.verdict == verdict).count();
    Row {
        fault: fault.name,
        what: abroad.what,
        outcome: match seen.is_empty() {
            true => Caught::Missed,
            false => Caught::Caught,
        },
        advice: seen.is_empty().then(|| abroad.advice.to_owned()),
        seen,
        wrong: Vec::new(),
        passed: count(Verdict::Pass),
        open: count(Verdict::Inconclusive),
        launches,
        elapsed_s,
    }
}

/// A fault that no check of somebody else's gates reads.
pub fn not_covered(fault: &Fault, abroad: &Abroad) -> Row {
    Row {
        fault: fault.name,
        what: abroad.what,
        outcome: Caught::NotCovered,
        seen: Vec::new(),
        wrong: Vec::new(),
        passed: 0,
        open: 0,
        launches: 0,
        elapsed_s: 0.0,
        advice: Some(abroad.advice.to_owned()),
    }
}

fn is_red(check: &CheckVerdict) -> bool {
    matches!(check.verdict, Verdict::Fail | Verdict::Invalid)
}

#[cfg(test)]
mod tests {
    use super::super::FAULTS;
    use super::*;
    use verdict::record::{Decision, Facts, GateVerdict, Metric, Reason, Rule, Statistic};

    fn session(checks: &[(&str, Verdict)]) -> RunVerdict {
        let check = |(id, verdict): &(&str, Verdict)| CheckVerdict {
            id: (*id).to_owned(),
            metric: Metric::Tpot,
            statistic: Statistic::Median,
            rule: Rule::Ceiling { limit: 0.0 },
            verdict: *verdict,
            series: None,
            over: None,
            reason: Reason::new(RuleId::Regression, Facts::None),
            base: None,
            head: None,
            change: None,
            interval: None,
            p_fail: None,
            p_pass: None,
            launches: (1, 1),
            smallest_effect: None,
            remarks: Vec::new(),
            cells: Vec::new(),
            waiver: None,
        };
        RunVerdict {
            verdict: Verdict::Fail,
            gates: vec![GateVerdict {
                gate: "all".into(),
                title: String::new(),
                verdict: Verdict::Fail,
                checks: checks.iter().map(check).collect(),
            }],
            blocks: 1,
            launches: 2,
            saved_s: 0.0,
            decision: Decision::Stop,
            not_run: Vec::new(),
        }
    }

    fn fault(name: &str) -> &'static Fault {
        FAULTS.iter().find(|fault| fault.name == name).unwrap()
    }

    #[test]
    fn caught_means_every_due_check_as_it_should_be_and_nothing_else() {
        use Verdict::{Fail, Inconclusive, Invalid, Pass};
        let check = |name: &str, checks: &[(&str, Verdict)], outcome: Caught, wrong: &[&str]| {
            let row = grade(fault(name), &session(checks), 8, 1.0);
            let found: Vec<&str> = row.wrong.iter().map(|it| it.id.as_str()).collect();
            assert_eq!(
                (row.outcome, found.as_slice()),
                (outcome, wrong),
                "{name} {checks:?}"
            );
            let is_seen = outcome != Caught::Missed;
            assert_eq!(row.is_good(), is_seen && wrong.is_empty());
        };
        let slow = "decode-slow";
        let other = ("prefill/ttft", Fail);
        check(
            slow,
            &[("decode/tpot", Fail), ("decode/mean", Inconclusive)],
            Caught::Caught,
            &[],
        );
        check(
            slow,
            &[("decode/tpot", Fail), other],
            Caught::Caught,
            &["prefill/ttft"],
        );
        check(slow, &[("decode/tpot", Inconclusive)], Caught::Missed, &[]);
        check(slow, &[("decode/tpot", Invalid)], Caught::Missed, &[]);
        check(slow, &[("decode/mean", Pass)], Caught::Missed, &[]);
        check(
            "kv-leak",
            &[("memory/growth", Fail), ("memory/bytes", Fail)],
            Caught::Caught,
            &[],
        );
        check(
            "kv-zero",
            &[("memory/growth", Invalid), ("memory/bytes", Pass)],
            Caught::Missed,
            &[],
        );
        check(
            "none",
            &[("decode/tpot", Pass), ("start/ready", Inconclusive)],
            Caught::Clean,
            &[],
        );
        check(
            "none",
            &[("decode/tpot", Invalid)],
            Caught::Clean,
            &["decode/tpot"],
        );
    }

    #[test]
    fn abroad_what_was_red_without_the_fault_proves_nothing() {
        let slow = fault("decode-slow");
        let abroad = slow.abroad.as_ref().unwrap();
        let clean = grade(fault("none"), &session(&[("a/b", Verdict::Fail)]), 2, 1.0);
        let check = |checks: &[(&str, Verdict)], seen: &[&str]| {
            let row = grade_abroad((slow, abroad), &session(checks), &clean.wrong, 8, 1.0);
            let found: Vec<&str> = row.seen.iter().map(|it| it.id.as_str()).collect();
            assert_eq!(found, seen);
            assert_eq!(row.is_good(), !seen.is_empty());
            assert_eq!(row.advice.is_some(), seen.is_empty());
        };
        check(&[("a/b", Verdict::Fail)], &[]);
        check(
            &[("a/b", Verdict::Fail), ("c/d", Verdict::Invalid)],
            &["c/d"],
        );
        check(&[("c/d", Verdict::Pass)], &[]);
    }

    #[test]
    fn abroad_an_engine_that_fails_without_the_fault_proves_nothing() {
        let slow = fault("decode-slow");
        let abroad = slow.abroad.as_ref().unwrap();
        let mut failed = session(&[("c/d", Verdict::Invalid)]);
        failed.gates[0].checks[0].reason.rule = RuleId::LaunchFailed;
        let row = grade_abroad((slow, abroad), &failed, &[], 2, 1.0);
        assert_eq!((row.outcome, row.seen.len()), (Caught::Missed, 0));
    }
}
