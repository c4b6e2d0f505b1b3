//! The report in a terminal: a table that fits 80 columns, then each check's reason.

use super::{cells, numbers, reasons, redact};
use anstyle::{AnsiColor, Style};
use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle, Width,
};
use std::fmt::Write;
use std::ops::Range;
use verdict::record::{CheckVerdict, RunRecord, RunVerdict, Verdict};

pub const WIDTH: u16 = 80;

/// One line under the header, nothing else.
pub const STYLE: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// The whole report; with ANSI styles, which the caller strips where they are not wanted. Without colour
/// it says the same.
pub fn terminal(record: &RunRecord, verdict: &RunVerdict) -> String {
    let mut out = String::new();
    for line in super::arms(record) {
        for line in wrap(&line, usize::from(WIDTH)) {
            let _ = writeln!(out, "{line}");
        }
    }
    out.push_str(&session(record, verdict));
    for line in [super::saved(verdict), super::cooling(record)]
        .into_iter()
        .flatten()
        .chain(super::unknown(record))
        .chain(super::citation::citations(record))
    {
        for line in wrap(&line, usize::from(WIDTH)) {
            let _ = writeln!(out, "{line}");
        }
    }
    let _ = writeln!(out);
    let _ = writeln!(out, "{}\n", table(verdict));
    for checks in by_reason(verdict) {
        reason(&mut out, &checks);
    }
    for (what, tail) in super::failed_logs(record) {
        let _ = writeln!(out);
        for line in wrap(&format!("{what}; its log ends:"), usize::from(WIDTH)) {
            let _ = writeln!(out, "{line}");
        }
        for line in wrap(tail, usize::from(WIDTH) - 4) {
            let _ = writeln!(out, "  | {line}");
        }
    }
    let (style, name, summary) = conclusion(record, verdict);
    let mut summary = wrap(&summary, usize::from(WIDTH) - 14).into_iter();
    let first = summary.next().unwrap_or_default();
    let _ = writeln!(out, "\n{style}{name:<12}{style:#}  {first}");
    indent(&mut out, summary);
    out
}

/// The last word and its sentence. A recording has no base, and its verdict is inconclusive: but nothing was asked.
fn conclusion(record: &RunRecord, verdict: &RunVerdict) -> (Style, String, String) {
    if super::main_values::is_recorded(record, verdict) {
        let text = "main was measured, and compared with nothing";
        return (style(Verdict::Pass), "MEASURED".to_owned(), text.to_owned());
    }
    let name = super::word(record, verdict).to_uppercase();
    let style = match name.as_str() {
        super::ONE_BUILD => Style::new().bold(),
        _ => style(verdict.verdict),
    };
    (style, name, super::headline(record, verdict))
}

fn session(record: &RunRecord, verdict: &RunVerdict) -> String {
    let extent = super::extent(record, verdict);
    let ending = super::ending(record, verdict);
    opening(&record.profile, &extent, record.elapsed_s, &ending)
}

/// In lines of 80 columns: an ending may quote an engine's whole answer.
fn opening(profile: &str, extent: &str, elapsed_s: f64, ending: &str) -> String {
    lines(&format!(
        "profile {profile}, {extent}, {elapsed_s:.0} s; {ending}"
    ))
}

fn table(verdict: &RunVerdict) -> String {
    let checks = verdict.gates.iter().flat_map(|gate| &gate.checks);
    let header = ["verdict", "check", "base", "head", "change [interval]"];
    columns(
        header.map(str::to_owned).to_vec(),
        checks.map(row).collect(),
    )
}

/// Rows under their header, in 80 columns; what is too wide breaks within its cell.
pub fn columns(header: Vec<String>, rows: Vec<Vec<String>>) -> String {
    columns_with_numbers(header, rows, 0..0)
}

