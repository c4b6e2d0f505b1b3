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

fn read_end(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
