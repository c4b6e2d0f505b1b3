//! The timed client against a server that follows a script: workloads as they go over the wire, streams
//! that break other tools, and servers that break in every way. Exact stamps are the unit tests' part;
//! here counts, order and names matter.

mod capabilities;
mod command;
mod endings;
mod faults;
mod lengths;
mod pace;
mod page;
mod phases;
mod questions;
mod requests;
mod server;
#[cfg(target_os = "linux")]
mod stamps;
mod streams;
mod tls;
mod tokens;
mod turns;
mod workloads;

use client::{Endpoint, LoadOutcome, PromptSeed, SessionClock, run};
use serde_json::{Value, json};
use server::{Server, Step};
use std::net::SocketAddr;
use verdict::plan::{Arrivals, Steady, Workload, WorkloadKind};
use verdict::record::{Sample, VoidRule};

const SEED: PromptSeed = PromptSeed {
    session: 1,
    block: 0,
};
/// Tokens of every forced answer.
const TOKENS: usize = 64;

fn endpoint(address: SocketAddr) -> Endpoint {
    Endpoint {
        prompt_ids: Some((100, 200)),
        ..Endpoint::usual(address, "m")
    }
}

fn workload(kind: WorkloadKind) -> Workload {
    Workload {
        id: "gate/work".into(),
        launches: None,
        kind,
    }
}

fn steady(requests: u32, warmup: u32, concurrency: u32) -> Workload {
    workload(WorkloadKind::Steady(Steady {
        requests,
        warmup,
        prompt_tokens: 8,
        output_tokens: TOKENS as u32,
        arrivals: Arrivals::Closed { concurrency },
    }))
}

async fn run_on(endpoint: &Endpoint, workload: &Workload) -> LoadOutcome {
    let clock = SessionClock::start();
    run(endpoint, workload, SEED, &clock, &|_, _| {}).await
}

// Pieces of a stream.

fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

fn text(text: &str) -> String {
    event(&json!({"choices": [{"text": text}]}))
}

fn last(reason: &str) -> String {
    event(&json!({"choices": [{"text": "", "finish_reason": reason}]}))
}

fn usage(tokens: usize) -> String {
    event(&json!({"choices": [], "usage": {"prompt_tokens": 8, "completion_tokens": tokens}}))
}

fn done() -> String {
    "data: [DONE]\n\n".into()
}

fn goodbye() -> Vec<String> {
    vec![last("length"), usage(TOKENS), done()]
}

fn tokens(count: usize) -> Vec<String> {
    (0..count).map(|i| text(&format!(" {i}"))).collect()
}

fn plain() -> Vec<String> {
    [tokens(TOKENS), goodbye()].concat()
}

/// Sends sixteen requests, two at a time, to a server that answers each by this script, and holds what
/// must be true of every sample.
async fn sixteen(script: Vec<Step>) -> Vec<Sample> {
    let server = Server::start(move |_, _| script.clone()).await;
    let outcome = run_on(&endpoint(server.address), &steady(16, 0, 2)).await;
    assert_eq!(outcome.stopped, None);
    assert_eq!(outcome.samples.len(), 16);
    for (index, sample) in (0..).zip(&outcome.samples) {
        assert_eq!(sample.index, index);
        check_order(sample);
    }
    outcome.samples
}

fn bytes(step: Step) -> Vec<u8> {
    match step {
        Step::Send(bytes) => bytes,
        other => panic!("{other:?} sends nothing"),
    }
}

fn check_order(sample: &Sample) {
    let stamps = &sample.stamps;
    assert_eq!(stamps.intended_ns, stamps.send_ns);
    let connect = stamps
        .connect_ns
        .map(|(asked, established)| [asked, established]);
    let moments: Vec<u64> = connect
        .into_iter()
        .flatten()
        .chain([stamps.send_ns])
        .chain(stamps.headers_ns)
        .chain(stamps.first_byte_ns)
        .chain(stamps.events_ns.iter().copied())
        .chain(stamps.done_ns)
        .collect();
    assert!(moments.is_sorted(), "{stamps:?}");
    assert_eq!(sample.tokens.events as usize, stamps.events_ns.len());
}

/// A stream whose every sample must be sound, with so many events with output.
async fn check_sound(script: Vec<Step>, events: usize) {
    for sample in sixteen(script).await {
        assert_eq!(sample.void, None, "{sample:?}");
        assert_eq!(sample.stamps.events_ns.len(), events);
        assert_eq!(sample.tokens.completion, Some(TOKENS as u32));
        assert_eq!(sample.finish_reason.as_deref(), Some("length"));
        assert!(sample.stamps.done_ns.is_some());
    }
}

/// A stream whose every sample must be void by this name.
async fn check_void(script: Vec<Step>, rule: VoidRule) {
    for sample in sixteen(script).await {
        let void = sample.void.expect("void");
        assert_eq!(void.rule, rule, "{}", void.detail);
    }
}

/// An address where nothing listens.
async fn nobody() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}
