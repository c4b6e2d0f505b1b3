//! The client against streams that break other tools, with the server's own record as the truth: what it
//! reports is what was sent, when it was sent; or the sample is void by the right name.
//!
//! `tests/it/load/streams.rs` holds two of the oddities beside sound streams, against a server that follows a script
//! to the byte.

#![cfg(target_os = "linux")]
mod moments;
mod streams;

use client::{Endpoint, LoadOutcome, PromptSeed, SessionClock, run};
use fixture::truth::{self, Quirk, Server, Truth};
use sha2::{Digest, Sha256};
use std::net::SocketAddr;
use verdict::plan::{Arrivals, Steady, WorkloadKind};
use verdict::record::Sample;

/// Requests of each quirk, all at once.
const REQUESTS: u32 = 16;
const TOKENS: u32 = truth::TOKENS;

/// What a quirk brought: the samples with the server's record of the same request.
struct Seen {
    outcome: LoadOutcome,
    truths: Vec<Truth>,
    /// The machine's monotonic clock minus the session's.
    distance_ns: i64,
}

impl Seen {
    /// Sends the requests to a server of its own.
    async fn run(quirk: Quirk) -> Self {
        let server = Server::start(truth::Timing::default(), 1).unwrap();
        let clock = SessionClock::start();
        let outcome = {
            let (workload, seed) = (
                workload(),
                PromptSeed {
                    session: 1,
                    block: 0,
                },
            );
            run(
                &endpoint(server.address, quirk),
                &workload,
                seed,
                &clock,
                &|_, _| {},
            )
            .await
        };
        // An answer enters the record right after its last write; the client may know it before.
        let wanted = outcome
            .samples
            .iter()
            .filter(|sample| sample.tokens.events > 0);
        let wanted = wanted.count();
        let truths = loop {
            let truths = truth::fetch(server.address).unwrap();
            if truths.len() >= wanted {
                break truths;
            }
        };
        Self {
            outcome,
            truths,
            distance_ns: -truth::clock::distance(|| clock.now_ns()),
        }
    }

    /// Every sample with the record of the request that it is about: the one with the same text.
    fn pairs(&self) -> Vec<(&Sample, &Truth)> {
        let pair = |sample: &'_ Sample| {
            let same = |truth: &&Truth| sha256(&truth.text) == sample.text_sha256;
            self.truths
                .iter()
                .find(same)
                .expect("the text of some answer")
        };
        let samples = self.outcome.samples.iter();
        samples.map(|sample| (sample, pair(sample))).collect()
    }
}

fn sha256(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}

fn endpoint(address: SocketAddr, quirk: Quirk) -> Endpoint {
    Endpoint {
        prompt_ids: Some((100, 200)),
        ..Endpoint::usual(address, quirk.name())
    }
}

fn workload() -> verdict::plan::Workload {
    let kind = WorkloadKind::Steady(Steady {
        requests: REQUESTS,
        warmup: 0,
        prompt_tokens: 8,
        output_tokens: TOKENS,
        arrivals: Arrivals::Closed {
            concurrency: REQUESTS,
        },
    });
    fixture::records::workload(None, kind)
}
