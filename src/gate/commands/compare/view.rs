//! A comparison as a table for a terminal, as Markdown, as JSON.

use crate::figures::{Cell, Held, Line, Paired, Part, Table};
use crate::report::markdown::escape;
use crate::report::{numbers, pretty_json, terminal};
use serde::Serialize;
use std::fmt::Write;
use verdict::plural::count;
use verdict::record::{Direction, Unit};

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
    if !table.stages.is_empty() {
        let header = std::iter::once("stages".to_owned()).chain(table.names.iter().cloned());
        let stages = terminal::columns(header.collect(), stage_rows(table));
        let _ = writeln!(out, "{stages}\n");
    }
    for line in rounds_note(table).into_iter().chain(paired(table)) {
        bullet(&mut out, &line);
    }
    for (name, caveats) in table.names.iter().zip(&table.caveats) {
        for caveat in caveats {
            bullet(&mut out, &format!("{name}: {caveat}"));
        }
    }
    for reason in table.invalid() {
        bullet(&mut out, &format!("INVALID  {reason}"));
    }
    for held in &table.held {
        let verdict = held.verdict.name().to_uppercase();
        bullet(&mut out, &format!("{verdict}  {}", limit(held)));
    }
    out
}

/// How the marks of rounds in a cell are read.
const ROUNDS: &str = "±: half the range over the rounds, of the median; 3/3: the ratio lies on this side of 1 in 3 of 3 \
                      rounds";

/// Of each result that was sent the first one's prompts, the ratios request for request.
pub fn paired(table: &Table) -> Vec<String> {
    let of = |(at, name): (usize, &String)| {
        let cells = table.lines.iter();
        let cells = cells.filter_map(|line| Some((line.row, line.cells[at].as_ref()?.paired?)));
        let ratios: Vec<String> = cells
            .map(|(row, paired)| {
                let title = row.title().trim_end_matches(" median");
                format!(
                    "{title} {:.2} × over {}",
                    paired.ratio,
                    count(paired.pairs, "pair")
                )
            })
            .collect();
        (!ratios.is_empty()).then(|| {
            let first = table.names.first().map_or("", String::as_str);
            format!(
                "{name}, against the same prompt in {first}: {}",
                ratios.join(", ")
            )
        })
    };
    table.names.iter().enumerate().filter_map(of).collect()
}

/// [`ROUNDS`] where there are any.
pub fn rounds_note(table: &Table) -> Option<String> {
    let mut cells = table.lines.iter().flat_map(|line| &line.cells).flatten();
    let has_rounds = cells.any(|cell| cell.spread().is_some());
    has_rounds.then(|| ROUNDS.to_owned())
}

/// `ours: tpot at most 1.1 × vllm's: ` and the judge's sentence, in which head is `ours` and base the other.
pub fn limit(held: &Held) -> String {
    let Held {
        name,
        against,
        metric,
        at_most,
        text,
        ..
    } = held;
    format!("{name}, {metric} at most {at_most} × that of {against}: {text}")
}

