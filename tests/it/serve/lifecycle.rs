//! Clients that go away, full queues, and the end by signals.
//!
//! Decoding is slowed by the planted delay, so that an answer of many tokens is still running whenever a
//! condition is looked at.

use fixture::http;
use fixture::process::Server;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

const COMPLETIONS: &str = "/v1/completions";
const CHAT: &str = "/v1/chat/completions";

/// An answer that takes at least `tokens` × the planted delay.
fn long(tokens: u32, stream: bool) -> Value {
    json!({"prompt": "1+1=", "max_tokens": tokens, "ignore_eos": true, "stream": stream,
        "return_token_ids": true})
}

fn post_bytes(body: &Value) -> Vec<u8> {
    http::post_bytes(COMPLETIONS, "application/json", &body.to_string())
}

#[test]
fn a_client_that_goes_away_frees_its_slot() {
    let server = Server::start(&["--fault", "decode-delay=20ms"]);
    // The last one's end lies behind bytes that are no part of the request.
    for (stream, behind) in [(true, ""), (false, ""), (false, "\r\n")] {
        // 500 tokens take 10 s: the slot is free long before, and few tokens were made.
        let before = server.metric("vllm:generation_tokens_total", "");
        let request = [post_bytes(&long(500, stream)), behind.into()].concat();
        let connection = http::send(server.address, &request);
        server.await_metric("vllm:num_requests_running", 1.0);
        drop(connection);
        server.await_metric("vllm:num_requests_running", 0.0);
        let made = server.metric("vllm:generation_tokens_total", "") - before;
        assert!(made < 500.0, "all {made} tokens were generated for nobody");
    }
    let aborted = server.metric("vllm:request_success_total", "finished_reason=\"abort\"");
    assert_eq!(aborted.to_bits(), 3f64.to_bits());
    assert_eq!(
        server.metric("vllm:kv_cache_usage_perc", "").to_bits(),
        0f64.to_bits()
    );
}

#[test]
fn a_full_queue_refuses_with_a_time_to_retry() {
    let slow = ["--fault", "decode-delay=20ms"];
    let server = Server::start(&[&slow[..], &["--queue", "1", "--max-running", "1"]].concat());
    let _running = http::send(server.address, &post_bytes(&long(1000, true)));
    server.await_metric("vllm:num_requests_running", 1.0);
    let _waiting = http::send(server.address, &post_bytes(&long(1000, true)));
    server.await_metric("vllm:num_requests_waiting", 1.0);
    let refused = server.post(COMPLETIONS, &long(1, false));
    assert_eq!(refused.status, 429);
    // Nobody has left yet, by whom the time could be told.
    assert_eq!(refused.header("retry-after"), Some("1"));
    let error = refused.json()["error"].clone();
    assert_eq!(
        (&error["code"], &error["type"]),
        (&json!("queue_full"), &json!("rate_limit_error"))
    );
}

#[test]
fn a_first_signal_refuses_new_work_and_lets_answers_end() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut server = Server::start(&["--fault", "decode-delay=20ms"]);
        let mut running = server.post(COMPLETIONS, &long(120, true));
        assert!(running.event().is_some());
        server.signal(signal);
        let ready = server.await_refusal();
        assert_eq!(ready.status, 503);
        assert_eq!(ready.json()["error"]["code"], "shutting_down");
        // It takes nothing new, and is well.
        assert_eq!(server.get("/health").status, 200);
        let refused = server.post(COMPLETIONS, &long(1, false));
        assert_eq!(refused.status, 503);
        // One token was read already; the finish chunk holds none.
        let events = running.events();
        assert_eq!(events.len(), 119 + 1);
        assert_eq!(
            events.last().unwrap()["choices"][0]["finish_reason"],
            "length"
        );
        assert_eq!(server.exit_code(), Some(0));
    }
}

