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
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

/// How often an ending tree is looked at.
const POLL: Duration = Duration::from_millis(2);

/// How long a sandbox may take to end all that is in it, before that is killed from outside.
const LAST: Duration = Duration::from_secs(2);

/// How long to wait before a starting engine is asked again, by how long it has taken: at most 0.2 % more, or
/// 1 ms, since that is the error of its start-up times; and not a thousand times a second for ten minutes.
fn pause(so_far: Duration) -> Duration {
    (so_far / 500).clamp(Duration::from_millis(1), Duration::from_millis(50))
}

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

/// What servers write, in lower case, where their port is taken.
const PORT_TAKEN: [&str; 4] = [
    "address already in use",
    "address in use",
    "eaddrinuse",
    // llama.cpp, which says no more.
    "couldn't bind http server socket",
];

/// Whoever was below us before we started anything: what a shell left running in the background when it became the
/// gate. They are not ours to end.
static STRANGERS: OnceLock<Vec<tree::Id>> = OnceLock::new();

/// Time for an engine to end by itself, or to load its model, once probes have found it hopeless.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why an engine generated no token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotReady {
    pub said: String,
    /// Waiting does not help.
    pub is_hopeless: bool,
}

/// Why an engine never became ready.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct StartError {
    pub detail: String,
    pub log_tail: String,
    /// The process was gone.
    pub ended: bool,
}

impl StartError {
    /// Whether the engine ended and says that its port was taken.
    fn says_its_port_is_taken(&self) -> bool {
        let log = self.log_tail.to_ascii_lowercase();
        self.ended && PORT_TAKEN.iter().any(|words| log.contains(words))
    }

    /// Whether the engine ended since its port was taken: the port was free when it was drawn, so that
    /// is a race which somebody else won, and says nothing about the engine. Its word alone is not enough: with the engine
    /// gone, somebody else must have the port.
    pub fn lost_its_port(&self, port: u16) -> bool {
        self.says_its_port_is_taken() && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err()
    }
}

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

/// Moments of a start.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    pub spawned: Instant,
    pub port_open: Instant,
    /// The probe that was answered with a token was sent.
    pub asked: Instant,
    /// A token was generated.
    pub ready: Instant,
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

