//! `gate explain` through the binary: three records whose cause is known, held to their texts in
//! `tests/data/explain/`, and a real session.

mod records;
mod session;

use fixture::{Ended, gate};
use tempfile::TempDir;
use verdict::record::RunRecord;

/// A result directory with this record.
fn directory(record: &RunRecord) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let json = serde_json::to_string(record).unwrap();
    std::fs::write(directory.path().join("run.json"), json).unwrap();
    directory
}

fn explain(directory: &TempDir, further: &[&str]) -> Ended {
    let path = directory.path().to_str().unwrap();
    let arguments = [&["explain", path], further].concat();
    Ended::of(&gate(&arguments).output().unwrap())
}
