//! One workload against a server that already runs: what `gate load` does. No launch, no judge.
//!
//! Main function: [`load`]. Refuses to know: arguments, how the report is shown.

mod headers;
pub mod lengths;
mod parameters;
mod tally;
pub mod traffic;
mod turns;
mod watch;

use self::traffic::Traffic;
use super::address::ServerUrl;
use super::limits::beyond_limit;
use super::notes::{gaps_known, notes, ran_out};
use super::samples_file::SamplesFile;
use super::view::{GoodShare, LoadReport};
use crate::figures::{Distribution, Speed, Throughput};
use crate::session::Error;
use crate::session::project::{now, tool};
use client::{Endpoint, PromptSeed, SessionClock, Tls, Tokenizer, run};
pub use headers::Headers;
use parameters::parameters;
use serde_json::{Map, Value};
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
pub use tally::LoadTally;
use verdict::metrics::{self, Clock, Phases};
use verdict::plan::{Arrivals, Plausible, Slo};
use verdict::record::ClientHealth;
pub use watch::Watch;

/// What to send, and where.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// `http://host:port`, with a path before `/v1` where there is one.
    pub url: String,
    pub model: String,
    /// Over the chat route.
    pub chat: bool,
    pub headers: Headers,
    /// Further keys of each request.
    pub extra_body: Map<String, Value>,
    pub traffic: Traffic,
    /// Token ids that prompts are drawn from, half-open; `None`: words.
    pub prompt_ids: Option<(u32, u32)>,
    /// A tokenizer.json, for texts of exact length.
    pub tokenizer: Option<PathBuf>,
    pub slo: Slo,
    /// What no answer can undercut, where the machine and the model are known.
    pub plausible: Plausible,
    pub seed: u64,
    /// Longest silence within an answer.
    pub timeout: Duration,
    pub forces_length: bool,
    pub stream_usage: bool,
    pub keep_alive: bool,
    pub return_token_ids: bool,
    /// Where the raw samples go, as JSON lines.
    pub out: Option<PathBuf>,
}

/// Sends the requests and gives the numbers. `on_done` hears (done, of) after each; `out` gets the samples as answers are
/// read, and none is kept; `cancel` ends the run early, and what was answered until then is reported.
///
/// # Errors
/// Arguments that cannot be, files that cannot be read, and a server that never answered.
pub async fn load(
    options: &LoadOptions,
    on_done: &dyn Fn(u32, u32),
    out: Option<&mut SamplesFile>,
    cancel: impl Future<Output = ()>,
) -> Result<LoadReport, Error> {
    let endpoint = endpoint(options)?;
    let workload = traffic::workload(
        &options.traffic,
        options.seed,
        endpoint.tokenizer.as_deref(),
    )?;
    let seed = PromptSeed {
        session: options.seed,
        block: options.traffic.part.0,
    };
    let parameters = parameters(options);
    let date = now();
    let clock = SessionClock::start();
    let tally = LoadTally::new(streams(options), options.slo);
    let watch = Watch::new(tally, &options.headers, on_done, out);
    let ended = {
        let run = run(&endpoint, &workload, seed, &clock, &watch);
        tokio::select! {
            outcome = run => Some(outcome),
            () = cancel => None,
        }
    };
    let (tally, cut_short) = watch.end();
    if ended.is_some() {
        answered(options, &tally)?;
    }
    let ending = match ended {
        None => LoadEnding::Interrupted {
            client: cut_short.map(|outcome| outcome.client),
        },
        Some(outcome) => match outcome.stopped {
            None => LoadEnding::Complete {
                client: outcome.client,
            },
            Some(why) => {
                let mut why = why.to_string();
                options.headers.redact(&mut why);
                LoadEnding::Stopped {
                    client: outcome.client,
                    why,
                }
            }
        },
    };
    let notes = notes_on_sending(options, &tally, workload.kind.requests());
    let mut report = report(options, parameters, date, tally, ending);
    if report.complete {
        report.notes.extend(notes);
    }
    Ok(report)
}

/// What a complete run did not send, or did not measure.
fn notes_on_sending(
    options: &LoadOptions,
    tally: &LoadTally,
    planned: u64,
) -> impl Iterator<Item = String> + use<> {
    let traffic = &options.traffic;
    let all_rising = (traffic.ramp_up.is_some() && tally.requests.sent == 0).then(|| {
        "all requests were sent while the load rose: say more --requests, or a shorter --ramp-up"
            .to_owned()
    });
    // Of a run that ends by the clock it is no sign of anything.
    let may_tell = traffic.multi_turn && traffic.duration.is_none();
    let unsent = turns::unsent(tally.void, tally.all, planned).filter(|_| may_tell);
    let ran_out = ran_out(traffic.duration, planned, tally.all, tally.moments_ns);
    [all_rising, unsent, ran_out].into_iter().flatten()
}

/// How many a closed loop keeps in flight.
fn streams(options: &LoadOptions) -> Option<u32> {
    match options.traffic.pace {
        Some(Arrivals::Closed { concurrency }) => Some(concurrency),
        _ => None,
    }
}

