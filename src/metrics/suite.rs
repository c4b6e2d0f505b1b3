//! A project's own tests: which fail, and which passed in base and pass no more.
//!
//! Main functions: [`failed_tests`], [`broken_tests`]. Whatever did not run is never taken as passed: a suite of which
//! no test ran has no value. Refuses to know: how tests are run.

use super::{LaunchMeasure, Place, Undefined, Why};
use crate::plan::Suite;
use crate::record::{Launch, SuiteEnding, SuiteRun, Test, TestOutcome};
use std::collections::BTreeMap;

/// Tests that a sentence names.
const NAMED: usize = 5;

/// Tests that fail, and the command itself where it failed and no test explains it.
pub(super) fn failed_tests(at: &Place<'_>, suite: &Suite) -> Result<LaunchMeasure, Undefined> {
    let outcomes = outcomes(at.launch, &at.workload.id, suite).map_err(|why| undefined(at, why))?;
    let failed: Vec<String> = outcomes.failures().collect();
    Ok(measure(failed, outcomes.ran()))
}

/// Tests that passed in base and in head fail, are skipped or are missing; and the command itself where base's
/// succeeded, head's failed and no test explains it.
pub(super) fn broken_tests(at: &Place<'_>, suite: &Suite) -> Result<LaunchMeasure, Undefined> {
    let id = &at.workload.id;
    let head = outcomes(at.launch, id, suite).map_err(|why| undefined(at, why))?;
    let Some(base) = at.requests.base_launch else {
        let why = "base was not launched beside head, and its tests are what head's are compared with: compare with \
                   a commit (--base REF)";
        return Err(undefined(at, why.to_owned()));
    };
    let in_base = |why| undefined(at, format!("in base (launch {}): {why}", base.position));
    let before = outcomes(base, id, suite).map_err(in_base)?;
    if before.command.is_some() && !before.has_passed() {
        let why = before.command.unwrap_or_default();
        return Err(in_base(format!(
            "{why}; nothing passed that head could break"
        )));
    }
    let mut broken = Vec::new();
    if let (None, Some(why)) = (&before.command, &head.command) {
        broken.push(why.clone());
    }
    let passed = before
        .tests
        .values()
        .filter(|test| test.outcome == TestOutcome::Passed);
    broken.extend(passed.filter_map(|test| head.lost(test)));
    Ok(measure(broken, head.ran()))
}

/// A remark on the tests that fail in `head` as they do in `base`; `None` where there are none.
pub fn fails_in_both(
    suite: &Suite,
    workload: &str,
    base: &Launch,
    head: &Launch,
) -> Option<String> {
    let base = outcomes(base, workload, suite).ok()?;
    let head = outcomes(head, workload, suite).ok()?;
    let is_old = |test: &&&Test| {
        let before = base.tests.get(test.id.as_str());
        before.is_some_and(|before| before.outcome == TestOutcome::Failed)
    };
    let both: Vec<String> = head
        .failed()
        .filter(|t| is_old(&t))
        .map(|t| t.id.clone())
        .collect();
    let tests = if both.len() == 1 {
        "test fails"
    } else {
        "tests fail"
    };
    (!both.is_empty()).then(|| {
        format!(
            "{} {tests} in base too: {}",
            both.len(),
            named(&both).join(", ")
        )
    })
}

fn undefined(at: &Place<'_>, why: String) -> Undefined {
    at.undefined(Why::Suite(why), None)
}

fn measure(cases: Vec<String>, ran: usize) -> LaunchMeasure {
    LaunchMeasure {
        remarks: named(&cases),
        ..LaunchMeasure::single(cases.len() as f64, ran)
    }
}

/// The first of them, and how many more there are.
fn named(cases: &[String]) -> Vec<String> {
    let mut shown: Vec<String> = cases.iter().take(NAMED).cloned().collect();
    if cases.len() > NAMED {
        shown.push(format!("and {} more", cases.len() - NAMED));
    }
    shown
}

/// What a run of the suite showed.
struct Outcomes<'a> {
    /// By id; empty where the gate names no JUnit file, or a command that failed wrote none.
    tests: BTreeMap<&'a str, &'a Test>,
    /// How the command failed, where none of its tests explains it.
    command: Option<String>,
    has_report: bool,
}