/// A row a stage, and the longest stage of each result.
pub fn stage_rows(table: &Table) -> Vec<Vec<String>> {
    let ms = |ms: &Option<f64>| {
        ms.map_or_else(
            || "–".to_owned(),
            |ms| numbers::value(ms, Unit::Milliseconds),
        )
    };
    let stages = table.stages.iter();
    let stages = stages.map(|(name, values)| {
        let cells = values.iter().map(ms);
        std::iter::once(name.clone()).chain(cells).collect()
    });
    let longest = table.dominant.iter().map(|dominant| match dominant {
        Some((name, share)) => format!("{} ({:.0} %)", name, share * 100.0),
        None => "–".to_owned(),
    });
    let longest = std::iter::once("longest stage".to_owned()).chain(longest);
    stages.chain([longest.collect()]).collect()
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
    if !table.stages.is_empty() {
        let names: Vec<String> = table.names.iter().map(|name| escape(name)).collect();
        let _ = writeln!(out, "| stages | {} |", names.join(" | "));
        let _ = writeln!(out, "|---|{}", "---|".repeat(names.len()));
        for row in stage_rows(table) {
            let cells: Vec<String> = row.iter().map(|cell| escape(cell)).collect();
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
        out.push('\n');
    }
    for line in rounds_note(table).into_iter().chain(paired(table)) {
        let _ = writeln!(out, "- {}", escape(&line));
    }
    for (name, caveats) in table.names.iter().zip(&table.caveats) {
        for caveat in caveats {
            let _ = writeln!(out, "- {}: {}", escape(name), escape(caveat));
        }
    }
    for reason in table.invalid() {
        let _ = writeln!(out, "- **invalid** {}", escape(&reason));
    }
    for held in &table.held {
        let _ = writeln!(
            out,
            "- **{}** {}",
            held.verdict.name(),
            escape(&limit(held))
        );
    }
    out
}

pub fn of_part(table: &Table, part: Part) -> Vec<&Line> {
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

/// `12.35 ms ±1 %  2.10 × 3/3`; without a ratio where it would mean nothing, without marks of rounds where there is one.
pub fn shown(line: &Line, cell: Option<&Cell>) -> String {
    let Some(cell) = cell else {
        return "–".to_owned();
    };
    let value = numbers::value(cell.value, line.row.unit());
    let spread = cell.spread().map_or_else(String::new, |(low, high)| {
        format!(" ±{:.0} %", (high - low) / 2.0 / cell.value * 100.0)
    });
    let same = cell.same_direction;
    let same = same.map_or_else(String::new, |(same, of)| format!(" {same}/{of}"));
    match (&cell.invalid, cell.ratio) {
        (Some(_), _) => format!("{value}{spread}  invalid"),
        (None, Some(ratio)) => format!("{value}{spread}  {ratio:.2} ×{same}"),
        (None, None) => format!("{value}{spread}"),
    }
}

#[derive(Serialize)]
struct Json<'a> {
    format: &'static str,
    verdict: &'static str,
    results: Vec<JsonResult<'a>>,
    rows: Vec<JsonRow<'a>>,
    /// The engines' own start-up stages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stages: Vec<JsonStage<'a>>,
    /// Limits of `--at-most`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    at_most: Vec<JsonLimit<'a>>,
    invalid: Vec<String>,
}

#[derive(Serialize)]
struct JsonStage<'a> {
    name: &'a str,
    /// One a result, ms.
    values: &'a [Option<f64>],
}

#[derive(Serialize)]
struct JsonLimit<'a> {
    name: &'a str,
    against: &'a str,
    metric: &'static str,
    at_most: f64,
    verdict: &'static str,
    rule: &'static str,
    reason: &'a str,
}

/// In how many of the rounds the ratio lies on the same side of 1 as over all.
#[derive(Serialize)]
struct JsonDirection {
    same: usize,
    rounds: usize,
}

#[derive(Serialize)]
struct JsonResult<'a> {
    name: &'a str,
    caveats: &'a [String],
    /// Its longest start-up stage, and that one's share of all stages.
    #[serde(skip_serializing_if = "Option::is_none")]
    longest_stage: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    longest_stage_share: Option<f64>,
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
    /// Least and greatest value over the rounds, where there are two or more.
    spreads: Vec<Option<(f64, f64)>>,
    same_direction: Vec<Option<JsonDirection>>,
    paired: Vec<Option<JsonPaired>>,
}

/// Median over requests with the same prompt of the ratio to the first result's.
#[derive(Serialize)]
struct JsonPaired {
    ratio: f64,
    pairs: usize,
}

impl<'a> JsonLimit<'a> {
    fn of(held: &'a Held) -> Self {
        Self {
            name: &held.name,
            against: &held.against,
            metric: held.metric.name(),
            at_most: held.at_most,
            verdict: held.verdict.name(),
            rule: held.rule,
            reason: &held.text,
        }
    }
}

/// The same as JSON, with a newline at its end.
pub fn comparison_json(table: &Table) -> String {
    let results = table.names.iter().zip(&table.caveats).zip(&table.dominant);
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
            spreads: cells().map(|cell| cell?.spread()).collect(),
            same_direction: cells()
                .map(|cell| {
                    let (same, rounds) = cell?.same_direction?;
                    Some(JsonDirection { same, rounds })
                })
                .collect(),
            paired: cells()
                .map(|cell| {
                    let Paired { ratio, pairs } = cell?.paired?;
                    Some(JsonPaired { ratio, pairs })
                })
                .collect(),
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
            .map(|((name, caveats), dominant)| JsonResult {
                name,
                caveats,
                longest_stage: dominant.as_ref().map(|(name, _)| name.as_str()),
                longest_stage_share: dominant.as_ref().map(|(_, share)| *share),
            })
            .collect(),
        rows: rows.collect(),
        stages: table
            .stages
            .iter()
            .map(|(name, values)| JsonStage { name, values })
            .collect(),
        at_most: table.held.iter().map(JsonLimit::of).collect(),
        invalid,
    };
    pretty_json(&json)
}
