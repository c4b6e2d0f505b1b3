//! What must be equal between two answers to one request, however they were asked for.
//!
//! Main type: [`Answer`]. Refuses to know: why they could differ.

use fixture::http::{self, DEADLINE};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

const COMPLETIONS: &str = "/v1/completions";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Whole,
    Streamed,
}

/// Everything of an answer but its times, its name and what was found in the cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) tokens: Vec<u64>,
    pub(crate) text: String,
    pub(crate) finish_reason: String,
    /// Prompt, generated, total.
    pub(crate) usage: [u64; 3],
}

/// A greedy request for exactly so many tokens; the same answer in both modes.
pub(crate) fn forced(prompt: &[u32], tokens: u32, mode: Mode) -> Value {
    let mut body = json!({"prompt": prompt, "max_tokens": tokens, "ignore_eos": true, "temperature": 0,
        "return_token_ids": true});
    if mode == Mode::Streamed {
        body["stream"] = json!(true);
        body["stream_options"] = json!({"include_usage": true});
    }
    body
}

pub(crate) fn bytes(body: &Value) -> Vec<u8> {
    http::post_bytes(COMPLETIONS, "application/json", &body.to_string())
}

/// Sends requests so that all are in flight before any can be answered: each but for its last byte, then the
/// last bytes.
pub(crate) fn send_together(address: SocketAddr, bodies: &[Value]) -> Vec<TcpStream> {
    let requests: Vec<_> = bodies.iter().map(bytes).collect();
    let mut connections: Vec<_> = requests
        .iter()
        .map(|request| http::send(address, &request[..request.len() - 1]))
        .collect();
    for (connection, request) in connections.iter_mut().zip(&requests) {
        connection.write_all(&request[request.len() - 1..]).unwrap();
    }
    connections
}

/// Nothing of the answer is there yet.
pub(crate) fn is_unanswered(connection: &TcpStream) -> bool {
    connection.set_nonblocking(true).unwrap();
    let peeked = connection.peek(&mut [0]);
    connection.set_nonblocking(false).unwrap();
    peeked.is_err()
}

/// Reads an answer to its end. `Err` says what is wrong with its form.
pub(crate) fn read(mut connection: TcpStream, mode: Mode) -> Result<(Answer, u64), String> {
    connection.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut raw = String::new();
    let read = connection.read_to_string(&mut raw);
    read.map_err(|error| format!("the answer breaks off: {error}"))?;
    let (head, body) = raw.split_once("\r\n\r\n").ok_or("no head")?;
    if !head.starts_with("HTTP/1.1 200 ") {
        return Err(format!("not 200: {raw}"));
    }
    match mode {
        Mode::Whole => whole(body),
        Mode::Streamed => streamed(body),
    }
}

fn whole(body: &str) -> Result<(Answer, u64), String> {
    let value: Value = serde_json::from_str(body).map_err(|error| format!("{error} in {body}"))?;
    let mut answer = Answer::default();
    answer.take(&value["choices"][0]);
    let cached = answer.count(&value["usage"])?;
    Ok((answer, cached))
}

fn streamed(body: &str) -> Result<(Answer, u64), String> {
    // The lengths of the chunks stand on lines of their own.
    let mut events: Vec<&str> = body
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .collect();
    if events.pop() != Some("[DONE]") {
        return Err(format!("the stream does not end with [DONE]: {body}"));
    }
    let mut answer = Answer::default();
    let mut cached = None;
    for event in events {
        let value: Value =
            serde_json::from_str(event).map_err(|error| format!("{error} in {event}"))?;
        match value["choices"].get(0) {
            Some(choice) => answer.take(choice),
            None => cached = Some(answer.count(&value["usage"])?),
        }
    }
    Ok((answer, cached.ok_or("the stream has no usage")?))
}

impl Answer {
    /// Adds what a choice brings, whole or a chunk's.
    fn take(&mut self, choice: &Value) {
        let ids = choice["token_ids"].as_array().into_iter().flatten();
        self.tokens.extend(ids.filter_map(Value::as_u64));
        self.text += choice["text"].as_str().unwrap_or_default();
        self.finish_reason += choice["finish_reason"].as_str().unwrap_or_default();
    }

    /// Takes the counts; gives the cached tokens.
    fn count(&mut self, usage: &Value) -> Result<u64, String> {
        let number = |value: &Value| value.as_u64().ok_or(format!("not the usage: {usage}"));
        self.usage = [
            number(&usage["prompt_tokens"])?,
            number(&usage["completion_tokens"])?,
            number(&usage["total_tokens"])?,
        ];
        number(&usage["prompt_tokens_details"]["cached_tokens"])
    }

    /// What makes an answer worthless as a standard or as a result.
    pub(crate) fn degenerate(&self, tokens: u32) -> Option<String> {
        if self.tokens.len() != tokens as usize || self.usage[1] != u64::from(tokens) {
            return Some(format!("{} tokens instead of {tokens}", self.tokens.len()));
        }
        self.text
            .trim()
            .is_empty()
            .then(|| format!("its text is {:?}", self.text))
    }
}
