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
mod endpoint;
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
pub use endpoint::Endpoint;
pub use observed::Observed;
pub use probe::{ProbeError, probe, scrape};
pub use progress::{Counters, Outcome, Progress, Side};
pub use prompts::PromptSeed;
pub use stop::Stopped;
pub use tokenizer::{Tokenizer, TokenizerError};

use verdict::plan::{Workload, WorkloadKind};

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
