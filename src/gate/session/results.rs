//! The result directory: `run.json`, `verdict.json`, `report.md`, `report.html`, `junit.xml`, `logs/`; while a session
//! runs also `launches/` (`checkpoint.rs`); where there was none, `failure.txt`; and a `.gitignore` of all that.

use super::error::Error as SessionError;
use super::files::{ResultsError, read_json_of, replace};
use super::{checkpoint, rendering};
use crate::launch::{GitError, Repository, Workspace};
use crate::report;
use std::cell::Cell;
use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use verdict::judge;
use verdict::plan::{self, Plan};
use verdict::record::{Ending, Extent, Launch, MERGED_FORMAT, RUN_FORMAT, RunRecord, RunVerdict};

const RUN: &str = "run.json";
const VERDICT: &str = "verdict.json";
const REPORT: &str = "report.md";
const PAGE: &str = "report.html";
const JUNIT: &str = "junit.xml";
const FAILURE: &str = "failure.txt";
const IGNORE: &str = ".gitignore";

/// Result directories of the project at `root`, the newest first: their names begin with the time.
pub fn directories(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root.join(".gate/runs"));
    let mut paths: Vec<PathBuf> = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths.reverse();
    paths
}

/// The result directory of the latest session of the project around `start`.
///
/// # Errors
/// `start` is in no project, or nothing was measured there, or git tracks results: a commit may name any as the newest.
pub fn newest(start: &Path) -> Result<PathBuf, SessionError> {
    let root = plan::find_root(start)?;
    let root = root.canonicalize().unwrap_or(root);
    let is_tracked = match Repository::open(&root) {
        Ok(repository) => repository.tracks(&root.join(".gate")),
        Err(GitError::NoRepository(_) | GitError::Missing(_)) => false,
        Err(error) => return Err(error.into()),
    };
    if is_tracked {
        return Err(SessionError::Usage(format!(
            "git tracks files in {0}/.gate, so a commit may say which result is the newest; name the result directory, or \
             run `git rm -r {0}/.gate`",
            root.display()
        )));
    }
    let mut newest = directories(&root).into_iter();
    let newest = newest.find(|directory| has_run(directory));
    newest.ok_or_else(|| {
        SessionError::Usage(format!(
            "no results in {}/.gate/runs; run `gate check`, or name a result directory",
            root.display()
        ))
    })
}

/// One run's directory. One in which nothing was measured is removed again.
pub struct Results {
    directory: PathBuf,
    /// It was not there before, and nothing stands in it that anybody could want.
    is_ours_and_empty: Cell<bool>,
}

impl Results {
    /// Makes the directory: `out`, or a new one named by time and profile.
    pub fn create(
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
        let is_new = !directory.exists();
        let directory = made(&directory).map_err(failed)?;
        if directory.join(RUN).exists() {
            let or = ", or go on with an unfinished session by `gate check --resume`";
            return Err(ResultsError::NotEmpty { directory, or });
        }
        fs::create_dir_all(directory.join("logs")).map_err(failed)?;
        workspace.hide(&directory);
        Ok(Self {
            directory,
            is_ours_and_empty: Cell::new(is_new),
        })
    }

    /// The directory of a session that is to go on.
    pub fn reopen(directory: &Path, workspace: &Workspace) -> Result<Self, ResultsError> {
        let failed = |source| ResultsError::ReadResult {
            path: directory.to_path_buf(),
            source,
        };
        let directory = directory.canonicalize().map_err(failed)?;
        workspace.hide(&directory);
        Ok(Self {
            directory,
            is_ours_and_empty: Cell::new(false),
        })
    }

    /// The directory of a record that is complete already: a new one, or one without a record.
    pub fn new(directory: &Path) -> Result<Self, ResultsError> {
        let failed = |source| ResultsError::Write {
            path: directory.to_path_buf(),
            source,
        };
        let is_new = !directory.exists();
        let directory = made(directory).map_err(failed)?;
        if has_run(&directory) {
            return Err(ResultsError::NotEmpty { directory, or: "" });
        }
        Ok(Self {
            directory,
            is_ours_and_empty: Cell::new(is_new),
        })
    }

