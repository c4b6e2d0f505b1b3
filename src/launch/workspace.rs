//! The folder `.gate/` of a project: worktrees and artifacts by commit, the shared build directory, and
//! the lock that keeps two sessions from measuring at once. It ignores itself for git.

use super::build::{self, Artifact, BuildError, Job};
use super::git::{GitError, Repository};
use super::tree;
use crate::{digest, plan};
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a lock may outlive its owner. A child has a copy of all that is open until it becomes the program that it
/// was started for, also where its parent is killed meanwhile.
const INHERITED: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    #[error("cannot use the folder {}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error(
        "another session is measuring here (process {0}): two at once would disturb each other"
    )]
    Locked(String),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// Held while measuring; released on drop, and by the kernel if we die.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "held for its drop")] File);

/// A project's working tree and its folder `.gate/`.
#[derive(Debug)]
pub struct Workspace {
    root: PathBuf,
    folder: PathBuf,
}

impl Workspace {
    /// Opens, and makes where needed, `.gate/` under the project's root.
    pub fn open(root: &Path) -> Result<Self, WorkspaceError> {
        let folder = root.join(".gate");
        let failed = |source| WorkspaceError::Folder {
            path: folder.clone(),
            source,
        };
        for name in ["worktrees", "artifacts", "logs", "runs"] {
            fs::create_dir_all(folder.join(name)).map_err(failed)?;
        }
        fs::write(folder.join(".gitignore"), "*\n").map_err(failed)?;
        Ok(Self {
            root: root.to_path_buf(),
            folder,
        })
    }

    /// Where result directories go by default.
    pub fn runs(&self) -> PathBuf {
        self.folder.join("runs")
    }

    /// Takes the right to measure, or says who has it.
    pub fn lock(&self) -> Result<Lock, WorkspaceError> {
        let path = self.folder.join("lock");
        let failed = |source| WorkspaceError::Folder {
            path: path.clone(),
            source,
        };
        let mut file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        let begun = Instant::now();
        while let Err(refusal) = file.try_lock() {
            if let TryLockError::Error(source) = refusal {
                return Err(failed(source));
            }
            let owner = fs::read_to_string(&path).map_err(failed)?;
            let is_held = owner.parse().is_ok_and(tree::runs);
            if is_held || begun.elapsed() > INHERITED {
                return Err(WorkspaceError::Locked(owner));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        file.set_len(0).map_err(failed)?;
        write!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(Lock(file))
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
        repository.worktree(&worktree, commit)?;
        // The project may be a folder of its repository.
        let within = self
            .root
            .strip_prefix(repository.root())
            .unwrap_or(Path::new(""));
        let short = &commit[..commit.len().min(12)];
        let job = Job {
            build,
            what: format!("base {short}"),
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

    use super::*;
    use std::process::Command;

    #[test]
    fn what_a_dead_session_left_open_is_waited_for() {
        let project = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(project.path()).unwrap();
        let held = workspace.lock().unwrap();
        let error = workspace.lock().unwrap_err().to_string();
        assert!(error.contains(&std::process::id().to_string()), "{error}");
        let mut dead = Command::new("true").spawn().unwrap();
        dead.wait().unwrap();
        fs::write(project.path().join(".gate/lock"), dead.id().to_string()).unwrap();
        let holder = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(held);
        });
        workspace.lock().unwrap();
        holder.join().unwrap();
    }
}
