//! One child, an engine or a build: spawned in a group of its own with its output in a log, watched,
//! and ended with everything below it on every way out.

use super::identity::program;
use super::watchdog::Watchdog;
use super::{environment, log, tree};
use crate::sandbox::Policy;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getpgid};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// How often an ending tree is looked at.
const POLL: Duration = Duration::from_millis(2);

/// How long a sandbox may take to end all that is in it, before that is killed from outside.
const LAST: Duration = Duration::from_secs(2);

/// How long an engine may take to end after SIGTERM before it is killed.
const GRACE: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error("cannot start `{command}`")]
    Spawn { command: String, source: io::Error },
    #[error("cannot write the log {}", path.display())]
    Log { path: PathBuf, source: io::Error },
    #[error("cannot start the shell that ends an engine if the gate is killed")]
    Watchdog(#[source] io::Error),
    #[error("cannot wait for `{command}`")]
    Wait { command: String, source: io::Error },
    #[error("no free port on 127.0.0.1")]
    Port(#[source] io::Error),
    #[error(
        "{0} of the processes that it left behind cannot be ended: they start themselves anew. End them by hand; a \
         kernel with Linux 6.12 or newer, or with user namespaces, ends them with the sandbox"
    )]
    Outlives(usize),
}

/// Whoever was below us before we started anything: what a shell left running in the background when it became the
/// gate. They are not ours to end.
static STRANGERS: OnceLock<Vec<tree::Id>> = OnceLock::new();

/// A child to start.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// The program and its arguments; never empty.
    pub command: &'a [String],
    /// Set on top of our environment less its secrets.
    pub env: &'a [(String, String)],
    /// Working directory.
    pub folder: &'a Path,
    /// Takes standard output and standard error.
    pub log: &'a Path,
    /// `None`: it may do what we may.
    pub policy: Option<&'a Policy>,
}

/// A running child. Dropping it kills its whole tree.
#[derive(Debug)]
pub struct Process {
    child: Child,
    pid: i32,
    log: PathBuf,
    spawned: Instant,
    ended: bool,
    /// Whoever was below us when it was started beside them: not this child's, and not its to end.
    beside: Vec<tree::Id>,
    /// A sandbox is around it, which ends with the child.
    in_sandbox: bool,
    /// Ends the child if the gate is killed; leads the group that it was started in. Dropped after its end.
    ward: Watchdog,
}

impl Process {
    /// Starts a child while another one runs, which stays when this one is ended.
    pub fn spawn_beside(start: &Start<'_>) -> Result<Self, ProcessError> {
        let ourselves = std::process::id().cast_signed();
        let mut beside = tree::below(ourselves, strangers());
        beside.retain(|id| id.pid != ourselves);
        let mut process = Self::spawn(start)?;
        process.beside = beside;
        Ok(process)
    }

    /// Starts a child. It sees no secret of our environment, neither by inheritance nor by reading ours.
    pub fn spawn(start: &Start<'_>) -> Result<Self, ProcessError> {
        let Start {
            command,
            env,
            folder,
            log,
            policy,
        } = *start;
        let log_error = |source| ProcessError::Log {
            path: log.to_path_buf(),
            source,
        };
        // Never through a link that an earlier child may have put there.
        let _ = std::fs::remove_file(log);
        let output = File::create_new(log).map_err(log_error)?;
        strangers();
        guard_ourselves();
        let spawn_error = |source| ProcessError::Spawn {
            command: command.join(" "),
            source,
        };
        // The launcher of a sandbox would start, and find no program.
        if policy.is_some() && program(&command[0], folder, env).is_none() {
            let missing = io::Error::new(io::ErrorKind::NotFound, "no such program");
            return Err(spawn_error(missing));
        }
        let words = policy.map_or_else(|| command.to_vec(), |policy| policy.wrap(command));
        let mut starting = Command::new(&words[0]);
        starting
            .args(&words[1..])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(output.try_clone().map_err(log_error)?)
            .stderr(output)
            .kill_on_drop(true);
        for name in environment::secret_names() {
            starting.env_remove(name);
        }
        starting.envs(env.iter().map(|(name, value)| (name, value)));
        let mut ward = Watchdog::start(folder).map_err(ProcessError::Watchdog)?;
        starting.process_group(ward.group());
        let spawned = Instant::now();
        let child = starting.spawn().map_err(spawn_error)?;
        let pid = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .ok_or_else(|| spawn_error(io::Error::other("it ended before it could be watched")))?;
        ward.watch(pid).map_err(ProcessError::Watchdog)?;
        Ok(Self {
            child,
            pid,
            log: log.to_path_buf(),
            spawned,
            ended: false,
            beside: Vec::new(),
            in_sandbox: policy.is_some(),
            ward,
        })
    }

