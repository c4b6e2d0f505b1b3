//! A verdict as JUnit XML: a suite a gate, a case a check. What a waiver covers is skipped; what measured nothing is
//! an error, not a failure.
//!
//! Main functions: [`junit`] and [`junit_not_measured`]. Refuses to know: files.

use super::numbers;
use super::redaction::redact;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use std::time::Duration;
use verdict::record::{CheckVerdict, GateVerdict, RunRecord, RunVerdict, Verdict};

/// Characters of one text.
const MOST: usize = 20_000;

/// The verdict as XML. Deterministic.
pub fn junit(record: &RunRecord, verdict: &RunVerdict) -> String {
    let mut report = Report::new("infergate");
    report.set_time(Duration::try_from_secs_f64(record.elapsed_s).unwrap_or_default());
    for gate in &verdict.gates {
        report.add_test_suite(suite(gate));
    }
    xml(&report)
}

/// The XML of a run without a measurement: one case, which is an error. `said`: why.
pub fn junit_not_measured(said: &str) -> String {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
    status
        .set_type("not-measured")
        .set_message("nothing was measured");
    status.set_description(text(said));
    let mut suite = TestSuite::new("infergate");
    suite.add_test_case(TestCase::new("measurement", status));
    let mut report = Report::new("infergate");
    report.add_test_suite(suite);
    xml(&report)
}

fn xml(report: &Report) -> String {
    let written = report.to_string();
    written.unwrap_or_else(|error| format!("<!-- the JUnit report failed: {error} -->\n"))
}

fn suite(gate: &GateVerdict) -> TestSuite {
    let mut suite = TestSuite::new(text(&gate.gate));
    for check in &gate.checks {
        suite.add_test_case(case(&gate.gate, check));
    }
    suite
}

fn case(gate: &str, check: &CheckVerdict) -> TestCase {
    let mut status = match check.verdict {
        Verdict::Pass => TestCaseStatus::success(),
        _ if check.is_waived() => TestCaseStatus::skipped(),
        Verdict::Fail => TestCaseStatus::non_success(NonSuccessKind::Failure),
        Verdict::Inconclusive | Verdict::Invalid => {
            TestCaseStatus::non_success(NonSuccessKind::Error)
        }
    };
    let kind = match check.verdict {
        Verdict::Fail => check.reason.rule.to_owned(),
        other => format!("{}: {}", other.name(), check.reason.rule),
    };
    let message = match (&check.waiver, check.is_waived()) {
        (Some(waiver), true) => format!(
            "waived until {} by {}: {}; {}",
            waiver.expires, waiver.owner, waiver.reason, check.reason.text
        ),
        _ => check.reason.text.clone(),
    };
    status.set_type(kind).set_message(text(&message));
    let name = check
        .id
        .split_once('/')
        .map_or(check.id.as_str(), |(_, name)| name);
    let mut case = TestCase::new(text(name), status);
    case.set_classname(text(gate));
    let unit = check.metric.unit();
    let mut out = vec![format!(
        "{} {}: base {}, head {}, change {}",
        check.metric,
        check.statistic,
        numbers::optional(check.base, unit),
        numbers::optional(check.head, unit),
        numbers::change(check)
    )];
    out.extend(check.notes.iter().cloned());
    case.set_system_out(text(&out.join("\n")));
    case
}

/// What XML 1.0 can hold.
fn text(text: &str) -> String {
    let is_kept = |c: &char| {
        !matches!(c, '\u{fffe}' | '\u{ffff}') && (!c.is_control() || matches!(c, '\n' | '\t'))
    };
    redact(text).chars().filter(is_kept).take(MOST).collect()
}
