//! Tables as CSV (RFC 4180, lines ended by a line feed), safe to open in a spreadsheet.
//!
//! Main function: [`csv`]. Refuses to know: what its columns mean.

use super::redaction::redact;
use std::fmt::Write as _;
use verdict::record::is_ignorable;

/// Characters of one text.
const MOST: usize = 1000;
/// First characters by which a spreadsheet takes a text for a formula, the full-width ones of East Asian input among them.
const FORMULA: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];

/// One value of a row. `None` is an empty cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Foreign or our own: escaped alike.
    Text(String),
    /// Written with the fewest digits that read back to the same number; not finite: empty.
    Number(Option<f64>),
    Count(Option<u64>),
    Flag(bool),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u32> for Cell {
    fn from(count: u32) -> Self {
        Self::Count(Some(count.into()))
    }
}

impl From<Option<u32>> for Cell {
    fn from(count: Option<u32>) -> Self {
        Self::Count(count.map(u64::from))
    }
}

impl From<usize> for Cell {
    fn from(count: usize) -> Self {
        Self::Count(Some(count as u64))
    }
}

impl From<Option<f64>> for Cell {
    fn from(number: Option<f64>) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Cell {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

/// The table with its header. Every row has as many cells as the header has names.
pub fn csv<'a>(
    header: impl IntoIterator<Item = &'a str>,
    rows: impl IntoIterator<Item = Vec<Cell>>,
) -> String {
    let header = header.into_iter().map(text).collect::<Vec<_>>();
    let mut out = header.join(",") + "\n";
    for row in rows {
        let cells = row.iter().map(cell).collect::<Vec<_>>();
        let _ = writeln!(out, "{}", cells.join(","));
    }
    out
}

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Text(it) => text(it),
        Cell::Number(it) => it
            .filter(|it| it.is_finite())
            .map_or(String::new(), |it| it.to_string()),
        Cell::Count(it) => it.map_or(String::new(), |it| it.to_string()),
        Cell::Flag(it) => it.to_string(),
    }
}

/// A text on one line, without secrets, that no spreadsheet takes for a formula.
fn text(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let text = redact(text);
    let text: String = text.chars().filter(|c| !is_ignorable(*c)).collect();
    let text: String = text.trim().chars().take(MOST).map(plain).collect();
    let text = match text.trim_start().starts_with(FORMULA) {
        true => format!("'{text}"),
        false => text,
    };
    match text.contains([',', '"', ';']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_one_cell_and_no_formula() {
        for (given, expect) in [
            ("plain", "plain"),
            ("a, b", "\"a, b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("=1+1", "'=1+1"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'=1"),
            ("\r=1", "'=1"),
            ("\u{200b}=1", "'=1"),
            ("\u{b}\u{1}=1", "' =1"),
            ("＝1", "'＝1"),
            ("=A1,\"b\"", "\"'=A1,\"\"b\"\"\""),
            ("two\nlines", "two lines"),
            ("", ""),
        ] {
            assert_eq!(text(given), expect, "{given:?}");
        }
    }

    #[test]
    fn numbers_read_back_and_may_be_negative() {
        let row = vec![
            Cell::Number(Some(-0.1)),
            Cell::Number(Some(f64::NAN)),
            Cell::Number(Some(1e-7)),
            Cell::Count(None),
            Cell::Flag(true),
        ];
        assert_eq!(
            csv(["a", "b", "c", "d", "e"], [row]),
            "a,b,c,d,e\n-0.1,,0.0000001,,true\n"
        );
    }
}
