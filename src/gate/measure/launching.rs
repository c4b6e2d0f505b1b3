//! Launches, one at a time or those of a block together: start, watch, rest, run every workload that is due, stop.

use super::cooldown::{self, Resting};
use super::due::due;
use super::host::{Configuration, Follower, Host, Progress, Started};
use super::{machine, order, stages};
use client::PromptSeed;
use client::telemetry::{Seat, Sources, Watch};
use futures_util::future::join_all;
use std::ops::Range;
use verdict::plan::{Plan, Workload, WorkloadKind};
use verdict::record::{Arm, Exit, Launch, Sample, Stage, Startup, Telemetry};

/// What the launches of a block are measured with.
pub struct Launching<'a, E> {
    pub protocol: &'a Protocol<'a>,
    pub configuration: &'a Configuration,
    /// The launches before them.
    pub done: &'a [Launch],
    pub follower: &'a dyn Follower<Error = E>,
}

/// A launch whose engine is ready; `None`: it never was.
struct Ready {
    launch: Launch,
    started: Option<Started>,
}

/// A launch whose workloads are over.
struct Measured {
    launch: Launch,
    started: Option<Started>,
    /// Why the engine stopped answering, if it did.
    hung: Option<String>,
}

impl<E> Launching<'_, E> {
    /// Launches one engine after another, measures all of them, by turns where there are several, and stops them.
    pub async fn run<H: Host<Error = E>>(
        &self,
        block: u32,
        arms: &[Arm],
        host: &mut H,
    ) -> Result<Vec<Launch>, E> {
        let mut ready = Vec::new();
        for launch in self.planned(block, arms) {
            let begun = self.start(launch, host).await?;
            if begun.started.is_none() && ready.iter().any(|other: &Ready| other.started.is_some())
            {
                self.has_no_room(begun.launch, &ready, host).await?;
                return self.one_after_another(block, arms, host).await;
            }
            ready.push(begun);
        }
        let pids: Vec<Option<i32>> = ready.iter().map(Ready::pid).collect();
        let seats = Seat::all(&pids);
        let measured = ready.into_iter().zip(0..).map(|(ready, place)| {
            let others = pids.iter().zip(0..).filter(|(_, other)| *other != place);
            let beside = Beside {
                seat: (arms.len() > 1).then(|| &seats[place]),
                pid: others.filter_map(|(pid, _)| *pid).next(),
            };
            self.measure(ready, beside)
        });
        let mut measured = join_all(measured).await;
        if arms.len() > 1 {
            for (measured, seat) in measured.iter_mut().zip(&seats) {
                measured.launch.beside = seat.beside();
            }
        }
        let mut launches = Vec::new();
        // The last one first: whoever was started before it is not its to end.
        for measured in measured.into_iter().rev() {
            launches.push(self.end(measured, host).await?);
        }
        launches.reverse();
        Ok(launches)
    }

    /// Refuses to go on where an engine that did not start beside another one starts alone.
    async fn has_no_room<H: Host<Error = E>>(
        &self,
        failed: Launch,
        beside: &[Ready],
        host: &mut H,
    ) -> Result<(), E> {
        for _ in beside.iter().filter(|ready| ready.started.is_some()) {
            host.stop(None).await?;
        }
        let alone = Launch {
            exit: Exit::Stopped,
            ..failed.clone()
        };
        if self.start(alone, host).await?.started.is_some() {
            host.stop(None).await?;
            return Err(host.no_room(failed.arm, &failed.exit));
        }
        Ok(())
    }

    /// Some engine does not start: whether the others do is measured without it.
    async fn one_after_another<H: Host<Error = E>>(
        &self,
        block: u32,
        arms: &[Arm],
        host: &mut H,
    ) -> Result<Vec<Launch>, E> {
        let mut launches = Vec::new();
        for launch in self.planned(block, arms) {
            let ready = self.start(launch, host).await?;
            let beside = Beside::default();
            launches.push(self.end(self.measure(ready, beside).await, host).await?);
        }
        Ok(launches)
    }

    async fn start<H: Host<Error = E>>(
        &self,
        mut launch: Launch,
        host: &mut H,
    ) -> Result<Ready, E> {
        let arm = launch.arm;
        self.follower.progress(Progress::Starting {
            arm,
            position: launch.position,
        });
        let started = match host.start(arm, self.configuration, &launch.log).await? {
            Ok(mut started) => {
                started.startup.stages = self.stages(&started.endpoint).await;
                launch.startup = started.startup.clone();
                self.follower.begun(&launch);
                Some(started)
            }
            Err(exit) => {
                launch.exit = exit;
                None
            }
        };
        Ok(Ready { launch, started })
    }

    async fn measure(&self, ready: Ready, beside: Beside<'_>) -> Measured {
        let Ready {
            mut launch,
            started,
        } = ready;
        let Some(started) = started else {
            return Measured {
                launch,
                started: None,
                hung: None,
            };
        };
        let watch = Watch::start(self.sources(&started, beside.pid), self.protocol.clock);
        let running = Running {
            started,
            watch,
            seat: beside.seat,
        };
        let due = self.due(launch.arm).into_iter();
        let sent: Vec<Workload> = due.filter(|w| !is_suite(w)).collect();
        let Worked { hung, rested_ns } = self.workloads(&mut launch, &running, &sent).await;
        // The tests' own work is none of the engine's, and disturbs nothing that is measured.
        let Running { started, watch, .. } = running;
        let mut telemetry = watch.stop().await;
        telemetry.windows = launch.telemetry.take().unwrap_or_default().windows;
        launch.throttle_bits = throttle_bits(&telemetry, &rested_ns);
        launch.telemetry = Some(telemetry);
        Measured {
            launch,
            started: Some(started),
            hung,
        }
    }

    async fn end<H: Host<Error = E>>(&self, measured: Measured, host: &mut H) -> Result<Launch, E> {
        let Measured {
            mut launch,
            started,
            hung,
        } = measured;
        let Some(started) = started else {
            return Ok(launch);
        };
        if hung.is_none() {
            let due = self.due(launch.arm).into_iter();
            let suites: Vec<Workload> = due.filter(is_suite).collect();
            self.suites(&mut launch, &started, host, &suites).await?;
        }
        let ended = host.stop(hung).await?;
        (launch.exit, launch.killed) = (ended.exit, ended.killed);
        Ok(launch)
    }

    /// The launches of these arms, in this order, after those that are done.
    fn planned(&self, block: u32, arms: &[Arm]) -> Vec<Launch> {
        let places = arms.iter().zip(self.done.len()..);
        let launch = |(arm, position): (&Arm, usize)| {
            self.launch(block, *arm, u32::try_from(position).unwrap_or(u32::MAX))
        };
        places.map(launch).collect()
    }

    fn launch(&self, block: u32, arm: Arm, position: u32) -> Launch {
        Launch {
            position,
            block,
            arm,
            engine_args: self.configuration.args.clone(),
            page_cache: self.configuration.page_cache,
            interleave: self.configuration.interleave,
            fingerprint: machine().fingerprint,
            startup: Startup::default(),
            exit: Exit::Stopped,
            throttle_bits: None,
            log: format!("logs/engine-{position:03}-{}.log", arm.name()),
            samples: Vec::new(),
            clients: Vec::new(),
            telemetry: None,
            rest: None,
            beside: None,
            killed: false,
            suites: Vec::new(),
        }
    }

    fn sources(&self, started: &Started, beside: Option<i32>) -> Sources {
        let (counters, gauges) = self.protocol.plan.named_series();
        Sources {
            plan: self.protocol.plan.telemetry.clone(),
            engine: self.protocol.plan.engine.metrics.clone(),
            gauges,
            counters,
            endpoint: started.endpoint.clone(),
            pid: started.pid,
            beside,
        }
    }

    /// Runs every workload that is due. A first request is one only before all others, those of a rest
    /// included.
    async fn workloads(
        &self,
        launch: &mut Launch,
        running: &Running<'_>,
        due: &[Workload],
    ) -> Worked {
        // Launches that take turns have the same order, so that what is compared is measured at the same time.
        let what = match running.seat {
            Some(_) => format!("block {}", launch.block),
            None => format!("launch {}", launch.position),
        };
        let due = order::shuffled(self.protocol.seed, &what, due, |w| &w.id);
        let is_first = |w: &Workload| matches!(w.kind, WorkloadKind::FirstRequest(_));
        let (first, others): (Vec<_>, Vec<_>) = due.into_iter().partition(is_first);
        let mut worked = Worked {
            hung: self.each(launch, running, &first).await,
            rested_ns: 0..0,
        };
        if worked.hung.is_none() && !others.is_empty() {
            let begin_ns = self.protocol.clock.now_ns();
            if self.rest(launch, running).await {
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
        running: &Running<'_>,
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
        running: &Running<'_>,
        workload: &Workload,
    ) -> Option<String> {
        let told = Told {
            follower: self.follower,
            arm: launch.arm,
            position: launch.position,
            workload: &workload.id,
            watch: self.needs_windows(workload).then_some(&running.watch),
            seat: running.seat,
        };
        let (seed, clock) = (self.prompts(launch), self.protocol.clock);
        let outcome = client::run(&running.started.endpoint, workload, seed, clock, &told).await;
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
    async fn rest(&self, launch: &mut Launch, running: &Running<'_>) -> bool {
        let Some(rule) = &self.protocol.plan.design.cooldown else {
            return false;
        };
        let resting = Resting {
            rule,
            started: &running.started,
            seed: self.prompts(launch),
            clock: self.protocol.clock,
            reference_ms: cooldown::reference_ms(self.done, launch),
            left: cooldown::left(rule, self.done),
        };
        let tell = |waited, left| {
            let progress = cooldown::progress(launch, waited, left);
            self.follower.progress(progress);
        };
        let turn = match running.seat {
            Some(seat) => Some(client::Turns::take(seat).await),
            None => None,
        };
        launch.rest = resting.rest(&tell).await;
        drop(turn);
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
        let gates = self.protocol.plan.gates.iter();
        let gates = gates.filter(|gate| Configuration::of(gate) == *self.configuration);
        gates.flat_map(|gate| due(gate, arm, self.done)).collect()
    }

    async fn stages(&self, endpoint: &client::Endpoint) -> Vec<Stage> {
        let Some(metric) = &self.protocol.plan.engine.startup_metric else {
            return Vec::new();
        };
        // An engine without metrics is no failure: the stages are then missing in the record.
        match client::scrape(endpoint, "/metrics").await {
            Ok(exposition) => stages::parse(&exposition, metric),
            Err(_) => Vec::new(),
        }
    }
}

/// An engine that is ready, and the thread that reads beside it.
struct Running<'a> {
    started: Started,
    watch: Watch,
    /// Where it takes turns with the other arm's.
    seat: Option<&'a Seat>,
}

/// The other arm's engine, where it runs at the same time.
#[derive(Clone, Copy, Default)]
struct Beside<'a> {
    seat: Option<&'a Seat>,
    pid: Option<i32>,
}

impl Ready {
    fn pid(&self) -> Option<i32> {
        self.started.as_ref()?.pid
    }
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
    seat: Option<&'a Seat>,
}

impl<E> client::Progress for Told<'_, E> {
    fn request_done(&self, done: u32, of: u32) {
        self.follower.progress(Progress::Running {
            arm: self.arm,
            position: self.position,
            workload: self.workload.to_owned(),
            done,
            of,
        });
    }

    fn samples(&self, samples: Vec<Sample>) -> Vec<Sample> {
        self.follower.samples(self.position, &samples);
        samples
    }

    fn counters(&self) -> Option<&dyn client::Counters> {
        self.watch.map(|watch| watch as &dyn client::Counters)
    }

    fn turns(&self) -> Option<&dyn client::Turns> {
        self.seat.map(|seat| seat as &dyn client::Turns)
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

/// What stays the same for all blocks of a session.
pub struct Protocol<'a> {
    pub plan: &'a Plan,
    pub seed: u64,
    /// Both arms, or head alone.
    pub arms: &'a [Arm],
    pub clock: &'a client::SessionClock,
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