/// The same, with the columns of `numbers` flush right.
pub fn columns_with_numbers(
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    numbers: Range<usize>,
) -> String {
    let widths = longest_words(std::iter::once(&header).chain(&rows));
    let mut table = Table::new();
    table
        .load_style(STYLE)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(WIDTH)
        .set_header(header);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    for column in table
        .column_iter_mut()
        .take(numbers.end)
        .skip(numbers.start)
    {
        column.set_cell_alignment(CellAlignment::Right);
    }
    keep_words_whole(&mut table, &widths);
    table.trim_fmt()
}

/// Of each column the length of its longest word, with the space behind it; of the first, which never breaks, of its
/// longest cell.
fn longest_words<'a>(rows: impl Iterator<Item = &'a Vec<String>>) -> Vec<u16> {
    let mut widths: Vec<u16> = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (at, (width, cell)) in widths.iter_mut().zip(row).enumerate() {
            let words = cell.split(|c: char| at > 0 && c.is_whitespace());
            let longest = words.map(|word| word.chars().count() + 1).max();
            let longest = longest.unwrap_or(0);
            *width = (*width).max(u16::try_from(longest).unwrap_or(u16::MAX));
        }
    }
    widths
}

/// A broken word is no verdict, no check and no number: where there is room for the longest ones, none breaks.
fn keep_words_whole(table: &mut Table, widths: &[u16]) {
    let room = widths
        .iter()
        .fold(0_u16, |sum, width| sum.saturating_add(*width));
    for (column, width) in table.column_iter_mut().zip(widths).skip(1) {
        if room <= WIDTH {
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(*width)));
        }
    }
    if let Some(first) = table.column_mut(0) {
        first.set_constraint(ColumnConstraint::ContentWidth);
    }
}

fn row(check: &CheckVerdict) -> Vec<String> {
    let unit = check.metric.unit();
    vec![
        check.word().to_owned(),
        check.id.clone(),
        numbers::optional(check.base, unit),
        numbers::optional(check.head, unit),
        numbers::change(check),
    ]
}

/// Checks with the worst first, within one verdict in plan order; those with one reason together.
fn by_reason(verdict: &RunVerdict) -> Vec<Vec<&CheckVerdict>> {
    let mut checks: Vec<_> = verdict.gates.iter().flat_map(|gate| &gate.checks).collect();
    checks.sort_by_key(|check| match check.verdict {
        _ if check.is_waived() => 3,
        Verdict::Fail => 0,
        Verdict::Invalid => 1,
        Verdict::Inconclusive => 2,
        Verdict::Pass => 4,
    });
    let mut groups: Vec<Vec<&CheckVerdict>> = Vec::new();
    for check in checks {
        let same = |group: &&mut Vec<&CheckVerdict>| {
            let first = group[0];
            let is_same = first.word() == check.word() && first.reason.rule == check.reason.rule;
            is_same && reasons::sentence(first) == reasons::sentence(check)
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(check),
            None => groups.push(vec![check]),
        }
    }
    groups
}

/// One reason, with the checks that share it. Notes belong to single checks.
fn reason(out: &mut String, checks: &[&CheckVerdict]) {
    let check = checks[0];
    let style = style(if check.is_waived() {
        Verdict::Inconclusive
    } else {
        check.verdict
    });
    let name = check.word();
    let ids: Vec<&str> = checks.iter().map(|check| check.id.as_str()).collect();
    let sentence = reasons::sentence(check);
    let text = format!("{}: {sentence}", ids.join(", "));
    let mut lines = wrap(&text, usize::from(WIDTH) - 14).into_iter();
    let first = lines.next().unwrap_or_default();
    let _ = writeln!(out, "{style}{name:<12}{style:#}  {first}");
    indent(out, lines);
    let notes = checks.iter().flat_map(|check| reasons::notes(check));
    for note in notes.filter(|note| !sentence.contains(note)) {
        for (i, line) in wrap(&note, usize::from(WIDTH) - 16).into_iter().enumerate() {
            let mark = if i == 0 { "·" } else { " " };
            let _ = writeln!(out, "{:14}{mark} {line}", "");
        }
    }
    for grid in checks.iter().filter_map(|check| cells::grid(check)) {
        let _ = writeln!(out, "\n{}\n", columns(grid.header, grid.rows));
    }
}

