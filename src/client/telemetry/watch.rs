//! The thread that reads: at absolute moments, from its start until it is asked to end.
//!
//! Main type: [`Watch`]. It has a runtime of its own, so that nothing of it runs on the threads that
//! measure; what it costs is CPU time of the machine, some milliseconds a reading.

use super::exporter::{Exporter, PATIENCE};
use super::missing::Missing;
use super::nvml::Gpus;
use super::{engine, exposition, machine, process};
use crate::{Counters, Endpoint, ProbeError, SessionClock, Side};
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::thread;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior};
use verdict::plan::{self, EngineMetrics, EngineSeries};
use verdict::record::{Edge, GpuReading, Reading, Telemetry};

/// Slower answers of the engine's `/metrics` are left out, unless readings are further apart: an engine that answers between
/// requests alone would be read at rest alone.
const PROMPT: Duration = Duration::from_millis(500);

/// What is read.
#[derive(Clone, Debug)]
pub struct Sources {
    pub plan: plan::Telemetry,
    /// Names in the engine's `/metrics`; where there are none, it is not asked.
    pub engine: EngineMetrics,
    /// Further gauges, in every reading.
    pub gauges: Vec<EngineSeries>,
    /// Counters, at the ends of the measured parts alone.
    pub counters: Vec<EngineSeries>,
    pub endpoint: Endpoint,
    /// Root of the engine's process tree; `None` where the engine is no child of ours.
    pub pid: Option<i32>,
    /// The same of the other arm's engine, where it runs at the same time: its work is no stranger's.
    pub beside: Option<i32>,
}

/// A launch's readings, being taken. Dropping it ends them.
#[derive(Debug)]
pub struct Watch {
    /// Its drop is the sign to end, as a message would be.
    stop: oneshot::Sender<()>,
    readings: oneshot::Receiver<Telemetry>,
    /// Asks for a reading of the counters.
    edges: mpsc::UnboundedSender<EdgeAsked>,
    every_ms: u32,
}

/// The end that is reached, and where its reading goes.
type EdgeAsked = (Side, oneshot::Sender<Edge>);

impl Watch {
    /// Takes the first reading now and the others at a fixed distance from it.
    pub fn start(sources: Sources, clock: &SessionClock) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (report, readings) = oneshot::channel();
        let (edges, asked) = mpsc::unbounded_channel();
        let every_ms = every_ms(&sources);
        let clock = clock.clone();
        let run = move || {
            // Nobody listens any more where the session was cut short.
            let _ = report.send(read_until(sources, &clock, stopped, asked));
        };
        // Where no thread can be had, its sender is dropped with it: `stop` then says so.
        let _ = thread::Builder::new().name("telemetry".into()).spawn(run);
        Self {
            stop,
            readings,
            edges,
            every_ms,
        }
    }

    /// Takes a last reading and gives all of them.
    pub async fn stop(self) -> Telemetry {
        drop(self.stop);
        self.readings.await.unwrap_or_else(|_| Telemetry {
            every_ms: self.every_ms,
            readings: Vec::new(),
            missing: vec!["nothing was read: its thread could not be started".into()],
            windows: Vec::new(),
        })
    }
}

impl Counters for Watch {
    /// Empty where the thread is gone: then no counter has a value.
    fn read(&self, side: Side) -> Pin<Box<dyn Future<Output = Edge> + '_>> {
        let (answer, edge) = oneshot::channel();
        // Without a thread the answer's sender is dropped here.
        let _ = self.edges.send((side, answer));
        Box::pin(async { edge.await.unwrap_or_default() })
    }
}

fn every_ms(sources: &Sources) -> u32 {
    u32::try_from(sources.plan.every.as_millis()).unwrap_or(u32::MAX)
}

fn read_until(
    sources: Sources,
    clock: &SessionClock,
    stopped: oneshot::Receiver<()>,
    asked: mpsc::UnboundedReceiver<EdgeAsked>,
) -> Telemetry {
    let every_ms = every_ms(&sources);
    let (readings, missing) = match runtime() {
        Ok(runtime) => runtime.block_on(async {
            let mut reader = Reader::open(sources, clock).await;
            let readings = reader.run(stopped, asked).await;
            (readings, reader.missing.into_sentences())
        }),
        Err(error) => (Vec::new(), vec![format!("nothing was read: {error}")]),
    };
    Telemetry {
        every_ms,
        readings,
        missing,
        windows: Vec::new(),
    }
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

/// Where GPU values come from.
enum GpuSource {
    Nvml(Box<Gpus>),
    Exporter(Box<Exporter>),
}

pub struct Reader<'a> {
    pub sources: Sources,
    pub clock: &'a SessionClock,
    gpus: Option<GpuSource>,
    pub missing: Missing,
}

