//! One connection of the engine: requests in, answers out, as much of HTTP as the gate uses.
//!
//! Main type: [`Connection`]. Refuses to know: what is answered, and when.

use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

#[derive(Debug)]
pub(super) enum Call {
    Complete(Ask),
    /// No JSON, or a value of the wrong type or sign.
    Bad,
    Metrics,
    /// Every other path: all is well.
    Health,
}

/// A completion that is asked for.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) chat: bool,
    /// No length is forced.
    pub(super) is_free: bool,
    pub(super) stream: bool,
    pub(super) usage: bool,
    pub(super) tokens: usize,
    /// Log-probabilities are asked for.
    pub(super) logprobs: bool,
    /// The prompt is to be scored, and nothing generated.
    pub(super) echo: bool,
    /// The sampler is to choose the tokens.
    pub(super) sampled: bool,
    /// Among all tokens, with this seed.
    pub(super) drawn: Option<u64>,
    /// Strings that end the answer.
    pub(super) stop: Vec<String>,
    /// The penalty that it asks for.
    pub(super) penalised: Option<&'static str>,
    /// A token an id, or a word.
    pub(super) prompt: Vec<String>,
    /// The same without its system message, and without earlier turns.
    pub(super) without: [Vec<String>; 2],
}

pub(super) struct Connection {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let writer = stream.try_clone()?;
        let reader = BufReader::new(stream);
        Ok(Self { reader, writer })
    }

    /// The next request; `None` where the client has gone.
    pub(super) fn read(&mut self) -> io::Result<Option<Call>> {
        let mut first = String::new();
        if self.reader.read_line(&mut first)? == 0 {
            return Ok(None);
        }
        let mut length = 0;
        for line in self.reader.by_ref().lines() {
            let line = line?.to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body)?;
        let path = first.split(' ').nth(1).unwrap_or_default();
        Ok(Some(match path {
            "/v1/completions" => ask(false, &body).map_or(Call::Bad, Call::Complete),
            "/v1/chat/completions" => ask(true, &body).map_or(Call::Bad, Call::Complete),
            "/metrics" => Call::Metrics,
            _ => Call::Health,
        }))
    }

    pub(super) fn page(&mut self, status: u16, body: &str) -> io::Result<()> {
        let length = body.len();
        let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\n\r\n");
        self.writer.write_all((head + body).as_bytes())
    }

    pub(super) fn begin_stream(&mut self) -> io::Result<()> {
        let head = "HTTP/1.1 200 x\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        self.writer.write_all(head.as_bytes())
    }

    pub(super) fn event(&mut self, data: &str) -> io::Result<()> {
        let event = format!("data: {data}\n\n");
        let chunk = format!("{:x}\r\n{event}\r\n", event.len());
        self.writer.write_all(chunk.as_bytes())
    }

    pub(super) fn end_stream(&mut self) -> io::Result<()> {
        self.event("[DONE]")?;
        self.writer.write_all(b"0\r\n\r\n")
    }
}

/// `None` for a bad request.
fn ask(chat: bool, body: &[u8]) -> Option<Ask> {
    /// More tokens than any context has.
    const TOO_MANY: f64 = 1e7;
    let json: Value = serde_json::from_slice(body).ok()?;
    let is_sound = |key: &str| {
        let value = &json[key];
        value.is_null() || value.as_f64().is_some_and(|n| (0.0..TOO_MANY).contains(&n))
    };
    let numbers = ["max_tokens", "temperature", "top_p", "n"];
    if !json.is_object() || !numbers.into_iter().all(is_sound) || json["stop"].is_object() {
        return None;
    }
    let mut prompt = Vec::new();
    tokens(&json[if chat { "messages" } else { "prompt" }], &mut prompt);
    if prompt.is_empty() {
        return None;
    }
    let messages = json["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let (last, before) = messages.split_last().unzip();
    let before: &[Value] = before.unwrap_or_default();
    let without = [false, true].map(|kept| {
        let before = before
            .iter()
            .filter(|message| (message["role"] == "system") == kept);
        let mut prompt = Vec::new();
        before
            .chain(last)
            .for_each(|message| tokens(message, &mut prompt));
        prompt
    });
    Some(Ask {
        chat,
        is_free: json["ignore_eos"] != true,
        stream: json["stream"] == true,
        usage: json["stream_options"]["include_usage"] == true,
        logprobs: json["logprobs"].is_number(),
        echo: json["echo"] == true && json["max_tokens"] == 0,
        sampled: json["temperature"].as_f64() > Some(0.0),
        drawn: json["seed"].as_u64().filter(|_| json["top_p"].is_null()),
        stop: serde_json::from_value(json["stop"].clone()).unwrap_or_default(),
        penalised: ["frequency_penalty", "presence_penalty"]
            .into_iter()
            .find(|key| !json[key].is_null()),
        tokens: json["max_tokens"].as_u64().unwrap_or(16) as usize,
        prompt,
        without,
    })
}

fn tokens(prompt: &Value, into: &mut Vec<String>) {
    match prompt {
        Value::Number(id) => into.push(id.to_string()),
        Value::String(text) => into.extend(text.split_whitespace().map(str::to_owned)),
        Value::Array(parts) => parts.iter().for_each(|part| tokens(part, into)),
        Value::Object(message) => tokens(&message["content"], into),
        Value::Null | Value::Bool(_) => {}
    }
}
