//! The comparison: every result against the first, row by row.

use super::column::{differ, tokens};
use super::{Column, Row};
use std::collections::BTreeMap;
use verdict::record::{Metric, Verdict};
use verdict::stats;

/// Several results side by side; the first is the measure of the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    pub names: Vec<String>,
    /// Rows that at least one result has, in order.
    pub lines: Vec<Line>,
    /// The engines' own start-up stages: name, ms of each result.
    pub stages: Vec<(String, Vec<Option<f64>>)>,
    /// Of each result, its longest stage and that one's share of all.
    pub dominant: Vec<Option<(String, f64)>>,
    /// For each result, what a reader must know.
    pub caveats: Vec<Vec<String>>,
    /// Why a result as a whole is not compared, each with the result's name.
    pub unsound: Vec<String>,
    /// Limits that the first result was held to.
    pub held: Vec<Held>,
}

/// One limit of the first result against another one, judged as a gate's check is.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    pub name: String,
    pub against: String,
    pub metric: Metric,
    /// The most that the metric may be of the other's.
    pub at_most: f64,
    pub verdict: Verdict,
    /// Name of the rule that decided, and its sentence.
    pub rule: &'static str,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub row: Row,
    /// One a result; `None`: the result does not have it.
    pub cells: Vec<Option<Cell>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// In the row's unit.
    pub value: f64,
    /// Value over the first result's; `None` in the first, and where that has none.
    pub ratio: Option<f64>,
    /// Why the ratio must not be read, if so.
    pub invalid: Option<String>,
    /// Round → value, where several launches stand behind it.
    pub rounds: BTreeMap<u32, f64>,
    /// Rounds in which the ratio lies on the same side of 1 as over all, and rounds that have one; `None` in the
    /// first result, and for fewer than two rounds.
    pub same_direction: Option<(usize, usize)>,
    /// The same by prompt, where both were sent the same ones.
    pub paired: Option<Paired>,
}

/// Requests with one prompt, against the first result's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paired {
    /// Median over the pairs of own value / first's.
    pub ratio: f64,
    pub pairs: usize,
}

impl Cell {
    /// Least and greatest value over the rounds; `None` for fewer than two.
    pub fn spread(&self) -> Option<(f64, f64)> {
        let values = || self.rounds.values().copied();
        let spread = values().reduce(f64::min).zip(values().reduce(f64::max));
        spread.filter(|_| self.rounds.len() > 1)
    }
}

impl Table {
    /// The reasons that make ratios invalid, each once, with the result that it is about.
    pub fn invalid(&self) -> Vec<String> {
        let mut reasons = self.unsound.clone();
        let cells = self.lines.iter().flat_map(|line| &line.cells).flatten();
        for reason in cells.filter_map(|cell| cell.invalid.as_ref()) {
            if !reasons.contains(reason) {
                reasons.push(reason.clone());
            }
        }
        reasons
    }
}

/// Compares every column with the first one.
pub fn compare(columns: &[Column]) -> Table {
    let lines = Row::ALL.into_iter().filter_map(|row| {
        let cells: Vec<Option<Cell>> = columns
            .iter()
            .enumerate()
            .map(|(at, column)| cell(row, column, columns.first().filter(|_| at > 0)))
            .collect();
        let known = cells.iter().flatten().count();
        // A single result is shown whole; of several, what two of them have. What one of them withheld does not vanish.
        let is_withheld = columns.iter().any(|column| column.withheld.contains(&row));
        let least = if is_withheld { 1 } else { columns.len().min(2) };
        (known >= least).then_some(Line { row, cells })
    });
    let lines: Vec<Line> = lines.collect();
    Table {
        names: columns.iter().map(|column| column.name.clone()).collect(),
        unsound: unsound(columns, &lines),
        lines,
        stages: stages(columns),
        dominant: columns
            .iter()
            .map(|column| {
                let (name, share) = column.dominant_stage()?;
                Some((name.to_owned(), share))
            })
            .collect(),
        held: Vec::new(),
        caveats: columns
            .iter()
            .map(|column| column.caveats(&columns[0]))
            .collect(),
    }
}

/// The first reason for which a result is no measurement, with its name.
fn reason(column: &Column) -> Option<String> {
    reasons(column).next()
}

fn reasons(column: &Column) -> impl Iterator<Item = String> {
    let reasons = column.unsound.iter();
    reasons.map(|reason| format!("{}: {reason}", column.name))
}

