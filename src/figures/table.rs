//! The comparison: every result against the first, row by row.

use super::column::{differ, tokens};
use super::{Column, Row};
use crate::record::{Metric, Verdict};
use crate::stats;
use std::collections::BTreeMap;

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
        let mut reasons: Vec<String> = Vec::new();
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
        // A single result is shown whole; of several, what two of them have.
        (known >= columns.len().min(2)).then_some(Line { row, cells })
    });
    Table {
        names: columns.iter().map(|column| column.name.clone()).collect(),
        lines: lines.collect(),
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

fn cell(row: Row, column: &Column, first: Option<&Column>) -> Option<Cell> {
    let value = *column.values.get(&row)?;
    let base = first.and_then(|first| first.values.get(&row));
    let rounds = column.rounds.get(&row).cloned().unwrap_or_default();
    let of_first = first.and_then(|first| first.rounds.get(&row));
    let invalid = first
        .filter(|_| base.is_some())
        .and_then(|first| unequal(row, column, first));
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
mod tests {
    use super::super::Origin;
    use super::*;

    fn column(name: &str, output_tokens: f64, values: &[(Row, f64)]) -> Column {
        Column {
            output_tokens: Some(output_tokens),
            first_output_tokens: Some(output_tokens),
            values: values.iter().copied().collect(),
            ..Column::new(name.to_owned(), Origin::Launches(3))
        }
    }

    #[test]
    fn every_result_is_told_in_terms_of_the_first() {
        let table = compare(&[
            column("a", 48.0, &[(Row::Ready, 100.0), (Row::TpotMedian, 2.0)]),
            column("b", 48.0, &[(Row::Ready, 250.0), (Row::TpotMedian, 1.0)]),
            column("c", 48.0, &[(Row::TpotMedian, 3.0)]),
        ]);
        let ratios: Vec<Vec<Option<f64>>> = table
            .lines
            .iter()
            .map(|line| {
                let ratio = |cell: &Option<Cell>| cell.as_ref().and_then(|cell| cell.ratio);
                line.cells.iter().map(ratio).collect()
            })
            .collect();
        assert_eq!(
            ratios,
            [[None, Some(2.5), None], [None, Some(0.5), Some(1.5)]]
        );
        assert!(table.lines[0].cells[2].is_none());
        assert_eq!(table.invalid(), Vec::<String>::new());
    }

    /// Incident 5: one side's `max_tokens` was not wired through, and made 4 tokens instead of 48.
    #[test]
    fn answers_of_unequal_length_are_no_comparison() {
        let values: Vec<(Row, f64)> = Row::ALL.map(|row| (row, 10.0)).to_vec();
        let table = compare(&[column("a", 48.0, &values), column("b", 4.0, &values)]);
        for line in &table.lines {
            let invalid = line.cells[1].as_ref().and_then(|c| c.invalid.as_ref());
            assert_eq!(
                invalid.is_some(),
                line.row.follows_length(),
                "{:?}",
                line.row
            );
        }
        let reasons = table.invalid();
        assert_eq!(reasons.len(), 2, "{reasons:?}");
        assert!(
            reasons[1].contains("4 output tokens, in a 48"),
            "{reasons:?}"
        );
    }

    #[test]
    fn rounds_have_a_spread_and_a_direction() {
        let with = |name: &str, values: &[f64]| {
            let mut column = column(name, 48.0, &[]);
            column.put_rounds(Row::Ready, (0..).zip(values.iter().copied()).collect());
            column
        };
        let check = |a: &[f64], b: &[f64], spread, same| {
            let table = compare(&[with("a", a), with("b", b)]);
            let cell = table.lines[0].cells[1].clone().unwrap();
            assert_eq!(
                (cell.spread(), cell.same_direction),
                (spread, same),
                "{a:?} {b:?}"
            );
            let first = table.lines[0].cells[0].clone().unwrap();
            assert_eq!(first.same_direction, None);
        };
        check(&[10.0], &[20.0], None, None);
        check(
            &[10.0, 11.0, 12.0],
            &[20.0, 25.0, 22.0],
            Some((20.0, 25.0)),
            Some((3, 3)),
        );
        check(
            &[10.0, 11.0, 12.0],
            &[9.0, 15.0, 14.0],
            Some((9.0, 15.0)),
            Some((2, 3)),
        );
        check(
            &[10.0, 10.0],
            &[10.0, 10.0],
            Some((10.0, 10.0)),
            Some((2, 2)),
        );
    }

    #[test]
    fn requests_are_paired_by_prompt() {
        let with = |name: &str, prompts: &str, values: &[f64]| {
            let mut column = column(name, 48.0, &[(Row::TtftMedian, 10.0)]);
            column.prompts = Some(prompts.to_owned());
            let requests = (0..).map(|index| (0, index)).zip(values.iter().copied());
            column.requests.insert(Row::TtftMedian, requests.collect());
            column
        };
        let check = |prompts: &str, values: &[f64], expect: Option<(f64, usize)>| {
            let table = compare(&[
                with("a", "p", &[10.0, 100.0, 40.0]),
                with("b", prompts, values),
            ]);
            let cell = table.lines[0].cells[1].clone().unwrap();
            let paired = cell.paired.map(|paired| (paired.ratio, paired.pairs));
            assert_eq!(paired, expect, "{prompts} {values:?}");
        };
        check("p", &[20.0, 300.0, 80.0], Some((2.0, 3)));
        check("p", &[20.0], Some((2.0, 1)));
        check("p", &[], None);
        check("q", &[20.0, 300.0, 80.0], None);
    }

    #[test]
    fn stages_are_put_beside_one_another() {
        let with = |name: &str, stages: &[(&str, f64)]| Column {
            stages: stages
                .iter()
                .map(|(name, ms)| ((*name).to_owned(), *ms))
                .collect(),
            ..column(name, 48.0, &[(Row::Ready, 10.0)])
        };
        let table = compare(&[
            with("a", &[("load", 30.0), ("warm", 10.0)]),
            with("b", &[("warm", 5.0), ("compile", 95.0)]),
            with("c", &[]),
        ]);
        let names: Vec<&str> = table.stages.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["load", "warm", "compile"]);
        assert_eq!(table.stages[1].1, [Some(10.0), Some(5.0), None]);
        let dominant = [
            Some(("load".to_owned(), 0.75)),
            Some(("compile".to_owned(), 0.95)),
            None,
        ];
        assert_eq!(table.dominant, dominant);
    }

    #[test]
    fn a_probe_that_paid_for_the_first_request_is_told() {
        let check = |probe, first, expect: bool| {
            let column = column(
                "a",
                8.0,
                &[(Row::FirstGeneration, probe), (Row::FirstTtft, first)],
            );
            let caveats = compare(&[column]).caveats;
            let told = caveats[0]
                .iter()
                .any(|line| line.contains("the readiness probe, took"));
            assert_eq!(told, expect, "{probe} {first}");
        };
        check(1_216.0, 15.0, true);
        check(40.0, 15.0, false);
        check(150.0, 100.0, false);
    }

    #[test]
    fn lengths_within_one_percent_are_the_same_work() {
        let check = |a, b, expect| assert_eq!(differ(a, b), expect, "{a:?} {b:?}");
        check(Some(100.0), Some(100.0), false);
        check(Some(100.0), Some(99.0), false);
        check(Some(100.0), Some(98.9), true);
        check(Some(98.9), Some(100.0), true);
        check(None, Some(4.0), false);
    }

    #[test]
    fn what_a_reader_must_know_is_said() {
        let first = Column {
            machine: Some("m1".to_owned()),
            prompt_tokens: Some(32.0),
            ..column("a", 8.0, &[])
        };
        let other = Column {
            origin: Origin::Imported {
                tool: "guidellm".to_owned(),
            },
            machine: Some("m2".to_owned()),
            quantised: Some("q4_0".to_owned()),
            precision: Some("f16".to_owned()),
            prompt_tokens: Some(40.0),
            sent: 10,
            void: 2,
            output_tokens: None,
            ..column("b", 8.0, &[])
        };
        let caveats = compare(&[first, other]).caveats;
        assert_eq!(caveats[0], Vec::<String>::new());
        for part in [
            "imported from guidellm",
            "quantised (q4_0)",
            "different precision (f16 against unsaid)",
            "different hardware (m2)",
            "different prompt tokens (40 against 32)",
            "2 of 10 requests void",
            "length of its answers unknown",
        ] {
            assert!(
                caveats[1].iter().any(|line| line.contains(part)),
                "{part}: {caveats:?}"
            );
        }
    }
}
