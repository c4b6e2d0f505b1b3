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
    lines[from..]
        .iter()
        .map(clean)
        .collect::<Vec<_>>()
        .join("\n")
}

/// The first error in a build's log with the lines after it, then the last lines. Compilers begin that line with `error`, or
/// write ` error:` behind the place.
pub fn of_build(path: &Path) -> String {
    let text = read_end(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let is_error = |line: &&str| {
        let line = line.to_ascii_lowercase();
        line.trim_start().starts_with("error") || line.contains(" error:")
    };
    let last = lines.len().saturating_sub(TAIL_LINES);
    match lines.iter().position(is_error) {
        Some(first) if first < last => {
            let begin = &lines[first..lines.len().min(first + TAIL_LINES / 2)];
            let end = &lines[lines.len() - TAIL_LINES / 2..];
            let all = begin.iter().chain(&["…"]).chain(end);
            all.map(clean).collect::<Vec<_>>().join("\n")
        }
        _ => tail(path),
    }
}

fn clean(line: &&str) -> String {
    let kept = line.chars().filter(|c| !c.is_control() || *c == '\t');
    kept.collect()
}

/// A child's text for an error or a terminal: each line behind a mark, so that none begins with what a reader of
/// the output acts on, such as a workflow command of GitHub's (`::error::`).
pub fn indented(text: &str) -> String {
    let lines = text.lines().map(|line| format!("\n  | {}", clean(&line)));
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

    #[test]
    fn the_first_error_of_a_build_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let noise = |n: usize| "warning: more\n".repeat(n);
        for error in ["error[E0425]: no `x`", "a.cu(7): error: no `x`"] {
            let text = format!("{}{error}\n{}last\n", noise(9), noise(40));
            std::fs::write(&path, text).unwrap();
            let shown = of_build(&path);
            let lines: Vec<&str> = shown.lines().collect();
            assert_eq!((lines[0], lines[20], lines.len()), (error, "last", 21));
        }
        // Near the end nothing is left out.
        std::fs::write(&path, "error: one\nlast\n").unwrap();
        assert_eq!(of_build(&path), "error: one\nlast");
    }
}
