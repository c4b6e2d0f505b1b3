//! What each arm runs, and the [`Host`] that starts and stops it for the measuring protocol.

use super::{Base, Error, Options};
use crate::launch::{Artifact, Process, free_port};
use crate::load;
use crate::measure::{Host, Started};
use crate::plan::{Engine, Plan};
use crate::record::{Arm, Build, Comparison, Exit, Startup};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

/// Both arms of a session, or head alone.
pub(super) struct Arms {
    pub(super) comparison: Comparison,
    pub(super) builds: Vec<Build>,
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
        let Some((base, commit)) = base else {
            return Self {
                comparison: Comparison::Stored,
                builds: vec![head_build],
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
        Self::of(vec![base_build, head_build])
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
            };
        }
        Self::of(vec![build(Arm::Base, &options.base_args), head])
    }

    fn of(builds: Vec<Build>) -> Self {
        let same = builds[0].command == builds[1].command
            && builds[0].artifact_sha256 == builds[1].artifact_sha256;
        Self {
            comparison: if same {
                Comparison::SameBuild
            } else {
                Comparison::Interleaved
            },
            builds,
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
    pub(super) builds: &'a [Build],
    /// Working directory of the engines.
    pub(super) root: &'a Path,
    /// Where their logs go.
    pub(super) out: &'a Path,
    pub(super) clock: &'a load::SessionClock,
    pub(super) running: Option<Process>,
}

impl ArmHost<'_> {
    fn command(&self, arm: Arm, args: &[String], port: u16) -> Vec<String> {
        let build = Build::of(self.builds, arm);
        let words = build
            .map(|build| build.command.as_slice())
            .unwrap_or_default();
        let fill = |word: &String| word.replace("{port}", &port.to_string());
        words.iter().chain(args).map(fill).collect()
    }
}

impl Host for ArmHost<'_> {
    type Error = Error;

    async fn start(
        &mut self,
        arm: Arm,
        args: &[String],
        log: &str,
    ) -> Result<Result<Started, Exit>, Error> {
        let port = free_port()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let command = self.command(arm, args, port);
        let mut process =
            Process::spawn(&command, &self.engine.env, self.root, &self.out.join(log))?;
        let endpoint = load::Endpoint::new(address, self.engine);
        let probe = || async {
            load::probe(&endpoint)
                .await
                .map_err(|error| error.to_string())
        };
        match process
            .await_ready(address, self.engine.ready_timeout, probe)
            .await
        {
            Ok(ready) => {
                self.running = Some(process);
                let startup = Startup {
                    spawn_ns: self.clock.ns(ready.spawned),
                    port_open_ns: Some(self.clock.ns(ready.port_open)),
                    ready_ns: Some(self.clock.ns(ready.ready)),
                    stages: Vec::new(),
                };
                Ok(Ok(Started { endpoint, startup }))
            }
            Err(error) => {
                process.stop().await;
                Ok(Err(Exit::NeverReady {
                    detail: error.detail,
                    log_tail: error.log_tail,
                }))
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
