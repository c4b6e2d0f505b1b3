//! The timed client: a workload's requests go out, raw samples come back.
//!
//! ```text
//! plan::Workload ── workloads, arrivals ──► Wave ── traffic / conversation ──► crew ── slots ──► engine
//!                                                        │                      connection, tap
//! record::Sample ◄── sampling ◄── rules ◄── transcript ◄─┘ ◄── sse, answer ◄──── Exchange
//! ```
//!
//! Requests are sent and answers received on the client's own threads, which only store bytes and the
//! kernel's receive stamps ([`SessionClock`]). Events and JSON are read by the caller's thread, after the
//! end or every few seconds, so that the client's work neither delays a stamp nor takes cores from the
//! engine. One bad request never ends a workload: its sample is void by name, and only an engine that is
//! gone or silent stops the rest ([`Stopped`]).
//!
//! Main function: [`run`]. Refuses to know: processes, arms, metrics, verdicts, and every type of our
//! own server and engine.

mod ahead;
mod alarm;
mod answer;
mod answers;
mod arrivals;
mod blocking;
mod clock;
mod connection;
mod conversation;
mod crew;
mod exchange;
mod foreign;
mod framing;
mod gauges;
mod health;
mod lags;
mod logprobs;
mod matrix;
mod observed;
mod patience;
#[cfg(test)]
mod peer;
mod planned;
mod probe;
mod progress;
mod prompts;
mod random;
mod reader;
mod repeats;
mod request;
mod rules;
mod said;
mod sampling;
mod slots;
mod sse;
mod staggered;
mod stamps;
mod steal;
mod stop;
mod tally;
mod tap;
mod tokenizer;
mod traffic;
mod transcript;
mod windows;
mod wire;
mod workloads;

pub use clock::SessionClock;
pub use crew::allow_files;
pub use observed::Observed;
pub use probe::{ProbeError, probe, scrape};
pub use progress::{Counters, Progress, Side};
pub use prompts::PromptSeed;
pub use stop::Stopped;
pub use tokenizer::{Tokenizer, TokenizerError};

use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use verdict::plan::{Engine, Plausible, Workload, WorkloadKind};
use verdict::record::{ClientHealth, Sample, Window};

/// An engine that listens: where, and how it is asked.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Plain HTTP.
    pub address: SocketAddr,
    /// Its host and port as it was named, for the `Host` header: a proxy may tell servers apart by it.
    pub authority: String,
    /// The model's name in requests.
    pub model: String,
    /// How long an answer may be silent; ten times that is the most that a whole one may take.
    pub request_timeout: Duration,
    /// Token ids from which prompts are drawn, half-open; `None`: prompts are words.
    pub prompt_ids: Option<(u32, u32)>,
    /// Ask for token ids in streams (vLLM's extension).
    pub return_token_ids: bool,
    /// It can be made to generate so many tokens, no fewer.
    pub forces_length: bool,
    /// It sends usage at a stream's end when asked to.
    pub stream_usage: bool,
    /// It leaves connections open; else each request has one of its own.
    pub keep_alive: bool,
    /// Further keys of every request, by name.
    pub request: Vec<(String, Value)>,
    pub plausible: Plausible,
    /// The served model's: texts then have an exact length, and outputs are counted here too.
    pub tokenizer: Option<Arc<Tokenizer>>,
}

impl Endpoint {
    /// An engine of which nothing is known but where it listens and its model's name: what the configuration
    /// leaves out is as there (prompts are words, lengths can be forced, usage is sent, connections stay open),
    /// and an answer may be silent for a minute.
    pub fn usual(address: SocketAddr, model: &str) -> Self {
        Self {
            address,
            authority: address.to_string(),
            model: model.to_owned(),
            request_timeout: Duration::from_secs(60),
            prompt_ids: None,
            return_token_ids: false,
            forces_length: true,
            stream_usage: true,
            keep_alive: true,
            request: Vec::new(),
            plausible: Plausible::default(),
            tokenizer: None,
        }
    }

    /// The configured engine, listening at `address`, with its tokenizer where it names one.
    pub fn new(address: SocketAddr, engine: &Engine, tokenizer: Option<Arc<Tokenizer>>) -> Self {
        Self {
            address,
            authority: address.to_string(),
            model: engine.model.clone(),
            request_timeout: engine.request_timeout,
            prompt_ids: engine.prompt_ids,
            return_token_ids: engine.return_token_ids,
            forces_length: engine.forces_length,
            stream_usage: engine.stream_usage,
            keep_alive: engine.keep_alive,
            request: engine.request.clone(),
            plausible: engine.plausible,
            tokenizer,
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
    /// How well the client itself did.
    pub client: ClientHealth,
    /// Where counters were read ([`Progress::counters`]).
    pub windows: Vec<Window>,
}

/// Runs one workload of one launch against `endpoint`. Needs a tokio runtime with time, of one thread or of
/// several. Dropping the future ends every request and thread, and hands over what was answered.
pub async fn run(
    endpoint: &Endpoint,
    workload: &Workload,
    seed: PromptSeed,
    clock: &SessionClock,
    progress: &dyn Progress,
) -> Outcome {
    let id = &workload.id;
    let waves = match &workload.kind {
        WorkloadKind::Session(session) => {
            return conversation::run(endpoint, id, session, seed, clock, progress).await;
        }
        WorkloadKind::Steady(steady) => vec![workloads::steady(endpoint, id, steady, seed)],
        WorkloadKind::Mixed(mixed) => vec![workloads::mixed(endpoint, id, mixed, seed)],
        WorkloadKind::Trace(trace) => vec![workloads::trace(endpoint, id, trace, seed)],
        WorkloadKind::FirstRequest(first) => {
            vec![workloads::first_request(endpoint, id, first, seed)]
        }
        WorkloadKind::Matrix(matrix) => matrix::waves(endpoint, id, matrix, seed),
        WorkloadKind::Staggered(users) => staggered::waves(endpoint, id, users, seed),
        WorkloadKind::Answers(answers) => answers::waves(endpoint, id, answers, seed),
        WorkloadKind::Goldens(goldens) => vec![workloads::goldens(endpoint, goldens)],
        WorkloadKind::Texts(texts) => vec![workloads::texts(endpoint, texts)],
        WorkloadKind::Tasks(tasks) => vec![workloads::tasks(endpoint, tasks)],
        // Its requests are its own: whoever started the engine runs it.
        WorkloadKind::Suite(_) => Vec::new(),
    };
    let planned: usize = waves.iter().map(|wave| wave.requests.len()).sum();
    debug_assert!(planned as u64 <= workload.kind.requests(), "{id}");
    traffic::run(endpoint, id, waves, clock, progress).await
}
