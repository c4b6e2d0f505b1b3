//! A comparison as a table for a terminal, as Markdown, as JSON.

use super::markdown::escape;
use super::{numbers, terminal};
use crate::figures::{Cell, Line, Part, Table};
use crate::record::Direction;
use serde::Serialize;
use std::fmt::Write;

/// Format of the JSON.
const FORMAT: &str = "infergate-compare/1";

/// The table for a terminal.
pub fn comparison_text(table: &Table) -> String {
    let mut out = String::new();
    for part in [Part::Cold, Part::Warm] {
        let lines: Vec<&Line> = of_part(table, part);
        if lines.is_empty() {
            continue;
        }
        let header = std::iter::once(title(part).to_owned()).chain(table.names.iter().cloned());
        let rows = lines.iter().map(|line| {
            let cells = line.cells.iter().map(|cell| shown(line, cell.as_ref()));
            std::iter::once(line.row.title().to_owned())
                .chain(cells)
                .collect()
        });
        let _ = writeln!(
            out,
            "{}\n",
            terminal::columns(header.collect(), rows.collect())
        );
    }
    if out.is_empty() {
        out.push_str("the results have no figure in common\n\n");
    }
    for (name, caveats) in table.names.iter().zip(&table.caveats) {
        for caveat in caveats {
            bullet(&mut out, &format!("{name}: {caveat}"));
        }
    }
    for reason in table.invalid() {
        bullet(&mut out, &format!("INVALID  {reason}"));
    }
    out
}

fn bullet(out: &mut String, text: &str) {
    for (line, mark) in terminal::wrap(text, 76)
        .into_iter()
        .zip(["· ", "  "].into_iter().chain(std::iter::repeat("  ")))
    {
        let _ = writeln!(out, "{mark}{line}");
    }
}

/// The same as Markdown.
pub fn comparison_markdown(table: &Table) -> String {
    let mut out = String::new();
    for part in [Part::Cold, Part::Warm] {
        let lines = of_part(table, part);
        if lines.is_empty() {
            continue;
        }
        let names: Vec<String> = table.names.iter().map(|name| escape(name)).collect();
        let _ = writeln!(out, "| {} | {} |", title(part), names.join(" | "));
        let _ = writeln!(out, "|---|{}", "---|".repeat(names.len()));
        for line in lines {
            let cells: Vec<String> = line
                .cells
                .iter()
                .map(|cell| shown(line, cell.as_ref()))
                .collect();
            let _ = writeln!(out, "| {} | {} |", line.row.title(), cells.join(" | "));
        }
        out.push('\n');
    }
    for (name, caveats) in table.names.iter().zip(&table.caveats) {
        for caveat in caveats {
            let _ = writeln!(out, "- {}: {}", escape(name), escape(caveat));
        }
    }
    for reason in table.invalid() {
        let _ = writeln!(out, "- **invalid** {}", escape(&reason));
    }
    out
}

fn of_part(table: &Table, part: Part) -> Vec<&Line> {
    table
        .lines
        .iter()
        .filter(|line| line.row.part() == part)
        .collect()
}

fn title(part: Part) -> &'static str {
    match part {
        Part::Cold => "cold",
        Part::Warm => "warm",
    }
}

/// `12.35 ms  2.10 ×`; without a ratio where it would mean nothing.
fn shown(line: &Line, cell: Option<&Cell>) -> String {
    let Some(cell) = cell else {
        return "–".to_owned();
    };
    let value = numbers::value(cell.value, line.row.unit());
    match (&cell.invalid, cell.ratio) {
        (Some(_), _) => format!("{value}  invalid"),
        (None, Some(ratio)) => format!("{value}  {ratio:.2} ×"),
        (None, None) => value,
    }
}

#[derive(Serialize)]
struct Json<'a> {
    format: &'static str,
    verdict: &'static str,
    results: Vec<JsonResult<'a>>,
    rows: Vec<JsonRow<'a>>,
    invalid: Vec<String>,
}

#[derive(Serialize)]
struct JsonResult<'a> {
    name: &'a str,
    caveats: &'a [String],
}

#[derive(Serialize)]
struct JsonRow<'a> {
    name: &'static str,
    part: &'static str,
    /// How a ratio is to be read.
    higher_is_better: bool,
    /// One a result, `null` where it has none.
    values: Vec<Option<f64>>,
    /// Value over the first result's; `null` in the first and where it would mean nothing.
    ratios: Vec<Option<f64>>,
    invalid: Vec<Option<&'a str>>,
}

/// The same as JSON, with a newline at its end.
pub fn comparison_json(table: &Table) -> String {
    let results = table.names.iter().zip(&table.caveats);
    let rows = table.lines.iter().map(|line| {
        let cells = || line.cells.iter().map(Option::as_ref);
        JsonRow {
            name: line.row.name(),
            part: title(line.row.part()),
            higher_is_better: line.row.direction() == Direction::HigherIsBetter,
            values: cells().map(|cell| cell.map(|cell| cell.value)).collect(),
            ratios: cells()
                .map(|cell| cell.filter(|cell| cell.invalid.is_none())?.ratio)
                .collect(),
            invalid: cells().map(|cell| cell?.invalid.as_deref()).collect(),
        }
    });
    let invalid = table.invalid();
    let json = Json {
        format: FORMAT,
        verdict: if invalid.is_empty() {
            "valid"
        } else {
            "invalid"
        },
        results: results
            .map(|(name, caveats)| JsonResult { name, caveats })
            .collect(),
        rows: rows.collect(),
        invalid,
    };
    let mut text = serde_json::to_string_pretty(&json).expect("strings and numbers serialise");
    text.push('\n');
    text
}
