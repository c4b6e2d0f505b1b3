//! One number of streams: the load client runs, and what it reports stands beside the server's record.
//!
//! Main type: [`Cell`]. Refuses to know: how results look, what bars there are.

use crate::Outcome;
use crate::command::PROMPT_TOKENS;
use crate::errors::{Numbers, Seen};
use crate::floor;
use client::{Endpoint, PromptSeed, SessionClock};
use fixture::records;
use fixture::truth::{self, TOKENS, Truth, clock};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::net::SocketAddr;
use verdict::judge::AMBIGUOUS_TAIL;
use verdict::metrics::run_numbers;
use verdict::plan::{Arrivals, Slo, Steady, Workload, WorkloadKind};
use verdict::record::{Phase, Sample};

/// What one number of streams brought.
pub(crate) struct Cell {
    /// As the client's metrics have it, and as it was.
    pub(crate) seen: Seen,
    /// CPU s per 10⁶ tokens of this whole process, from the first request's making to the last sample.
    pub(crate) cpu_s: f64,
    /// The same of a thread that does nothing but wait for as many streams and read them ([`floor::polled`]).
    pub(crate) bare_s: f64,
    /// Share of output events that arrived together with a later one.
    pub(crate) ambiguous: f64,
    /// The most requests that the server had at once.
    pub(crate) reached: u32,
}

/// Requests that bring `tokens`, three a stream at the least.
pub(crate) fn requests(streams: u32, tokens: u32) -> u32 {
    tokens.div_ceil(TOKENS).max(3 * streams)
}

/// Runs `streams` at once until `tokens` were measured, three answers a stream at the least. Each
/// stream's first answer is warm-up.
pub(crate) fn run(server: SocketAddr, streams: u32, tokens: u32) -> Outcome<Cell> {
    let bare_s = floor::polled(server, streams, (tokens / streams).max(TOKENS))?;
    truth::reset(server)?;
    let workload = records::workload(
        None,
        WorkloadKind::Steady(Steady {
            requests: requests(streams, tokens),
            warmup: streams,
            prompt_tokens: PROMPT_TOKENS,
            output_tokens: TOKENS,
            arrivals: Arrivals::Closed {
                concurrency: streams,
            },
        }),
    );
    let cpu = clock::cpu_ns();
    let samples = client(server, &workload)?;
    let cpu_s = (clock::cpu_ns() - cpu) as f64 / 1e9;
    let truths = truth::fetch(server)?;
    let reached = most_at_once(&truths);
    let truths = measured(&samples, truths)?;
    let events: usize = samples.iter().map(|s| s.stamps.events_ns.len()).sum();
    let ambiguous: u32 = samples.iter().map(|s| s.stamps.ambiguous_events).sum();
    let ambiguous = f64::from(ambiguous) / events as f64;
    Ok(Cell {
        cpu_s: cpu_s / events as f64 * 1e6,
        bare_s,
        ambiguous,
        reached,
        seen: Seen {
            reported: reported(&samples, ambiguous),
            truly: Numbers::of(&truths),
        },
    })
}

/// As `gate check` runs it: one thread.
fn client(server: SocketAddr, workload: &Workload) -> Outcome<Vec<Sample>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let endpoint = Endpoint {
        prompt_ids: Some((100, 30_000)),
        ..Endpoint::usual(server, "none")
    };
    let seed = PromptSeed {
        session: 1,
        block: 0,
    };
    let clock = SessionClock::start();
    let outcome = runtime.block_on(client::run(&endpoint, workload, seed, &clock, &|_, _| {}));
    if let Some(stopped) = outcome.stopped {
        return Err(stopped.into());
    }
    if let Some(void) = outcome.samples.iter().find_map(|s| s.void.as_ref()) {
        return Err(format!("a void sample: {}", void.detail).into());
    }
    Ok(outcome.samples)
}

/// The records of the measured samples, in their order: those with the same text.
fn measured(samples: &[Sample], truths: Vec<Truth>) -> Outcome<Vec<Truth>> {
    let sha256 = |text: &str| hex::encode(Sha256::digest(text));
    let named = truths.into_iter().map(|truth| (sha256(&truth.text), truth));
    let mut named: HashMap<String, Truth> = named.collect();
    samples
        .iter()
        .filter(|sample| sample.phase == Phase::Measured)
        .map(|sample| {
            let truth = named.remove(&sample.text_sha256);
            truth.ok_or_else(|| "a sample whose text no answer had".into())
        })
        .collect()
}

/// Requests that the server had at once.
pub(crate) fn most_at_once(truths: &[Truth]) -> u32 {
    let mut moments: Vec<(u64, i32)> = truths
        .iter()
        .flat_map(|truth| {
            let last = truth.writes.last().map_or(truth.read_ns, |w| w.until_ns);
            [(truth.arrived_ns, 1), (last, -1)]
        })
        .collect();
    moments.sort_unstable();
    let mut now = 0;
    let running = moments.iter().map(|(_, change)| {
        now += change;
        now
    });
    running.max().unwrap_or(0).unsigned_abs()
}

/// As `gate load` shows them, request by request.
fn reported(samples: &[Sample], ambiguous: f64) -> Numbers {
    let mut numbers = Numbers {
        ttft_ms: Vec::new(),
        tpot_ms: Vec::new(),
        itl_ms: Vec::new(),
        ttft_at_most_ms: Vec::new(),
        tpot_at_most_ms: Vec::new(),
    };
    for sample in samples.iter().filter(|sample| sample.may_enter()) {
        let one = run_numbers(std::slice::from_ref(sample), None, &Slo::default());
        numbers.ttft_ms.push(one.ttft_ms.first().copied());
        numbers.tpot_ms.push(one.tpot_ms.first().copied());
        numbers.ttft_at_most_ms.extend(one.ttft_at_most_ms);
        numbers.tpot_at_most_ms.extend(one.tpot_at_most_ms);
        // Above that `gate load` shows no tail of gaps.
        if ambiguous <= AMBIGUOUS_TAIL {
            numbers.itl_ms.extend(one.icl_ms.kept());
        }
    }
    numbers
}
