//! The timed client: a workload's requests go out, raw samples come back.
//!
//! ```text
//! plan::Workload ── workloads ──► Wave ── driver ──► threads, their streams ── socket ──► engine
//!                                                                 │
//! record::Sample ◄── samples ◄── response::transcript ◄── Exchange ◄┘
//! ```
//!
//! Requests are sent and answers received on the client's own threads, which only store bytes and the
//! kernel's receive stamps ([`SessionClock`]). Events and JSON are read by the caller's thread, after the
//! end or every few seconds, so that the client's work neither delays a stamp nor takes cores from the
//! engine. One bad request never ends a workload: its sample is void by name, and only an engine that is
//! gone or silent stops the rest ([`Stopped`]).
//!
//! Main function: [`run`].

mod driver;
mod response;
mod samples;
#[cfg(test)]
use fixture::skip;
mod socket;
pub mod telemetry;
mod threads;

mod clock;
mod endpoint;
mod probe;
mod progress;
mod stop;
mod tokenizer;
mod windows;
mod workloads;

pub use clock::SessionClock;
pub use endpoint::Endpoint;
pub use probe::{ProbeError, keeps_connections, other_models, post, probe, scrape};
pub use progress::{Counters, LoadOutcome, Progress, Side, Turn, Turns};
pub use response::observed::Observed;
pub use socket::tls::Tls;
pub use stop::Stopped;
pub use threads::allow_files;
pub use tokenizer::{Tokenizer, TokenizerError};
pub use workloads::prompt_seed::PromptSeed;

use verdict::plan::{Workload, WorkloadKind};
use workloads::request_plan::Wave;

/// Runs one workload of one launch against `endpoint`. Needs a tokio runtime with time, of one thread or of
/// several. Dropping the future ends every request and thread, and hands over what was answered.
pub async fn run(
    endpoint: &Endpoint,
    workload: &Workload,
    seed: PromptSeed,
    clock: &SessionClock,
    progress: &dyn Progress,
) -> LoadOutcome {
    let id = &workload.id;
    if let WorkloadKind::Session(session) = &workload.kind {
        return workloads::conversation::run(endpoint, id, session, seed, clock, progress).await;
    }
    let waves = waves(endpoint, workload, seed);
    let planned: u64 = waves.iter().map(|wave| u64::from(wave.len())).sum();
    debug_assert!(planned <= workload.kind.requests(), "{id}");
    driver::run(endpoint, id, waves, clock, progress).await
}

/// Most tokens of all prompts of a workload of which one request is shown, and bytes of all requests besides.
const SHOWN_TOKENS: u64 = 1 << 24;
/// Bytes of a request besides its prompt and what the project's file puts into it, about.
const BESIDE_PROMPT: u64 = 1 << 10;

/// Path and body of a request of a workload `answers` in one launch. `None` where it has no such request, and where it has too
/// many tokens: all are made.
pub fn request(
    endpoint: &Endpoint,
    workload: &Workload,
    seed: PromptSeed,
    index: u32,
) -> Option<(String, String)> {
    let WorkloadKind::Answers(answers) = &workload.kind else {
        return None;
    };
    let longest = u64::from(answers.prompt_tokens.max(answers.beside_tokens));
    let beyond = u64::from(answers.beyond_tokens.unwrap_or(0)) * u64::from(answers.bad_requests());
    let tokens = workload.kind.requests().saturating_mul(longest);
    let tokens = tokens.saturating_add(beyond.saturating_mul(u64::from(answers.passes)));
    // What each request carries besides its prompt.
    let fields = endpoint.request.iter();
    let fields = fields.map(|(key, value)| key.len() + value.to_string().len());
    let more = endpoint.model.len() + fields.sum::<usize>();
    let more = (BESIDE_PROMPT + more as u64).saturating_mul(workload.kind.requests());
    if tokens.saturating_add(more) > SHOWN_TOKENS {
        return None;
    }
    let mut waves = waves(endpoint, workload, seed).into_iter();
    let planned = waves.find_map(|wave| {
        let mut requests = wave.requests.into_iter();
        requests.find(|planned| planned.label.index == index)
    })?;
    let body = String::from_utf8(planned.ask.body.to_vec()).ok()?;
    Some((planned.ask.path, body))
}

/// A launch's requests; none of a workload that makes them as it runs.
fn waves(endpoint: &Endpoint, workload: &Workload, seed: PromptSeed) -> Vec<Wave> {
    let id = &workload.id;
    match &workload.kind {
        WorkloadKind::Steady(steady) => vec![workloads::steady(endpoint, id, steady, seed)],
        WorkloadKind::Mixed(mixed) => vec![workloads::mixed(endpoint, id, mixed, seed)],
        WorkloadKind::Trace(trace) => vec![workloads::trace::wave(endpoint, id, trace, seed)],
        WorkloadKind::FirstRequest(first) => {
            vec![workloads::first_request(endpoint, id, first, seed)]
        }
        WorkloadKind::Matrix(matrix) => workloads::matrix::waves(endpoint, id, matrix, seed),
        WorkloadKind::Staggered(users) => workloads::staggered::waves(endpoint, id, users, seed),
        WorkloadKind::Answers(answers) => workloads::answers::waves(endpoint, id, answers, seed),
        WorkloadKind::Goldens(goldens) => vec![workloads::goldens(endpoint, goldens)],
        WorkloadKind::Texts(texts) => vec![workloads::texts(endpoint, texts)],
        WorkloadKind::Tasks(tasks) => vec![workloads::tasks(endpoint, tasks)],
        // A conversation goes on with the answers. A suite sends its own requests; the host that started the engine runs it.
        WorkloadKind::Session(_) | WorkloadKind::Suite(_) => Vec::new(),
    }
}
