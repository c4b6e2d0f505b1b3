//! Table of planted faults within 80 columns, followed by what went wrong; or JSON.

use crate::report::pretty_json;
use crate::report::reasons::sentence;
use crate::report::terminal::{STYLE, WIDTH, wrap};
use crate::selftest::{Caught, FAULTS, Plant, Row};
use comfy_table::{ColumnConstraint, ContentArrangement, Table};
use serde::Serialize;
use std::fmt::Write;
use verdict::record::CheckVerdict;

const FORMAT: &str = "infergate-selftest/1";

/// The most checks that a row names.
const NAMED: usize = 3;

/// The table, a line for everything that is wrong, and one that sums it up.
pub fn selftest_text(rows: &[Row], elapsed_s: f64) -> String {
    let header = [
        "result",
        "fault",
        "planted",
        "caught by",
        "false\nreds",
        "launches",
        "s",
    ];
    let mut out = table(&header, rows.iter().map(line)) + "\n";
    for row in rows.iter().filter(|row| !row.is_good()) {
        for text in problems(row) {
            let _ = writeln!(out);
            for line in wrap(&text, usize::from(WIDTH)) {
                let _ = writeln!(out, "{line}");
            }
        }
    }
    let _ = writeln!(out, "\n{}", summary(rows, elapsed_s));
    out
}

/// Columns as wide as what stands in them; the third and fourth share what is left, and break between words.
fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table
        .load_style(STYLE)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(WIDTH)
        .set_header(header.to_vec());
    for row in rows {
        table.add_row(row);
    }
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 1));
        if at != 2 && at != 3 {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table.trim_fmt()
}

fn line(row: &Row) -> Vec<String> {
    let named = row.seen.iter().take(NAMED);
    let mut seen: Vec<String> = named
        .map(|it| format!("{}: {}", it.id, it.verdict.name()))
        .collect();
    if row.seen.len() > NAMED {
        seen.push(format!("and {} more", row.seen.len() - NAMED));
    }
    vec![
        row.outcome.name().to_owned(),
        row.fault.to_owned(),
        row.what.to_owned(),
        match seen.is_empty() {
            true => "–".to_owned(),
            false => seen.join("\n"),
        },
        match row.wrong.len() {
            0 => "none".to_owned(),
            count => count.to_string(),
        },
        row.launches.to_string(),
        format!("{:.0}", row.elapsed_s),
    ]
}

fn problems(row: &Row) -> Vec<String> {
    let (fault, advice) = (row.fault, row.advice.as_deref().unwrap_or_default());
    let mut problems = Vec::new();
    match row.outcome {
        Caught::NotCovered => problems.push(format!("{fault}: no check reads it: add {advice}")),
        Caught::Missed if row.seen.is_empty() => problems.push(format!(
            "{fault}: no check saw it ({} passed, {} undecided): its size may be within their margins; else add \
             {advice}",
            row.passed, row.open
        )),
        Caught::Missed => problems.extend(row.seen.iter().map(|it| {
            let (check, verdict) = (&it.id, it.verdict.name());
            format!("{fault}: {check} was {verdict}: {}", sentence(it))
        })),
        Caught::Caught | Caught::Clean => {}
    }
    problems.extend(row.wrong.iter().map(|red| {
        let (check, verdict) = (&red.id, red.verdict.name());
        format!(
            "{fault}: {check} is {verdict} and should not be: {}",
            sentence(red)
        )
    }));
    problems
}

fn summary(rows: &[Row], elapsed_s: f64) -> String {
    let planted = rows
        .iter()
        .filter(|row| row.outcome != Caught::Clean)
        .count();
    let caught = rows
        .iter()
        .filter(|row| row.outcome == Caught::Caught)
        .count();
    let wrong: usize = rows.iter().map(|row| row.wrong.len()).sum();
    let reds = match wrong {
        0 => "nothing else red".to_owned(),
        1 => "1 check red that should not be".to_owned(),
        n => format!("{n} checks red that should not be"),
    };
    format!("{caught} of {planted} faults caught, {reds}; {elapsed_s:.0} s in all")
}

/// What can be planted, for `--list`.
pub fn selftest_list() -> String {
    let header = ["fault", "where", "planted", "caught by"];
    let own = FAULTS.iter().map(|fault| {
        let place = match fault.plant {
            Plant::Nothing(_) => "–",
            Plant::Engine(_) => "engine",
            Plant::Proxy(_) => "proxy",
            Plant::Throttle => "telemetry",
        };
        let due = fault.caught_by.iter();
        let due: Vec<String> = due
            .map(|check| format!("{check}: {}", fault.verdict.name()))
            .collect();
        let due = match due.is_empty() {
            true => "–".to_owned(),
            false => due.join("\n"),
        };
        vec![fault.name.into(), place.into(), fault.what.into(), due]
    });
    let abroad = FAULTS.iter().filter_map(|fault| {
        let abroad = fault.abroad.as_ref()?;
        let row = [fault.name, "proxy", abroad.what, abroad.advice];
        Some(row.map(str::to_owned).to_vec())
    });
    format!(
        "{}\n\nwith --project, where no check sees it:\n\n{}\n",
        table(&header, own),
        table(&["fault", "where", "planted", "add"], abroad)
    )
}

#[derive(Serialize)]
struct Whole<'a> {
    format: &'static str,
    all_caught: bool,
    elapsed_s: f64,
    rows: Vec<Line<'a>>,
}

#[derive(Serialize)]
struct Line<'a> {
    fault: &'a str,
    planted: &'a str,
    result: &'static str,
    caught_by: Vec<Seen<'a>>,
    false_reds: Vec<Seen<'a>>,
    passed: usize,
    undecided: usize,
    launches: usize,
    elapsed_s: f64,
    advice: Option<&'a str>,
}

#[derive(Serialize)]
struct Seen<'a> {
    check: &'a str,
    verdict: &'static str,
    rule: &'static str,
    reason: String,
}

impl<'a> Seen<'a> {
    fn of(judged: &'a CheckVerdict) -> Self {
        Self {
            check: &judged.id,
            verdict: judged.verdict.name(),
            rule: judged.reason.rule.name(),
            reason: sentence(judged),
        }
    }
}

/// The same as JSON, with a newline at its end.
pub fn selftest_json(rows: &[Row], elapsed_s: f64) -> String {
    let whole = Whole {
        format: FORMAT,
        all_caught: rows.iter().all(Row::is_good),
        elapsed_s,
        rows: rows
            .iter()
            .map(|row| Line {
                fault: row.fault,
                planted: row.what,
                result: match row.outcome {
                    Caught::Caught => "caught",
                    Caught::Missed => "missed",
                    Caught::Clean => "clean",
                    Caught::NotCovered => "not-covered",
                },
                caught_by: row.seen.iter().map(Seen::of).collect(),
                false_reds: row.wrong.iter().map(Seen::of).collect(),
                passed: row.passed,
                undecided: row.open,
                launches: row.launches,
                elapsed_s: row.elapsed_s,
                advice: row.advice.as_deref(),
            })
            .collect(),
    };
    pretty_json(&whole)
}
