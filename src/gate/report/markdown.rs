//! The report as Markdown, from a template. Values are escaped: an engine's words may hold anything.

use super::row::{self, Row};
use super::{cells, reasons};
use minijinja::value::Value;
use minijinja::{AutoEscape, Environment, context};
use verdict::record::{CheckVerdict, GateVerdict, RunRecord, RunVerdict, is_ignorable};

const TEMPLATE: &str = include_str!("templates/report.md.j2");

/// The whole report, with the slower part and the command that measures the same again, where they are known.
/// Deterministic: the same record and verdict give the same bytes.
pub fn markdown(
    record: &RunRecord,
    verdict: &RunVerdict,
    (cause, again): (Option<&str>, Option<&str>),
) -> String {
    let mut environment = Environment::new();
    // Escaping is Markdown's and done here; HTML's would double it.
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
    let context = context! {
        verdict => super::word(record, verdict),
        summary => escape(&super::headline_and_limits(record, verdict)),
        cause => cause.map(escape),
        again => again.map(code_line),
        arms => super::arms(record).iter().map(|line| escape(line)).collect::<Vec<_>>(),
        profile => escape(&record.profile),
        extent => super::extent(record, verdict),
        seconds => format!("{:.0}", record.elapsed_s),
        ending => escape(&super::ending(record, verdict)),
        saved => super::saved(verdict),
        cooling => super::cooling(record),
        unknown => super::unknown(record).iter().map(|line| escape(line)).collect::<Vec<_>>(),
        calibration => super::citation::citations(record).iter().map(|line| escape(line)).collect::<Vec<_>>(),
        machine => escape(&record.machine.fingerprint),
        seed => record.seed,
        created => escape(&record.created),
        tool => escape(&record.tool),
        logs => super::failed_logs(record).iter().map(|(what, tail)| context! {
            what => escape(what),
            lines => tail.lines().map(code_line).collect::<Vec<_>>(),
        }).collect::<Vec<_>>(),
        rows => row::worst_first(verdict).into_iter().map(of_row).collect::<Vec<_>>(),
        gates => verdict.gates.iter().map(gate).collect::<Vec<_>>(),
    };
    environment
        .render_str(TEMPLATE, context)
        .unwrap_or_else(|error| format!("the report's template failed: {error:#}\n"))
}

fn gate(gate: &GateVerdict) -> Value {
    context! {
        name => escape(&gate.gate),
        title => escape(&gate.title),
        verdict => gate.verdict.name(),
        checks => gate.checks.iter().map(check).collect::<Vec<_>>(),
    }
}

fn of_row(check: &CheckVerdict) -> Value {
    let row = Row::of(check);
    context! {
        check => escape(&row.check),
        base => row.base,
        head => row.head,
        change => escape(&row.change),
        fails => row.fails,
        passes => row.passes,
        verdict => row.verdict,
    }
}

fn check(check: &CheckVerdict) -> Value {
    context! {
        id => escape(&check.id),
        verdict => check.word(),
        rule => check.reason.rule.name(),
        reason => escape(&reasons::sentence(check)),
        notes => reasons::notes(check).iter().map(|note| escape(note)).collect::<Vec<_>>(),
        grid => cells::for_template(check),
    }
}

/// A line for an indented code block, which nothing within it can end.
pub fn code_line(line: &str) -> String {
    let is_shown = |c: &char| !c.is_control() && !is_ignorable(*c);
    line.chars().filter(is_shown).collect()
}

/// Text that Markdown shows as it is, in one line, also within a table's cell.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => out.push(' '),
            c if c.is_control() => {}
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // A mention must not reach anybody: the zero-width space breaks it.
            '@' => out.push_str("@\u{200b}"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn hostile_text_stays_text() {
        assert_eq!(escape("a|b\n# c"), "a\\|b \\# c");
        assert_eq!(escape("<img src=x>"), "&lt;img src=x&gt;");
        assert_eq!(escape("@everyone"), "@\u{200b}everyone");
        assert_eq!(escape("[x](y) `z`"), "\\[x\\](y) \\`z\\`");
        assert_eq!(escape("\u{1b}[31mred"), "\\[31mred");
    }
}
