//! What each fault makes of an engine's answers. Times are held from below alone: a busy machine only adds.

use super::running::Proxy;
use super::upstream::Upstream;
use fixture::http::{self, post};
use fixture::process::Server;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const TOKENS: u64 = 12;

fn asked(stream: bool) -> Value {
    json!({
        "prompt": [5, 6, 7, 8], "max_tokens": TOKENS, "ignore_eos": true, "min_tokens": TOKENS,
        "temperature": 0, "return_token_ids": true, "stream": stream,
        "stream_options": if stream { json!({"include_usage": true}) } else { Value::Null },
    })
}

/// A stream's events through a proxy with these faults.
fn streamed(server: &Server, faults: &[&str]) -> Vec<Value> {
    let proxy = Proxy::before(server.address, faults);
    post(proxy.address, "/v1/completions", &asked(true)).events()
}

fn ids(events: &[Value]) -> Vec<u64> {
    let of = |event: &Value| event["choices"][0]["token_ids"].as_array().cloned();
    let all = events.iter().filter_map(of).flatten();
    all.map(|id| id.as_u64().unwrap()).collect()
}

fn text(events: &[Value]) -> String {
    let texts = events
        .iter()
        .filter_map(|event| event["choices"][0]["text"].as_str());
    texts.collect()
}

#[test]
fn a_clean_proxy_changes_no_token() {
    let server = Server::start(&[]);
    let direct = server.stream("/v1/completions", asked(true));
    let passed = streamed(&server, &[]);
    assert_eq!(ids(&passed), ids(&direct));
    assert_eq!(text(&passed), text(&direct));
    assert_eq!(passed.len(), direct.len());
}

#[test]
fn tokens_go_together_and_none_is_lost() {
    let server = Server::start(&[]);
    let (clean, merged) = (streamed(&server, &[]), streamed(&server, &["merge=5"]));
    assert_eq!(ids(&merged), ids(&clean));
    assert_eq!(text(&merged), text(&clean));
    let sizes = |events: &[Value]| -> Vec<usize> {
        let counts = events
            .iter()
            .map(|event| ids(std::slice::from_ref(event)).len());
        counts.filter(|count| *count > 0).collect()
    };
    assert_eq!(sizes(&clean), [1; TOKENS as usize]);
    assert_eq!(sizes(&merged), [5, 5, 2]);
}

#[test]
fn every_nth_token_is_wrong_streamed_and_whole() {
    let server = Server::start(&[]);
    let (clean, wrong) = (
        streamed(&server, &[]),
        streamed(&server, &["wrong-token=5"]),
    );
    let differ: Vec<usize> = (0..TOKENS as usize)
        .filter(|at| ids(&clean)[*at] != ids(&wrong)[*at])
        .collect();
    assert_eq!(differ, [4, 9]);
    assert_ne!(text(&clean), text(&wrong));

    let proxy = Proxy::before(server.address, &["wrong-token=12"]);
    let mut whole = asked(false);
    whole["logprobs"] = 2.into();
    let clean = server.complete(whole.clone());
    let wrong = post(proxy.address, "/v1/completions", &whole).json();
    let tokens = |answer: &Value| {
        answer["choices"][0]["logprobs"]["tokens"]
            .as_array()
            .unwrap()
            .clone()
    };
    let differ = tokens(&clean)
        .iter()
        .zip(&tokens(&wrong))
        .filter(|(a, b)| a != b)
        .count();
    assert_eq!(differ, 1, "{clean}\n{wrong}");
    assert_ne!(clean["choices"][0]["text"], wrong["choices"][0]["text"]);
}

#[test]
fn usage_is_miscounted_streamed_and_whole() {
    let server = Server::start(&[]);
    let proxy = Proxy::before(server.address, &["usage-add=3"]);
    let usage = |answer: &Value| answer["usage"]["completion_tokens"].as_u64();
    let events = post(proxy.address, "/v1/completions", &asked(true)).events();
    assert_eq!(events.last().and_then(usage), Some(TOKENS + 3));
    assert_eq!(ids(&events).len() as u64, TOKENS);
    let whole = post(proxy.address, "/v1/completions", &asked(false)).json();
    assert_eq!(usage(&whole), Some(TOKENS + 3));
}

#[test]
fn what_is_late_is_at_least_as_late_as_told() {
    let server = Server::start(&[]);
    let check = |faults: &[&str], stream: bool, least_ms: u64| {
        let proxy = Proxy::before(server.address, faults);
        let begun = Instant::now();
        let text = post(proxy.address, "/v1/completions", &asked(stream)).text();
        assert!(
            begun.elapsed() >= Duration::from_millis(least_ms),
            "{faults:?}: {text}"
        );
    };
    check(&["decode-delay=10ms"], true, 110);
    check(&["decode-delay=10ms"], false, 120);
    check(&["prefill-delay=30ms"], true, 120);
    check(&["prefill-delay=30ms"], false, 120);
    check(&["stall=1:150ms"], true, 150);
}

#[test]
fn gauges_read_zero_or_rise_and_others_stay() {
    let server = Server::start(&[]);
    let faults = [
        "zero-gauge=infergate_kv_bytes_live",
        "rising-gauge=infergate_kv_bytes_total",
    ];
    let proxy = Proxy::before(server.address, &faults);
    let read = |name: &str| -> f64 {
        let text = http::get(proxy.address, "/metrics").text();
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("{name}{{")))
            .unwrap()
            .to_owned();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let before = read("infergate_kv_bytes_total");
    post(proxy.address, "/v1/completions", &asked(false)).text();
    assert!(server.metric("infergate_kv_bytes_live", "") > 0.0);
    assert!(read("infergate_kv_bytes_live").abs() < f64::EPSILON);
    assert!(read("infergate_kv_bytes_total") > before);
    let tokens = "vllm:generation_tokens_total";
    assert!((read(tokens) - server.metric(tokens, "")).abs() < f64::EPSILON);
}

#[test]
fn a_request_beside_another_gets_nothing() {
    const ANSWER: &[&str] = &[
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
        "32\r\ndata: {\"choices\":[{\"text\":\"a\",\"token_ids\":[1]}]}\n\n\r\n",
        "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n",
    ];
    let (upstream, release) = Upstream::holding(ANSWER, 2);
    let proxy = Proxy::before(upstream.address, &["empty-beside=1"]);
    let mut first = post(proxy.address, "/v1/completions", &asked(true));
    let token = first.event();
    let beside = post(proxy.address, "/v1/completions", &asked(true)).events();
    assert_eq!(beside, [Value::Null; 0]);
    release.send(()).unwrap();
    assert!(token.is_some() && first.event().as_deref() == Some("[DONE]"));
    assert_eq!(first.event(), None);
    // Alone again.
    let alone = post(proxy.address, "/v1/completions", &asked(true)).events();
    assert_eq!(ids(&alone), [1]);
}
