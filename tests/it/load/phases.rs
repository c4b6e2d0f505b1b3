//! Prefill and generation in `gate load`: their speeds, TPOT of streams that send several tokens at once, and times
//! that no engine can have.

use super::command::{ended, json, load};
use super::server::{Server, Step, chunk, end, stream_head};
use super::{done, event, last, text};
use serde_json::{Value, json};
use std::process::Output;

/// Milliseconds before the first token, as in the incident.
const SLOW: u64 = 1_004;

fn usage(prompt: u32, tokens: usize) -> String {
    event(&json!({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": tokens}}))
}

/// So many tokens in each event, `gap` ms apart, after `first` ms.
fn script(first: u64, gap: u64, events: &[usize], prompt: u32) -> Vec<Step> {
    let mut steps = vec![Step::Pause(first), stream_head()];
    for (number, tokens) in events.iter().enumerate() {
        if number > 0 && gap > 0 {
            steps.push(Step::Pause(gap));
        }
        steps.push(chunk(&text(&" abc".repeat(*tokens))));
    }
    let goodbye = [last("length"), usage(prompt, events.iter().sum()), done()];
    steps.extend(goodbye.iter().map(|text| chunk(text)));
    steps.push(end());
    steps
}

/// Five answers of 64 tokens to prompts of 70, one at a time, with these further arguments.
async fn five(server: &Server, further: &[&str]) -> Output {
    five_of(server, "64", further).await
}

async fn five_of(server: &Server, tokens: &str, further: &[&str]) -> Output {
    let shape = [
        "--concurrency",
        "1",
        "--requests",
        "5",
        "--prompt-tokens",
        "70",
    ];
    let mut command = load(server.address, &shape);
    command.args(["--output-tokens", tokens]).args(further);
    ended(command).await
}

#[track_caller]
fn says(output: &Output, code: i32, parts: &[&str]) {
    let said = String::from_utf8_lossy(&output.stdout);
    let said = fixture::unwrapped(&said);
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    for part in parts {
        assert!(said.contains(part), "`{part}` in {said}");
    }
}

/// A harness reported 70 tokens/s of prefill and 7,660 tokens/s of generation.
#[tokio::test]
async fn generation_that_is_too_fast_for_its_prefill_is_invalid() {
    let server = Server::start(|_, _| script(SLOW, 0, &[1; 64], 70)).await;
    // Each waits for its server five times, a second each: side by side.
    let (told, as_json, known, decode, prefill) = tokio::join!(
        five(&server, &[]),
        five(&server, &["--format", "json"]),
        five(&server, &["--tpot-floor", "0.00001", "--format", "json"]),
        five(&server, &["--tpot-floor", "1000"]),
        five(&server, &["--prefill-floor", "100000"]),
    );
    says(
        &told,
        4,
        &[
            "INVALID a prompt of 70 tokens waited 1",
            "no engine generates",
            "output was held back until it was made",
            "say --tpot-floor",
        ],
    );
    let report = json(&as_json);
    assert!(report["implausible"].is_string(), "{report:#}");
    // A floor that is known decides instead.
    assert!(json(&known)["implausible"].is_null());
    says(
        &decode,
        4,
        &["5 × implausible", "below the floor of 1000 ms"],
    );
    says(
        &prefill,
        4,
        &["5 × implausible", "70 prompt tokens computed in"],
    );
}

/// The same where the network brings the whole answer at one moment, so that no TPOT is known.
#[tokio::test]
async fn an_answer_that_was_held_back_whole_is_invalid() {
    let server = Server::start(|_, _| {
        let steps = script(0, 0, &[1; 64], 70).into_iter();
        let bytes = steps.filter(|step| matches!(step, Step::Send(_)));
        let whole: Vec<u8> = bytes.flat_map(super::bytes).collect();
        vec![Step::Pause(SLOW), Step::Send(whole)]
    })
    .await;
    let output = five(&server, &[]).await;
    says(
        &output,
        4,
        &[
            "5 valid",
            "INVALID a prompt of 70 tokens",
            "all others arrived together",
        ],
    );
}

/// A load or a compilation delays the first two of five; a queue or a bad engine all but one.
#[tokio::test]
async fn only_the_first_requests_may_wait_for_a_load() {
    let told = async |slow: fn(u64) -> bool| {
        let server = Server::start(move |number, _| {
            let first = if slow(number as u64) { SLOW } else { 0 };
            script(first, 0, &[1; 64], 70)
        })
        .await;
        let report = json(&five(&server, &["--format", "json"]).await);
        report["implausible"].is_string()
    };
    assert!(!told(|number| number < 2).await);
    assert!(told(|number| number != 3).await);
}

#[tokio::test]
async fn speeds_of_both_phases_have_a_name_in_every_format() {
    let server = Server::start(|_, _| script(20, 2, &[1; 64], 70)).await;
    let report = json(&five(&server, &["--format", "json"]).await);
    let p50 = |name: &str, key: &str| report[name][key]["p50"].as_f64().unwrap();
    let check = |phase: &str, rate: f64| {
        assert_eq!(report[phase]["clock"], "stream");
        let ratio = p50(phase, "tokens_per_s") / rate;
        assert!((ratio - 1.0).abs() < 1e-6, "{phase}: {ratio}");
    };
    let median = |name: &str| report[name]["p50"].as_f64().unwrap();
    check("prefill", 70.0 / median("ttft_ms") * 1e3);
    check("generation", 1e3 / median("tpot_ms"));
    for format in ["table", "markdown"] {
        let output = five(&server, &["--format", format]).await;
        let parts = [
            "prompt tokens/s computed, median; over TTFT, queues included",
            "output tokens/s a stream, median; by its events (1 / TPOT)",
        ];
        says(&output, output.status.code().unwrap(), &parts);
        let told = String::from_utf8_lossy(&output.stdout);
        assert_eq!(told.contains("| TTFT | "), format == "markdown", "{told}");
    }
}

#[tokio::test]
async fn the_servers_timings_give_its_prefill_speed() {
    let timings =
        json!({"prompt_n": 60, "prompt_ms": 12.0, "predicted_n": 64, "predicted_ms": 126.0});
    let with =
        event(&json!({"choices": [{"text": "", "finish_reason": "length"}], "timings": timings}));
    let server = Server::start(move |_, _| {
        let mut steps = vec![Step::Pause(20), stream_head()];
        for _ in 0..64 {
            steps.extend([Step::Pause(2), chunk(&text(" a"))]);
        }
        let goodbye = [with.clone(), usage(70, 64), done()];
        steps.extend(goodbye.iter().map(|text| chunk(text)));
        steps.push(end());
        steps
    })
    .await;
    let report = json(&five(&server, &["--format", "json"]).await);
    assert_eq!(report["prefill"]["clock"], "server", "{report:#}");
    assert_eq!(report["prefill"]["tokens_per_s"]["p50"], 5_000.0);
}

/// Mean gap between events over TPOT: tokens an event, exactly where TPOT has no bias.
fn tokens_an_event(report: &Value) -> f64 {
    let mean = |name: &str| report[name]["mean"].as_f64().unwrap();
    mean("icl_ms") / mean("tpot_ms")
}

/// An engine that sends four tokens an event showed 9.12 ms for a true 10 ms.
#[tokio::test]
async fn tpot_of_several_tokens_an_event_has_no_bias() {
    let check = async |events: &[usize], note: &str| {
        let events = events.to_vec();
        let tokens: usize = events.iter().sum();
        let server = Server::start(move |_, _| script(2, 4, &events, 70)).await;
        let tokens = tokens.to_string();
        let report = json(&five_of(&server, &tokens, &["--format", "json"]).await);
        assert_eq!(report["requests"]["ok"], 5, "{report:#}");
        let found = tokens_an_event(&report);
        assert!((found - 4.0).abs() < 1e-6, "{found}");
        assert!(report["notes"].to_string().contains(note), "{report:#}");
    };
    // Each event the same.
    check(&[4; 16], "TPOT takes 4 for it, an estimate").await;
    // Speculative decoding: one token by the prefill, then four a step.
    let speculative: Vec<usize> = [1].into_iter().chain([4; 16]).collect();
    check(&speculative, "TPOT takes 1 for it, an estimate").await;
}
