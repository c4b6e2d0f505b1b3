//! The comparison: every result against the first, row by row.

use super::column::{differ, tokens};
use super::{Column, Row};

/// Several results side by side; the first is the measure of the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    pub names: Vec<String>,
    /// Rows that at least one result has, in order.
    pub lines: Vec<Line>,
    /// For each result, what a reader must know.
    pub caveats: Vec<Vec<String>>,
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
        caveats: columns
            .iter()
            .map(|column| column.caveats(&columns[0]))
            .collect(),
    }
}

fn cell(row: Row, column: &Column, first: Option<&Column>) -> Option<Cell> {
    let value = *column.values.get(&row)?;
    let base = first.and_then(|first| first.values.get(&row));
    Some(Cell {
        value,
        ratio: base.map(|base| value / base),
        invalid: first
            .filter(|_| base.is_some())
            .and_then(|first| unequal(row, column, first)),
    })
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
