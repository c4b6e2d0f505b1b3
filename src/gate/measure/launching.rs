//! One launch: start, watch, rest, run every workload that is due, stop.

use super::cooldown::{self, Resting};
use super::host::{Configuration, Follower, Host, Progress, Started};
use super::{Protocol, machine, order, stages};
use client::load::{self, PromptSeed};
use client::telemetry::{Sources, Watch};
use std::ops::Range;
use verdict::plan::{Workload, WorkloadKind};
use verdict::record::{Arm, Exit, Launch, Sample, Stage, Startup, Telemetry};

/// What one launch is measured with.
pub struct Launching<'a, E> {
    pub protocol: &'a Protocol<'a>,
    pub configuration: &'a Configuration,
    /// The launches before it.
    pub done: &'a [Launch],
    pub follower: &'a dyn Follower<Error = E>,
}

impl<E> Launching<'_, E> {
    pub async fn run<H: Host<Error = E>>(
        &self,
        block: u32,
        arm: Arm,
        host: &mut H,
    ) -> Result<Launch, E> {
        let mut launch = self.begin(block, arm);
        self.follower.progress(Progress::Starting {
            arm,
            position: launch.position,
        });
        let mut started = match host.start(arm, self.configuration, &launch.log).await? {
            Ok(started) => started,
            Err(exit) => {
                launch.exit = exit;
                return Ok(launch);
            }
        };
        let watch = Watch::start(self.sources(&started), self.protocol.clock);
        started.startup.stages = self.stages(&started.endpoint).await;
        launch.startup = started.startup.clone();
        self.follower.begun(&launch);
        let running = Running { started, watch };
        let due = self.due(arm);
        let (suites, sent): (Vec<_>, Vec<_>) = due.into_iter().partition(is_suite);
        let Worked { hung, rested_ns } = self.workloads(&mut launch, &running, &sent).await;
        // The tests' own work is none of the engine's, and disturbs nothing that is measured.
        let Running { started, watch } = running;
        let mut telemetry = watch.stop().await;
        telemetry.windows = launch.telemetry.take().unwrap_or_default().windows;
        if hung.is_none() {
            self.suites(&mut launch, &started, host, &suites).await?;
        }
        launch.throttle_bits = throttle_bits(&telemetry, &rested_ns);
        launch.telemetry = Some(telemetry);
        launch.exit = host.stop(hung).await?;
        Ok(launch)
    }

    fn begin(&self, block: u32, arm: Arm) -> Launch {
        let position = u32::try_from(self.done.len()).unwrap_or(u32::MAX);
        Launch {
            position,
            block,
            arm,
            engine_args: self.configuration.args.clone(),
            page_cache: self.configuration.page_cache,
            fingerprint: machine().fingerprint,
            startup: Startup::default(),
            exit: Exit::Stopped,
            throttle_bits: None,
            log: format!("logs/engine-{position:03}-{}.log", arm.name()),
            samples: Vec::new(),
            clients: Vec::new(),
            telemetry: None,
            rest: None,
            suites: Vec::new(),
        }
    }

    fn sources(&self, started: &Started) -> Sources {
        let (counters, gauges) = self.protocol.plan.named_series();
        Sources {
            plan: self.protocol.plan.telemetry.clone(),
            engine: self.protocol.plan.engine.metrics.clone(),
            gauges,
            counters,
            endpoint: started.endpoint.clone(),
            pid: started.pid,
        }
    }

    /// Runs every workload that is due. A first request is one only before all others, those of a rest
    /// included.
    async fn workloads(&self, launch: &mut Launch, running: &Running, due: &[Workload]) -> Worked {
        let what = format!("launch {}", launch.position);
        let due = order::shuffled(self.protocol.seed, &what, due, |w| &w.id);
        let is_first = |w: &Workload| matches!(w.kind, WorkloadKind::FirstRequest(_));
        let (first, others): (Vec<_>, Vec<_>) = due.into_iter().partition(is_first);
        let mut worked = Worked {
            hung: self.each(launch, running, &first).await,
            rested_ns: 0..0,
        };
        if worked.hung.is_none() && !others.is_empty() {
            let begin_ns = self.protocol.clock.now_ns();
            if self.rest(launch, &running.started).await {
                // What came before is measured only if a first request was among it.
                let begin_ns = if first.is_empty() { 0 } else { begin_ns };
                worked.rested_ns = begin_ns..self.protocol.clock.now_ns();
            }
            worked.hung = self.each(launch, running, &others).await;
        }
        worked
    }

    /// One after another; gives the reason if the engine stopped answering.
    async fn each(
        &self,
        launch: &mut Launch,
        running: &Running,
        workloads: &[Workload],
    ) -> Option<String> {
        for workload in workloads {
            if let Some(stopped) = self.workload(launch, running, workload).await {
                return Some(stopped);
            }
        }
        None
    }

    async fn workload(
        &self,
        launch: &mut Launch,
        running: &Running,
        workload: &Workload,
    ) -> Option<String> {
        let told = Told {
            follower: self.follower,
            arm: launch.arm,
            position: launch.position,
            workload: &workload.id,
            watch: self.needs_windows(workload).then_some(&running.watch),
        };
        let (seed, clock) = (self.prompts(launch), self.protocol.clock);
        let outcome = load::run(&running.started.endpoint, workload, seed, clock, &told).await;
        let telemetry = launch.telemetry.get_or_insert_default();
        telemetry.windows.extend(outcome.windows);
        launch.samples.extend(outcome.samples);
        launch.clients.push(outcome.client);
        outcome.stopped.map(|stopped| stopped.to_string())
    }

    /// True if a check of the workload is made of counters.
    fn needs_windows(&self, workload: &Workload) -> bool {
        let checks = self
            .protocol
            .plan
            .gates
            .iter()
            .flat_map(|gate| &gate.checks);
        let mut own = checks.filter(|check| check.workload == workload.id);
        own.any(|check| check.metric.is_of_windows())
    }

    /// The project's own tests, in the order of their gates.
    async fn suites<H: Host<Error = E>>(
        &self,
        launch: &mut Launch,
        started: &Started,
        host: &mut H,
        due: &[Workload],
    ) -> Result<(), E> {
        for workload in due {
            let WorkloadKind::Suite(suite) = &workload.kind else {
                continue;
            };
            self.follower.progress(Progress::Testing {
                arm: launch.arm,
                position: launch.position,
                workload: workload.id.clone(),
            });
            let run = host.suite(launch, started, workload, suite).await?;
            launch.suites.push(run);
        }
        Ok(())
    }

    /// Whether the launch was to rest at all.
    async fn rest(&self, launch: &mut Launch, started: &Started) -> bool {
        let Some(rule) = &self.protocol.plan.design.cooldown else {
            return false;
        };
        let resting = Resting {
            rule,
            started,
            seed: self.prompts(launch),
            clock: self.protocol.clock,
            reference_ms: cooldown::reference_ms(self.done, launch),
            left: cooldown::left(rule, self.done),
        };
        let tell = |waited, left| {
            let progress = cooldown::progress(launch, waited, left);
            self.follower.progress(progress);
        };
        launch.rest = resting.rest(&tell).await;
        true
    }

    fn prompts(&self, launch: &Launch) -> PromptSeed {
        PromptSeed {
            session: self.protocol.seed,
            block: launch.block,
        }
    }

    /// Workloads of this configuration that this launch of the arm still has to run.
    fn due(&self, arm: Arm) -> Vec<Workload> {
        let ran = |workload: &Workload| {
            let sent = |l: &Launch| l.samples.iter().any(|s| s.workload == workload.id);
            let tested = |l: &Launch| l.suites.iter().any(|run| run.workload == workload.id);
            let has = |l: &&Launch| l.arm == arm && (sent(l) || tested(l));
            self.done.iter().filter(has).count()
        };
        let due = |w: &&Workload| w.launches.is_none_or(|limit| ran(w) < limit as usize);
        let gates = self.protocol.plan.gates.iter().filter(|gate| {
            gate.engine_args == self.configuration.args
                && gate.page_cache == self.configuration.page_cache
        });
        gates
            .flat_map(|gate| &gate.workloads)
            .filter(due)
            .cloned()
            .collect()
    }

    async fn stages(&self, endpoint: &load::Endpoint) -> Vec<Stage> {
        let Some(metric) = &self.protocol.plan.engine.startup_metric else {
            return Vec::new();
        };
        // An engine without metrics is no failure: the stages are then missing in the record.
        match load::scrape(endpoint, "/metrics").await {
            Ok(exposition) => stages::parse(&exposition, metric),
            Err(_) => Vec::new(),
        }
    }
}

