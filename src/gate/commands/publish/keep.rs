//! A publication on disk before anything is sent, so that nothing is lost while GitHub is down.

use crate::session::files::{ResultsError, replace};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Files with their texts, into one directory, each whole or not at all. A file of an earlier publication that has no
/// successor is removed: it would speak of another result.
pub fn keep(directory: &Path, files: &[(&str, Option<&str>)]) -> Result<PathBuf, ResultsError> {
    let failed = |source| ResultsError::Write {
        path: directory.to_path_buf(),
        source,
    };
    fs::create_dir_all(directory).map_err(failed)?;
    for (name, text) in files {
        let path = directory.join(name);
        match text {
            Some(text) => replace(directory, name, |file| file.write_all(text.as_bytes()))?,
            None if path.exists() => {
                fs::remove_file(&path).map_err(|source| ResultsError::Write { path, source })?;
            }
            None => {}
        }
    }
    directory.canonicalize().map_err(failed)
}
