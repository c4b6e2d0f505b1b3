//! Without a fault everything passes as it is.

use super::running::Proxy;
use super::upstream::Upstream;
use fixture::http::{self, post, post_bytes};
use fixture::process::Server;
use serde_json::{Value, json};
use std::io::Read as _;

const STREAM: &[&str] = &[
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Odd: \"kept\"\r\nTransfer-Encoding: chunked\r\n\r\n",
    "9\r\n: hello\n\n\r\n",
    "10\r\ndata: {\"x\": 1}\n\n\r\n",
    // Half an event, and the rest with another.
    "5\r\ndata:\r\n",
    "10\r\n é\r\n\r\ndata: 2\n\n\r\n",
    "0\r\n\r\n",
];

#[test]
fn a_streams_parts_pass_to_the_byte_and_one_by_one() {
    let upstream = Upstream::of(STREAM);
    let proxy = Proxy::before(upstream.address, &[]);
    let mut response = post(proxy.address, "/v1/completions", &json!({"stream": true}));
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-type"), Some("text/event-stream"));
    assert_eq!(response.header("x-odd"), Some("\"kept\""));
    let parts: Vec<String> = std::iter::from_fn(|| response.chunk()).collect();
    let expect = [
        ": hello\n\n",
        "data: {\"x\": 1}\n\n",
        "data:",
        " é\r\n\r\ndata: 2\n\n",
    ];
    assert_eq!(parts, expect);
}

#[test]
fn a_whole_answer_and_a_refusal_pass_with_their_heads() {
    for (status, head) in [(200, "200 OK"), (429, "429 Too Many Requests")] {
        let head: &'static str = format!(
            "HTTP/1.1 {head}\r\nContent-Type: application/json\r\nRetry-After: 7\r\nContent-Length: 9\r\n\r\n"
        )
        .leak();
        let upstream = Upstream::of(vec![head, "{\"a\" : 1}"].leak());
        let proxy = Proxy::before(
            upstream.address,
            &["wrong-token=1"][..usize::from(status != 200)],
        );
        let response = post(proxy.address, "/v1/completions", &json!({"prompt": "é"}));
        assert_eq!(response.status, status);
        assert_eq!(response.header("retry-after"), Some("7"));
        assert_eq!(response.header("content-length"), Some("9"));
        assert_eq!(response.text(), "{\"a\" : 1}");
        let asked = upstream.asked.recv().unwrap();
        assert!(
            asked.starts_with("POST /v1/completions HTTP/1.1\r\n"),
            "{asked}"
        );
        assert!(asked.contains("host: test\r\n"), "{asked}");
        assert!(asked.ends_with("\r\n\r\n{\"prompt\":\"é\"}"), "{asked}");
    }
}

#[test]
fn an_engine_that_is_gone_is_a_bad_gateway() {
    let server = Server::start(&[]);
    let proxy = Proxy::before(server.address, &[]);
    assert_eq!(http::get(proxy.address, "/health").status, 200);
    drop(server);
    let response = http::get(proxy.address, "/health");
    assert_eq!(response.status, 502);
    let text = response.text();
    assert!(text.contains("got no answer from 127.0.0.1"), "{text}");
}

#[test]
fn one_connection_carries_many_requests() {
    let server = Server::start(&[]);
    let proxy = Proxy::before(server.address, &[]);
    let body = json!({"prompt": [5, 6, 7], "max_tokens": 3, "return_token_ids": true}).to_string();
    let one = String::from_utf8(post_bytes("/v1/completions", "application/json", &body)).unwrap();
    let two = one.replace("connection: close\r\n", "") + &one;
    let mut both = String::new();
    let mut stream = http::send(proxy.address, two.as_bytes());
    stream.read_to_string(&mut both).unwrap();
    let answers: Vec<Value> = both
        .split("HTTP/1.1 200 OK\r\n")
        .filter_map(|answer| answer.split_once("\r\n\r\n"))
        .map(|(_, body)| serde_json::from_str(body).unwrap())
        .collect();
    let ids = |answer: &Value| answer["choices"][0]["token_ids"].clone();
    assert_eq!(answers.len(), 2, "{both}");
    assert_eq!(ids(&answers[0]), ids(&answers[1]));
}
