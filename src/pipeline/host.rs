//! What each arm runs, and the [`Host`] that starts and stops it for the measuring protocol.

use super::{Base, Error, Options};
use crate::launch::{self, Artifact, Process, StartError, free_port};
use crate::load;
use crate::measure::{Configuration, Host, Started};
use crate::plan::{Engine, Plan};
use crate::record::{Arm, Build, Comparison, Exit, PageCache, Startup};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Both arms of a session, or head alone.
pub(super) struct Arms {
    pub(super) comparison: Comparison,
    pub(super) builds: Vec<Build>,
    /// The built files; none where nothing is built.
    pub(super) artifacts: Vec<(Arm, PathBuf)>,
}

impl Arms {
    /// Arms made from sources. `base` is missing in a stored comparison.
    pub(super) fn built(
        plan: &Plan,
        options: &Options,
        (head, commit, dirty): (Artifact, Option<String>, bool),
        base: Option<(Artifact, String)>,
    ) -> Self {
        let head_build = Build {
            arm: Arm::Head,
            commit,
            dirty,
            artifact_sha256: Some(head.sha256.clone()),
            command: command(&plan.engine, Some(&head.path), &options.head_args),
            build_s: head.build_s,
        };
        let mut artifacts = vec![(Arm::Head, head.path)];
        let Some((base, commit)) = base else {
            return Self {
                comparison: Comparison::Stored,
                builds: vec![head_build],
                artifacts,
            };
        };
        let base_build = Build {
            arm: Arm::Base,
            commit: Some(commit),
            dirty: false,
            artifact_sha256: Some(base.sha256),
            command: command(&plan.engine, Some(&base.path), &options.base_args),
            build_s: base.build_s,
        };
        artifacts.push((Arm::Base, base.path));
        Self::of(vec![base_build, head_build], artifacts)
    }

    /// An engine that is not built here: both arms start the same command.
    pub(super) fn without_build(plan: &Plan, options: &Options) -> Self {
        let build = |arm, args: &[String]| Build {
            arm,
            commit: None,
            dirty: false,
            artifact_sha256: None,
            command: command(&plan.engine, None, args),
            build_s: 0.0,
        };
        let head = build(Arm::Head, &options.head_args);
        if options.base == Base::Stored {
            return Self {
                comparison: Comparison::Stored,
                builds: vec![head],
                artifacts: Vec::new(),
            };
        }
        let base = build(Arm::Base, &options.base_args);
        Self::of(vec![base, head], Vec::new())
    }

    fn of(builds: Vec<Build>, artifacts: Vec<(Arm, PathBuf)>) -> Self {
        let same = builds[0].command == builds[1].command
            && builds[0].artifact_sha256 == builds[1].artifact_sha256;
        Self {
            comparison: if same {
                Comparison::SameBuild
            } else {
                Comparison::Interleaved
            },
            builds,
            artifacts,
        }
    }
}

/// The engine's command line with the artifact filled in and the port left open.
fn command(engine: &Engine, artifact: Option<&Path>, args: &[String]) -> Vec<String> {
    let fill = |word: &String| match artifact {
        Some(path) => word.replace("{artifact}", &path.to_string_lossy()),
        None => word.clone(),
    };
    engine
        .serve
        .iter()
        .map(fill)
        .chain(args.iter().cloned())
        .collect()
}

/// Starts the engines of a session, one at a time.
pub(super) struct ArmHost<'a> {
    pub(super) engine: &'a Engine,
    pub(super) arms: &'a Arms,
    /// Working directory of the engines.
    pub(super) root: &'a Path,
    /// Where their logs go.
    pub(super) out: &'a Path,
    pub(super) clock: &'a load::SessionClock,
    /// The served model's, if the configuration names one.
    pub(super) tokenizer: Option<Arc<load::Tokenizer>>,
    pub(super) running: Option<Process>,
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

    fn files(&self, arm: Arm) -> Vec<PathBuf> {
        let built = self.arms.artifacts.iter().find(|(of, _)| *of == arm);
        let fill = |name: &String| match built {
            Some((_, path)) => name.replace("{artifact}", &path.to_string_lossy()),
            None => name.clone(),
        };
        let files = self.engine.files.iter().map(fill);
        files.map(|name| self.root.join(name)).collect()
    }

    /// One try at one port.
    async fn try_start(
        &mut self,
        arm: Arm,
        args: &[String],
        log: &Path,
    ) -> Result<Result<Started, StartError>, Error> {
        let port = free_port()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let command = self.command(arm, args, port);
        let mut process = Process::spawn(&command, &self.engine.env, self.root, log)?;
        let endpoint = load::Endpoint::new(address, self.engine, self.tokenizer.clone());
        let probe = || async {
            load::probe(&endpoint)
                .await
                .map_err(|error| error.to_string())
        };
        let within = self.engine.ready_timeout;
        let ready = match process.await_ready(address, within, probe).await {
            Ok(ready) => ready,
            Err(error) => {
                process.stop().await;
                return Ok(Err(error));
            }
        };
        let startup = Startup {
            spawn_ns: self.clock.ns(ready.spawned),
            port_open_ns: Some(self.clock.ns(ready.port_open)),
            ready_ns: Some(self.clock.ns(ready.ready)),
            resident_share: None,
            stages: Vec::new(),
        };
        let pid = Some(process.pid());
        self.running = Some(process);
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
        let Configuration { args, page_cache } = configuration;
        let log = self.out.join(log);
        let mut again = true;
        loop {
            let resident_share = self.prepare(arm, *page_cache).await?;
            match self.try_start(arm, args, &log).await? {
                Ok(mut started) => {
                    started.startup.resident_share = resident_share;
                    return Ok(Ok(started));
                }
                // Once: an engine that always says so takes a port of its own choice.
                Err(error) if again && error.lost_its_port() => again = false,
                Err(error) => {
                    return Ok(Err(Exit::NeverReady {
                        detail: error.detail,
                        log_tail: error.log_tail,
                    }));
                }
            }
        }
    }

    async fn stop(&mut self) -> Result<Option<Exit>, Error> {
        let Some(mut process) = self.running.take() else {
            return Ok(None);
        };
        let exit = process.exited().map(|status| Exit::Crashed {
            detail: format!("the engine ended while it was measured ({status})"),
            log_tail: process.log_tail(),
        });
        process.stop().await;
        Ok(exit)
    }

    fn log_tail(&self) -> String {
        self.running
            .as_ref()
            .map(Process::log_tail)
            .unwrap_or_default()
    }
}
