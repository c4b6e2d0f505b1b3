//! The report in a terminal: a table, the worst check first; why red checks are red; the verdict.

use super::row::{self, Row};
use super::{cells, not_run, reasons, redact};
use anstyle::{AnsiColor, Style};
use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle, Width,
};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::iter;
use std::ops::Range;
use verdict::plural::count;
use verdict::record::{CheckVerdict, Ending, RunRecord, RunVerdict, Verdict, is_ignorable};

pub const WIDTH: u16 = 80;

/// Longer lines of prose are hard to read.
const PROSE: u16 = 110;

/// One line under the header, nothing else.
pub const STYLE: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// How much is shown, and how wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Columns; fewer than 80 count as 80.
    pub width: u16,
    /// Say why also of checks that passed.
    pub is_verbose: bool,
}

impl Default for View {
    fn default() -> Self {
        Self {
            width: WIDTH,
            is_verbose: false,
        }
    }
}

impl View {
    fn table(self) -> u16 {
        self.width.max(WIDTH)
    }

    fn prose(self) -> usize {
        usize::from(self.table().min(PROSE))
    }
}

/// The whole report; with ANSI styles, which the caller strips where they are not wanted. Without colour
/// it says the same.
pub fn terminal(record: &RunRecord, verdict: &RunVerdict, view: View) -> String {
    let mut out = String::new();
    let session = session(record, verdict);
    let further = [super::saved(verdict), super::cooling(record)];
    let lines = super::arms(record)
        .into_iter()
        .chain([session])
        .chain(further.into_iter().flatten())
        .chain(super::unknown(record))
        .chain(super::citation::citations(record));
    for line in lines.flat_map(|line| wrap(&line, view.prose())) {
        let _ = writeln!(out, "{line}");
    }
    let _ = writeln!(out, "\n{}", table(verdict, view));
    let _ = writeln!(out);
    let said = out.len();
    let mut told = BTreeSet::new();
    let (style, name, summary) = conclusion(record, verdict);
    for checks in by_reason(verdict) {
        // The last line says it.
        if !summary.starts_with(&reasons::sentence(checks[0])) || has_more(&checks) {
            reason(&mut out, &checks, &mut told, view);
        }
    }
    for (what, tail) in super::failed_logs(record) {
        // A reason may say how it ended.
        let told = what.split_once(": ");
        let told = told.filter(|(_, how)| is_a_reason(verdict, how));
        let head = match (told, tail.trim().is_empty()) {
            (Some(_), true) => continue,
            (Some((launch, _)), false) => format!("the log of {launch} ends:"),
            (None, true) => format!("{what}; its log is empty"),
            (None, false) => format!("{what}; its log ends:"),
        };
        if out.len() > said {
            let _ = writeln!(out);
        }
        for line in wrap(&head, view.prose()) {
            let _ = writeln!(out, "{line}");
        }
        for line in wrap(tail, view.prose() - 4) {
            let _ = writeln!(out, "  | {line}");
        }
    }
    if out.len() > said {
        let _ = writeln!(out);
    }
    labelled(&mut out, (style, &name), &summary, view);
    for (label, text) in not_run::limits(record, verdict) {
        labelled(&mut out, (Style::new(), label), &text, view);
    }
    out
}

/// A label, and a text beside it.
fn labelled(out: &mut String, (style, label): (Style, &str), text: &str, view: View) {
    let mut lines = wrap(text, view.prose() - 14).into_iter();
    let first = lines.next().unwrap_or_default();
    let _ = writeln!(out, "{style}{label:<12}{style:#}  {first}");
    indent(out, lines);
}

/// True if a report shows more of these checks than their reason.
fn has_more(checks: &[&CheckVerdict]) -> bool {
    let has_more = |check: &&CheckVerdict| {
        let notes = reasons::notes(check);
        cells::grid(check).is_some() || !notes.is_empty()
    };
    checks.iter().any(has_more) || !reasons::sentence_and_examples(checks[0]).1.is_empty()
}

