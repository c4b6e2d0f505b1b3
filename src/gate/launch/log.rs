//! The end of an engine's log, for a message that explains a crash.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// How much of a log is read back, in bytes, and how many lines of it are shown.
const TAIL_BYTES: u64 = 16 * 1024;
const TAIL_LINES: usize = 20;

/// The last lines of a log, control characters removed; empty where nothing can be read.
pub fn tail(path: &Path) -> String {
    let text = read_end(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(TAIL_LINES);
    let clean = |line: &&str| -> String {
        line.chars()
            .filter(|c| !c.is_control() || *c == '\t')
            .collect()
    };
    lines[from..]
        .iter()
        .map(clean)
        .collect::<Vec<_>>()
        .join("\n")
}

/// A child's text for an error or a terminal: each line behind a mark, so that none begins with what a reader of
/// the output acts on, such as a workflow command of GitHub's (`::error::`).
pub fn indented(text: &str) -> String {
    let clean = |line: &str| {
        line.chars()
            .filter(|c| !c.is_control() || *c == '\t')
            .collect::<String>()
    };
    let lines = text.lines().map(|line| format!("\n  | {}", clean(line)));
    lines.collect()
}

fn read_end(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let start = length.saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    // A line without its beginning may hold half a secret, which nobody would know for one.
    match text.split_once('\n') {
        Some((_, whole)) if start > 0 => Ok(whole.to_owned()),
        _ => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_ends_in_whole_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let long = format!("secret-{}\nlast\n", "x".repeat(TAIL_BYTES as usize - 8));
        for (text, expect) in [("", ""), ("one\ntwo\n", "one\ntwo"), (&long, "last")] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(tail(&path), expect);
        }
    }
}
