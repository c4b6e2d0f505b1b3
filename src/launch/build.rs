//! From a tree of sources to an artifact that stays as it is while it is measured.

use super::log;
use super::process::{Process, ProcessError};
use crate::{digest, plan};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("cannot start the build")]
    Start(#[from] ProcessError),
    #[error("cannot wait for the build")]
    Wait(#[source] io::Error),
    #[error("the build of {what} failed ({status}); its log ends:\n{log_tail}")]
    Failed {
        what: String,
        status: String,
        log_tail: String,
    },
    #[error(
        "the build of {what} took longer than {limit:?} (engine.build.timeout); its log ends:\n{log_tail}"
    )]
    TimedOut {
        what: String,
        limit: Duration,
        log_tail: String,
    },
    #[error("the build succeeded, but {} is not there: check engine.build.artifact", .0.display())]
    NoArtifact(PathBuf),
    #[error("cannot remove {}, which an earlier build made", path.display())]
    Stale { path: PathBuf, source: io::Error },
    #[error("cannot keep a copy of the artifact at {}", path.display())]
    Keep { path: PathBuf, source: io::Error },
}

/// A built engine, copied to where no later build overwrites it.
#[derive(Clone, Debug, PartialEq)]
pub struct Artifact {
    pub path: PathBuf,
    /// Hex SHA-256 of the file.
    pub sha256: String,
    /// 0 where an earlier build was reused.
    pub build_s: f64,
}

/// One build to do.
pub(super) struct Job<'a> {
    pub(super) build: &'a plan::Build,
    /// For messages: `head`, `base 1234abcd`.
    pub(super) what: String,
    /// The project's directory within the tree to build.
    pub(super) tree: &'a Path,
    /// Fills `{target}`: a build directory that is kept between runs.
    pub(super) target: &'a Path,
    pub(super) log: &'a Path,
    /// Where the copy goes.
    pub(super) keep: &'a Path,
}

impl Job<'_> {
    /// Runs the build command and copies its artifact. Dropping the future kills the build.
    pub(super) async fn run(&self) -> Result<Artifact, BuildError> {
        let begun = Instant::now();
        let artifact = self.build.artifact.to_string_lossy();
        let built = self.tree.join(self.fill(&artifact));
        // What another commit's build left there would pass for this one's. Elsewhere in the tree it may be a source.
        if artifact.starts_with("{target}") && built.is_file() {
            fs::remove_file(&built).map_err(|source| BuildError::Stale {
                path: built.clone(),
                source,
            })?;
        }
        self.command().await?;
        if !built.is_file() {
            return Err(BuildError::NoArtifact(built));
        }
        self.copy(&built).map_err(|source| BuildError::Keep {
            path: self.keep.to_path_buf(),
            source,
        })?;
        reuse(self.keep, begun.elapsed().as_secs_f64()).map_err(|source| BuildError::Keep {
            path: self.keep.to_path_buf(),
            source,
        })
    }

    fn fill(&self, text: &str) -> String {
        text.replace("{target}", &self.target.to_string_lossy())
    }

    async fn command(&self) -> Result<(), BuildError> {
        let words: Vec<String> = self.build.command.iter().map(|w| self.fill(w)).collect();
        let env: Vec<(String, String)> = self
            .build
            .env
            .iter()
            .map(|(name, value)| (name.clone(), self.fill(value)))
            .collect();
        let mut process = Process::spawn(&words, &env, self.tree, self.log)?;
        let ended = process.wait(self.build.timeout).await;
        // Whatever the build left behind ends here, also after a success.
        process.stop().await;
        let log_tail = || log::tail(self.log);
        match ended.map_err(BuildError::Wait)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(BuildError::Failed {
                what: self.what.clone(),
                status: status.to_string(),
                log_tail: log_tail(),
            }),
            None => Err(BuildError::TimedOut {
                what: self.what.clone(),
                limit: self.build.timeout,
                log_tail: log_tail(),
            }),
        }
    }

    /// Copies beside the place and renames, so that a half-written artifact is never reused.
    fn copy(&self, built: &Path) -> io::Result<()> {
        let folder = self.keep.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let partial = tempfile::NamedTempFile::new_in(folder)?;
        fs::copy(built, partial.path())?;
        partial.persist(self.keep)?;
        Ok(())
    }
}

/// An artifact that is already there.
pub(super) fn reuse(path: &Path, build_s: f64) -> io::Result<Artifact> {
    Ok(Artifact {
        path: path.to_path_buf(),
        sha256: digest::of_reader(&mut File::open(path)?)?,
        build_s,
    })
}