/// True if the reason of a check says this.
fn is_a_reason(verdict: &RunVerdict, how: &str) -> bool {
    let mut checks = verdict.gates.iter().flat_map(|gate| &gate.checks);
    checks.any(|check| reasons::sentence(check).contains(how))
}

/// The last word and its sentence. A recording has no base, and its verdict is inconclusive: but nothing was asked.
fn conclusion(record: &RunRecord, verdict: &RunVerdict) -> (Style, String, String) {
    if super::main_values::is_recorded(record, verdict) {
        let text = "main was measured, and compared with nothing";
        return (style(Verdict::Pass), "MEASURED".to_owned(), text.to_owned());
    }
    let is_cut = record.ending == Ending::Interrupted && verdict.verdict == Verdict::Inconclusive;
    if is_cut {
        let all = verdict.gates.iter().flat_map(|gate| &gate.checks);
        let decided = all.clone().filter(|c| c.verdict != Verdict::Inconclusive);
        let text = format!(
            "decided: {} of {}",
            decided.count(),
            count(all.count(), "check")
        );
        return (style(Verdict::Inconclusive), "INTERRUPTED".to_owned(), text);
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
    format!(
        "profile {}, {extent}, {:.0} s; {ending}",
        record.profile, record.elapsed_s
    )
}

/// Every check, its verdict in colour. Where there is no room for all columns, both values are left out (the change, or head's
/// value, is there), and then the limits share a column.
fn table(verdict: &RunVerdict, view: View) -> String {
    let checks = row::worst_first(verdict);
    let rows = || checks.iter().map(|check| Row::of(check));
    let cells = |row: Row| {
        let verdict = row.verdict.to_owned();
        [
            verdict, row.check, row.values, row.result, row.fails, row.passes,
        ]
    };
    let names = [
        "verdict",
        "check",
        "base → head",
        "change or value",
        "fails if shown",
        "passes if shown",
    ];
    let with = |columns: &[usize]| -> Vec<Vec<String>> {
        let header = names.map(str::to_owned);
        let rows = iter::once(header).chain(rows().map(cells));
        let kept = |row: [String; 6]| columns.iter().map(|&at| row[at].clone()).collect();
        rows.map(kept).collect()
    };
    let all: [usize; 6] = [0, 1, 2, 3, 4, 5];
    let fits = |table: &Vec<Vec<String>>| room(&longest_words(table.iter(), &all)) <= view.table();
    let mut table = [&all[..], &[0, 1, 3, 4, 5]]
        .map(with)
        .into_iter()
        .find(fits)
        .unwrap_or_else(|| {
            with(&[0, 1, 3, 4, 5])
                .into_iter()
                .map(limits_joined)
                .collect()
        });
    let names = table.remove(0);
    let text = arranged(names, table, &all, view.table());
    // A verdict never breaks, and what is left of a broken cell begins with a space.
    let coloured = text.lines().map(|line| {
        let word = line.split(' ').next().unwrap_or_default();
        match checks.iter().find(|check| check.word() == word) {
            Some(check) => {
                let style = style_of(check);
                format!("{style}{word}{style:#}{}", &line[word.len()..])
            }
            None => line.to_owned(),
        }
    });
    coloured.collect::<Vec<_>>().join("\n")
}

/// A row whose last two cells, `> 1 %` and `< 5 %`, are one: `> 1 % / < 5 %`. Of one limit, `> 15 ms` and `≤ 15 ms`, the first
/// says both.
fn limits_joined(mut row: Vec<String>) -> Vec<String> {
    let (Some(passes), Some(fails)) = (row.pop(), row.pop()) else {
        return row;
    };
    let limit = |text: &str| text.split_once(' ').map(|(_, limit)| limit.to_owned());
    row.push(match (fails.as_str(), passes.as_str()) {
        ("fails if shown", _) => "fails / passes if shown".to_owned(),
        _ if passes.is_empty() || limit(&fails) == limit(&passes) => fails,
        _ => format!("{fails} / {passes}"),
    });
    row
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
    let mut table = table_of(header, rows, &[], WIDTH);
    for column in table
        .column_iter_mut()
        .take(numbers.end)
        .skip(numbers.start)
    {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

fn arranged(header: Vec<String>, rows: Vec<Vec<String>>, whole: &[usize], width: u16) -> String {
    let text = table_of(header, rows, whole, width).trim_fmt();
    // The line under the header ends where the longest row does.
    let is_rule = |line: &&str| line.starts_with('─');
    let rows = text.lines().filter(|line| !is_rule(line));
    let longest = rows.map(|line| line.chars().count()).max().unwrap_or(0);
    let lines = text.lines().map(|line| match is_rule(&line) {
        true => line.chars().take(longest).collect(),
        false => line.to_owned(),
    });
    lines.collect::<Vec<String>>().join("\n")
}

/// A table in so many columns of the terminal; the first of its own, and those of `whole` while there is room, never
/// break.
fn table_of(header: Vec<String>, rows: Vec<Vec<String>>, whole: &[usize], width: u16) -> Table {
    let longest = |whole| longest_words(iter::once(&header).chain(&rows), whole);
    let widths = Some(longest(whole)).filter(|widths| room(widths) <= width);
    let widths = widths.unwrap_or_else(|| longest(&[]));
    let mut table = Table::new();
    table
        .load_style(STYLE)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width)
        .set_header(header);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    keep_words_whole(&mut table, &widths, width);
    table
}

/// Of each column the length of its longest word, with the space behind it; of the first and of those that shall not break,
/// of its longest cell.
fn longest_words<'a>(rows: impl Iterator<Item = &'a Vec<String>>, whole: &[usize]) -> Vec<u16> {
    let mut widths: Vec<u16> = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (at, (width, cell)) in widths.iter_mut().zip(row).enumerate() {
            let may_break = at > 0 && !whole.contains(&at);
            let words = cell.split(|c: char| may_break && c.is_whitespace());
            let longest = words.map(|word| word.chars().count() + 1).max();
            let longest = longest.unwrap_or(0);
            *width = (*width).max(u16::try_from(longest).unwrap_or(u16::MAX));
        }
    }
    widths
}