impl<'a> Reader<'a> {
    async fn open(mut sources: Sources, clock: &'a SessionClock) -> Self {
        let mut missing = Missing::default();
        sources.endpoint.request_timeout = PATIENCE;
        let opened = match &sources.plan.gpu_exporter {
            Some(spec) => {
                let opened = Exporter::open(spec).await;
                opened.map(|exporter| GpuSource::Exporter(Box::new(exporter)))
            }
            None => Gpus::open().map(|gpus| GpuSource::Nvml(Box::new(gpus))),
        };
        let gpus = opened
            .map_err(|sentence| missing.note("gpus", || sentence))
            .ok();
        Self {
            sources,
            clock,
            gpus,
            missing,
        }
    }

    async fn run(
        &mut self,
        mut stopped: oneshot::Receiver<()>,
        mut asked: mpsc::UnboundedReceiver<EdgeAsked>,
    ) -> Vec<Reading> {
        let mut readings = Vec::new();
        let mut moments = tokio::time::interval(self.sources.plan.every);
        // A late reading does not shift the later ones, and none is made up for.
        moments.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut ending = false;
        while !ending {
            tokio::select! {
                _ = moments.tick() => {}
                Some((side, answer)) = asked.recv() => {
                    // Nobody listens any more where the session was cut short.
                    let _ = answer.send(self.edge(side).await);
                    continue;
                }
                _ = &mut stopped => ending = true,
            }
            readings.push(self.reading(ending).await);
        }
        readings
    }

    async fn reading(&mut self, is_last: bool) -> Reading {
        let at_ns = self.clock.now_ns();
        let tree = self.sources.pid.and_then(process::tree);
        let last = tree.as_ref().filter(|_| is_last);
        let beside = self.sources.beside.and_then(process::tree);
        let cpu = machine::cpu();
        let mut reading = Reading {
            at_ns,
            rss_bytes: tree.as_ref().map(|tree| tree.rss_bytes),
            huge_bytes: last.and_then(|tree| process::huge_bytes(&tree.pids)),
            major_faults: last.map(|tree| tree.major_faults),
            engine_cpu_s: tree.as_ref().map(|tree| tree.cpu_s),
            gate_cpu_s: machine::gate_cpu_s()
                .map(|own| own + beside.as_ref().map_or(0.0, |tree| tree.cpu_s)),
            machine_cpu_s: cpu.map(|cpu| cpu.busy_s),
            steal_s: cpu.map(|cpu| cpu.steal_s),
            ..Reading::default()
        };
        if self.sources.pid.is_some() && tree.is_none() {
            self.missing.note("tree", || {
                format!("the engine's process was gone at {}", at(at_ns))
            });
        }
        reading.gpus = self.gpus(tree.as_ref(), at_ns).await;
        if !self.sources.engine.is_empty() || !self.sources.gauges.is_empty() {
            let asked = Instant::now();
            match crate::scrape(&self.sources.endpoint, "/metrics").await {
                Ok(_) if asked.elapsed() > self.sources.plan.every.max(PROMPT) => {
                    let took_s = asked.elapsed().as_secs_f64();
                    self.missing.note("late engine", || {
                        format!(
                            "the engine's /metrics took {took_s:.1} s at {}: late values are left out",
                            at(at_ns)
                        )
                    });
                }
                Ok(text) => {
                    let missing = &mut self.missing;
                    reading.engine = engine::read(&text, &self.sources.engine, missing);
                    reading.gauges = exposition::named(&text, &self.sources.gauges, missing);
                }
                Err(error) => self.note_engine(&error),
            }
        }
        reading
    }

    pub fn note_engine(&mut self, error: &ProbeError) {
        let now = at(self.clock.now_ns());
        self.missing.note("engine", || {
            format!("the engine's /metrics failed at {now}: {error}")
        });
    }

    /// GPU index → millijoules; empty where NVML is not asked.
    pub fn energy_mj(&mut self) -> BTreeMap<u32, u64> {
        match &self.gpus {
            Some(GpuSource::Nvml(gpus)) => gpus.energy_mj(&mut self.missing),
            Some(GpuSource::Exporter(_)) | None => BTreeMap::new(),
        }
    }

    async fn gpus(&mut self, tree: Option<&process::Tree>, at_ns: u64) -> Vec<GpuReading> {
        match &self.gpus {
            None => Vec::new(),
            Some(GpuSource::Nvml(gpus)) => gpus.read(tree, &mut self.missing),
            Some(GpuSource::Exporter(exporter)) => exporter.read().await.unwrap_or_else(|error| {
                self.missing
                    .note("exporter", || format!("{error} (at {})", at(at_ns)));
                Vec::new()
            }),
        }
    }
}

/// A moment of the session in words.
fn at(ns: u64) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}
