//! A project's own tests: which fail, and which passed in base and pass no more.
//!
//! Main functions: [`failed_tests`], [`broken_tests`]. Whatever did not run is never taken as passed: a suite of which
//! no test ran has no value. Refuses to know: how tests are run.

use crate::metrics::{LaunchMeasure, Place, Undefined, Why};
use crate::plan::Suite;
use crate::record::{Launch, SuiteEnding, SuiteRun, Test, TestOutcome};
use std::collections::BTreeMap;

/// Tests that a sentence names.
const NAMED: usize = 5;

/// Tests that fail, and the command itself where it failed and no test explains it.
pub fn failed_tests(at: &Place<'_>, suite: &Suite) -> Result<LaunchMeasure, Undefined> {
    let outcomes = outcomes(at.launch, &at.workload.id, suite).map_err(|why| undefined(at, why))?;
    let failed: Vec<String> = outcomes.failures().collect();
    Ok(measure(failed, outcomes.ran()))
}

/// Tests that passed in base and in head fail, are skipped or are missing; and the command itself where head's was cut
/// off, or failed with nothing to explain it while base's did not.
pub fn broken_tests(at: &Place<'_>, suite: &Suite) -> Result<LaunchMeasure, Undefined> {
    let id = &at.workload.id;
    let head = outcomes(at.launch, id, suite).map_err(|why| undefined(at, why))?;
    let Some(base) = at.requests.base_launch else {
        let why = "base was not launched beside head, and its tests are what head's are compared with: compare with \
                   a commit (--base REF)";
        return Err(undefined(at, why.to_owned()));
    };
    let in_base = |why| undefined(at, format!("in base (launch {}): {why}", base.position));
    let before = outcomes(base, id, suite).map_err(in_base)?;
    if let Some(why) = cut_off(base, id) {
        return Err(in_base(format!(
            "{why}; what it did not get to cannot be compared"
        )));
    }
    if !before.has_passed() {
        let why = before.command.as_deref().unwrap_or("every test failed");
        return Err(in_base(format!(
            "{why}; nothing passed that head could break"
        )));
    }
    let mut broken = Vec::new();
    broken.extend(command_failure((base, &before), (at.launch, &head), id));
    let passed = before
        .tests
        .values()
        .filter(|test| test.outcome == TestOutcome::Passed);
    broken.extend(passed.filter_map(|test| head.lost(test)));
    Ok(measure(broken, head.ran()))
}

/// How head's command failed, where neither its tests nor base's own failure explain it. A test that fails in base too
/// explains base's exit status and no other.
fn command_failure(
    (base, before): (&Launch, &Outcomes<'_>),
    (head, after): (&Launch, &Outcomes<'_>),
    workload: &str,
) -> Option<String> {
    if let Some(why) = cut_off(head, workload) {
        return Some(format!("{why} and was cut off"));
    }
    if after.command.is_some() {
        return after.command.clone().filter(|_| before.command.is_none());
    }
    let is_new = |test: &Test| !before.has_failed(&test.id);
    let (base, head) = (run_of(base, workload)?, run_of(head, workload)?);
    let is_a_count = is_count_of_failures(head) && base.ending != SuiteEnding::Succeeded;
    // Tests that pass now may change the status: runners tell failures from errors by it.
    let mended = || before.failed().filter(|test| !after.has_failed(&test.id));
    let is_mended = base.ending != SuiteEnding::Succeeded
        && mended().next().is_some()
        && mended().all(|test| after.lost(test).is_none());
    if base.ending == head.ending || is_a_count || is_mended || after.failed().any(is_new) {
        return None;
    }
    let why = failure(head)?;
    Some(format!(
        "{why}, and base's did not with the same failing tests"
    ))
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
    let both: Vec<String> = head
        .failed()
        .filter(|test| base.has_failed(&test.id))
        .map(|test| test.id.clone())
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
    let run = run_of(launch, workload).ok_or("the command was never run")?;
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
    let is_explained = fails && matches!(run.ending, SuiteEnding::Failed { .. }) && !is_cut(run);
    Ok(Outcomes {
        tests,
        command: failure.filter(|_| !is_explained),
        has_report: true,
    })
}

fn run_of<'a>(launch: &'a Launch, workload: &str) -> Option<&'a SuiteRun> {
    let mut runs = launch.suites.iter();
    runs.find(|run| run.workload == workload)
}

