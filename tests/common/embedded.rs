//! The embedded model as files.

use std::fs;
use std::path::Path;

/// A copy of the embedded model's directory, to be changed or spoilt.
pub(crate) fn copied() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("gates/models/tiny-qwen3");
    for entry in fs::read_dir(from).expect("the model is there") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), directory.path().join(entry.file_name())).expect("it is copied");
    }
    directory
}
