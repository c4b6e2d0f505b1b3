//! The [`Host`] that starts and stops the engines of a session.

use super::arms::{Arms, filled, made_of, own_modules};
use super::{Error, Event};
use crate::launch::{
    self, Limits, NotReady, Patience, Process, ProcessError, Start, StartError, TreeFiles,
    Workspace, await_ready, free_port,
};
use crate::measure::{Configuration, Ended, Host, Started};
use client::ProbeError;
use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use verdict::plan::{Engine, Suite, Workload};
use verdict::record::{Arm, Build, Exit, Launch, PageCache, Startup, SuiteRun};

/// How long an engine that answers no more may take to be gone: its connections end before it does.
const LAST_BREATH: Duration = Duration::from_secs(1);

/// The kernel watches no files.
struct Unwatched;

/// Starts the engines of a session.
pub struct ArmHost<'a> {
    pub engine: &'a Engine,
    pub arms: &'a Arms,
    pub workspace: &'a Workspace,
    /// Working directory of the engines.
    pub root: &'a Path,
    /// Where their logs go.
    pub out: &'a Path,
    pub clock: &'a client::SessionClock,
    /// Gets a line about an engine that listens on another port than its own.
    pub on_event: &'a dyn Fn(Event),
    /// The served model's, if the configuration names one.
    pub tokenizer: Option<Arc<client::Tokenizer>>,
    /// In the order in which they were started.
    pub running: Vec<Process>,
    /// An engine that has generated no token yet, and what was last heard of it: the session may end before it has.
    pub starting: RefCell<Option<(Arm, String)>>,
    /// The failure of inotify was reported.
    is_unwatched: Cell<bool>,
    /// No engine has started yet.
    is_first: bool,
    /// The first engine, until it was asked for its list of models.
    unasked: RefCell<Option<client::Endpoint>>,
    /// The longest time so far from an engine's open port to its first token.
    answered_after: Cell<Option<Duration>>,
}

impl<'a> ArmHost<'a> {
    /// A host with no engine running.
    ///
    /// # Errors
    /// The tokenizer that the engine's configuration names cannot be read.
    pub fn new(
        engine: &'a Engine,
        arms: &'a Arms,
        workspace: &'a Workspace,
        root: &'a Path,
        out: &'a Path,
        clock: &'a client::SessionClock,
        on_event: &'a dyn Fn(Event),
    ) -> Result<Self, client::TokenizerError> {
        let path = engine.tokenizer.as_ref().map(|path| root.join(path));
        let tokenizer = path.as_deref().map(client::Tokenizer::open).transpose()?;
        Ok(Self {
            engine,
            arms,
            workspace,
            root,
            out,
            clock,
            on_event,
            tokenizer: tokenizer.map(Arc::new),
            running: Vec::new(),
            starting: RefCell::default(),
            is_unwatched: Cell::default(),
            is_first: true,
            unasked: RefCell::default(),
            answered_after: Cell::default(),
        })
    }
}