/// True if the command did not end by itself: it was killed at its time limit, a signal ended it, or its exit status is
/// that of `timeout` (124) or of a shell whose child a signal ended (128 + the signal's number).
fn is_cut(run: &SuiteRun) -> bool {
    match &run.ending {
        SuiteEnding::TimedOut { .. } => true,
        SuiteEnding::Failed { status } if status.starts_with("signal") => true,
        SuiteEnding::Failed { .. } => {
            let is_of_a_kill = |code: &usize| *code == 124 || (129..=159).contains(code);
            exit_code(run).as_ref().is_some_and(is_of_a_kill) && !is_count_of_failures(run)
        }
        SuiteEnding::Succeeded | SuiteEnding::NotStarted { .. } => false,
    }
}

/// True if the exit status is the number of failed tests, as some runners have it.
fn is_count_of_failures(run: &SuiteRun) -> bool {
    let failed = run.tests.iter();
    let failed = failed.filter(|test| test.outcome == TestOutcome::Failed);
    exit_code(run) == Some(failed.count())
}

/// The exit status of a command that failed, where it has one.
fn exit_code(run: &SuiteRun) -> Option<usize> {
    match &run.ending {
        SuiteEnding::Failed { status } => status.strip_prefix("exit status: ")?.parse().ok(),
        _ => None,
    }
}

