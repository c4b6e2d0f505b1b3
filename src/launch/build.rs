//! From a tree of sources to an artifact that stays as it is while it is measured.

use super::{environment, log};
use crate::{digest, plan};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;
use tokio::process::Command;

#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("cannot start the build command `{command}`")]
    Start { command: String, source: io::Error },
    #[error("the build of {what} failed ({status}); its log ends:\n{log_tail}")]
    Failed {
        what: String,
        status: String,
        log_tail: String,
    },
    #[error("the build of {what} took longer than {seconds} s (engine.build.timeout); its log ends:\n{log_tail}")]
    TimedOut {
        what: String,
        seconds: u64,
        log_tail: String,
    },
    #[error("the build succeeded, but {} is not there: check engine.build.artifact", .0.display())]
    NoArtifact(PathBuf),
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
        self.command().await?;
        let built = self
            .tree
            .join(self.fill(&self.build.artifact.to_string_lossy()));
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
        let start_error = |source| BuildError::Start {
            command: words.join(" "),
            source,
        };
        let log_file = File::create(self.log).map_err(start_error)?;
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .current_dir(self.tree)
            .stdin(Stdio::null())
            .stdout(log_file.try_clone().map_err(start_error)?)
            .stderr(log_file)
            .kill_on_drop(true);
        for name in environment::secret_names() {
            command.env_remove(name);
        }
        for (name, value) in &self.build.env {
            command.env(name, self.fill(value));
        }
        let mut child = command.spawn().map_err(start_error)?;
        match tokio::time::timeout(self.build.timeout, child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(BuildError::Failed {
                what: self.what.clone(),
                status: status.to_string(),
                log_tail: log::tail(self.log),
            }),
            Ok(Err(source)) => Err(start_error(source)),
            Err(_) => Err(BuildError::TimedOut {
                what: self.what.clone(),
                seconds: self.build.timeout.as_secs(),
                log_tail: log::tail(self.log),
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
