//! One workload against a server that already runs: what `gate load` does. No launch, no judge.
//!
//! Main function: [`load`]. Refuses to know: arguments, how the report is shown.

mod headers;
pub mod lengths;
mod parameters;
pub mod traffic;
mod turns;

use self::traffic::Traffic;
use super::address::ServerUrl;
use super::limits::beyond_limit;
use super::notes::{gaps_known, notes, ran_out};
use super::view::{GoodShare, LoadReport, Requests};
use crate::figures::{Distribution, Speed, Throughput};
use crate::session::Error;
use crate::session::project::{now, tool};
use client::{Endpoint, LoadOutcome, Progress, PromptSeed, SessionClock, Tls, Tokenizer, run};
pub use headers::Headers;
use parameters::parameters;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use verdict::metrics::{self, Clock, contradiction, implausible, run_numbers};
use verdict::plan::{Arrivals, Plausible, Slo};
use verdict::record::{ClientHealth, Phase, Sample, TokenCounts};

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

/// Sends the requests and gives the numbers and the samples. `on_done` hears (done, of) after each; `cancel` ends the
/// run early, and what was answered until then is reported.
///
/// # Errors
/// Arguments that cannot be, files that cannot be read, and a server that never answered.
pub async fn load(
    options: &LoadOptions,
    on_done: &dyn Fn(u32, u32),
    cancel: impl Future<Output = ()>,
) -> Result<(LoadReport, Vec<Sample>), Error> {
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
    let date = now();
    let clock = SessionClock::start();
    let watch = Watch {
        on_done,
        cut_short: RefCell::default(),
    };
    let ended = {
        let run = run(&endpoint, &workload, seed, &clock, &watch);
        tokio::select! {
            outcome = run => Some(outcome),
            () = cancel => None,
        }
    };
    let is_answered = ended.is_some();
    let (mut samples, ending) = match ended {
        None => interrupted(watch.cut_short.into_inner()),
        Some(outcome) => {
            let client = outcome.client;
            let ending = match outcome.stopped {
                None => LoadEnding::Complete { client },
                Some(why) => {
                    let mut why = why.to_string();
                    options.headers.redact(&mut why);
                    LoadEnding::Stopped { client, why }
                }
            };
            (outcome.samples, ending)
        }
    };
    options.headers.redact_all(&mut samples);
    if is_answered {
        answered(options, &samples)?;
    }
    let parameters = parameters(options);
    let mut report = report(options, parameters, date, &samples, ending);
    if options.traffic.ramp_up.is_some() && report.complete && report.requests.sent == 0 {
        report.notes.push("all requests were sent while the load rose: say more --requests, or a shorter --ramp-up".into());
    }
    if options.traffic.multi_turn {
        report.turns = turns::by_turn(&samples);
        // Of a run that ends by the clock it is no sign of anything.
        let planned = workload.kind.requests();
        let unsent = turns::unsent(&samples, planned);
        report
            .notes
            .extend(unsent.filter(|_| report.complete && options.traffic.duration.is_none()));
    }
    if report.complete {
        let planned = workload.kind.requests();
        report
            .notes
            .extend(ran_out(options.traffic.duration, planned, &samples));
    }
    Ok((report, samples))
}

/// Shows progress, and takes what an interrupted run leaves.
struct Watch<'a> {
    on_done: &'a dyn Fn(u32, u32),
    cut_short: RefCell<Option<LoadOutcome>>,
}