/// Results that are no measurement, and those that have nothing to compare.
fn unsound(columns: &[Column], lines: &[Line]) -> Vec<String> {
    let mut found: Vec<String> = columns.iter().flat_map(reasons).collect();
    let Some((first, others)) = columns.split_first() else {
        return found;
    };
    if others.is_empty() && lines.is_empty() {
        found.push(format!("{}: it has no figure of this table", first.name));
    }
    for (at, other) in (1..).zip(others) {
        let is_shared = |line: &Line| line.cells[0].is_some() && line.cells[at].is_some();
        if !lines.iter().any(is_shared) {
            found.push(format!(
                "{} and {} have no row in common: nothing of them is compared",
                other.name, first.name
            ));
        }
    }
    found
}

fn cell(row: Row, column: &Column, first: Option<&Column>) -> Option<Cell> {
    let value = *column.values.get(&row)?;
    let base = first.and_then(|first| first.values.get(&row));
    let rounds = column.rounds.get(&row).cloned().unwrap_or_default();
    let of_first = first.and_then(|first| first.rounds.get(&row));
    let of_whole = std::iter::once(column).chain(first).find_map(reason);
    let of_row = || {
        first
            .filter(|_| base.is_some())
            .and_then(|first| unequal(row, column, first))
    };
    let invalid = of_whole.or_else(of_row);
    Some(Cell {
        value,
        ratio: base.map(|base| value / base),
        paired: first
            .filter(|_| invalid.is_none())
            .and_then(|first| paired(row, column, first)),
        invalid,
        same_direction: base
            .zip(of_first)
            .and_then(|(base, of_first)| same_direction(value / base, &rounds, of_first)),
        rounds,
    })
}

/// Request for request; `None` where the prompts are not known to be the same, and where no pair is sound.
fn paired(row: Row, column: &Column, first: &Column) -> Option<Paired> {
    if column.prompts.is_none() || column.prompts != first.prompts {
        return None;
    }
    let (own, other) = (column.requests.get(&row)?, first.requests.get(&row)?);
    let ratios: Vec<f64> = own
        .iter()
        .filter_map(|(request, value)| Some(value / other.get(request)?))
        .filter(|ratio| ratio.is_finite())
        .collect();
    Some(Paired {
        ratio: stats::median(&ratios)?,
        pairs: ratios.len(),
    })
}

/// In how many of the rounds that both have the ratio lies on the side of 1 on which `ratio` does.
fn same_direction(
    ratio: f64,
    own: &BTreeMap<u32, f64>,
    first: &BTreeMap<u32, f64>,
) -> Option<(usize, usize)> {
    let side = |ratio: f64| ratio.total_cmp(&1.0);
    let ratios = own
        .iter()
        .filter_map(|(round, value)| Some(value / first.get(round)?));
    let sides: Vec<_> = ratios.map(side).collect();
    let same = sides.iter().filter(|own| **own == side(ratio)).count();
    (sides.len() > 1).then_some((same, sides.len()))
}

/// Each stage that a result names, in the order of the first that does.
fn stages(columns: &[Column]) -> Vec<(String, Vec<Option<f64>>)> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in columns.iter().flat_map(|column| &column.stages) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let of = |column: &Column, name: &str| {
        let mut stages = column.stages.iter();
        stages.find(|(own, _)| own == name).map(|(_, ms)| *ms)
    };
    let row = |name: &str| {
        let values = columns.iter().map(|column| of(column, name));
        (name.to_owned(), values.collect())
    };
    names.into_iter().map(row).collect()
}

/// Token parity: rows that depend on the answers' length compare nothing where the lengths differ.
fn unequal(row: Row, column: &Column, first: &Column) -> Option<String> {
    if !row.follows_length() {
        return None;
    }
    let cold = matches!(row, Row::FirstE2e | Row::ColdResponse);
    let length = |column: &Column| match cold {
        true => column.first_output_tokens,
        false => column.output_tokens,
    };
    let (own, other) = (length(column), length(first));
    differ(own, other).then(|| {
        let what = if cold { "its first answer" } else { "an answer" };
        format!(
            "{}: {what} has {} output tokens, in {} {}: not the same work, so what depends on the length is \
             not compared",
            column.name,
            tokens(own),
            first.name,
            tokens(other)
        )
    })
}

#[cfg(test)]
mod tests;
