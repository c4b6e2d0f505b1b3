//! Output to GitHub Actions: outputs, step summary, commands on standard output.
//!
//! Each has its way of being forged by a value that holds a line end or a mark; here every value stays a value
//! (GitHub, "Workflow commands for GitHub Actions"). Paths are those that Actions names in the environment.

use super::Error;
use std::collections::hash_map::RandomState;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write as _};
use std::path::Path;

/// The most that GitHub shows of a step's summary.
pub const MOST_SUMMARY: usize = 1 << 20;

/// Added where a summary had to be cut.
const CUT: &str = "\n\n(cut here: a summary has at most 1 MiB)\n";

/// Adds outputs to the file that `GITHUB_OUTPUT` names.
pub fn set_outputs(path: &Path, outputs: &[(&str, &str)]) -> Result<(), Error> {
    let mut block = String::new();
    for (name, value) in outputs {
        block.push_str(&output(name, value, &delimiter(value)));
    }
    append(path, &block)
}

/// Adds Markdown to the file that `GITHUB_STEP_SUMMARY` names, cut to what GitHub shows.
pub fn add_summary(path: &Path, markdown: &str) -> Result<(), Error> {
    let there = fs::metadata(path).map_or(0, |meta| meta.len());
    let there = usize::try_from(there).unwrap_or(usize::MAX);
    append(path, &cut(markdown, MOST_SUMMARY.saturating_sub(there)))
}

/// How grave an annotation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Error,
    Warning,
    Notice,
}

/// A command that shows a message at a line of a file, for standard output.
pub fn annotation(level: Level, file: &str, line: u32, title: &str, message: &str) -> String {
    let level = match level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Notice => "notice",
    };
    format!(
        "::{level} file={},line={line},title={}::{}",
        property(file),
        property(title),
        data(message)
    )
}

/// One output in the form that may hold line ends.
fn output(name: &str, value: &str, delimiter: &str) -> String {
    format!("{name}<<{delimiter}\n{value}\n{delimiter}\n")
}

/// A mark that no value can guess, and that this value does not hold.
fn delimiter(value: &str) -> String {
    loop {
        let mut mark = String::from("gate_");
        for _ in 0..2 {
            // Keyed by the system's own randomness.
            let random = RandomState::new().build_hasher().finish();
            let _ = write!(mark, "{random:016x}");
        }
        if !value.contains(&mark) {
            return mark;
        }
    }
}

/// The beginning that fits, cut between characters, and a line that says so.
fn cut(text: &str, room: usize) -> String {
    if text.len() <= room {
        return text.to_owned();
    }
    let Some(mut end) = room.checked_sub(CUT.len()) else {
        return String::new();
    };
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{CUT}", &text[..end])
}

/// A command's message.
fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// A command's property.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

fn append(path: &Path, text: &str) -> Result<(), Error> {
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(text.as_bytes())
    };
    write().map_err(|source| Error::Write {
        path: path.to_path_buf(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_cannot_forge_an_output() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("output");
        let hostile = "x\nEOF\nauthorized<<EOF\ntrue\nEOF";
        set_outputs(&path, &[("reason", hostile), ("authorized", "false")]).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let mark = lines[0].strip_prefix("reason<<").unwrap();
        assert!(mark.len() > 30 && !hostile.contains(mark));
        assert_eq!(lines.iter().position(|line| *line == mark), Some(6));
        assert!(lines[7].starts_with("authorized<<") && lines[8] == "false");
        assert_ne!(mark, lines[9]);
    }

    #[test]
    fn commands_are_escaped() {
        let shown = annotation(Level::Error, "a:b,c", 7, "50%\n", "::set-output::\r\n100 %");
        assert_eq!(
            shown,
            "::error file=a%3Ab%2Cc,line=7,title=50%25%0A::::set-output::%0D%0A100 %25"
        );
        assert_eq!(shown.lines().count(), 1);
    }

    #[test]
    fn a_summary_stays_within_what_is_shown() {
        for (text, room, expect) in [
            ("whole", 5, "whole".to_owned()),
            ("whole", 4, String::new()),
            (
                &"é".repeat(60),
                101,
                format!("{}{CUT}", "é".repeat((101 - CUT.len()) / 2)),
            ),
        ] {
            let cut = cut(text, room);
            assert!(cut.len() <= room);
            assert_eq!(cut, expect);
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("summary");
        add_summary(&path, &"a".repeat(MOST_SUMMARY - 50)).unwrap();
        add_summary(&path, &"b".repeat(100)).unwrap();
        assert!(fs::metadata(&path).unwrap().len() <= MOST_SUMMARY as u64);
    }
}
