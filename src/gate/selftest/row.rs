//! One fault's session, judged by what should have seen the fault.
//!
//! Main type: [`Row`]. Red is a check that failed or became invalid; one that stayed undecided is neither red nor
//! a proof. Refuses to know: how the session came about.

use super::{Abroad, Fault};
use verdict::record::{CheckVerdict, RunVerdict, Verdict};

/// The judge's rule where an engine failed that has no fault.
const LAUNCH_FAILED: &str = "launch-failed";

/// What came of a planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every check that should be red is, as it should be.
    Caught,
    Missed,
    /// Nothing was planted.
    Clean,
    /// No check reads what the fault touches; it was not planted.
    NotCovered,
}

impl Outcome {
    pub fn name(self) -> &'static str {
        match self {
            Self::Caught => "caught",
            Self::Missed => "MISSED",
            Self::Clean => "clean",
            Self::NotCovered => "NOT COVERED",
        }
    }
}

/// A check as it was judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    pub check: String,
    pub verdict: Verdict,
    /// Name of the judge's rule, and its sentence.
    pub rule: &'static str,
    pub reason: String,
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub fault: &'static str,
    pub what: &'static str,
    pub outcome: Outcome,
    /// Checks that should catch it, as they were judged; for an engine that is not ours those that did.
    pub seen: Vec<Judged>,
    /// Red checks that should not be.
    pub wrong: Vec<Judged>,
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
        let is_seen = matches!(self.outcome, Outcome::Caught | Outcome::Clean);
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
        Outcome::Clean
    } else if due.len() == fault.caught_by.len() && due.iter().all(is_caught) {
        Outcome::Caught
    } else {
        Outcome::Missed
    };
    let count = |verdict| checks().filter(|check| check.verdict == verdict).count();
    Row {
        fault: fault.name,
        what: fault.what,
        outcome,
        seen: due.iter().map(|check| judged(check)).collect(),
        wrong: checks()
            .filter(|check| is_red(check) && !is_due(check) && !may_be(check))
            .map(judged)
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
    clean: &[Judged],
    launches: usize,
    elapsed_s: f64,
) -> Row {
    let checks = || verdict.gates.iter().flat_map(|gate| &gate.checks);
    let is_new = |check: &&CheckVerdict| !clean.iter().any(|red| red.check == check.id);
    let is_seen = |check: &&CheckVerdict| is_red(check) && check.reason.rule != LAUNCH_FAILED;
    let seen = checks().filter(is_seen).filter(is_new);
    let seen: Vec<Judged> = seen.map(judged).collect();
    let count = |verdict| checks().filter(|check| check.verdict == verdict).count();
    Row {
        fault: fault.name,
        what: abroad.what,
        outcome: match seen.is_empty() {
            true => Outcome::Missed,
            false => Outcome::Caught,
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
        outcome: Outcome::NotCovered,
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

fn judged(check: &CheckVerdict) -> Judged {
    Judged {
        check: check.id.clone(),
        verdict: check.verdict,
        rule: check.reason.rule,
        reason: check.reason.text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::FAULTS;
    use super::*;
    use verdict::record::{Decision, GateVerdict, Metric, Reason, Statistic};

    fn session(checks: &[(&str, Verdict)]) -> RunVerdict {
        let check = |(id, verdict): &(&str, Verdict)| CheckVerdict {
            id: (*id).to_owned(),
            metric: Metric::Tpot,
            statistic: Statistic::Median,
            verdict: *verdict,
            reason: Reason {
                rule: "regression",
                text: format!("why {id}"),
            },
            base: None,
            head: None,
            change: None,
            interval: None,
            p_fail: None,
            p_pass: None,
            launches: (1, 1),
            smallest_effect: None,
            notes: Vec::new(),
            cells: Vec::new(),
            waiver: None,
        };
        RunVerdict {
            verdict: Verdict::Fail,
            summary: String::new(),
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
        }
    }

    fn fault(name: &str) -> &'static Fault {
        FAULTS.iter().find(|fault| fault.name == name).unwrap()
    }

    #[test]
    fn caught_means_every_due_check_as_it_should_be_and_nothing_else() {
        use Verdict::{Fail, Inconclusive, Invalid, Pass};
        let check = |name: &str, checks: &[(&str, Verdict)], outcome: Outcome, wrong: &[&str]| {
            let row = grade(fault(name), &session(checks), 8, 1.0);
            let found: Vec<&str> = row.wrong.iter().map(|it| it.check.as_str()).collect();
            assert_eq!(
                (row.outcome, found.as_slice()),
                (outcome, wrong),
                "{name} {checks:?}"
            );
            let is_seen = outcome != Outcome::Missed;
            assert_eq!(row.is_good(), is_seen && wrong.is_empty());
        };
        let slow = "decode-slow";
        let other = ("prefill/ttft", Fail);
        check(
            slow,
            &[("decode/tpot", Fail), ("decode/mean", Inconclusive)],
            Outcome::Caught,
            &[],
        );
        check(
            slow,
            &[("decode/tpot", Fail), other],
            Outcome::Caught,
            &["prefill/ttft"],
        );
        check(slow, &[("decode/tpot", Inconclusive)], Outcome::Missed, &[]);
        check(slow, &[("decode/tpot", Invalid)], Outcome::Missed, &[]);
        check(slow, &[("decode/mean", Pass)], Outcome::Missed, &[]);
        check(
            "kv-leak",
            &[("memory/growth", Fail), ("memory/bytes", Fail)],
            Outcome::Caught,
            &[],
        );
        check(
            "kv-zero",
            &[("memory/growth", Invalid), ("memory/bytes", Pass)],
            Outcome::Missed,
            &[],
        );
        check(
            "none",
            &[("decode/tpot", Pass), ("start/ready", Inconclusive)],
            Outcome::Clean,
            &[],
        );
        check(
            "none",
            &[("decode/tpot", Invalid)],
            Outcome::Clean,
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
            let found: Vec<&str> = row.seen.iter().map(|it| it.check.as_str()).collect();
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
        failed.gates[0].checks[0].reason.rule = LAUNCH_FAILED;
        let row = grade_abroad((slow, abroad), &failed, &[], 2, 1.0);
        assert_eq!((row.outcome, row.seen.len()), (Outcome::Missed, 0));
    }
}
