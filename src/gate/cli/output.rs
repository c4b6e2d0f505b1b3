//! Standard output and standard error. A closed pipe or a full disk must not end a session
//! in a panic: results are on disk by then.
//!
//! What is printed may hold a build's or an engine's words. GitHub's runner acts on a line of a job's log that begins with
//! `::`, spaces before it or not, or that holds `##[`; so no line of ours does, but for [`command`]'s.

use crate::report::{redact, terminal::wrap};
use std::borrow::Cow;
use std::env;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Writes a result to standard output. Colours are left out where nobody sees them.
pub fn print(text: &str) -> io::Result<()> {
    raw(&inert(text))
}

/// Writes a workflow command of our own to standard output.
pub fn command(line: &str) -> io::Result<()> {
    raw(&format!("{line}\n"))
}

fn raw(text: &str) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // `gate report … | head` is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Columns of the terminal that standard output is; where it is none those of `COLUMNS`, else 80.
pub fn width() -> u16 {
    let given = || env::var("COLUMNS").ok()?.parse().ok();
    let of_terminal = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| width.0);
    of_terminal.or_else(given).unwrap_or(80)
}

/// Keeps [`note`] from writing.
pub fn be_quiet() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

pub fn is_quiet() -> bool {
    IS_QUIET.load(Ordering::Relaxed)
}

static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Writes a line about what happens to standard error, unless told to be quiet; nothing depends on it. In a terminal it
/// breaks between words.
pub fn note(line: &str) {
    if is_quiet() {
        return;
    }
    match terminal_size::terminal_size_of(io::stderr()) {
        Some((width, _)) => error(&wrapped(line, usize::from(width.0))),
        None => error(line),
    }
}

/// Writes a line to standard error. Secrets in it are redacted: it may quote the log of a build or of an engine.
pub fn error(line: &str) {
    let line = redact(line);
    // In one write: a child that shares standard error would write between the text and its end.
    let line = format!("{}\n", inert(&line));
    let _ = anstream::stderr().lock().write_all(line.as_bytes());
}

/// The lines of a text, those that are too long for a terminal broken between words.
fn wrapped(text: &str, width: usize) -> String {
    let lines = redact(text);
    let lines = lines
        .split('\n')
        .map(|line| match plain(line).chars().count() > width {
            true => wrap(&plain(line), width).join("\n"),
            false => line.to_owned(),
        });
    lines.collect::<Vec<_>>().join("\n")
}

/// The text without anything that GitHub's runner acts on: `::` at a line's begin, and `##[` anywhere in it. Escape
/// sequences do not count, since they are taken out of what is no terminal's; one may reach over several lines.
fn inert(text: &str) -> Cow<'_, str> {
    if !is_acted_on(text) {
        return text.into();
    }
    let guarded = guarded(text);
    match is_acted_on(&guarded) {
        true => self::guarded(&plain(text)).into(),
        false => guarded.into(),
    }
}

/// The text without escape sequences.
fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

fn is_command(line: &str) -> bool {
    plain(line).trim_start().starts_with("::")
}

fn is_old_command(line: &str) -> bool {
    plain(line).contains("##[")
}

/// True if a line is a command, by itself or once all of the text has lost its escape sequences.
fn is_acted_on(text: &str) -> bool {
    let is_any = |text: &str| {
        let mut lines = text.split(['\n', '\r']);
        lines.any(|line| is_command(line) || is_old_command(line))
    };
    is_any(text) || is_any(&plain(text))
}

fn guarded(text: &str) -> String {
    let lines = text.split_inclusive(['\n', '\r']).map(|line| {
        let line = match is_old_command(line) {
            true => plain(line).replace("##[", "## ["),
            false => line.to_owned(),
        };
        match is_command(&line) {
            true => format!("| {line}"),
            false => line,
        }
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::{inert, wrapped};

    #[test]
    fn long_lines_break_between_words_in_a_terminal() {
        let text = "  a b\none two three\n";
        assert_eq!(wrapped(text, 9), "  a b\none two\nthree\n");
        assert_eq!(wrapped(text, 80), text);
    }

    #[test]
    fn no_line_is_a_workflow_command() {
        for (text, expect) in [
            ("a ::error::b\n", "a ::error::b\n"),
            ("::error::a", "| ::error::a"),
            ("a ##[add-mask]b\n", "a ## [add-mask]b\n"),
            ("\u{1b}[0m::error::a", "| \u{1b}[0m::error::a"),
            ("#\u{1b}[1m#[error]a", "## [error]a"),
            ("a\n  ::add-mask::b\r\nc\n", "a\n|   ::add-mask::b\r\nc\n"),
            (
                "a\r::stop-commands::x\n\t##[error]b",
                "a\r| ::stop-commands::x\n\t## [error]b",
            ),
            // The sequence begins on the line before.
            (
                "\n\u{1b}]0;\n\u{7}::stop-commands::x",
                "\n| ::stop-commands::x",
            ),
        ] {
            assert_eq!(inert(text), expect);
        }
    }
}
