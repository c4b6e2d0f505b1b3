//! Waiting for the machine to be as it is under sustained load, within one budget for the session.
//!
//! A fresh machine is faster than it can stay: compared with that, a machine under load would look hot for
//! ever (incident: 114 launches waited 242 s each). So the first launch of each arm loads the machine with
//! a burst, and only then takes its reference; later launches are held to that.

use super::host::{Progress, Started};
use client::load::{self, PromptSeed, SessionClock};
use std::time::{Duration, Instant};
use verdict::plan::{Arrivals, Cooldown, Steady, Workload, WorkloadKind};
use verdict::record::{Launch, Rest, Sample};
use verdict::stats;

/// Requests of a probe, and those before them that are not counted: a process's first ones are slower.
const PROBE_REQUESTS: u32 = 5;
const PROBE_WARMUP: u32 = 1;
/// Shape of all requests here: short, and long enough for a time per token.
const PROMPT_TOKENS: u32 = 16;
const OUTPUT_TOKENS: u32 = 16;
/// Requests in flight in a burst, and in one round of it.
const BURST_STREAMS: u32 = 8;
const BURST_ROUND: u32 = 16;

/// What a rest needs to know of the launch and the session.
pub struct Resting<'a> {
    pub rule: &'a Cooldown,
    pub started: &'a Started,
    pub seed: PromptSeed,
    pub clock: &'a SessionClock,
    /// The arm's reference, where an earlier launch took it, ms.
    pub reference_ms: Option<f64>,
    /// What is left of the session's budget.
    pub left: Duration,
}

/// The reference of the launches that this one is like, by what was measured before.
pub fn reference_ms(done: &[Launch], like: &Launch) -> Option<f64> {
    done.iter()
        .filter(|l| l.arm == like.arm && l.engine_args == like.engine_args)
        .find_map(|l| Some(l.rest.as_ref()?.reference_ms))
}

/// What the launches before have left of the budget.
pub fn left(rule: &Cooldown, done: &[Launch]) -> Duration {
    let last = done.iter().rev().find_map(|l| l.rest.as_ref());
    last.map_or(rule.budget, |rest| {
        Duration::try_from_secs_f64(rest.budget_left_ms / 1e3).unwrap_or_default()
    })
}

impl Resting<'_> {
    /// Takes the reference or holds the launch to it; `None` where the engine answers no probe, which is
    /// for the workloads to find. `tell` is told (waited, left).
    pub async fn rest(&self, tell: &dyn Fn(Duration, Duration)) -> Option<Rest> {
        tell(Duration::ZERO, self.left);
        if self.reference_ms.is_none() {
            self.burst().await;
        }
        let mut probes_ms = vec![self.probe().await?];
        let reference_ms = self.reference_ms.unwrap_or(probes_ms[0]);
        let mut waited = Duration::ZERO;
        while let Some(pause) = self.pause(reference_ms, probes_ms.last().copied()?, waited) {
            let begun = Instant::now();
            tokio::time::sleep(pause).await;
            waited += begun.elapsed();
            tell(waited, self.left.saturating_sub(waited));
            probes_ms.push(self.probe().await?);
        }
        Some(Rest {
            waited_ms: waited.as_secs_f64() * 1e3,
            probes_ms,
            reference_ms,
            within: Some(self.rule.within),
            budget_left_ms: self.left.saturating_sub(waited).as_secs_f64() * 1e3,
        })
    }

    /// How long to wait before the next probe; `None`: cool, or nothing left to wait with.
    fn pause(&self, reference_ms: f64, probe_ms: f64, waited: Duration) -> Option<Duration> {
        let left = self.left.saturating_sub(waited);
        let is_hot = probe_ms > reference_ms * (1.0 + self.rule.within);
        (is_hot && !left.is_zero()).then(|| self.rule.pause.min(left))
    }

    /// Load for as long as the rule says; an engine that stops answering ends it.
    async fn burst(&self) {
        let begun = Instant::now();
        let round = workload("cooldown/burst", BURST_ROUND, 0, BURST_STREAMS);
        while begun.elapsed() < self.rule.burst {
            if self.run(&round).await.is_none() {
                return;
            }
        }
    }

    /// Median time per token, ms.
    async fn probe(&self) -> Option<f64> {
        let probe = workload("cooldown/probe", PROBE_REQUESTS, PROBE_WARMUP, 1);
        let samples = self.run(&probe).await?;
        let counted = samples.iter().skip(PROBE_WARMUP as usize);
        stats::median(&counted.filter_map(tpot_ms).collect::<Vec<f64>>())
    }

    async fn run(&self, workload: &Workload) -> Option<Vec<Sample>> {
        let quiet = |_, _| {};
        let endpoint = &self.started.endpoint;
        let outcome = load::run(endpoint, workload, self.seed, self.clock, &quiet).await;
        outcome.stopped.is_none().then_some(outcome.samples)
    }
}

fn workload(id: &str, requests: u32, warmup: u32, concurrency: u32) -> Workload {
    Workload {
        id: id.into(),
        launches: None,
        kind: WorkloadKind::Steady(Steady {
            requests,
            warmup,
            prompt_tokens: PROMPT_TOKENS,
            output_tokens: OUTPUT_TOKENS,
            arrivals: Arrivals::Closed { concurrency },
        }),
    }
}

/// Time per token by the engine's own count where it gave one, else by events: a probe is compared with
/// probes of the same engine alone.
fn tpot_ms(sample: &Sample) -> Option<f64> {
    let (first, last) = (
        sample.stamps.events_ns.first()?,
        sample.stamps.events_ns.last()?,
    );
    let tokens = sample.tokens.completion.unwrap_or(sample.tokens.events);
    (tokens > 1).then(|| last.saturating_sub(*first) as f64 / 1e6 / f64::from(tokens - 1))
}

/// What is told while a launch rests.
pub fn progress(launch: &Launch, waited: Duration, left: Duration) -> Progress {
    Progress::Resting {
        arm: launch.arm,
        position: launch.position,
        waited,
        left,
    }
}
