//! Pictures of plain characters: launches in the order of time as one row each, and two distributions on one axis.
//!
//! Main functions: [`launches`] and [`distributions`]. Refuses to know: units, and what is good.

use std::fmt::Write;
use verdict::plural::count;

/// Columns of the drawing itself; label before it and value behind it leave it so many of 80.
const COLUMNS: usize = 52;
/// Rows that are drawn one by one; of a longer session the first ones.
const ROWS: usize = 48;
/// Heights of a bar.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Share of all values that lies outside the axis of a distribution, on either side, at its ends.
const OUTSIDE: f64 = 0.005;

/// One row.
pub struct PictureRow<'a> {
    pub label: String,
    pub is_head: bool,
    pub value: Option<f64>,
    /// Stands behind the drawing.
    pub shown: &'a str,
}

/// A row a launch: `○` is base, `●` is head, `│` the limit.
pub fn launches(rows: &[PictureRow<'_>], limit: Option<f64>) -> String {
    let values = || rows.iter().filter_map(|row| row.value).chain(limit);
    let axis = Axis::over(values());
    let mut out = String::new();
    for row in rows.iter().take(ROWS) {
        let mut cells = vec!['·'; COLUMNS];
        if let Some(column) = limit.and_then(|limit| axis.column(limit)) {
            cells[column] = '│';
        }
        if let Some(column) = row.value.and_then(|value| axis.column(value)) {
            cells[column] = if row.is_head { '●' } else { '○' };
        }
        let drawn: String = cells.into_iter().collect();
        let _ = writeln!(out, "{:<10} {drawn} {}", row.label, row.shown);
    }
    if rows.len() > ROWS {
        let _ = writeln!(
            out,
            "{:<10} and {}",
            "",
            count(rows.len() - ROWS, "more launch")
        );
    }
    out
}

/// How often each value occurs, base above head, and the two ends of the axis below them.
pub fn distributions(
    base: &[f64],
    head: &[f64],
    labels: [&str; 2],
    shown: impl Fn(f64) -> String,
) -> String {
    let axis = Axis::over(within(base).chain(within(head)));
    let mut out = String::new();
    for (values, label) in [base, head].into_iter().zip(labels) {
        let _ = writeln!(out, "{label:<10} {}", bars(values, &axis));
    }
    let (low, high) = (shown(axis.low), shown(axis.high));
    let gap = COLUMNS.saturating_sub(low.chars().count());
    let _ = writeln!(out, "{:<10} {low}{high:>gap$}", "");
    out
}

/// The values without the outermost ones, which would press all others together.
fn within(values: &[f64]) -> impl Iterator<Item = f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let cut = (sorted.len() as f64 * OUTSIDE).ceil() as usize;
    let cut = if sorted.len() > 2 * cut { cut } else { 0 };
    sorted.into_iter().skip(cut).rev().skip(cut)
}

fn bars(values: &[f64], axis: &Axis) -> String {
    let mut counts = [0_usize; COLUMNS];
    for column in values.iter().filter_map(|value| axis.nearest(*value)) {
        counts[column] += 1;
    }
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let height = |count: usize| (count * (BARS.len() - 1)).div_ceil(most);
    let drawn: String = counts.iter().map(|count| BARS[height(*count)]).collect();
    drawn.trim_end().to_owned()
}

struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    /// From the least to the greatest; a single value stands in the middle.
    fn over(values: impl Iterator<Item = f64>) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite()) {
            low = low.min(value);
            high = high.max(value);
        }
        if low < high {
            return Self { low, high };
        }
        let around = if low.abs() > 0.0 {
            low.abs() * 0.1
        } else {
            1.0
        };
        Self {
            low: low - around,
            high: low + around,
        }
    }

    fn column(&self, value: f64) -> Option<usize> {
        (self.low..=self.high)
            .contains(&value)
            .then(|| self.nearest(value))?
    }

    /// The column of a value, the outermost one for what lies beyond; `None` for what is no number.
    fn nearest(&self, value: f64) -> Option<usize> {
        let share = (value - self.low) / (self.high - self.low);
        let last = COLUMNS - 1;
        (!share.is_nan()).then(|| ((share * last as f64).round().max(0.0) as usize).min(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(label: &str, is_head: bool, value: Option<f64>) -> PictureRow<'static> {
        PictureRow {
            label: label.into(),
            is_head,
            value,
            shown: "",
        }
    }

    #[test]
    fn a_mark_stands_where_its_value_lies() {
        let rows = [
            row("0 base", false, Some(0.0)),
            row("1 head", true, Some(51.0)),
            row("2 head", true, None),
        ];
        let drawn = launches(&rows, Some(17.0));
        let lines: Vec<Vec<char>> = drawn.lines().map(|line| line.chars().collect()).collect();
        let at = |line: usize, mark: char| lines[line].iter().position(|c| *c == mark);
        assert_eq!(at(0, '○'), Some(11));
        assert_eq!(at(1, '●'), Some(11 + 51));
        assert_eq!(at(2, '●'), None);
        for line in &lines {
            assert_eq!(line.iter().position(|c| *c == '│'), Some(11 + 17));
            assert!(line.len() <= 80);
        }
    }

    #[test]
    fn alike_values_nan_and_nothing_are_drawn_too() {
        let drawn = launches(
            &[row("a", false, Some(3.0)), row("b", true, Some(f64::NAN))],
            None,
        );
        assert_eq!(drawn.matches('○').count(), 1);
        assert_eq!(drawn.matches('●').count(), 0);
        assert_eq!(launches(&[], None), "");
        let many: Vec<PictureRow<'_>> = (0..60).map(|_| row("x", false, Some(1.0))).collect();
        assert!(launches(&many, None).ends_with("and 12 more launches\n"));
    }

    #[test]
    fn a_distribution_is_as_high_as_its_values_are_frequent() {
        let base = [1.0, 1.0, 1.0, 1.0, 2.0];
        let drawn = distributions(&base, &[2.0], ["base", "head"], |v| v.to_string());
        let lines: Vec<&str> = drawn.lines().collect();
        assert!(lines[0].contains('█') && lines[0].contains('▂'), "{drawn}");
        assert!(lines[1].ends_with('█'), "{drawn}");
        assert!(
            lines[2].trim_start().starts_with('1') && lines[2].ends_with('2'),
            "{drawn}"
        );
    }
}
