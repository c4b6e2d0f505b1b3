//! The folder `.gate/` of a project: worktrees and artifacts by commit, the shared build directory, and
//! the lock that keeps two sessions from measuring at once. It ignores itself for git.

use super::build::{self, Artifact, BuildError, Job};
use super::git::{GitError, Repository};
use super::lock::{Lock, LockError};
use crate::{digest, plan};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    #[error("cannot use the folder {}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// A project's working tree and its folder `.gate/`, with the right to measure, held until this is dropped.
#[derive(Debug)]
pub struct Workspace {
    root: PathBuf,
    folder: PathBuf,
    lock: Lock,
}

impl Workspace {
    /// Opens, and makes where needed, `.gate/` under the project's root, and takes the right to measure in it, or says
    /// who has it. What a session that has ended left holding it is waited for, until this future is dropped.
    pub async fn open(root: &Path) -> Result<Self, WorkspaceError> {
        let folder = root.join(".gate");
        let failed = |source| WorkspaceError::Folder {
            path: folder.clone(),
            source,
        };
        for name in ["worktrees", "artifacts", "logs", "runs"] {
            fs::create_dir_all(folder.join(name)).map_err(failed)?;
        }
        fs::write(folder.join(".gitignore"), "*\n").map_err(failed)?;
        let lock = Lock::take(&folder.join("lock")).await?;
        Ok(Self {
            root: root.to_path_buf(),
            folder,
            lock,
        })
    }

    /// Where result directories go by default.
    pub fn runs(&self) -> PathBuf {
        self.folder.join("runs")
    }

    /// Builds the working tree as it stands.
    pub async fn build_head(&self, build: &plan::Build) -> Result<Artifact, WorkspaceError> {
        let job = Job {
            build,
            what: "head".into(),
            tree: &self.root,
            target: &self.root.join("target"),
            log: &self.folder.join("logs/build-head.log"),
            keep: &self.folder.join("artifacts/head").join(file_name(build)),
        };
        Ok(job.run().await?)
    }

    /// Builds `commit` in a worktree of its own, or takes what an earlier run built from it.
    pub async fn build_commit(
        &self,
        repository: &Repository,
        build: &plan::Build,
        commit: &str,
    ) -> Result<Artifact, WorkspaceError> {
        let keep = self
            .folder
            .join("artifacts")
            .join(format!("{commit}-{}", build_key(build)))
            .join(file_name(build));
        if let Ok(artifact) = build::reuse(&keep, 0.0) {
            return Ok(artifact);
        }
        let worktree = self.folder.join("worktrees").join(commit);
        repository.worktree(&worktree, commit, &self.lock)?;
        // The project may be a folder of its repository.
        let within = self
            .root
            .strip_prefix(repository.root())
            .unwrap_or(Path::new(""));
        let short = &commit[..commit.len().min(12)];
        let job = Job {
            build,
            what: format!("commit {short}"),
            tree: &worktree.join(within),
            target: &self.folder.join("target"),
            log: &self.folder.join(format!("logs/build-{short}.log")),
            keep: &keep,
        };
        Ok(job.run().await?)
    }
}

/// Another command or environment builds another artifact from the same commit.
fn build_key(build: &plan::Build) -> String {
    let env = build.env.iter().flat_map(|(name, value)| [name, value]);
    let artifact = build.artifact.to_string_lossy();
    let words = build.command.iter().chain(env).map(String::as_bytes);
    let separated = words
        .chain([artifact.as_bytes()])
        .flat_map(|word| [word, b"\0".as_slice()]);
    digest::of_parts(separated)[..8].to_owned()
}

fn file_name(build: &plan::Build) -> PathBuf {
    build
        .artifact
        .file_name()
        .map_or_else(|| "artifact".into(), PathBuf::from)
}
