//! The result directory: `run.json`, `verdict.json`, `report.md`, `logs/`.

use crate::judge;
use crate::launch::Workspace;
use crate::plan::{self, PlanError, Selection};
use crate::record::{RUN_FORMAT, RunRecord, RunVerdict};
use crate::report;
use serde::Deserialize;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const RUN: &str = "run.json";
const VERDICT: &str = "verdict.json";
const REPORT: &str = "report.md";

/// Records larger than this are refused: they may come from somebody else.
const MAX_RECORD_BYTES: u64 = 1 << 30;

#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{} holds a run.json already; name another result directory", .0.display())]
    NotEmpty(PathBuf),
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} has {size} bytes, more than a record may have", path.display())]
    TooLarge { path: PathBuf, size: u64 },
    #[error("{} is not a run record", path.display())]
    Json {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("{} has the format `{format}`, this gate reads `infergate-run/1`", path.display())]
    Format { path: PathBuf, format: String },
    #[error("the record's own gates cannot be read")]
    Plan(#[from] PlanError),
}

/// One run's directory.
pub(super) struct Results {
    directory: PathBuf,
}

impl Results {
    /// Makes the directory: `out`, or a new one named by time and profile.
    pub(super) fn create(
        out: Option<&Path>,
        workspace: &Workspace,
        profile: &str,
    ) -> Result<Self, ResultsError> {
        let directory = match out {
            Some(out) => out.to_path_buf(),
            None => {
                let time = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
                workspace
                    .runs()
                    .join(format!("{time}-{profile}-{}", std::process::id()))
            }
        };
        let failed = |source| ResultsError::Write {
            path: directory.clone(),
            source,
        };
        fs::create_dir_all(&directory).map_err(failed)?;
        let directory = directory.canonicalize().map_err(failed)?;
        if directory.join(RUN).exists() {
            return Err(ResultsError::NotEmpty(directory));
        }
        fs::create_dir_all(directory.join("logs")).map_err(failed)?;
        Ok(Self { directory })
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes the record as it stands, replacing the last one whole.
    pub(super) fn checkpoint(&self, record: &RunRecord) -> Result<(), ResultsError> {
        replace(&self.directory, RUN, |file| {
            serde_json::to_writer(file, record).map_err(io::Error::from)
        })
    }

    /// Writes the final record, its verdict and the report.
    pub(super) fn finish(
        &self,
        record: &RunRecord,
        verdict: &RunVerdict,
    ) -> Result<(), ResultsError> {
        self.checkpoint(record)?;
        write_verdict(&self.directory, record, verdict)
    }
}

fn write_verdict(
    directory: &Path,
    record: &RunRecord,
    verdict: &RunVerdict,
) -> Result<(), ResultsError> {
    let json = report::verdict_json(record, verdict);
    replace(directory, VERDICT, |file| file.write_all(json.as_bytes()))?;
    let markdown = report::markdown(record, verdict);
    replace(directory, REPORT, |file| {
        file.write_all(markdown.as_bytes())
    })
}

/// Writes beside the place and renames, so that a reader sees the old file or the new one.
fn replace(
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
        Ok(())
    })();
    result.map_err(|source| ResultsError::Write { path, source })
}

/// Recomputes the verdict of a result directory from its `run.json` alone, and writes `verdict.json` and
/// `report.md` anew.
pub fn judge_directory(directory: &Path) -> Result<(RunRecord, RunVerdict), ResultsError> {
    let record = read_record(&directory.join(RUN))?;
    let selection = Selection {
        profile: record.profile.clone(),
        gates: record.gates.clone(),
    };
    let plan = plan::from_inputs(&record.inputs, &selection)?;
    let verdict = judge::judge(&plan, &record);
    write_verdict(directory, &record, &verdict)?;
    Ok((record, verdict))
}

fn read_record(path: &Path) -> Result<RunRecord, ResultsError> {
    #[derive(Deserialize)]
    struct Version {
        format: String,
    }
    let path = path.to_path_buf();
    let unreadable = |source| ResultsError::Read {
        path: path.clone(),
        source,
    };
    let size = fs::metadata(&path).map_err(unreadable)?.len();
    if size > MAX_RECORD_BYTES {
        return Err(ResultsError::TooLarge { path, size });
    }
    let text = fs::read_to_string(&path).map_err(unreadable)?;
    let not_json = |source| ResultsError::Json {
        path: path.clone(),
        source,
    };
    let version: Version = serde_json::from_str(&text).map_err(not_json)?;
    if version.format != RUN_FORMAT {
        return Err(ResultsError::Format {
            path,
            format: version.format,
        });
    }
    serde_json::from_str(&text).map_err(not_json)
}
