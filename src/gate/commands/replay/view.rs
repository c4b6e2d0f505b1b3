//! One line of JSON for a judged case of a replay set.

use crate::report::reasons::{notes, sentence, summary};
use serde::Serialize;
use verdict::record::RunVerdict;

#[derive(Serialize)]
struct Line<'a> {
    case: &'a str,
    verdict: &'static str,
    launches: u32,
    /// Relative change, 0.03 for +3 %, and its repeated interval.
    est: Option<f64>,
    ci: Option<(f64, f64)>,
    reason: String,
}

/// The verdict of a case as a line: the numbers and the reason are those of the first check that has the
/// run's verdict, its notes after them.
pub fn replay_line(case: &str, verdict: &RunVerdict) -> String {
    let checks = verdict.gates.iter().flat_map(|gate| &gate.checks);
    let decisive = checks.into_iter().find(|c| c.verdict == verdict.verdict);
    let reason = decisive.map_or_else(
        || summary(verdict),
        |check| {
            let why = format!("{}: {}", check.reason.rule.name(), sentence(check));
            let mut parts = vec![why];
            parts.extend(notes(check));
            parts.join("; ")
        },
    );
    let line = Line {
        case,
        verdict: verdict.verdict.name(),
        launches: verdict.launches,
        est: decisive.and_then(|check| check.change),
        ci: decisive.and_then(|check| check.interval),
        reason,
    };
    serde_json::to_string(&line).unwrap_or_default()
}