/// An engine that is ready, and the thread that reads beside it.
struct Running {
    started: Started,
    watch: Watch,
}

fn is_suite(workload: &Workload) -> bool {
    matches!(workload.kind, WorkloadKind::Suite(_))
}

/// What came of a launch's workloads.
struct Worked {
    /// Why the engine stopped answering, if it did.
    hung: Option<String>,
    /// When nothing was measured: the burst, the wait to cool and its probes. Empty without a rest.
    rested_ns: Range<u64>,
}

/// Hands a running workload's progress on, with its launch's name.
struct Told<'a, E> {
    follower: &'a dyn Follower<Error = E>,
    arm: Arm,
    position: u32,
    workload: &'a str,
    /// Reads the counters that the workload's checks need.
    watch: Option<&'a Watch>,
}

impl<E> load::Progress for Told<'_, E> {
    fn request_done(&self, done: u32, of: u32) {
        self.follower.progress(Progress::Running {
            arm: self.arm,
            position: self.position,
            workload: self.workload.to_owned(),
            done,
            of,
        });
    }

    fn samples(&self, samples: &[Sample]) {
        self.follower.samples(samples);
    }

    fn counters(&self) -> Option<&dyn load::Counters> {
        self.watch.map(|watch| watch as &dyn load::Counters)
    }
}