/// How a run ended.
enum LoadEnding {
    Complete {
        client: ClientHealth,
    },
    /// The server was gone before all was sent.
    Stopped {
        client: ClientHealth,
        why: String,
    },
    /// `client`: `None` where nothing was answered by then.
    Interrupted {
        client: Option<ClientHealth>,
    },
}

fn endpoint(options: &LoadOptions) -> Result<Endpoint, Error> {
    let tokenizer = options.tokenizer.as_deref().map(Tokenizer::open);
    let server = ServerUrl::parse(&options.url).map_err(Error::Usage)?;
    let further = options.extra_body.iter();
    let tls = server.is_secure.then(|| Tls::new(server.host()));
    let tls = tls.transpose();
    Ok(Endpoint {
        address: server.address().map_err(Error::Usage)?,
        tls: tls.map_err(|cause| Error::Usage(format!("{}: {cause}", options.url)))?,
        authority: server.authority.to_owned(),
        model: options.model.clone(),
        request_timeout: options.timeout,
        prompt_ids: options.prompt_ids,
        return_token_ids: options.return_token_ids,
        forces_length: options.forces_length,
        stream_usage: options.stream_usage,
        keep_alive: options.keep_alive,
        chat: options.chat,
        path: server.path.to_owned(),
        headers: options.headers.0.clone(),
        request: further
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
        plausible: options.plausible,
        tokenizer: tokenizer.transpose()?.map(Arc::new),
    })
}

/// A server that gave no status to any request is not there.
fn answered(options: &LoadOptions, tally: &LoadTally) -> Result<(), Error> {
    match tally.first_fault().filter(|_| !tally.has_status) {
        None => Ok(()),
        Some(cause) => {
            // TLS has named the cause and the remedy.
            let question = match cause.contains("TLS: ") {
                true => "",
                false => "; is the server up, and is this its port?",
            };
            Err(Error::Failed(format!(
                "nothing answers at {}: {cause}{question}",
                options.url
            )))
        }
    }
}

fn report(
    options: &LoadOptions,
    parameters: Map<String, Value>,
    date: String,
    tally: LoadTally,
    ending: LoadEnding,
) -> LoadReport {
    let complete = matches!(ending, LoadEnding::Complete { .. });
    let (client, stopped) = match ending {
        LoadEnding::Complete { client } => (Some(client), None),
        LoadEnding::Stopped { client, why } => (Some(client), Some(why)),
        LoadEnding::Interrupted { client } => (client, None),
    };
    // First, since it takes memory for a moment.
    let implausible = implausible_phases(options, tally.phases);
    let numbers = tally.run.numbers();
    // Of an interrupted run the streams under way are no samples, so that it cannot be held to their number.
    let reached = streams(options).filter(|_| complete || stopped.is_some());
    let beyond = client
        .as_ref()
        .map(|health| beyond_limit(health, reached, &numbers));
    let notes = notes(&numbers, &tally.notes, client.as_ref());
    LoadReport {
        tool: tool(),
        date,
        server: options.url.clone(),
        model: options.model.clone(),
        parameters,
        complete,
        stopped,
        ttft_ms: Distribution::of_known(&numbers.ttft_ms, &numbers.ttft_at_most_ms),
        tpot_ms: Distribution::of_known(&numbers.tpot_ms, &numbers.tpot_at_most_ms),
        itl_ms: gaps_known(&numbers.itl_ms, numbers.ambiguous_share),
        icl_ms: gaps_known(&numbers.icl_ms, numbers.ambiguous_share),
        e2e_ms: Distribution::of(&numbers.e2e_ms),
        throughput: Throughput {
            output_tokens_per_s: numbers.throughput,
            output_tokens_per_s_full: numbers.throughput_full,
        },
        goodput: numbers.goodput.map(|good| GoodShare {
            share: good.share,
            requests_per_s: good.requests_per_s,
        }),
        prefill: speed(&numbers.prefill, numbers.ttft_at_most_ms.len()),
        generation: speed(&numbers.generation, numbers.tpot_at_most_ms.len()),
        burst_factor: numbers.burst_factor,
        prompt_tokens: tokens(&tally.prompt_tokens),
        output_tokens: tokens(&tally.output_tokens),
        turns: tally.turns.by_turn(),
        requests: tally.requests,
        client,
        client_beyond_limit: beyond.unwrap_or_default(),
        server_contradicts: tally.server.contradiction(),
        implausible,
        notes,
    }
}

/// A floor that was given decides instead, by request.
fn implausible_phases(options: &LoadOptions, phases: Phases) -> Option<String> {
    if options.plausible.tpot_floor_ms.is_some() {
        return None;
    }
    let why = phases.implausible()?;
    Some(format!(
        "{why}. If the server is that fast and every first token waits, say --tpot-floor"
    ))
}

/// A rate whose time is not known has no bound above 0.
fn speed(speed: &metrics::Speed, left_out: usize) -> Speed {
    Speed {
        clock: match speed.clock {
            Clock::Stream => "stream",
            Clock::Server => "server",
        }
        .to_owned(),
        tokens_per_s: Distribution::of_known(&speed.tokens_per_s, &vec![f64::INFINITY; left_out]),
    }
}

fn tokens(counts: &[u32]) -> Distribution {
    let counts: Vec<f64> = counts.iter().copied().map(f64::from).collect();
    Distribution::of(&counts)
}