#[test]
fn an_idle_server_ends_at_once() {
    let mut server = Server::start(&[]);
    // An open connection without a request is no reason to stay.
    let _idle = http::send(server.address, b"");
    server.signal(Signal::SIGTERM);
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn half_a_request_does_not_hold_the_process() {
    let mut server = Server::start(&[]);
    let half = b"POST /v1/completions HTTP/1.1\r\nhost: test\r\ncontent-length: 100\r\n";
    let head = http::send(server.address, half);
    let body = [half.as_slice(), b"content-type: application/json\r\n\r\n{"].concat();
    let body = http::send(server.address, &body);
    // Answered on a later connection: the two before it were accepted.
    assert_eq!(server.get("/health").status, 200);
    server.signal(Signal::SIGTERM);
    assert_eq!(server.exit_code(), Some(0));
    drop((head, body));
}

#[test]
fn a_second_signal_ends_at_once() {
    let mut server = Server::start(&["--fault", "decode-delay=1s"]);
    let _running = http::send(server.address, &post_bytes(&long(400, true)));
    server.await_metric("vllm:num_requests_running", 1.0);
    server.signal(Signal::SIGTERM);
    server.await_refusal();
    server.signal(Signal::SIGTERM);
    assert_eq!(server.exit_code(), Some(130));
}

#[test]
fn a_hung_engine_can_be_ended() {
    let mut server = Server::start(&["--fault", "hang-after=3"]);
    let mut running = server.post(COMPLETIONS, &long(50, true));
    for _ in 0..3 {
        assert!(running.event().is_some());
    }
    server.signal(Signal::SIGTERM);
    server.await_refusal();
    server.signal(Signal::SIGINT);
    assert_eq!(server.exit_code(), Some(130));
}

#[test]
fn a_hung_engine_is_neither_alive_nor_ready() {
    let server = Server::start(&["--fault", "hang-after=3", "--stall-after", "1"]);
    let mut running = server.post(COMPLETIONS, &long(50, true));
    for _ in 0..3 {
        assert!(running.event().is_some());
    }
    let ready = server.await_refusal();
    for refused in [
        ready,
        server.get("/health"),
        server.post(COMPLETIONS, &long(1, false)),
    ] {
        assert_eq!(refused.status, 503);
        let error = refused.json()["error"].clone();
        assert_eq!(error["code"], "engine_unavailable");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("a step has taken"), "{message}");
    }
}

#[test]
fn one_signal_ends_a_hung_engine_when_the_time_to_drain_is_over() {
    let mut server = Server::start(&["--fault", "hang-after=3", "--drain-timeout", "1"]);
    let mut running = server.post(COMPLETIONS, &long(50, true));
    for _ in 0..3 {
        assert!(running.event().is_some());
    }
    server.signal(Signal::SIGTERM);
    check_cut_off(&mut server);
}

/// The answer is made, but it is more than the sockets hold (some 9 MB; a send buffer grows to 4): it never
/// goes out.
#[test]
fn one_signal_ends_a_client_that_does_not_read_when_the_time_to_drain_is_over() {
    for stream in [true, false] {
        let mut server = Server::start(&["--drain-timeout", "1"]);
        let body = json!({"messages": [{"role": "user", "content": "1+1="}], "max_tokens": 3000,
            "ignore_eos": true, "stream": stream, "logprobs": true, "top_logprobs": 20,
            "return_tokens_as_token_ids": true});
        let request = http::post_bytes(CHAT, "application/json", &body.to_string());
        let _deaf = http::send_with_little_room(server.address, &request);
        server.await_metric("vllm:generation_tokens_total", 3000.0);
        server.await_metric("vllm:num_requests_running", 0.0);
        server.signal(Signal::SIGTERM);
        check_cut_off(&mut server);
    }
}

fn check_cut_off(server: &mut Server) {
    assert_eq!(server.exit_code(), Some(5));
    let words = server.last_words();
    assert!(
        words.contains("cut off after 1 s: 1 had not ended"),
        "{words}"
    );
}