impl Progress for Watch<'_> {
    fn request_done(&self, done: u32, of: u32) {
        (self.on_done)(done, of);
    }

    fn cut_short(&self, outcome: LoadOutcome) {
        self.cut_short.replace(Some(outcome));
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

/// What was done by then.
fn interrupted(outcome: Option<LoadOutcome>) -> (Vec<Sample>, LoadEnding) {
    let (samples, client) = outcome.map(|o| (o.samples, o.client)).unzip();
    let samples = samples.unwrap_or_default();
    (samples, LoadEnding::Interrupted { client })
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
fn answered(options: &LoadOptions, samples: &[Sample]) -> Result<(), Error> {
    let silent = samples
        .iter()
        .all(|sample| sample.stamps.headers_ns.is_none());
    match samples.first().filter(|_| silent) {
        None => Ok(()),
        Some(sample) => {
            let cause = sample.void.as_ref().map_or("", |void| &void.detail);
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
    samples: &[Sample],
    ending: LoadEnding,
) -> LoadReport {
    let complete = matches!(ending, LoadEnding::Complete { .. });
    let (client, stopped) = match ending {
        LoadEnding::Complete { client } => (Some(client), None),
        LoadEnding::Stopped { client, why } => (Some(client), Some(why)),
        LoadEnding::Interrupted { client } => (client, None),
    };
    let streams = match options.traffic.pace {
        Some(Arrivals::Closed { concurrency }) => Some(concurrency),
        _ => None,
    };
    let numbers = run_numbers(samples, streams, &options.slo);
    // Of an interrupted run the streams under way are no samples, so that it cannot be held to their number.
    let reached = streams.filter(|_| complete || stopped.is_some());
    let beyond = client
        .as_ref()
        .map(|health| beyond_limit(health, reached, &numbers));
    let notes = notes(&numbers, sound(samples), client.as_ref());
    LoadReport {
        tool: tool(),
        date,
        server: options.url.clone(),
        model: options.model.clone(),
        parameters,
        complete,
        stopped,
        ttft_ms: Distribution::of(&numbers.ttft_ms),
        tpot_ms: Distribution::of(&numbers.tpot_ms),
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
        prefill: speed(&numbers.prefill),
        generation: speed(&numbers.generation),
        burst_factor: numbers.burst_factor,
        prompt_tokens: tokens(samples, |counts| counts.prompt),
        output_tokens: tokens(samples, |counts| counts.completion),
        turns: Vec::new(),
        requests: requests(samples),
        client,
        client_beyond_limit: beyond.unwrap_or_default(),
        server_contradicts: contradiction(samples),
        implausible: implausible_phases(options, samples),
        notes,
    }
}

/// A floor that was given decides instead, by request.
fn implausible_phases(options: &LoadOptions, samples: &[Sample]) -> Option<String> {
    if options.plausible.tpot_floor_ms.is_some() {
        return None;
    }
    let why = implausible(samples)?;
    Some(format!(
        "{why}. If the server is that fast and every first token waits, say --tpot-floor"
    ))
}

fn speed(speed: &metrics::Speed) -> Speed {
    Speed {
        clock: match speed.clock {
            Clock::Stream => "stream",
            Clock::Server => "server",
        }
        .to_owned(),
        tokens_per_s: Distribution::of(&speed.tokens_per_s),
    }
}

/// Measured requests that enter the numbers.
fn sound(samples: &[Sample]) -> impl Iterator<Item = &Sample> + Clone {
    samples.iter().filter(|sample| sample.may_enter())
}

/// A count of each sound measured request.
fn tokens(samples: &[Sample], count: fn(&TokenCounts) -> Option<u32>) -> Distribution {
    let counts: Vec<f64> = sound(samples)
        .filter_map(|sample| count(&sample.tokens))
        .map(f64::from)
        .collect();
    Distribution::of(&counts)
}

fn requests(samples: &[Sample]) -> Requests {
    let mut requests = Requests::default();
    for sample in samples {
        if sample.phase == Phase::Warmup {
            requests.warmup += 1;
            continue;
        }
        requests.sent += 1;
        match &sample.void {
            None => requests.ok += 1,
            Some(void) => {
                let name = void.rule.name();
                *requests.void.entry(name).or_default() += 1;
                let first = || void.detail.clone();
                requests.details.entry(name).or_insert_with(first);
            }
        }
    }
    requests
}