/// How the command ended before its tests did, if so.
fn cut_off(launch: &Launch, workload: &str) -> Option<String> {
    let run = run_of(launch, workload)?;
    failure(run).filter(|_| is_cut(run))
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

    fn has_failed(&self, id: &str) -> bool {
        let test = self.tests.get(id);
        test.is_some_and(|test| test.outcome == TestOutcome::Failed)
    }

    fn failures(&self) -> impl Iterator<Item = String> {
        self.command.iter().cloned().chain(self.failed().map(told))
    }

    /// A test did; the command itself where it is the only one.
    fn has_passed(&self) -> bool {
        let mut tests = self.tests.values();
        match self.has_report {
            true => tests.any(|test| test.outcome == TestOutcome::Passed),
            false => self.command.is_none(),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::testing::{check, launch};
    use crate::metrics::{Requests, measure_among};
    use crate::plan::{Workload, WorkloadKind};
    use crate::record::{Metric, Statistic};
    use std::time::Duration;

    /// A launch whose command ended so; of the tests, each is named and marked `+`, `-` or `~` (skipped).
    fn ran(ending: SuiteEnding, tests: &[&str]) -> Launch {
        let test = |text: &&str| Test {
            id: text[1..].to_owned(),
            outcome: match &text[..1] {
                "+" => TestOutcome::Passed,
                "-" => TestOutcome::Failed,
                _ => TestOutcome::Skipped,
            },
            message: None,
        };
        let run = SuiteRun {
            workload: "gate/workload".into(),
            begun_ns: 0,
            ended_ns: 0,
            ending,
            log: String::new(),
            log_tail: String::new(),
            tests: tests.iter().map(test).collect(),
            unread: None,
        };
        let mut launch = launch(1, Vec::new());
        launch.suites.push(run);
        launch
    }

    fn ended(status: i32) -> SuiteEnding {
        match status {
            0 => SuiteEnding::Succeeded,
            n => SuiteEnding::Failed {
                status: format!("exit status: {n}"),
            },
        }
    }

    /// `failed_tests` and `broken_tests` of head beside base.
    fn of(junit: bool, base: &Launch, head: &Launch) -> [Result<f64, String>; 2] {
        let suite = Suite {
            command: vec!["t".into()],
            env: Vec::new(),
            junit: junit.then(|| "junit.xml".into()),
            timeout: Duration::from_secs(1),
        };
        let workload = Workload {
            id: "gate/workload".into(),
            launches: Some(1),
            kind: WorkloadKind::Suite(suite),
        };
        [Metric::FailedTests, Metric::BrokenTests].map(|metric| {
            let check = check(metric, Statistic::Single);
            let requests = Requests::of(&check, &workload, head).beside(&check, Some(base));
            let measured = measure_among(&requests, &check);
            measured.map(|m| m.value).map_err(|error| error.to_string())
        })
    }

    #[test]
    fn tests_are_held_against_base() {
        let base = ran(ended(1), &["+a", "+b", "+c", "+d", "-e"]);
        let head = ran(ended(1), &["+a", "-b", "~c", "-e", "-f"]);
        // docs/metrics.md.
        assert_eq!(of(true, &base, &head), [Ok(3.0), Ok(3.0)]);
        assert_eq!(of(true, &base, &base), [Ok(1.0), Ok(0.0)]);
        let sound = ran(ended(0), &["+a"]);
        for (ending, broken) in [(ended(0), 0.0), (ended(7), 1.0)] {
            let head = ran(ending, &["+a", "+new"]);
            assert_eq!(of(true, &sound, &head), [Ok(broken), Ok(broken)]);
        }
        // A test that failed does not explain that the rest never ended.
        let hung = ran(SuiteEnding::TimedOut { limit_s: 1.0 }, &["-a"]);
        assert_eq!(of(true, &sound, &hung), [Ok(2.0), Ok(2.0)]);
    }

    #[test]
    fn a_failed_test_explains_no_crash() {
        let base = ran(ended(1), &["+a", "-old"]);
        for status in ["signal: 11 (SIGSEGV)", "exit status: 139"] {
            let status = status.to_owned();
            let crashed = ran(SuiteEnding::Failed { status }, &["+a", "-old"]);
            assert_eq!(of(true, &base, &crashed), [Ok(2.0), Ok(1.0)]);
            // What base did not get to cannot be broken, so nothing is told.
            let why = of(true, &crashed, &base)[1].clone().unwrap_err();
            assert!(why.contains("what it did not get to"), "{why}");
        }
        let hung = ran(SuiteEnding::TimedOut { limit_s: 1.0 }, &["+a"]);
        let why = of(true, &hung, &base)[1].clone().unwrap_err();
        assert!(why.contains("was killed; what it did not get to"), "{why}");
    }

    #[test]
    fn a_failure_of_base_explains_no_cut_off_head() {
        let base = ran(ended(1), &["+a", "-old"]);
        let signal = |text: &str| SuiteEnding::Failed {
            status: text.to_owned(),
        };
        for ending in [
            // GNU timeout, and a shell's statuses for SIGTERM and SIGINT.
            ended(124),
            ended(143),
            ended(130),
            signal("signal: 15 (SIGTERM)"),
            SuiteEnding::TimedOut { limit_s: 1.0 },
            // A runner that ends otherwise than base's did, with the same failure.
            ended(3),
        ] {
            let head = ran(ending, &["+a", "-old"]);
            assert_eq!(of(true, &base, &head)[1], Ok(1.0), "{:?}", head.suites);
        }
        // Base failed without a test that explains it: that hides no head that was cut off.
        let odd = ran(ended(7), &["+a"]);
        for ending in [ended(124), SuiteEnding::TimedOut { limit_s: 1.0 }] {
            assert_eq!(of(true, &odd, &ran(ending, &["+a"]))[1], Ok(1.0));
        }
        assert_eq!(of(true, &odd, &odd)[1], Ok(0.0));
        let why = of(true, &ran(ended(124), &["+a", "-old"]), &base)[1].clone();
        assert!(why.unwrap_err().contains("what it did not get to"));
        // Base's runner does not fail for the test that fails in both.
        let lenient = ran(ended(0), &["+a", "-old"]);
        assert_eq!(of(true, &lenient, &base)[1], Ok(1.0));
    }

    #[test]
    fn a_status_may_be_the_number_of_failed_tests() {
        let failed = |n: usize| -> Vec<String> { (0..n).map(|i| format!("-{i}")).collect() };
        let ran = |n: usize| {
            let tests = failed(n);
            let tests = tests.iter().map(String::as_str).chain(["+a"]);
            ran(ended(n as i32), &tests.collect::<Vec<_>>())
        };
        for (base, head) in [(124, 124), (143, 137), (3, 2)] {
            assert_eq!(of(true, &ran(base), &ran(head))[1], Ok(0.0));
        }
    }

    #[test]
    fn a_command_is_one_test_where_it_names_no_file() {
        let (good, bad) = (ran(ended(0), &[]), ran(ended(1), &[]));
        assert_eq!(of(false, &good, &good), [Ok(0.0), Ok(0.0)]);
        assert_eq!(of(false, &good, &bad), [Ok(1.0), Ok(1.0)]);
    }

    #[test]
    fn what_did_not_run_has_no_value() {
        let undefined = |value: &Result<f64, String>, why: &str| {
            let said = value.as_ref().unwrap_err();
            assert!(said.contains(why), "{said}");
        };
        let sound = ran(ended(0), &["+a"]);
        for head in [&ran(ended(0), &[]), &ran(ended(5), &["~a"])] {
            for value in &of(true, &sound, head) {
                undefined(value, "no test ran");
            }
        }
        for (base, why) in [
            (ran(ended(0), &[]), "no test ran"),
            (
                ran(ended(1), &["-a", "~b"]),
                "every test failed; nothing passed",
            ),
        ] {
            let [failed, broken] = of(true, &base, &sound);
            assert_eq!(failed, Ok(0.0));
            undefined(&broken, why);
        }
        let bad = ran(ended(1), &[]);
        undefined(
            &of(false, &bad, &bad)[1],
            "nothing passed that head could break",
        );
        undefined(&of(true, &sound, &launch(2, Vec::new()))[0], "never run");
    }
}