/// A broken word is no verdict, no check and no number: where there is room for the longest ones, none breaks.
fn keep_words_whole(table: &mut Table, widths: &[u16], most: u16) {
    let room = room(widths);
    for (column, width) in table.column_iter_mut().zip(widths).skip(1) {
        if room <= most {
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(*width)));
        }
    }
    if let Some(first) = table.column_mut(0) {
        first.set_constraint(ColumnConstraint::ContentWidth);
    }
}

/// Columns of the terminal that a table of these takes: one blank more stands between two, and none behind the last.
fn room(widths: &[u16]) -> u16 {
    let between = u16::try_from(widths.len().saturating_sub(2)).unwrap_or(u16::MAX);
    let widths = widths.iter();
    widths.fold(between, |sum, width| sum.saturating_add(*width))
}

/// Checks with the worst first; those with one reason together.
fn by_reason(verdict: &RunVerdict) -> Vec<Vec<&CheckVerdict>> {
    let mut groups: Vec<Vec<&CheckVerdict>> = Vec::new();
    for check in row::worst_first(verdict) {
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

/// One reason, with the checks that share it, and the notes of each; of checks that passed the notes alone. A note that
/// all of these have is told once; what disturbed the launches of every check alike, once in the report: `told` keeps it.
fn reason(out: &mut String, checks: &[&CheckVerdict], told: &mut BTreeSet<String>, view: View) {
    let check = checks[0];
    let sentence = reasons::sentence(check);
    let notes = checks.iter().flat_map(|check| reasons::notes(check));
    // An A/A run says so at its top.
    let is_own = |note: &String| !sentence.contains(note) && note != reasons::SAME_BUILD;
    let disturbed: Vec<String> = checks
        .iter()
        .flat_map(|c| reasons::disturbances(c))
        .collect();
    let mut here = BTreeSet::new();
    let mut is_new = |note: &String| {
        let is_told = disturbed.contains(note) && !told.insert(note.clone());
        here.insert(note.clone()) && !is_told
    };
    let notes: Vec<String> = notes.filter(is_own).filter(|note| is_new(note)).collect();
    let is_told = view.is_verbose || check.verdict != Verdict::Pass;
    if !is_told && notes.is_empty() {
        return;
    }
    let (sentence, examples) = reasons::sentence_and_examples(check);
    let style = style_of(check);
    let name = check.word();
    let ids: Vec<&str> = checks.iter().map(|check| check.id.as_str()).collect();
    let text = match is_told {
        true => format!("{}: {sentence}", ids.join(", ")),
        false => ids.join(", "),
    };
    let mut lines = wrap(&text, view.prose() - 14).into_iter();
    let first = lines.next().unwrap_or_default();
    let _ = writeln!(out, "{style}{name:<12}{style:#}  {first}");
    indent(out, lines);
    for note in examples.iter().chain(&notes) {
        for (i, line) in wrap(note, view.prose() - 16).into_iter().enumerate() {
            let mark = if i == 0 { "·" } else { " " };
            let _ = writeln!(out, "{:14}{mark} {line}", "");
        }
    }
    for grid in checks.iter().filter_map(|check| cells::grid(check)) {
        let table = arranged(grid.header, grid.rows, &[], view.table());
        let _ = writeln!(out, "\n{table}\n");
    }
}

/// Further lines, under the first one's text.
fn indent(out: &mut String, lines: impl Iterator<Item = String>) {
    for line in lines {
        let _ = writeln!(out, "{:14}{line}", "");
    }
}

fn style_of(check: &CheckVerdict) -> Style {
    style(match check.is_waived() {
        true => Verdict::Inconclusive,
        false => check.verdict,
    })
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

/// Spaces of a paragraph's first line to skip, and those before it and before the others: the text of an item of a list stays in
/// its column. Half of the width at the most.
fn indentation(paragraph: &str, width: usize) -> (usize, usize, usize) {
    let text = paragraph.trim_start_matches(' ');
    let indent = paragraph.len() - text.len();
    let number = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
    let is_item = number > 0 && text[number..].starts_with(". ");
    let hang = indent + if is_item { number + 2 } else { 0 };
    (indent, indent.min(width / 2), hang.min(width / 2))
}

/// Breaks at spaces so that no line has more than `width` characters, except where a word has; keeps the
/// text's own line breaks.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    // Text of an engine or of somebody's record must show no secret and not steer the terminal.
    let text: String = redact(text)
        .chars()
        .filter(|c| (!c.is_control() || *c == '\n') && !is_ignorable(*c))
        .collect();
    for paragraph in text.lines() {
        let (skipped, indent, hang) = indentation(paragraph, width);
        let mut line = " ".repeat(indent);
        let mut length = indent;
        let mut begin = indent;
        for word in paragraph[skipped..].split(' ') {
            let word_length = word.chars().count();
            if length > begin && length + 1 + word_length > width {
                lines.push(std::mem::replace(&mut line, " ".repeat(hang)));
                (length, begin) = (hang, hang);
            }
            if length > begin {
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
    fn two_limits_share_a_cell() {
        let joined = |fails: &str, passes: &str| {
            let row = ["pass", fails, passes].map(str::to_owned);
            limits_joined(row.to_vec())[1].clone()
        };
        assert_eq!(
            joined("fails if shown", "passes if shown"),
            "fails / passes if shown"
        );
        assert_eq!(joined("> 1 %", "< 5 %"), "> 1 % / < 5 %");
        assert_eq!(joined("> 15 ms", "≤ 15 ms"), "> 15 ms");
        assert_eq!(joined("> 1 %", "≤ 1 %"), "> 1 %");
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