    /// Waits for the end of a child that ends by itself; `None` if it does not `within` the time.
    pub async fn wait(&mut self, within: Duration) -> io::Result<Option<ExitStatus>> {
        timeout(within, self.child.wait()).await.ok().transpose()
    }

    /// When it was started.
    pub fn spawned(&self) -> Instant {
        self.spawned
    }

    /// How the process ended, if it has.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Root of the process tree.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    pub fn log_tail(&self) -> String {
        log::tail(&self.log)
    }

    /// Asks the child to end, kills what remains of its tree, and waits until all of it is gone. True if it ended by itself.
    ///
    /// # Errors
    /// Some of it starts itself anew faster than it can be killed: a measurement after this one would be disturbed.
    pub async fn stop(mut self) -> Result<bool, ProcessError> {
        let tree = tree::below(self.pid, &[]);
        self.signal(Signal::SIGTERM);
        // In a sandbox the engine is below the child, and may lead a group of its own.
        for id in &tree {
            let pid = Pid::from_raw(id.pid);
            if id.pid != self.pid && getpgid(Some(pid)) == Ok(pid) {
                let _ = killpg(pid, Signal::SIGTERM);
            }
        }
        let has_ended = timeout(GRACE, self.child.wait()).await.is_ok();
        self.kill(&tree)?;
        Ok(has_ended)
    }

    /// To the group that the child was started in, and to its own if it has made one.
    fn signal(&self, signal: Signal) {
        for group in [self.ward.group(), self.pid] {
            let _ = killpg(Pid::from_raw(group), signal);
        }
    }

    /// Kills the child, its groups, and by number whoever left these, until nobody is left. `before` are those who
    /// were below it earlier; orphans have become our own children, since nobody else but strangers is below us
    /// while this child lives.
    fn kill(&mut self, before: &[tree::Id]) -> Result<(), ProcessError> {
        self.ended = true;
        let begun = Instant::now();
        let _ = kill(Pid::from_raw(self.pid), Signal::SIGKILL);
        // The second process of a sandbox ends all that is in it, and then itself.
        while self.in_sandbox && begun.elapsed() < LAST && !self.left(before).is_empty() {
            self.bury(before);
            thread::sleep(POLL);
        }
        self.signal(Signal::SIGKILL);
        loop {
            let left = self.left(before);
            if left.is_empty() {
                break;
            }
            if begun.elapsed() > LAST + GRACE {
                return Err(ProcessError::Outlives(left.len()));
            }
            for id in &left {
                let _ = kill(Pid::from_raw(id.pid), Signal::SIGKILL);
            }
            self.bury(&left);
            thread::yield_now();
        }
        self.bury(before);
        Ok(())
    }

    /// Who is still alive of those that were below the child or are below us, but for the ward and for whom it was
    /// started beside.
    fn left(&self, before: &[tree::Id]) -> Vec<tree::Id> {
        let ourselves = std::process::id().cast_signed();
        let spared = [strangers(), &self.beside].concat();
        let mut all = tree::below(ourselves, &spared);
        all.extend(before);
        all.retain(|id| ![ourselves, self.ward.group()].contains(&id.pid) && tree::is_alive(*id));
        all
    }

    /// Orphans that are dead by now are ours to bury.
    fn bury(&self, orphans: &[tree::Id]) {
        let of_others = [self.pid, self.ward.group()];
        for id in orphans.iter().filter(|id| !of_others.contains(&id.pid)) {
            let _ = waitpid(Pid::from_raw(id.pid), Some(WaitPidFlag::WNOHANG));
        }
    }
}

/// See [`STRANGERS`]. Asked for the first time before anything is started.
fn strangers() -> &'static [tree::Id] {
    STRANGERS.get_or_init(|| {
        let ourselves = std::process::id().cast_signed();
        let mut below = tree::below(ourselves, &[]);
        below.retain(|id| id.pid != ourselves);
        below
    })
}

/// Orphans of our children become ours, so that a server which left its group can still be found; and no
/// child can read our memory or environment through `/proc`. Where the kernel refuses, the rest still holds.
fn guard_ourselves() {
    let _ = prctl::set_child_subreaper(true);
    let _ = prctl::set_dumpable(false);
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.kill(&[]);
        }
    }
}
