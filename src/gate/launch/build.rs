//! From a tree of sources to an artifact that stays as it is while it is measured.

use super::artifact::{self, Artifact};
use super::log;
use super::process::{Process, ProcessError, Start};
use crate::sandbox::Policy;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use verdict::plan;

#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("cannot start the build")]
    Start(#[from] ProcessError),
    #[error("cannot end the build")]
    End(#[source] ProcessError),
    #[error("cannot wait for the build")]
    Wait(#[source] io::Error),
    #[error(
        "the build of {what} failed ({status}): see `command` of [engine.build]. From its log, {}:{}",
        log.display(),
        log::indented(log_tail)
    )]
    Failed {
        what: String,
        status: String,
        log: PathBuf,
        log_tail: String,
    },
    #[error(
        "the build of {what} took longer than {limit:?} (engine.build.timeout); its log ends:{}",
        log::indented(log_tail)
    )]
    TimedOut {
        what: String,
        limit: Duration,
        log_tail: String,
    },
    #[error("the build succeeded, but {} is not there: check engine.build.artifact", .0.display())]
    NoArtifact(PathBuf),
    #[error(
        "the build made {}, a link that leads out of where it was built: let engine.build.artifact name a file or \
         folder", .0.display()
    )]
    Escapes(PathBuf),
    #[error("cannot remove {}, which an earlier build made", path.display())]
    Stale { path: PathBuf, source: io::Error },
    #[error("cannot keep a copy of the artifact at {}", path.display())]
    Keep { path: PathBuf, source: io::Error },
}

/// One build to do.
pub struct Job<'a> {
    pub build: &'a plan::Build,
    /// For messages: `head`, `base 1234abcd`.
    pub what: String,
    /// The project's directory within the tree to build.
    pub tree: &'a Path,
    /// Fills `{target}`: a build directory that is kept between runs.
    pub target: &'a Path,
    pub log: &'a Path,
    /// Where the copy goes.
    pub keep: &'a Path,
    /// Variables that lead tools to caches of this build's own.
    pub env: Vec<(String, String)>,
    pub policy: Option<Policy>,
    pub on_ci: bool,
}

impl Job<'_> {
    /// Runs the build command and copies its artifact. Dropping the future kills the build.
    pub async fn run(&self) -> Result<Artifact, BuildError> {
        let begun = Instant::now();
        let artifact = self.build.artifact.to_string_lossy();
        let built = self.tree.join(self.fill(&artifact));
        // What another commit's build left there would pass for this one's. Elsewhere in the tree it may be a source.
        if artifact.starts_with("{target}") && built.symlink_metadata().is_ok() {
            // An earlier build may have put a link on the way to it.
            let folder = built.parent().and_then(|folder| folder.canonicalize().ok());
            let target = self.target.canonicalize().ok();
            if !folder
                .zip(target)
                .is_some_and(|(folder, target)| folder.starts_with(target))
            {
                return Err(BuildError::Escapes(built));
            }
            remove(&built).map_err(|source| BuildError::Stale {
                path: built.clone(),
                source,
            })?;
        }
        // Asked before the build, which may put links in their place.
        let own = [self.tree, self.target].map(Path::canonicalize);
        self.command().await?;
        let Ok(real) = built.canonicalize() else {
            return Err(BuildError::NoArtifact(built));
        };
        if !own.iter().flatten().any(|folder| real.starts_with(folder)) {
            return Err(BuildError::Escapes(built));
        }
        let keep = |source| BuildError::Keep {
            path: self.keep.to_path_buf(),
            source,
        };
        self.copy(&real).map_err(keep)?;
        Ok(Artifact {
            path: self.keep.to_path_buf(),
            sha256: artifact::sha256(self.keep).map_err(keep)?,
            build_s: begun.elapsed().as_secs_f64(),
            on_ci: self.on_ci,
        })
    }

    fn fill(&self, text: &str) -> String {
        text.replace("{target}", &self.target.to_string_lossy())
    }

    async fn command(&self) -> Result<(), BuildError> {
        let words: Vec<String> = self.build.command.iter().map(|w| self.fill(w)).collect();
        let own = self.build.env.iter();
        let own = own.map(|(name, value)| (name.clone(), self.fill(value)));
        let env: Vec<(String, String)> = self.env.iter().cloned().chain(own).collect();
        let mut process = Process::spawn(&Start {
            command: &words,
            env: &env,
            folder: self.tree,
            log: self.log,
            policy: self.policy.as_ref(),
        })?;
        let ended = process.wait(self.build.timeout).await;
        // Whatever the build left behind ends here, also after a success.
        process.stop().await.map_err(BuildError::End)?;
        let log_tail = || log::of_build(self.log);
        match ended.map_err(BuildError::Wait)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(BuildError::Failed {
                what: self.what.clone(),
                status: status.to_string(),
                log: self.log.to_path_buf(),
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
        let partial = tempfile::tempdir_in(folder)?;
        let copy = partial.path().join("artifact");
        artifact::refuse_links_out(built)?;
        artifact::copy(built, &copy)?;
        artifact::freeze(&copy)?;
        remove(self.keep)?;
        fs::rename(&copy, self.keep)
    }
}

/// Removes a file, a link or a folder with all in it, if it is there.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if found.is_dir() => fs::remove_dir_all(path).or_else(|_| {
            open_up(path)?;
            fs::remove_dir_all(path)
        }),
        Ok(_) => fs::remove_file(path),
    }
}

/// Makes every folder one that can be emptied: a build may have left them read-only.
fn open_up(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}
