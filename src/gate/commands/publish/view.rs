//! A verdict as annotations on the gates' own files: a red check is shown where its rule stands.
//!
//! Main function: [`annotations`]. Refuses to know: how a file is found, and how many GitHub takes at once.

use crate::report::redaction::redact;
use crate::report::{numbers, reasons};
use std::collections::BTreeMap;
use verdict::record::{CheckVerdict, Direction, RunVerdict, Verdict};

/// A pass that is better by more than this is worth a notice: somebody may want to know why.
const IMPROVEMENT: f64 = 0.01;
/// Characters of a message; GitHub takes 64 KB of it, nobody reads so much in a margin.
const MESSAGE: usize = 1_500;

/// What is said about one line of a gate's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// Relative to the repository's root.
    pub path: String,
    /// Counted from 1.
    pub line: u32,
    pub level: Level,
    pub title: String,
    pub message: String,
}

/// GitHub's levels of annotations ("Create a check run", `annotation_level`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Failure,
    Warning,
    Notice,
}

impl Level {
    /// The name in a check run.
    pub fn name(self) -> &'static str {
        match self {
            Self::Failure => "failure",
            Self::Warning => "warning",
            Self::Notice => "notice",
        }
    }
}

/// Failures first, then warnings, then notices. `places`: a check's id → the file and the line of its rule; a check
/// without one is left out.
pub fn annotations(
    verdict: &RunVerdict,
    places: &BTreeMap<String, (String, u32)>,
) -> Vec<Annotation> {
    let checks = verdict.gates.iter().flat_map(|gate| &gate.checks);
    let mut found: Vec<Annotation> = checks
        .filter_map(|check| {
            let level = level(check)?;
            let (path, line) = places.get(&check.id)?;
            Some(Annotation {
                path: path.clone(),
                line: *line,
                level,
                title: title(check),
                message: message(check),
            })
        })
        .collect();
    found.sort_by_key(|annotation| annotation.level);
    found
}

fn level(check: &CheckVerdict) -> Option<Level> {
    if check.is_waived() {
        return Some(Level::Warning);
    }
    match check.verdict {
        Verdict::Fail => Some(Level::Failure),
        Verdict::Inconclusive | Verdict::Invalid => Some(Level::Warning),
        Verdict::Pass => is_improved(check).then_some(Level::Notice),
    }
}

/// The whole interval of the change lies on the better side, far enough.
fn is_improved(check: &CheckVerdict) -> bool {
    let (Some(_), Some((low, high))) = (check.change, check.interval) else {
        return false;
    };
    match check.metric.direction() {
        Direction::LowerIsBetter => high < -IMPROVEMENT,
        Direction::HigherIsBetter => low > IMPROVEMENT,
    }
}

fn title(check: &CheckVerdict) -> String {
    match check.verdict {
        Verdict::Pass => format!("{}: better, {}", check.id, numbers::change(check)),
        _ => format!(
            "{}: {} ({})",
            check.id,
            check.word(),
            check.reason.rule.name()
        ),
    }
}

fn message(check: &CheckVerdict) -> String {
    let mut text = redact(&reasons::sentence(check)).into_owned();
    for note in reasons::notes(check) {
        text.push('\n');
        text.push_str(&redact(&note));
    }
    let is_kept = |c: &char| *c == '\n' || !c.is_control();
    text.chars().filter(is_kept).take(MESSAGE).collect()
}
