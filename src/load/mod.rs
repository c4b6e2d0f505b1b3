//! The timed client: a workload's requests go out, raw samples come back.
//!
//! ```text
//! plan::Workload ── workloads ──► Planned ── closed_loop / conversation ──► connection ── wire ──► engine
//!                                                                               │
//! record::Sample ◄── sampling ◄── rules ◄── transcript ◄── sse, answer ◄──── Exchange
//! ```
//!
//! While answers arrive the client only stores bytes and the kernel's receive stamps
//! ([`SessionClock`]); events and JSON are read after the end, so that the client's work neither
//! delays a stamp nor takes cores from the engine. One bad request never ends a workload: its sample is
//! void by name, and only an engine that is gone or silent stops the rest ([`Stopped`]).
//!
//! Main function: [`run`]. Refuses to know: processes, arms, metrics, verdicts, and every type of our
//! own server and engine.

mod answer;
mod clock;
mod closed_loop;
mod connection;
mod conversation;
mod exchange;
mod foreign;
mod logprobs;
mod planned;
mod probe;
mod prompts;
mod random;
mod request;
mod rules;
mod sampling;
mod sse;
mod stop;
mod transcript;
mod wire;
mod workloads;

pub use clock::SessionClock;
pub use probe::{ProbeError, probe, scrape};
pub use prompts::PromptSeed;
pub use stop::Stopped;

use crate::plan::{Engine, Workload, WorkloadKind};
use crate::record::Sample;
use std::net::SocketAddr;
use std::time::Duration;

/// An engine that listens: where, and how it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Plain HTTP.
    pub address: SocketAddr,
    /// The model's name in requests.
    pub model: String,
    /// How long an answer may be silent; ten times that is the most that a whole one may take.
    pub request_timeout: Duration,
    /// Token ids from which prompts are drawn, half-open; `None`: prompts are words.
    pub prompt_ids: Option<(u32, u32)>,
    /// Ask for token ids in streams (vLLM's extension).
    pub return_token_ids: bool,
}

impl Endpoint {
    /// The configured engine, listening at `address`.
    pub fn new(address: SocketAddr, engine: &Engine) -> Self {
        Self {
            address,
            model: engine.model.clone(),
            request_timeout: engine.request_timeout,
            prompt_ids: engine.prompt_ids,
            return_token_ids: engine.return_token_ids,
        }
    }
}

/// What a workload brought.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// One a request that was answered or failed, in the order of sending.
    pub samples: Vec<Sample>,
    /// Why not all requests were sent, if so.
    pub stopped: Option<Stopped>,
}

/// Told (requests done, requests in all) after each.
pub type Progress<'a> = &'a dyn Fn(u32, u32);

/// Runs one workload of one launch against `endpoint`. Needs a tokio runtime with time and I/O, of one
/// thread or of several. Dropping the future ends every request.
pub async fn run(
    endpoint: &Endpoint,
    workload: &Workload,
    seed: PromptSeed,
    clock: &SessionClock,
    progress: Progress<'_>,
) -> Outcome {
    let id = &workload.id;
    let (requests, concurrency) = match &workload.kind {
        WorkloadKind::Session(session) => {
            return conversation::run(endpoint, id, session, seed, clock, progress).await;
        }
        WorkloadKind::Steady(steady) => (
            workloads::steady(endpoint, id, steady, seed),
            steady.concurrency,
        ),
        WorkloadKind::Goldens(goldens) => (workloads::goldens(endpoint, goldens), 1),
        WorkloadKind::Tasks(tasks) => (workloads::tasks(endpoint, tasks), 1),
    };
    closed_loop::run(endpoint, id, requests, concurrency, clock, progress).await
}