/// A port that was free a moment ago.
pub fn free_port() -> Result<u16, ProcessError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(ProcessError::Port)?;
    Ok(listener.local_addr().map_err(ProcessError::Port)?.port())
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

    /// Waits until `probe` says that a token was generated. The last error of a probe is shown if time runs out, or if probes
    /// have found for some seconds that waiting does not help.
    pub async fn await_ready<F, Fut>(
        &mut self,
        address: SocketAddr,
        within: Duration,
        probe: F,
    ) -> Result<Ready, StartError>
    where
        F: Fn() -> Fut,
        Fut: Future<Output = Result<(), NotReady>>,
    {
        let mut port_open = None;
        let mut said = None;
        let mut hopeless: Option<Instant> = None;
        while self.spawned.elapsed() < within {
            if let Some(status) = self.exited() {
                let detail = format!("the engine ended at its start ({status})");
                return Err(self.start_error(detail, true));
            }
            // Another server may hold the port, and this engine end for want of it.
            if hopeless.is_some_and(|since| since.elapsed() >= PATIENCE) {
                return Err(self.start_error(said.unwrap_or_default(), false));
            }
            if port_open.is_none() && TcpStream::connect(address).await.is_ok() {
                port_open = Some(Instant::now());
            }
            if let Some(port_open) = port_open {
                let left = within.saturating_sub(self.spawned.elapsed());
                let asked = Instant::now();
                match timeout(left, probe()).await {
                    // Somebody else may have taken the port and answer there.
                    Ok(Ok(())) if self.exited().is_none() => {
                        return Ok(Ready {
                            spawned: self.spawned,
                            port_open,
                            asked,
                            ready: Instant::now(),
                        });
                    }
                    Ok(Ok(())) => {}
                    Ok(Err(answer)) => {
                        let since = hopeless.filter(|_| answer.is_hopeless);
                        hopeless = answer
                            .is_hopeless
                            .then(|| since.unwrap_or_else(Instant::now));
                        said = Some(answer.said);
                    }
                    // The deadline cuts the last probe off: what an earlier one was told says more.
                    Err(_) => {}
                }
            }
            sleep(pause(self.spawned.elapsed())).await;
        }
        let said = said.unwrap_or_else(|| match port_open {
            None => format!("nothing listens on {address}"),
            Some(_) => "the probe got no answer".to_owned(),
        });
        let detail = format!(
            "the engine generated no token within {} s (engine.ready_timeout): {said}",
            within.as_secs_f64()
        );
        Err(self.start_error(detail, false))
    }

    fn start_error(&self, detail: String, ended: bool) -> StartError {
        StartError {
            detail,
            log_tail: log::tail(&self.log),
            ended,
        }
    }

    /// Waits for the end of a child that ends by itself; `None` if it does not `within` the time.
    pub async fn wait(&mut self, within: Duration) -> io::Result<Option<ExitStatus>> {
        timeout(within, self.child.wait()).await.ok().transpose()
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

    /// Asks the child to end, kills what remains of its tree, and waits until all of it is gone.
    ///
    /// # Errors
    /// Some of it starts itself anew faster than it can be killed: a measurement after this one would be disturbed.
    pub async fn stop(mut self) -> Result<(), ProcessError> {
        let tree = tree::below(self.pid, &[]);
        self.signal(Signal::SIGTERM);
        // In a sandbox the engine is below the child, and may lead a group of its own.
        for id in &tree {
            let pid = Pid::from_raw(id.pid);
            if id.pid != self.pid && getpgid(Some(pid)) == Ok(pid) {
                let _ = killpg(pid, Signal::SIGTERM);
            }
        }
        let _ = timeout(GRACE, self.child.wait()).await;
        self.kill(&tree)
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

#[cfg(test)]
mod tests {
    use super::{NotReady, Process, Start, StartError};
    use std::cell::Cell;
    use std::net::TcpListener;
    use std::time::Duration;

    /// The deadline cuts off a probe that hangs; what the engine said before is not lost.
    #[test]
    fn a_probe_that_hangs_does_not_hide_an_earlier_answer() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let error = runtime.block_on(async {
            let mut process = Process::spawn(&Start {
                command: &["sleep".to_owned(), "60".to_owned()],
                env: &[],
                folder: folder.path(),
                log: &folder.path().join("log"),
                policy: None,
            })
            .unwrap();
            let asked = Cell::new(0);
            let probe = || async {
                asked.set(asked.get() + 1);
                match asked.get() {
                    1 => Err(NotReady {
                        said: "the worker is dead".to_owned(),
                        is_hopeless: false,
                    }),
                    _ => std::future::pending().await,
                }
            };
            let within = Duration::from_secs(2);
            process.await_ready(address, within, probe).await
        });
        let error = error.err().unwrap();
        assert!(
            error.detail.ends_with("the worker is dead"),
            "{}",
            error.detail
        );
    }

    #[test]
    fn a_lost_port_is_told_from_an_engine_that_dies() {
        let lost = |log: &str, ended| {
            let error = StartError {
                detail: String::new(),
                log_tail: log.into(),
                ended,
            };
            error.says_its_port_is_taken()
        };
        assert!(lost("error: Address already in use (os error 98)", true));
        assert!(lost("OSError: [Errno 98] EADDRINUSE", true));
        let llama = "start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 8080";
        assert!(lost(llama, true));
        assert!(!lost("error: out of memory", true));
        // It lives on: it may try again, or the line is about something else.
        assert!(!lost("metrics: address already in use", false));
    }
}
