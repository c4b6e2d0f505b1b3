//! The lock of a folder `.gate/`: who has it measures, and nobody else. Refuses to know: what the folder holds.

use super::tree;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// How long a lock that outlives its owner is waited for: a git that a killed session left may be making a worktree, and
/// any child has a copy of all that is open until it becomes the program that it was started for. Nobody sees this
/// wait, and a long one looks like a hang, so it is short; what takes longer is told.
const INHERITED: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("cannot use the lock {}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(
        "another session is measuring here (process {0}): two at once would disturb each other"
    )]
    Held(String),
    #[error(
        "the session that measured here has ended, but a program that it started still holds {}",
        .0.display()
    )]
    Left(PathBuf),
}

/// Held while measuring; released on drop, and by the kernel if we die.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// Takes it, or says who has it. Nothing blocks: whoever drops the future has ended the wait.
    pub async fn take(path: &Path) -> Result<Self, LockError> {
        let failed = |source| LockError::File {
            path: path.to_path_buf(),
            source,
        };
        let mut file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed)?;
        let begun = Instant::now();
        while let Err(refusal) = file.try_lock() {
            if let TryLockError::Error(source) = refusal {
                return Err(failed(source));
            }
            let owner = fs::read_to_string(path).map_err(failed)?;
            if owner.parse().is_ok_and(tree::runs) {
                return Err(LockError::Held(owner));
            }
            if begun.elapsed() > INHERITED {
                return Err(LockError::Left(path.to_path_buf()));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        file.set_len(0).map_err(failed)?;
        write!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(Self(file))
    }

    /// For a child that shall hold it too, until both have ended.
    pub fn handle(&self) -> io::Result<Stdio> {
        Ok(self.0.try_clone()?.into())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

    use super::*;
    use std::process::Command;
    use std::thread;

    #[tokio::test]
    async fn what_a_dead_session_left_open_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let held = Lock::take(&path).await.unwrap();
        let error = Lock::take(&path).await.unwrap_err().to_string();
        assert!(error.contains(&std::process::id().to_string()), "{error}");
        let mut dead = Command::new("true").spawn().unwrap();
        dead.wait().unwrap();
        fs::write(&path, dead.id().to_string()).unwrap();
        // Whoever is told to stop need not wait until the end.
        let patience = Duration::from_millis(20);
        let given_up = tokio::time::timeout(patience, Lock::take(&path)).await;
        assert!(given_up.is_err(), "{given_up:?}");
        let holder = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            drop(held);
        });
        Lock::take(&path).await.unwrap();
        holder.join().unwrap();
    }
}
