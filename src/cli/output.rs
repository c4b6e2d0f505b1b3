//! What is said on standard output and standard error. A reader that went away, or a full disk behind a
//! redirection, must not end a session in a panic: results are on disk by then.
//!
//! What is printed may hold a build's or an engine's words. GitHub's runner acts on a line of a job's log that begins with
//! `::` or `##[`, spaces before it or not; so no line of ours does, but for [`command`]'s.

use std::borrow::Cow;
use std::io::{self, Write};

/// Writes a result to standard output. Colours are left out where nobody sees them.
pub(super) fn print(text: &str) -> io::Result<()> {
    raw(&inert(text))
}

/// Writes a workflow command of our own to standard output.
pub(super) fn command(line: &str) -> io::Result<()> {
    raw(&format!("{line}\n"))
}

fn raw(text: &str) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // `gate judge … | head` is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Writes a line about what happens to standard error; nothing depends on it.
pub(super) fn note(line: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{}", inert(line));
}

/// The text with a mark before each line that would be a workflow command.
fn inert(text: &str) -> Cow<'_, str> {
    let is_command = |line: &str| {
        let line = line.trim_start();
        line.starts_with("::") || line.starts_with("##[")
    };
    if !text.split(['\n', '\r']).any(is_command) {
        return text.into();
    }
    let lines = text
        .split_inclusive(['\n', '\r'])
        .map(|line| match is_command(line) {
            true => format!("| {line}"),
            false => line.to_owned(),
        });
    lines.collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::inert;

    #[test]
    fn no_line_is_a_workflow_command() {
        for (text, expect) in [
            ("a ::error::b\n", "a ::error::b\n"),
            ("::error::a", "| ::error::a"),
            ("a\n  ::add-mask::b\r\nc\n", "a\n|   ::add-mask::b\r\nc\n"),
            (
                "a\r::stop-commands::x\n\t##[error]b",
                "a\r| ::stop-commands::x\n| \t##[error]b",
            ),
        ] {
            assert_eq!(inert(text), expect);
        }
    }
}
