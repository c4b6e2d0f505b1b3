//! One block: a launch of each arm, and in each launch every workload of the gates that share it.

use super::{machine, order, stages};
use crate::load;
use crate::plan::{Engine, Plan, Workload};
use crate::record::{Arm, Exit, Launch, Startup};

/// Starts and stops engines; the pipeline gives one that knows builds and processes.
pub trait Host {
    /// Starts an engine of `arm` with further arguments and waits until it is ready. An engine that
    /// never is gives an [`Exit`]; an `Err` is a failure of our own (no port, no disk).
    fn start(
        &mut self,
        arm: Arm,
        args: &[String],
        log: &str,
    ) -> impl Future<Output = Result<Result<Started, Exit>, Self::Error>>;

    /// Stops the engine; says how it ended if that was before it was asked to.
    fn stop(&mut self) -> impl Future<Output = Result<Option<Exit>, Self::Error>>;

    /// The end of the running engine's log.
    fn log_tail(&self) -> String;

    type Error;
}

/// A ready engine.
#[derive(Clone, Debug)]
pub struct Started {
    pub endpoint: load::Endpoint,
    pub startup: Startup,
}

/// What the session does at the moment, for whoever shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    Starting {
        arm: Arm,
        position: u32,
    },
    Running {
        arm: Arm,
        position: u32,
        workload: String,
        done: u32,
        of: u32,
    },
}

/// What stays the same for all blocks of a session.
pub struct Protocol<'a> {
    pub plan: &'a Plan,
    pub seed: u64,
    /// Both arms, or head alone.
    pub arms: &'a [Arm],
    pub clock: &'a load::SessionClock,
}

impl Protocol<'_> {
    /// Measures one block and appends its launches to `done`. `after_launch` is called after each, for
    /// checkpoints. An engine that fails does not end the block: whether the other arm fails too decides
    /// who is to blame.
    pub async fn block<H: Host>(
        &self,
        block: u32,
        host: &mut H,
        done: &mut Vec<Launch>,
        progress: &dyn Fn(Progress),
        mut after_launch: impl FnMut(&[Launch]) -> Result<(), H::Error>,
    ) -> Result<(), H::Error> {
        for args in self.configurations() {
            for arm in order::arms(self.seed, block, self.arms) {
                let launch = self.launch(block, arm, &args, host, done, progress).await?;
                done.push(launch);
                after_launch(done)?;
            }
        }
        Ok(())
    }

    /// The distinct engine configurations: gates that want the same one share launches.
    fn configurations(&self) -> Vec<Vec<String>> {
        let mut distinct = Vec::new();
        for gate in &self.plan.gates {
            if !distinct.contains(&gate.engine_args) {
                distinct.push(gate.engine_args.clone());
            }
        }
        distinct
    }

    async fn launch<H: Host>(
        &self,
        block: u32,
        arm: Arm,
        args: &[String],
        host: &mut H,
        done: &[Launch],
        progress: &dyn Fn(Progress),
    ) -> Result<Launch, H::Error> {
        let position = u32::try_from(done.len()).unwrap_or(u32::MAX);
        let log = format!("logs/engine-{position:03}-{}.log", arm.name());
        progress(Progress::Starting { arm, position });
        let mut launch = Launch {
            position,
            block,
            arm,
            engine_args: args.to_vec(),
            fingerprint: machine().fingerprint,
            startup: Startup::default(),
            exit: Exit::Stopped,
            throttle_bits: None,
            log,
            samples: Vec::new(),
        };
        let mut started = match host.start(arm, args, &launch.log).await? {
            Ok(started) => started,
            Err(exit) => {
                launch.exit = exit;
                return Ok(launch);
            }
        };
        started.startup.stages = self.stages(&self.plan.engine, &started.endpoint).await;
        launch.startup = started.startup.clone();
        let hung = self
            .workloads(&mut launch, args, &started, done, progress)
            .await;
        // The log's end is read while the engine that wrote it still stands there.
        let hung = hung.map(|detail| Exit::Hung {
            detail,
            log_tail: host.log_tail(),
        });
        // A process that is gone explains a silence better than the silence does.
        launch.exit = host.stop().await?.or(hung).unwrap_or(Exit::Stopped);
        Ok(launch)
    }

    /// Runs every workload of this configuration; gives the reason if the engine stopped answering.
    async fn workloads(
        &self,
        launch: &mut Launch,
        args: &[String],
        started: &Started,
        done: &[Launch],
        progress: &dyn Fn(Progress),
    ) -> Option<String> {
        let what = format!("launch {}", launch.position);
        for workload in order::shuffled(self.seed, &what, &self.due(launch.arm, args, done), |w| {
            &w.id
        }) {
            let (arm, position) = (launch.arm, launch.position);
            let report = |done, of| {
                progress(Progress::Running {
                    arm,
                    position,
                    workload: workload.id.clone(),
                    done,
                    of,
                });
            };
            let seed = load::PromptSeed {
                session: self.seed,
                block: launch.block,
            };
            let outcome = load::run(&started.endpoint, &workload, seed, self.clock, &report).await;
            launch.samples.extend(outcome.samples);
            if let Some(stopped) = outcome.stopped {
                return Some(stopped.to_string());
            }
        }
        None
    }

    /// Workloads of this configuration that this launch of the arm still has to run.
    fn due(&self, arm: Arm, args: &[String], done: &[Launch]) -> Vec<Workload> {
        let ran = |workload: &Workload| {
            let has =
                |l: &&Launch| l.arm == arm && l.samples.iter().any(|s| s.workload == workload.id);
            done.iter().filter(has).count()
        };
        let due = |w: &&Workload| w.launches.is_none_or(|limit| ran(w) < limit as usize);
        self.plan
            .gates
            .iter()
            .filter(|gate| gate.engine_args == args)
            .flat_map(|gate| &gate.workloads)
            .filter(due)
            .cloned()
            .collect()
    }

    async fn stages(
        &self,
        engine: &Engine,
        endpoint: &load::Endpoint,
    ) -> Vec<crate::record::Stage> {
        let Some(metric) = &engine.startup_metric else {
            return Vec::new();
        };
        // An engine without metrics is no failure: the stages are then missing in the record.
        match load::scrape(endpoint, "/metrics").await {
            Ok(exposition) => stages::parse(&exposition, metric),
            Err(_) => Vec::new(),
        }
    }
}
