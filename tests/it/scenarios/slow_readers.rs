//! Clients that ask for much and read nothing: they wait for themselves alone.

use super::answer::{self, Mode};
use super::rest::aborted_once_at_rest;
use fixture::http::{self, DEADLINE};
use fixture::process::Server;
use nix::sys::signal::Signal;
use serde_json::json;
use std::net::TcpStream;
use std::time::Instant;

const MADE: &str = "vllm:generation_tokens_total";
const SLOW: usize = 3;
/// Tokens after which a slow client's socket is full: some 3 KB a token, and a send buffer grows to 4 MB.
const FULL: f64 = 3000.0;
/// Many more than a client reads or its sockets hold.
const ASKED: u32 = 12_000;

/// Sends a request for a long answer in large events and reads nothing of it.
fn deaf(server: &Server) -> TcpStream {
    let body = json!({"messages": [{"role": "user", "content": "1+1="}], "max_tokens": ASKED,
        "ignore_eos": true, "stream": true, "logprobs": true, "top_logprobs": 20,
        "return_tokens_as_token_ids": true, "cache_prompt": false});
    let request = http::post_bytes(
        "/v1/chat/completions",
        "application/json",
        &body.to_string(),
    );
    http::send_with_little_room(server.address, &request)
}

#[test]
fn clients_that_do_not_read_delay_nobody_and_leave_nothing() {
    let mut server = Server::start(&[]);
    let prompt: Vec<u32> = (10..60).collect();
    let ask = |mode| {
        let body = answer::forced(&prompt, 24, mode);
        let connection = answer::send_together(server.address, &[body]).remove(0);
        answer::read(connection, mode).unwrap().0
    };
    let alone = ask(Mode::Whole);
    let slow: Vec<_> = (0..SLOW).map(|_| deaf(&server)).collect();
    server.await_metric("vllm:num_requests_running", SLOW as f64);
    for mode in [Mode::Whole, Mode::Streamed] {
        assert_eq!(ask(mode), alone, "beside clients that do not read");
    }
    // Now that every socket is full, once more.
    let begun = Instant::now();
    while server.metric(MADE, "") < FULL * SLOW as f64 {
        assert!(begun.elapsed() < DEADLINE, "the sockets were never full");
        std::thread::sleep(fixture::TICK);
    }
    for mode in [Mode::Whole, Mode::Streamed] {
        assert_eq!(ask(mode), alone, "beside clients whose sockets are full");
    }
    // They were answered while the slow ones were still being worked on.
    let made = server.metric(MADE, "");
    assert!(
        made < f64::from(ASKED) * SLOW as f64,
        "all {made} tokens were made before"
    );

    drop(slow);
    let aborted = aborted_once_at_rest(&server);
    assert_eq!(aborted.to_bits(), (SLOW as f64).to_bits());
    assert_eq!(ask(Mode::Whole), alone, "after they went");
    // No answer is under way: the server ends at once, not when the time to drain is over.
    server.signal(Signal::SIGTERM);
    assert_eq!(server.exit_code(), Some(0));
}
