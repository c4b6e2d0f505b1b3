//! Streams with exact stamps: what the sample must say of each, or by which name it must be void.

mod contradictions;
mod counts;
mod steps;
mod streams;
mod voids;
mod whole;

use super::read;
use crate::Endpoint;
use crate::response::exchange::{BodyRead, Ending, Exchange};
use crate::socket::stamps::Arrival;
use crate::threads::streams::Finished;
use crate::workloads::request_plan::{Expect, Label};
use verdict::record::{Phase, Sample, VoidRule};

const FORCED_4: Expect = Expect {
    streamed: true,
    forced: Some(4),
    most: None,
    prompt: None,
    unfit: None,
    echoed: false,
    stopped: false,
    refused: false,
    may_refuse: false,
    logprobs: false,
    keep_text: false,
};
const WHOLE: Expect = Expect {
    streamed: false,
    forced: None,
    keep_text: true,
    ..FORCED_4
};

/// An answer whose body came in reads at the given times.
fn exchange(reads: &[(u64, &str)]) -> Exchange {
    let mut exchange = Exchange::begin(Some((1, 2)), 10);
    exchange.headers_ns = Some(20);
    exchange.status = Some(200);
    for (number, (at_ns, text)) in (1..).zip(reads) {
        exchange.body.extend_from_slice(text.as_bytes());
        let arrival = Arrival {
            at_ns: *at_ns,
            kernel: true,
            number,
        };
        exchange.reads.push(BodyRead {
            end: exchange.body.len(),
            arrival,
        });
        exchange.end_ns = Some(*at_ns);
    }
    exchange
}

fn sample(expect: &Expect, exchange: &Exchange) -> Sample {
    let label = Label::of(0, Phase::Measured);
    sample_at(&endpoint(), label, expect, exchange)
}

fn sample_at(endpoint: &Endpoint, label: Label, expect: &Expect, exchange: &Exchange) -> Sample {
    let finished = Finished {
        label,
        expect: *expect,
        exchange: exchange.clone(),
        talk: None,
    };
    read("g/w", finished, endpoint).sample
}

fn endpoint() -> Endpoint {
    Endpoint::usual(([127, 0, 0, 1], 1).into(), "m")
}

fn rule(sample: &Sample) -> Option<VoidRule> {
    sample.void.as_ref().map(|void| void.rule)
}

/// A stream for four forced tokens: its sample's event stamps, tokens by usage, and void rule.
fn check(reads: &[(u64, &str)], events_ns: &[u64], usage: Option<u32>, void: Option<VoidRule>) {
    let sample = sample(&FORCED_4, &exchange(reads));
    assert_eq!(sample.stamps.events_ns, events_ns, "{sample:#?}");
    assert_eq!(sample.tokens.events as usize, events_ns.len());
    assert_eq!(sample.tokens.completion, usage, "{sample:#?}");
    assert_eq!(rule(&sample), void, "{sample:#?}");
}

const A: &str = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n";
const B: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"b\"}}]}\n\n";
const THINK: &str = "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"r\"}}]}\n\n";
const ROLE: &str =
    "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
const EMPTY: &str = "data: {\"choices\":[{\"delta\":{}}]}\n\n";
const LENGTH: &str = "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n";
const STOP: &str = "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\n";
const USAGE_2: &str = "data: {\"choices\":[],\"usage\":{\"completion_tokens\":2}}\n\n";
const USAGE_4: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4,\
    \"prompt_tokens_details\":{\"cached_tokens\":1}}}\n\n";
const USAGE_14: &str = "data: {\"choices\":[],\"usage\":{\"completion_tokens\":14}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

/// The usual last words of an answer of four tokens.
fn goodbye() -> String {
    [LENGTH, USAGE_4, DONE].concat()
}