/// Further lines, under the first one's text.
fn indent(out: &mut String, lines: impl Iterator<Item = String>) {
    for line in lines {
        let _ = writeln!(out, "{:14}{line}", "");
    }
}

pub fn style(verdict: Verdict) -> Style {
    let color = match verdict {
        Verdict::Pass => AnsiColor::Green,
        Verdict::Fail => AnsiColor::Red,
        Verdict::Inconclusive => AnsiColor::Yellow,
        Verdict::Invalid => AnsiColor::Magenta,
    };
    Style::new().bold().fg_color(Some(color.into()))
}

/// The text in lines of 80 columns, each with its end.
pub fn lines(text: &str) -> String {
    let lines = wrap(text, usize::from(WIDTH));
    lines.into_iter().map(|line| line + "\n").collect()
}

/// Breaks at spaces so that no line has more than `width` characters, except where a word has; keeps the
/// text's own line breaks.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    // Text of an engine or of somebody's record must show no secret and not steer the terminal.
    let text: String = redact(text)
        .chars()
        .filter(|c| !c.is_control() || *c == '\n')
        .collect();
    for paragraph in text.lines() {
        let mut line = String::new();
        let mut length = 0;
        for word in paragraph.split(' ') {
            let word_length = word.chars().count();
            if length > 0 && length + 1 + word_length > width {
                lines.push(std::mem::take(&mut line));
                length = 0;
            }
            if length > 0 {
                line.push(' ');
                length += 1;
            }
            line.push_str(word);
            length += word_length;
        }
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_about_the_session_breaks_where_it_is_too_long() {
        let starting = "the time budget was spent while launch 1 (head) had generated no token yet: status 404: \
                        no model of this name is served here";
        let invalid = "no check was left to decide; 1 of 9 is invalid";
        for (extent, ending) in [
            ("1 launch in 0 blocks", starting),
            ("16 launches in 8 blocks", invalid),
        ] {
            let text = opening("quick", extent, 1234.0, ending);
            assert!(
                text.lines().all(|line| line.chars().count() <= 80),
                "{text}"
            );
            let whole = format!("profile quick, {extent}, 1234 s; {ending}");
            assert_eq!(text.trim_end().replace('\n', " "), whole);
        }
        assert_eq!(
            opening(
                "quick",
                "8 launches in 4 blocks",
                16.0,
                "it was interrupted"
            ),
            "profile quick, 8 launches in 4 blocks, 16 s; it was interrupted\n"
        );
    }

    #[test]
    fn no_token_of_an_engine_reaches_the_terminal() {
        let token = format!("ghp_{}", "a1B2".repeat(9));
        for text in [
            lines(&format!("the log: {token}")),
            wrap(&token, 20).concat(),
        ] {
            assert!(
                !text.contains("ghp_") && text.contains("[redacted]"),
                "{text}"
            );
        }
    }

    #[test]
    fn no_word_of_a_table_breaks_while_all_of_them_have_room() {
        let owned = |cells: [&str; 5]| cells.map(str::to_owned).to_vec();
        let row = [
            "inconclusive",
            "prefill-drift/vs-main",
            "12345.6 tokens/s",
            "12345.6 tokens/s",
            "+1234.5 % [-1234.5, +1234.5]",
        ];
        let header = ["verdict", "check", "base", "head", "change [interval]"];
        let table = columns(owned(header), vec![owned(row)]);
        assert!(
            table.lines().all(|line| line.chars().count() <= 80),
            "{table}"
        );
        for word in row.iter().flat_map(|cell| cell.split(' ')) {
            assert!(table.contains(word), "`{word}` is broken in:\n{table}");
        }
    }
}
