//! Answers over HTTP from kernels that the driver started: the CPU's, and nothing is left behind.

use crate::driver::fake::{FakeGpu, Report};
use crate::driver::start;
use fixture::http;
use fixture::process::Server;
use serde_json::{Value, json};

/// Few recordings, and prompts in several chunks.
const FLAGS: [&str; 10] = [
    "--backend",
    "cuda",
    "--max-running",
    "3",
    "--kv-tokens",
    "1024",
    "--step-tokens",
    "48",
    "--chunk-tokens",
    "40",
];

/// The same, with prompts of 64 tokens and more in chunks of the delta rule.
const HYBRID_FLAGS: [&str; 12] = [
    "--model",
    concat!(env!("CARGO_MANIFEST_DIR"), "/gates/models/tiny-qwen3.5"),
    "--backend",
    "cuda",
    "--max-running",
    "3",
    "--kv-tokens",
    "1024",
    "--step-tokens",
    "96",
    "--chunk-tokens",
    "90",
];

/// What a token's log-probability may be off by with operands in bf16, and how near two tokens must be for either to be
/// chosen: as in scripts/gpu_check/serving.py.
const ERROR_NATS: f64 = 0.2;
const NEAR_TIE_NATS: f64 = 0.1;

fn asked(length: u32, tokens: u32) -> Value {
    let prompt: Vec<u32> = (0..length)
        .map(|at| 3 + (length * 31 + at * 7) % 380)
        .collect();
    json!({"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": true, "logprobs": 5,
        "return_token_ids": true})
}

/// Ids of an answer's tokens, and their log-probabilities.
fn tokens(answer: &Value) -> Vec<(u64, f64)> {
    let choice = &answer["choices"][0];
    let ids = choice["token_ids"].as_array().unwrap().iter();
    let logprobs = choice["logprobs"]["token_logprobs"].as_array().unwrap();
    ids.zip(logprobs)
        .map(|(id, logprob)| (id.as_u64().unwrap(), logprob.as_f64().unwrap()))
        .collect()
}

/// Equal up to a token that might as well have been the other.
#[track_caller]
fn agree(got: &Value, want: &Value) {
    let (got, want) = (tokens(got), tokens(want));
    assert_eq!(got.len(), want.len());
    for ((id, logprob), (other, reference)) in got.into_iter().zip(want) {
        let off = (logprob - reference).abs();
        if id != other {
            assert!(
                off < NEAR_TIE_NATS,
                "{id} at {logprob}, {other} at {reference}"
            );
            return;
        }
        assert!(
            off < ERROR_NATS,
            "{id}: {logprob}, and {reference} is right"
        );
    }
}

fn ended(server: Server, gpu: &FakeGpu) -> Report {
    start::end(server);
    gpu.report()
}

#[test]
fn answers_are_the_cpus_and_everything_is_given_back() {
    check_answers(&[], &FLAGS);
}

#[test]
fn answers_of_a_hybrid_are_the_cpus() {
    check_answers(&HYBRID_FLAGS[..2], &HYBRID_FLAGS);
}

fn check_answers(cpu_flags: &[&str], flags: &[&str]) {
    let Some(gpu) = start::with_kernels() else {
        return;
    };
    let cpu = Server::start(cpu_flags);
    let server = start::server(&gpu, flags, &[]);
    assert!(
        server
            .start
            .iter()
            .any(|line| line.contains("(cuda, fake GPU)")),
        "{:#?}",
        server.start
    );
    let captures = server.metric("infergate_captures_total", "");
    assert!(captures > 0.0);

    // One token, a few, a whole page, several chunks; and once more, from the cache, with a page that must be copied.
    for length in [1, 5, 16, 100, 100] {
        let body = asked(length, 6);
        agree(&server.complete(body.clone()), &cpu.complete(body));
    }
    // More than are computed at once, and one that goes away.
    let body = asked(30, 200).to_string();
    drop(http::send(
        server.address,
        &http::post_bytes("/v1/completions", "application/json", &body),
    ));
    std::thread::scope(|scope| {
        for length in [5, 23, 40, 61] {
            let addresses = [server.address, cpu.address];
            scope.spawn(move || {
                let body = asked(length, 5);
                let [got, want] =
                    addresses.map(|address| http::post(address, "/v1/completions", &body).json());
                agree(&got, &want);
            });
        }
    });
    server.await_metric("vllm:num_requests_running", 0.0);
    assert!(server.metric("infergate_replays_total", "") > 40.0);
    assert_eq!(
        server.metric("infergate_captures_total", "").to_bits(),
        captures.to_bits()
    );

    let report = ended(server, &gpu);
    report.is_clean();
    let idle = {
        let server = start::server(&gpu, flags, &[]);
        ended(server, &gpu)
    };
    idle.is_clean();
    // What requests take, they find.
    for call in [
        "cuMemAlloc_v2",
        "cuMemHostAlloc",
        "cuEventCreate",
        "cuStreamBeginCapture_v2",
        "cuModuleLoadData",
    ] {
        assert!(idle.calls(call) > 0, "{call}");
        assert_eq!(report.calls(call), idle.calls(call), "{call}");
    }
    assert_eq!(report.most_bytes(), idle.most_bytes());
    // The first request that meets a shape does not wait for its recording to get there.
    let recordings = report.calls("cuGraphInstantiateWithFlags");
    assert_eq!(report.calls("cuGraphUpload"), recordings);
}