    /// The directory of an imported session: made if it is not there, completed if an earlier import began it.
    pub fn open_import(directory: &Path) -> Result<(Self, Option<RunRecord>), ResultsError> {
        let failed = |source| ResultsError::Write {
            path: directory.to_path_buf(),
            source,
        };
        let directory = made(directory).map_err(failed)?;
        let run = directory.join(RUN);
        let earlier = if run.exists() {
            Some(read_record(&directory)?)
        } else {
            None
        };
        // A session that was measured is not overwritten by one that was imported.
        if earlier.as_ref().is_some_and(|record| !record.is_imported()) {
            return Err(ResultsError::NotEmpty { directory, or: "" });
        }
        let results = Self {
            directory,
            is_ours_and_empty: Cell::new(false),
        };
        Ok((results, earlier))
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes the record as a session begins with it. A verdict of an earlier, interrupted one no longer
    /// belongs to it.
    pub fn begin(&self, record: &RunRecord) -> Result<(), ResultsError> {
        self.is_ours_and_empty.set(false);
        self.write(record)?;
        for name in [VERDICT, REPORT, PAGE, JUNIT, FAILURE] {
            let path = self.directory.join(name);
            if path.exists() {
                fs::remove_file(&path).map_err(|source| ResultsError::Write { path, source })?;
            }
        }
        checkpoint::clear(&self.directory, true)
    }

    /// Writes the final record, its verdict and the reports. What there is of a launch that a signal cut
    /// off is kept: the session can be continued.
    pub fn finish(
        &self,
        plan: &Plan,
        record: &RunRecord,
        verdict: &RunVerdict,
    ) -> Result<(), ResultsError> {
        self.write(record)?;
        checkpoint::clear(&self.directory, record.ending == Ending::Interrupted)?;
        write_verdict(&self.directory, plan, record, verdict)
    }

    /// Replaces the record whole.
    fn write(&self, record: &RunRecord) -> Result<(), ResultsError> {
        replace(&self.directory, RUN, |file| {
            serde_json::to_writer(file, record).map_err(io::Error::from)
        })
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        if self.is_ours_and_empty.get() {
            // Whatever somebody put there since keeps its folder.
            let _ = fs::remove_dir(self.directory.join("logs"));
            let _ = fs::remove_file(self.directory.join(IGNORE));
            let _ = fs::remove_dir(&self.directory);
        }
    }
}

/// Makes a directory, and gives its whole path. One in which nothing stands becomes invisible to git: results are no
/// change of the tree that they are of.
fn made(directory: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(directory)?;
    if fs::read_dir(directory)?.next().is_none() {
        fs::write(directory.join(IGNORE), "*\n")?;
    }
    directory.canonicalize()
}

/// Says in a result directory why nothing was measured, for whoever reads it elsewhere. The error itself goes
/// on its way: where even this cannot be written, nothing is lost.
pub fn tell_failure(directory: &Path, error: &dyn Error) {
    if has_run(directory) {
        return;
    }
    let causes = std::iter::successors(error.source(), |cause| Error::source(*cause));
    let text = causes.fold(error.to_string(), |text, cause| {
        format!("{text}\n  caused by: {cause}")
    });
    let _ = made(directory);
    let _ = replace(directory, FAILURE, |file| writeln!(file, "{text}"));
}

fn write_verdict(
    directory: &Path,
    plan: &Plan,
    record: &RunRecord,
    verdict: &RunVerdict,
) -> Result<(), ResultsError> {
    let again = rendering::again(plan, record);
    let texts = [
        (VERDICT, report::verdict_json(record, verdict)),
        (
            REPORT,
            rendering::markdown(Some(plan), record, verdict, again.as_deref()),
        ),
        (
            PAGE,
            rendering::html(plan, record, verdict, (None, &[]), again.as_deref()),
        ),
        (JUNIT, report::junit(record, verdict)),
    ];
    for (name, text) in texts {
        replace(directory, name, |file| file.write_all(text.as_bytes()))?;
    }
    Ok(())
}

/// Recomputes the verdict of a result directory from its `run.json` alone, and writes it and its reports anew. Of an unfinished session `launches/` is read too.
pub fn judge_directory(directory: &Path) -> Result<(RunRecord, RunVerdict), ResultsError> {
    let record = read_record(directory)?;
    let plan = plan::from_record(&record)?;
    let verdict = judge::judge(&plan, &record);
    write_verdict(directory, &plan, &record, &verdict)?;
    Ok((record, verdict))
}

/// True if the session of this directory came to a verdict.
pub fn has_verdict(directory: &Path) -> bool {
    directory.join(VERDICT).exists()
}

/// True if this directory holds a session's record.
pub fn has_run(directory: &Path) -> bool {
    directory.join(RUN).exists()
}

/// The record of a result directory. Launches of an unfinished session stand in files of their own; not those of a
/// merged record, whose shards each count their launches from 0.
pub fn read_record(directory: &Path) -> Result<RunRecord, ResultsError> {
    let mut record: RunRecord = read_json_of(&directory.join(RUN), &[RUN_FORMAT, MERGED_FORMAT])?;
    let is_merged = matches!(record.extent, Extent::Merged { .. });
    if record.ending == Ending::Unfinished && !is_merged {
        for saved in checkpoint::whole(directory)? {
            // A file is newer than the record: a launch that lost its partner is measured again.
            let is_other = |l: &Launch| l.position != saved.launch.position;
            record.launches.retain(is_other);
            record.elapsed_s = record.elapsed_s.max(saved.elapsed_s);
            record.launches.push(saved.launch);
        }
        record.launches.sort_by_key(|launch| launch.position);
    }
    Ok(record)
}
