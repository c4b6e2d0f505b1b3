//! Main's history for a terminal and as Markdown: a line of blocks a series, its steps, trend and creep.

use super::words;
use crate::history::{CheckHistory, History, Outcome, RATIOS, Series, Step};
use crate::report::markdown::escape;
use crate::report::numbers;
use crate::report::terminal::{WIDTH, style, wrap};
use std::fmt::Write;
use verdict::record::Verdict;

/// Columns of a plot; the label before it and the indent fill the line.
const COLUMNS: usize = 60;
const LABEL: usize = 14;

/// The history in 80 columns. `command` stores one more session; `remarks` say what was left out.
pub fn history_text(history: &History, remarks: &[String], command: &str) -> String {
    let mut out = String::new();
    for check in &history.checks {
        let _ = writeln!(out, "{}", check.id);
        for line in check_lines(check) {
            let _ = writeln!(out, "{line}");
        }
        let _ = writeln!(out);
    }
    for remark in remarks {
        wrapped(&mut out, "· ", remark);
    }
    let outcome = history.outcome();
    let style = style(verdict(outcome));
    let name = words::outcome(outcome).to_uppercase();
    let summary = words::summary(history, command);
    let mut lines = wrap(&summary, usize::from(WIDTH) - 10).into_iter();
    let first = lines.next().unwrap_or_default();
    let _ = writeln!(out, "{style}{name:<8}{style:#}  {first}");
    for line in lines {
        let _ = writeln!(out, "{:10}{line}", "");
    }
    out
}

/// The same as Markdown: the summary, then each check's lines as they stand in a terminal.
pub fn history_markdown(history: &History, remarks: &[String], command: &str) -> String {
    let outcome = words::outcome(history.outcome()).to_uppercase();
    let mut out = format!(
        "**{outcome}**: {}\n\n",
        escape(&words::summary(history, command))
    );
    for check in &history.checks {
        let _ = writeln!(out, "### {}\n\n```text", escape(&check.id));
        for line in check_lines(check) {
            let _ = writeln!(
                out,
                "{}",
                line.strip_prefix("  ")
                    .unwrap_or(&line)
                    .replace("```", "'''")
            );
        }
        out.push_str("```\n\n");
    }
    for remark in remarks {
        let _ = writeln!(out, "- {}", escape(remark));
    }
    out
}

/// The colour of an outcome is that of the verdict with the same exit code.
fn verdict(outcome: Outcome) -> Verdict {
    match outcome {
        Outcome::Quiet => Verdict::Pass,
        Outcome::Worse => Verdict::Fail,
        Outcome::Unknown => Verdict::Inconclusive,
    }
}

fn check_lines(check: &CheckHistory) -> Vec<String> {
    let mut out = String::new();
    if check.series.is_empty() {
        wrapped(&mut out, "  ", "no stored session holds it");
    }
    for series in &check.series {
        if !series.since.is_empty() {
            let text = format!(
                "a new series begins {}: {}",
                words::begin(series),
                series.since.join(", ")
            );
            wrapped(&mut out, "  ", &text);
        }
        wrapped(&mut out, "  ", &words::title(check, series));
        if series.is_live && !series.points.is_empty() {
            live(&mut out, check, series);
        }
    }
    out.lines().map(str::to_owned).collect()
}

fn live(out: &mut String, check: &CheckHistory, series: &Series) {
    plot(out, check, series);
    for step in &series.steps {
        wrapped(out, "  ", &words::step(check, series, step));
        for note in &step.notes {
            wrapped(out, "      ", &words::note(note));
        }
    }
    if let Some(text) = words::trend(check, series) {
        wrapped(out, "  ", &text);
    }
    match (&series.anchor, &series.creep) {
        (None, _) => wrapped(
            out,
            "  ",
            "raw values cannot tell main from the machine: steps here are hints, and no alarm",
        ),
        (Some((anchor, _)), Some(creep)) => wrapped(out, "  ", &words::creep(anchor, creep)),
        (Some(_), None) if series.points.len() < RATIOS => wrapped(
            out,
            "  ",
            &format!(
                "{} of the {RATIOS} sessions that creep is judged by",
                series.points.len()
            ),
        ),
        (Some(_), None) => {}
    }
}

/// Blocks of eight heights between the least and the greatest value, and a mark under each step.
fn plot(out: &mut String, check: &CheckHistory, series: &Series) {
    let heights = columns(series);
    let least = heights.iter().copied().fold(f64::INFINITY, f64::min);
    let most = heights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let blocks: String = heights.iter().map(|&y| block(y, least, most)).collect();
    let label = |y: f64| numbers::right(&words::value(check, series, y), LABEL);
    let _ = writeln!(out, "  {} {blocks}", label(most));
    let marks = marks(series, heights.len());
    let _ = writeln!(out, "{}", format!("  {} {marks}", label(least)).trim_end());
}

/// The points as at most [`COLUMNS`] values: means of neighbours where there are more.
fn columns(series: &Series) -> Vec<f64> {
    let n = series.points.len();
    let count = n.min(COLUMNS);
    let mean = |column: usize| {
        let (from, to) = (column * n / count, (column + 1) * n / count);
        let sum: f64 = series.points[from..to].iter().map(|p| p.value).sum();
        sum / (to - from) as f64
    };
    (0..count).map(mean).collect()
}

fn block(y: f64, least: f64, most: f64) -> char {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let share = (y - least) / (most - least);
    if !share.is_finite() {
        return BLOCKS[0];
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of at most 1"
    )]
    let height = (share * 7.0).round() as usize;
    BLOCKS[height.min(7)]
}

fn marks(series: &Series, columns: usize) -> String {
    let mut marks = vec![' '; columns];
    let n = series.points.len();
    let column = |step: &Step| ((step.change.at + 1) * columns).div_ceil(n) - 1;
    for step in &series.steps {
        marks[column(step)] = if step.is_worse { '!' } else { '^' };
    }
    marks.into_iter().collect()
}

fn wrapped(out: &mut String, indent: &str, text: &str) {
    let width = usize::from(WIDTH) - indent.chars().count() - 2;
    for (i, line) in wrap(text, width).into_iter().enumerate() {
        let hang = if i == 0 { "" } else { "  " };
        let blank = " ".repeat(indent.chars().count());
        let indent = if i == 0 { indent } else { &blank };
        let _ = writeln!(out, "{indent}{hang}{line}");
    }
}