impl ArmHost<'_> {
    fn command(&self, arm: Arm, args: &[String], port: u16) -> Vec<String> {
        let build = Build::of(&self.arms.builds, arm);
        let words = build
            .map(|build| build.command.as_slice())
            .unwrap_or_default();
        let fill = |word: &String| word.replace("{port}", &port.to_string());
        words.iter().chain(args).map(fill).collect()
    }

    /// Brings the engine's files into the state that a gate wants; the share of their pages in memory.
    async fn prepare(&self, arm: Arm, wanted: Option<PageCache>) -> Result<Option<f64>, Error> {
        let Some(state) = wanted else {
            return Ok(None);
        };
        let files = self.files(arm);
        // Reading a model's weights takes a while, in which a signal must still be heard.
        let prepared = tokio::task::spawn_blocking(move || launch::prepare(state, &files)).await;
        match prepared {
            Ok(share) => Ok(share?),
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }

    /// The first file of the arm's engine that was changed since the session began, as a sentence; `None`: none was.
    async fn altered(&self, arm: Arm) -> Option<String> {
        let build = Build::of(&self.arms.builds, arm)?.clone();
        let artifact = self.arms.artifact(arm).map(Path::to_path_buf);
        let made_of = made_of(self.engine, self.root, &build, artifact.as_deref());
        // Reading takes a while, in which a signal must still be heard.
        let compared = tokio::task::spawn_blocking(move || {
            let now = artifact
                .as_deref()
                .map(|path| launch::sha256(path).unwrap_or_default());
            if let (Some(then), Some(now)) = (&build.artifact_sha256, now)
                && *then != now
            {
                return Some(format!(
                    "its artifact was written to since it was built: SHA-256 {then}, now {now}"
                ));
            }
            let mut all = made_of.into_iter();
            all.find_map(|(name, path)| {
                let then = build.files.iter().find(|file| file.name == name)?;
                let is_same = launch::identify(&name, &path).as_ref() == Some(then);
                (!is_same).then(|| format!("{name} was written to since the session began"))
            })
        });
        match compared.await {
            Ok(altered) => altered,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }

    fn files(&self, arm: Arm) -> Vec<PathBuf> {
        let artifact = self.arms.artifact(arm);
        let files = self.engine.files.iter();
        files
            .map(|name| self.root.join(filled(name, artifact)))
            .collect()
    }

    /// In a sentence's words, what the first launch that is not over waits for, of this position, or one that runs beside
    /// it, if its engine is not ready yet.
    pub fn starting(&self, position: usize) -> Option<String> {
        let starting = self.starting.borrow();
        let (arm, heard) = starting.as_ref()?;
        let (arm, position) = (arm.name(), position + self.running.len());
        Some(format!(
            "launch {position} ({arm}) had generated no token yet: {heard}"
        ))
    }

    /// Says that the first engine answers for a model's name that it does not list. Asked at its end, where no time is taken.
    async fn tell_other_models(&self, endpoint: &client::Endpoint) {
        const LONGEST: Duration = Duration::from_secs(1);
        let listed = tokio::time::timeout(LONGEST, client::other_models(endpoint)).await;
        if let Ok(Some(served)) = listed {
            let model = &endpoint.model;
            let line = format!(
                "the engine answers for `{model}` (engine.model), which its /v1/models does not list; it lists {served}"
            );
            (self.on_event)(Event::Step { line });
        }
    }

    /// Watches the files that are not the arm's.
    fn watch(&self, arm: Arm) -> Result<Option<TreeFiles<'_>>, Unwatched> {
        let mut foreign = self.arms.foreign.iter();
        let Some((_, files)) = foreign.find(|(of, _)| *of == arm) else {
            return Ok(None);
        };
        let error = match TreeFiles::watch(files) {
            Ok(watch) => return Ok(Some(watch)),
            Err(error) => error,
        };
        if !self.is_unwatched.replace(true) {
            let line = format!(
                "whether an arm reads the working tree's files in place of its own is not watched: inotify: {error}"
            );
            (self.on_event)(Event::Step { line });
        }
        Err(Unwatched)
    }

    /// One try at one port.
    async fn try_start(
        &mut self,
        arm: Arm,
        args: &[String],
        log: &Path,
        port: u16,
    ) -> Result<Result<Started, StartError>, Error> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let command = self.command(arm, args, port);
        // Before the first engine, so that all have the limit that the client needs.
        client::allow_files();
        let mut files = self.files(arm);
        files.extend(self.arms.artifact(arm).map(Path::to_path_buf));
        let around = self.workspace.engine(arm, self.engine, &command, &files)?;
        let artifact = self.arms.artifact(arm);
        let env = around.env.into_iter();
        let env = env.map(|(name, value)| (name, filled(&value, artifact)));
        let own = own_modules(artifact, &command);
        let env: Vec<(String, String)> = own.into_iter().chain(env).collect();
        let start = Start {
            command: &command,
            env: &env,
            folder: self.root,
            log,
            policy: around.policy.as_ref(),
        };
        let tree_files = self.watch(arm);
        let mut process = match self.running.is_empty() {
            true => Process::spawn(&start)?,
            false => Process::spawn_beside(&start)?,
        };
        let starting = &self.starting;
        let hear = |heard: &str| *starting.borrow_mut() = Some((arm, heard.to_owned()));
        hear("it had not answered");
        let (engine, others) = (self.engine, self.answered_after.get());
        let tokenizer = &self.tokenizer;
        let probe = |asked| async move {
            let endpoint = client::Endpoint::new(asked, engine, tokenizer.clone());
            let probed = client::probe(&endpoint).await;
            probed.map_err(|error| {
                let patience = patience(&error, others);
                let said = match patience {
                    Some(Patience::For(_)) => format!(
                        "every request fails ({error}), and an earlier launch answered soon after its port opened"
                    ),
                    _ => error.to_string(),
                };
                if asked == address {
                    hear(&said);
                }
                NotReady { said, patience }
            })
        };
        let limits = Limits::of(
            self.engine.ready_timeout,
            self.answered_after.get().is_none(),
        );
        let tell = |said: &str| {
            hear(said);
            let line = format!("{}: {said}", arm.name());
            (self.on_event)(Event::Step { line });
        };
        let ready = await_ready(&mut process, address, limits, probe, tell).await;
        self.starting.take();
        let ready = match ready {
            Ok(ready) => ready,
            Err(error) => {
                process.stop().await?;
                return Ok(Err(error));
            }
        };
        let answered = ready.ready - ready.port_open;
        let longest = self.answered_after.get().unwrap_or_default().max(answered);
        self.answered_after.set(Some(longest));
        let tree_unwatched = tree_files.is_err();
        let read = tree_files.ok().flatten().map(TreeFiles::read);
        let read = read.unwrap_or_default();
        let startup = Startup {
            spawn_ns: self.clock.ns(ready.spawned),
            port_open_ns: Some(self.clock.ns(ready.port_open)),
            probe_ns: Some(self.clock.ns(ready.asked)),
            ready_ns: Some(self.clock.ns(ready.ready)),
            resident_share: None,
            stages: Vec::new(),
            tree_files: [read, self.arms.foreign_settings(arm, self.root)].concat(),
            tree_unwatched,
        };
        let endpoint = client::Endpoint::new(address, self.engine, self.tokenizer.clone());
        if self.is_first {
            self.unasked.replace(Some(endpoint.clone()));
            self.is_first = false;
        }
        let pid = Some(process.pid());
        self.running.push(process);
        Ok(Ok(Started {
            endpoint,
            startup,
            pid,
        }))
    }
}