/// # Errors
/// The suite did not run, it succeeded without its JUnit file, or the file names no test that ran.
fn outcomes<'a>(launch: &'a Launch, workload: &str, suite: &Suite) -> Result<Outcomes<'a>, String> {
    let mut runs = launch.suites.iter().filter(|run| run.workload == workload);
    let run = runs.next().ok_or("the command was never run")?;
    let failure = failure(run);
    let Some(report) = &suite.junit else {
        return Ok(Outcomes {
            tests: BTreeMap::new(),
            command: failure,
            has_report: false,
        });
    };
    match (&run.unread, failure) {
        (Some(why), None) => Err(format!(
            "the command succeeded, and its JUnit file {report} {why}"
        )),
        (Some(why), Some(failure)) => Ok(Outcomes {
            tests: BTreeMap::new(),
            command: Some(format!("{failure}, and its JUnit file {report} {why}")),
            has_report: true,
        }),
        (None, failure) => reported(run, report, failure),
    }
}

fn reported<'a>(
    run: &'a SuiteRun,
    report: &str,
    failure: Option<String>,
) -> Result<Outcomes<'a>, String> {
    let tests: BTreeMap<&str, &Test> = run
        .tests
        .iter()
        .map(|test| (test.id.as_str(), test))
        .collect();
    if tests
        .values()
        .all(|test| test.outcome == TestOutcome::Skipped)
    {
        let ended = failure.unwrap_or_else(|| "the command succeeded".to_owned());
        let skipped = match tests.len() {
            0 => String::new(),
            n => format!(", {n} skipped"),
        };
        return Err(format!("no test ran ({report}{skipped}); {ended}"));
    }
    let fails = tests
        .values()
        .any(|test| test.outcome == TestOutcome::Failed);
    // Runners end with a status other than 0 when a test fails: that is no failure of its own.
    let is_explained = fails && matches!(run.ending, SuiteEnding::Failed { .. });
    Ok(Outcomes {
        tests,
        command: failure.filter(|_| !is_explained),
        has_report: true,
    })
}

/// How the command failed, if it did.
fn failure(run: &SuiteRun) -> Option<String> {
    match &run.ending {
        SuiteEnding::Succeeded => None,
        SuiteEnding::Failed { status } => Some(format!("the command failed ({status})")),
        SuiteEnding::TimedOut { limit_s } => Some(format!(
            "the command took longer than {limit_s} s (`timeout`) and was killed"
        )),
        SuiteEnding::NotStarted { detail } => Some(format!("the command did not start: {detail}")),
    }
}

impl Outcomes<'_> {
    fn failed(&self) -> impl Iterator<Item = &Test> {
        let tests = self.tests.values().copied();
        tests.filter(|test| test.outcome == TestOutcome::Failed)
    }

    fn failures(&self) -> impl Iterator<Item = String> {
        self.command.iter().cloned().chain(self.failed().map(told))
    }

    fn has_passed(&self) -> bool {
        self.tests
            .values()
            .any(|test| test.outcome == TestOutcome::Passed)
    }

    /// Tests that ran; the command itself where its tests are not known.
    fn ran(&self) -> usize {
        match self.has_report && !self.tests.is_empty() {
            true => self
                .tests
                .values()
                .filter(|t| t.outcome != TestOutcome::Skipped)
                .count(),
            false => 1,
        }
    }

    /// What became of a test that passed before; `None`: it passes.
    fn lost(&self, before: &Test) -> Option<String> {
        match self.tests.get(before.id.as_str()) {
            None => Some(format!("{} is missing", before.id)),
            Some(test) => match test.outcome {
                TestOutcome::Passed => None,
                TestOutcome::Failed => Some(told(test)),
                TestOutcome::Skipped => Some(format!("{} is skipped", before.id)),
            },
        }
    }
}

/// `api::streams fails (assert 3 == 4)`.
fn told(test: &Test) -> String {
    match &test.message {
        Some(message) => format!("{} fails ({message})", test.id),
        None => format!("{} fails", test.id),
    }
}