/// Every reason that any reading of the engine's GPUs saw, but for those of the rest: heat that was made by its
/// burst or waited out touched nothing that was measured.
fn throttle_bits(telemetry: &Telemetry, rested_ns: &Range<u64>) -> Option<u32> {
    let own = telemetry.engine_gpus();
    let readings = telemetry.readings.iter();
    readings
        .filter(|reading| !rested_ns.contains(&reading.at_ns))
        .flat_map(|reading| &reading.gpus)
        .filter(|gpu| own.contains(&gpu.index))
        .filter_map(|gpu| gpu.throttle_bits)
        .reduce(|all, bits| all | bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use verdict::record::{GpuReading, Reading};

    #[test]
    fn reasons_are_gathered_over_readings_and_gpus() {
        let gpu = |throttle_bits| GpuReading {
            throttle_bits,
            ..GpuReading::default()
        };
        let of = |gpus: Vec<Vec<GpuReading>>, rested_ns: Range<u64>| {
            let readings = gpus.into_iter().zip(0..).map(|(gpus, at_ns)| Reading {
                at_ns,
                gpus,
                ..Reading::default()
            });
            let telemetry = Telemetry {
                readings: readings.collect(),
                ..Telemetry::default()
            };
            throttle_bits(&telemetry, &rested_ns)
        };
        assert_eq!(of(vec![vec![]], 0..0), None);
        assert_eq!(of(vec![vec![gpu(None)]], 0..0), None);
        assert_eq!(of(vec![vec![gpu(Some(0))], vec![gpu(None)]], 0..0), Some(0));
        let seen = vec![
            vec![gpu(Some(4)), gpu(Some(8))],
            vec![gpu(Some(0x20))],
            vec![gpu(Some(0x40))],
        ];
        for (rested_ns, expect) in [
            (0..0, Some(0x6c)),
            (1..2, Some(0x4c)),
            (0..2, Some(0x40)),
            (0..3, None),
        ] {
            assert_eq!(of(seen.clone(), rested_ns.clone()), expect, "{rested_ns:?}");
        }
        let placed = |index, engine_processes, bits| GpuReading {
            index,
            engine_processes: Some(engine_processes),
            ..gpu(Some(bits))
        };
        let node = vec![placed(0, 1, 0x20), placed(1, 0, 0x40)];
        assert_eq!(of(vec![node], 0..0), Some(0x20), "a neighbour's heat");
    }
}