impl Host for ArmHost<'_> {
    type Error = Error;

    async fn start(
        &mut self,
        arm: Arm,
        configuration: &Configuration,
        log: &str,
    ) -> Result<Result<Started, Exit>, Error> {
        let Configuration {
            args, page_cache, ..
        } = configuration;
        let log = self.out.join(log);
        if let Some(detail) = self.altered(arm).await {
            return Ok(Err(Exit::Altered { detail }));
        }
        let mut again = true;
        loop {
            let resident_share = self.prepare(arm, *page_cache).await?;
            let port = free_port().map_err(ProcessError::Port)?;
            match self.try_start(arm, args, &log, port).await? {
                Ok(mut started) => {
                    started.startup.resident_share = resident_share;
                    return Ok(Ok(started));
                }
                // Once: an engine that always says so takes a port of its own choice.
                Err(error) if again && error.lost_its_port(port) => again = false,
                Err(error) => {
                    let (detail, log_tail) = error.told(port);
                    return Ok(Err(Exit::NeverReady { detail, log_tail }));
                }
            }
        }
    }

    fn no_room(&self, arm: Arm, exit: &Exit) -> Error {
        let (detail, log) = match exit {
            Exit::NeverReady { detail, log_tail } => (detail.as_str(), log_tail.as_str()),
            _ => ("it did not start", ""),
        };
        Error::Failed(format!(
            "{}'s engine starts alone, and not beside the other arm's ({detail}): two of them do not fit here. Leave \
             `interleave` out of gates/gate.toml, or give the engine less memory; its log ends:\n{log}",
            arm.name()
        ))
    }

    async fn suite(
        &mut self,
        launch: &Launch,
        started: &Started,
        workload: &Workload,
        suite: &Suite,
    ) -> Result<SuiteRun, Error> {
        self.test(launch, started, workload, suite).await
    }

    async fn stop(&mut self, silent: Option<String>) -> Result<Ended, Error> {
        let Some(mut process) = self.running.pop() else {
            return Ok(Ended::by_itself(Exit::Stopped));
        };
        let unasked = self.unasked.take().filter(|_| silent.is_none());
        if let Some(first) = unasked {
            self.tell_other_models(&first).await;
        }
        // A process that is gone explains a silence better than the silence does.
        let ended = match silent {
            Some(_) => process.wait(LAST_BREATH).await.ok().flatten(),
            None => process.exited(),
        };
        let exit = match (ended, silent) {
            (Some(status), _) => Exit::Crashed {
                detail: format!("the engine exited during the run ({status})"),
                log_tail: process.log_tail(),
            },
            (None, Some(detail)) => Exit::Hung {
                detail,
                log_tail: process.log_tail(),
            },
            (None, None) => Exit::Stopped,
        };
        let killed = !process.stop().await?;
        Ok(Ended { exit, killed })
    }
}

/// When to give up on an engine that answers `error`. `others`: the longest time so far from an open port to the first token.
/// An engine that loads its model answers 503, or has no such route yet.
fn patience(error: &ProbeError, others: Option<Duration>) -> Option<Patience> {
    const LEAST: Duration = Duration::from_secs(180);
    const TIMES: u32 = 10;
    const LOADS: [u16; 5] = [404, 408, 425, 429, 503];
    let fails = match error {
        ProbeError::OtherModel { .. } => return Some(Patience::Hopeless),
        ProbeError::Status { status, .. } => *status >= 400 && !LOADS.contains(status),
        ProbeError::Broken(_) | ProbeError::NoToken(_) | ProbeError::Unreadable(_) => true,
        ProbeError::Refused | ProbeError::Silent(_) => false,
    };
    let others = others.filter(|_| fails)?;
    Some(Patience::For(LEAST.max(TIMES * others)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_that_fails_every_request_has_ten_times_as_long_as_another_one_took() {
        let status = |status| ProbeError::Status {
            status,
            message: String::new(),
        };
        let broken = || ProbeError::Broken("closed".into());
        let seconds = |s| Some(Duration::from_secs(s));
        let waits = |s| Some(Patience::For(Duration::from_secs(s)));
        for (error, others, expect) in [
            (broken(), None, None),
            (broken(), seconds(1), waits(180)),
            (broken(), seconds(90), waits(900)),
            (status(500), seconds(1), waits(180)),
            (status(400), seconds(1), waits(180)),
            (status(503), seconds(1), None),
            (status(404), seconds(1), None),
            (ProbeError::Refused, seconds(1), None),
        ] {
            assert_eq!(patience(&error, others), expect, "{error}");
        }
    }
}
