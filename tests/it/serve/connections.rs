//! Clients that are slow: to send a request, to read an answer, to go away.

use fixture::http;
use fixture::process::Server;
use serde_json::json;
use std::io::Read as _;

const COMPLETIONS: &str = "/v1/completions";

#[test]
fn half_a_head_is_hung_up_on() {
    let server = Server::start(&["--read-timeout", "1"]);
    for begun in ["", "POST /v1/completions HTTP/1.1\r\nhost: te"] {
        let mut stream = http::send(server.address, begun.as_bytes());
        let mut rest = Vec::new();
        // Ends when the server closes it; the client's own deadline would be an error.
        stream.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty(), "{:?}", String::from_utf8_lossy(&rest));
    }
}

#[test]
fn half_a_body_is_refused() {
    let server = Server::start(&["--read-timeout", "1"]);
    let whole = http::post_bytes(COMPLETIONS, "application/json", "{\"prompt\": \"a\"}");
    let refused = http::raw(server.address, &whole[..whole.len() - 5]);
    assert_eq!(refused.status, 408);
    assert_eq!(refused.json()["error"]["code"], "request_timeout");
    // An answer may take longer than a request may.
    let slow = Server::start(&["--read-timeout", "1", "--fault", "decode-delay=60ms"]);
    let body = json!({"prompt": "1+1=", "max_tokens": 30, "ignore_eos": true});
    assert_eq!(slow.complete(body)["usage"]["completion_tokens"], 30);
}

const HEALTH: &[u8] = b"GET /health HTTP/1.1\r\nhost: test\r\n\r\n";

#[test]
fn a_connection_over_the_limit_waits_for_an_answer_to_end() {
    let server = Server::start(&["--max-connections", "1", "--fault", "decode-delay=20ms"]);
    let body = json!({"prompt": "1+1=", "max_tokens": 500, "ignore_eos": true, "stream": true});
    let request = http::post_bytes(COMPLETIONS, "application/json", &body.to_string());
    let mut first = http::send(server.address, &request);
    let mut one = [0; 1];
    first.read_exact(&mut one).unwrap();
    let mut second = http::send(server.address, HEALTH);
    second.set_nonblocking(true).unwrap();
    // The first one goes on.
    first.read_exact(&mut [0; 2000]).unwrap();
    let waits = second.read(&mut one).unwrap_err();
    assert_eq!(waits.kind(), std::io::ErrorKind::WouldBlock);
    drop(first);
    second.set_nonblocking(false).unwrap();
    second.read_exact(&mut one).unwrap();
}

/// Kept alive after an answer, silent from the start, and with half a request: each is closed for one that speaks.
#[test]
fn idle_connections_give_their_places_to_new_ones() {
    let server = Server::start(&["--max-connections", "8"]);
    let begun = [HEALTH, b"", b"POST /v1/completions HTTP/1.1\r\nhost: te"];
    let mut idle: Vec<_> = begun.map(|text| http::send(server.address, text)).into();
    idle[0].read_exact(&mut [0; 1]).unwrap();
    // Far more than there are places.
    idle.extend((0..20).map(|_| http::send(server.address, b"")));
    assert_eq!(http::raw(server.address, HEALTH).status, 200);
    let mut rest = Vec::new();
    for mut closed in idle.into_iter().take(3) {
        closed.read_to_end(&mut rest).unwrap();
    }
}

/// The deaf one's answer is more than the sockets hold; it waits for its reader alone.
#[test]
fn a_client_that_does_not_read_delays_nobody() {
    let server = Server::start(&["--max-running", "1"]);
    let body = json!({"prompt": "1+1=", "max_tokens": 3000, "ignore_eos": true, "stream": true,
        "logprobs": 20, "return_tokens_as_token_ids": true});
    let request = http::post_bytes(COMPLETIONS, "application/json", &body.to_string());
    let _deaf = http::send_with_little_room(server.address, &request);
    server.await_metric("vllm:generation_tokens_total", 3000.0);
    // Its place is free though none of it was read.
    let body = json!({"prompt": "1+1=", "max_tokens": 5, "ignore_eos": true});
    assert_eq!(server.complete(body)["usage"]["completion_tokens"], 5);
}

/// The only place is held by a client that never reads an answer which the sockets cannot hold.
#[test]
fn a_client_that_never_reads_loses_its_place() {
    let server = Server::start(&["--max-connections", "1", "--write-timeout", "1"]);
    let body = json!({"prompt": vec![20; 2000], "max_tokens": 1, "n": 16, "echo": true,
        "logprobs": 20, "return_tokens_as_token_ids": true});
    let request = http::post_bytes(COMPLETIONS, "application/json", &body.to_string());
    let whole = http::raw(server.address, &request).text().len();
    assert!(whole > 12 << 20, "{whole} bytes could lie in the sockets");
    let _deaf = http::send_with_little_room(server.address, &request);
    let body = json!({"prompt": "1+1=", "max_tokens": 5, "ignore_eos": true});
    assert_eq!(server.complete(body)["usage"]["completion_tokens"], 5);
}

#[test]
fn the_greatest_body_is_a_flag() {
    let server = Server::start(&["--max-body", "1K"]);
    let ask = |length: usize| {
        let body = format!(
            "{{\"prompt\": \"a\", \"max_tokens\": 1{}}}",
            " ".repeat(length)
        );
        http::raw(
            server.address,
            &http::post_bytes(COMPLETIONS, "application/json", &body),
        )
    };
    assert_eq!(ask(900).status, 200);
    let refused = ask(1000);
    assert_eq!(refused.status, 413);
    let message = refused.json()["error"]["message"].clone();
    assert!(
        message.as_str().unwrap().contains("1000 bytes"),
        "{message}"
    );
}
