//! Files of a result directory: written whole, read with their format checked.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use verdict::plan::PlanError;

/// Records larger than this are refused: they may come from somebody else.
const MAX_RECORD_BYTES: u64 = 1 << 30;

#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{} holds a run.json already; name another result directory{or}", directory.display())]
    NotEmpty {
        directory: PathBuf,
        /// Another way out, if there is one.
        or: &'static str,
    },
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// A file of a result directory.
    #[error("cannot read {}", path.display())]
    ReadResult { path: PathBuf, source: io::Error },
    #[error("{} has {size} bytes, more than a record may have", path.display())]
    TooLarge { path: PathBuf, size: u64 },
    #[error("{} is not a run record", path.display())]
    Json {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("{} has the format `{format}`, this gate reads `{expected}`", path.display())]
    Format {
        path: PathBuf,
        format: String,
        expected: &'static str,
    },
    #[error("the record's own gates cannot be read")]
    Plan(#[from] PlanError),
}

/// Writes beside the place and renames, so that a reader sees the old file or the new one, after the machine
/// went down too.
pub fn replace(
    directory: &Path,
    name: &str,
    write: impl FnOnce(&mut BufWriter<&fs::File>) -> io::Result<()>,
) -> Result<(), ResultsError> {
    let path = directory.join(name);
    let result = (|| {
        let partial = tempfile::Builder::new()
            .permissions(fs::Permissions::from_mode(0o666))
            .tempfile_in(directory)?;
        let mut buffered = BufWriter::new(partial.as_file());
        write(&mut buffered)?;
        buffered.flush()?;
        drop(buffered);
        partial.as_file().sync_all()?;
        partial.persist(&path)?;
        sync(directory)
    })();
    result.map_err(|source| ResultsError::Write { path, source })
}

/// Brings a directory's entries to the disk: a file that was synced is not found again without its name.
pub fn sync(directory: &Path) -> io::Result<()> {
    fs::File::open(directory)?.sync_all()
}

/// A file that names its format.
pub fn read_json<T: DeserializeOwned>(
    path: &Path,
    expected: &'static str,
) -> Result<T, ResultsError> {
    read_json_of(path, &[expected])
}

/// The same, of one of several formats; the first is the one that a refusal names.
pub fn read_json_of<T: DeserializeOwned>(
    path: &Path,
    formats: &[&'static str],
) -> Result<T, ResultsError> {
    #[derive(Deserialize)]
    struct Version {
        format: String,
    }
    let text = text(path, |path, source| ResultsError::ReadResult {
        path,
        source,
    })?;
    let path = path.to_path_buf();
    let not_json = |source| ResultsError::Json {
        path: path.clone(),
        source,
    };
    let version: Version = serde_json::from_str(&text).map_err(not_json)?;
    if !formats.contains(&version.format.as_str()) {
        return Err(ResultsError::Format {
            path,
            format: version.format,
            expected: formats.first().copied().unwrap_or_default(),
        });
    }
    serde_json::from_str(&text).map_err(not_json)
}

/// Text of a file that somebody named, and may have from somebody else.
pub fn read_text(path: &Path) -> Result<String, ResultsError> {
    text(path, |path, source| ResultsError::Read { path, source })
}

fn text(
    path: &Path,
    failed: fn(PathBuf, io::Error) -> ResultsError,
) -> Result<String, ResultsError> {
    let path = path.to_path_buf();
    let unreadable = |source| failed(path.clone(), source);
    let size = fs::metadata(&path).map_err(unreadable)?.len();
    if size > MAX_RECORD_BYTES {
        return Err(ResultsError::TooLarge { path, size });
    }
    fs::read_to_string(&path).map_err(unreadable)
}
