//! Main's history as a changelog: date, number, meaning; the newest first.

use super::json::JsonNote;
use super::words;
use crate::history::History;
use crate::report::github_escape::inert;
use crate::report::pretty_json;
use crate::report::site::SiteEntry;
use crate::report::terminal::{WIDTH, wrap};
use serde::Serialize;
use std::fmt::Write;

const FORMAT: &str = "infergate-changelog/1";

/// A step with what was written about it, or a note on a session without a step.
#[derive(Serialize)]
struct ChangeRow<'a> {
    /// Of the first session after the step, or of the note's session.
    date: &'a str,
    /// `null`: the note is about every check.
    check: Option<&'a str>,
    /// `null` where the note is on no step.
    #[serde(flatten)]
    step: Option<RowStep<'a>>,
    commit: Option<&'a str>,
    notes: Vec<JsonNote<'a>>,
}

#[derive(Serialize)]
struct RowStep<'a> {
    /// The size with its interval, in words, and between which commits it fell.
    number: String,
    place: String,
    is_worse: bool,
    is_made_good: bool,
    session: &'a str,
}

#[derive(Serialize)]
struct Changelog<'a> {
    format: &'static str,
    entries: Vec<ChangeRow<'a>>,
}

/// The changelog in 80 columns.
pub fn changelog_text(history: &History) -> String {
    let mut out = String::new();
    for row in rows(history) {
        let head = [row.date, row.check.unwrap_or("all checks"), &number(&row)].join("  ");
        lines(&mut out, "", &head);
        for line in meaning(&row) {
            lines(&mut out, "  ", &line);
        }
    }
    if out.is_empty() {
        out.push_str("no step and no note yet\n");
    }
    out
}

/// The changelog as a table.
pub fn changelog_markdown(history: &History) -> String {
    let mut out = "| date | check | number | meaning |\n|---|---|---|---|\n".to_owned();
    for row in rows(history) {
        let meaning: Vec<String> = meaning(&row).iter().map(|line| inert(line)).collect();
        let cells = [
            inert(row.date),
            inert(row.check.unwrap_or("all checks")),
            inert(&number(&row)),
            meaning.join("<br>"),
        ];
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    out
}

/// The changelog as JSON, with a newline at its end.
pub fn changelog_json(history: &History) -> String {
    let json = Changelog {
        format: FORMAT,
        entries: rows(history),
    };
    pretty_json(&json)
}

/// The rows for a page, the newest first.
pub fn entries(history: &History) -> Vec<SiteEntry> {
    let entry = |row: ChangeRow<'_>| SiteEntry {
        date: row.date.to_owned(),
        gate: row
            .check
            .and_then(|id| id.split('/').next())
            .map(str::to_owned),
        check: row.check.unwrap_or("all checks").to_owned(),
        number: number(&row),
        key: match (&row.step, row.notes.first()) {
            (Some(step), _) => format!("step {}", step.session),
            (None, Some(note)) => format!("note {} {}", note.created, note.text),
            (None, None) => row.date.to_owned(),
        },
        meaning: meaning(&row),
    };
    rows(history).into_iter().map(entry).collect()
}

fn rows(history: &History) -> Vec<ChangeRow<'_>> {
    let steps = history.checks.iter().flat_map(|check| {
        check.steps().map(move |(series, step)| {
            let point = &series.points[step.change.at];
            ChangeRow {
                date: words::day(&point.created),
                check: Some(&check.id),
                step: Some(RowStep {
                    number: words::step_size(check, series, step),
                    place: words::step_place(series, step),
                    is_worse: step.is_worse,
                    is_made_good: step.is_made_good,
                    session: &point.session,
                }),
                commit: point.commit.as_deref(),
                notes: step.notes.iter().map(JsonNote::of).collect(),
            }
        })
    });
    let others = history.notes.iter().map(|note| ChangeRow {
        date: words::day(&note.measured),
        check: note.check.as_deref(),
        step: None,
        commit: note.commit.as_deref(),
        notes: vec![JsonNote::of(note)],
    });
    let mut rows: Vec<ChangeRow<'_>> = steps.chain(others).collect();
    // Of one day in the order of the checks.
    rows.sort_by(|a, b| b.date.cmp(a.date));
    rows
}

/// The step, or the commit of a note that is on none.
fn number(row: &ChangeRow<'_>) -> String {
    match (&row.step, row.commit) {
        (Some(step), _) => {
            let since = if step.is_made_good {
                ", made good since"
            } else {
                ""
            };
            format!("{} {}{since}", step.number, step.place)
        }
        (None, Some(commit)) => format!("no step, at {}", crate::report::numbers::commit(commit)),
        (None, None) => "no step".to_owned(),
    }
}

fn meaning(row: &ChangeRow<'_>) -> Vec<String> {
    if row.notes.is_empty() {
        return vec!["not explained: `gate history note`".to_owned()];
    }
    let said = |note: &JsonNote<'_>| words::said(note.outcome, note.text, note.by, note.created);
    row.notes.iter().map(said).collect()
}

fn lines(out: &mut String, indent: &str, text: &str) {
    for (i, line) in wrap(text, usize::from(WIDTH) - indent.len() - 2)
        .into_iter()
        .enumerate()
    {
        let hang = if i == 0 { "" } else { "  " };
        let _ = writeln!(out, "{indent}{hang}{line}");
    }
}
