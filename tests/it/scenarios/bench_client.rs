//! The requests of `vllm bench serve`, byte for byte as it writes them, and its way to read the answer.
//!
//! After vLLM's `vllm/benchmarks/lib/endpoint_request_func.py` (the functions for completions and for chats,
//! `StreamedResponseHandler`) and `vllm/benchmarks/serve.py` (what flags add to the body, the look-up of the
//! model's name): commits 02cfb534 and 009e6d4a. It must run unchanged against this server.

use fixture::http::{self, Response};
use fixture::process::Server;
use serde_json::{Value, json};

const COMPLETIONS: &str = "/v1/completions";
const CHAT: &str = "/v1/chat/completions";
const TOKENS: u64 = 24;

/// What the benchmark notes of an answer, of its clock only how often it looks at it.
#[derive(Debug, Default, PartialEq)]
struct Noted {
    text: String,
    output_tokens: Option<u64>,
    prompt_tokens: Option<u64>,
    /// Chunks with a choice: the first gives the time to the first token, each further one an interval.
    stamps: usize,
    done: bool,
}

/// Collects bytes until they hold a message: up to an empty line, or whole JSON without one.
#[derive(Default)]
struct Messages {
    buffer: String,
}

impl Messages {
    fn add(&mut self, piece: &str) -> Vec<String> {
        self.buffer += piece;
        let mut messages = Vec::new();
        while let Some((message, rest)) = self.buffer.split_once("\n\n") {
            if !message.trim().is_empty() {
                messages.push(message.trim().to_owned());
            }
            self.buffer = rest.to_owned();
        }
        let rest = self.buffer.strip_prefix("data: ").map(str::trim);
        let is_whole = |rest: &str| rest == "[DONE]" || serde_json::from_str::<Value>(rest).is_ok();
        if rest.is_some_and(is_whole) {
            messages.push(std::mem::take(&mut self.buffer).trim().to_owned());
        }
        messages
    }
}

impl Noted {
    /// Pieces are what one read of the socket gives: of any size.
    fn of(pieces: &[String], chat: bool) -> Self {
        let mut noted = Self::default();
        let mut messages = Messages::default();
        for piece in pieces
            .iter()
            .map(|piece| piece.trim())
            .filter(|piece| !piece.is_empty())
        {
            for message in messages.add(piece) {
                noted.take(&message, chat);
            }
        }
        assert_eq!(messages.buffer, "", "bytes that are no message");
        noted
    }

    fn take(&mut self, message: &str, chat: bool) {
        // A comment keeps a connection open.
        if message.starts_with(':') {
            return;
        }
        let message = message.strip_prefix("data: ").unwrap_or(message);
        assert!(!self.done, "{message} after [DONE]");
        if message == "[DONE]" {
            self.done = true;
            return;
        }
        let data: Value = serde_json::from_str(message).unwrap();
        if let Some(choice) = data["choices"].get(0) {
            let text = if chat {
                assert!(choice["delta"].is_object(), "{data}");
                &choice["delta"]["content"]
            } else {
                &choice["text"]
            };
            self.stamps += 1;
            self.text += text.as_str().unwrap_or_default();
        } else if data["usage"].is_object() {
            self.output_tokens = data["usage"]["completion_tokens"].as_u64();
            self.prompt_tokens = data["usage"]["prompt_tokens"].as_u64();
        }
    }
}

/// As aiohttp writes it: the connection stays open.
fn send(server: &Server, path: &str, body: &str) -> Response {
    let (address, length) = (server.address, body.len());
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nx-request-id: bench-1c2d-0\r\n\
         Authorization: Bearer none\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate\r\n\
         User-Agent: Python/3.12 aiohttp/3.13.2\r\nContent-Length: {length}\r\n\
         Content-Type: application/json\r\n\r\n{body}"
    );
    http::raw(address, request.as_bytes())
}

/// The body must be taken as it is and read by the benchmark's rules; `forced`: to its full length.
#[track_caller]
fn check(server: &Server, path: &str, body: &str, forced: bool) -> Noted {
    let mut response = send(server, path, body);
    if response.status != 200 {
        let status = response.status;
        panic!("{status} for {body}: {}", response.text());
    }
    let pieces: Vec<String> = std::iter::from_fn(|| response.chunk()).collect();
    let chat = path == CHAT;
    let noted = Noted::of(&pieces, chat);
    assert!(noted.done, "no [DONE] for {body}");
    assert!(
        noted.stamps > 0,
        "no chunk to take a first token's time from"
    );
    // How the network cuts the bytes makes no difference.
    assert_eq!(Noted::of(&[pieces.concat()], chat), noted);
    let pairs: Vec<String> = pieces.chunks(2).map(<[String]>::concat).collect();
    assert_eq!(Noted::of(&pairs, chat), noted);

    let made = noted.output_tokens.unwrap();
    assert!(noted.prompt_tokens.unwrap() > 0);
    if forced {
        assert_eq!(made, TOKENS, "{body}");
    }
    assert!(made > 0 && made <= TOKENS, "{body}");
    noted
}

/// A body with the members that flags add at its end.
fn with(body: &str, more: &str) -> String {
    format!("{}{more}}}", body.strip_suffix('}').unwrap())
}

const COMPLETION: &str = r#"{"model": "tiny-qwen3", "prompt": "1+1=", "repetition_penalty": 1.0, "max_tokens": 24, "logprobs": null, "stream": true, "stream_options": {"include_usage": true}}"#;
const OF_IDS: &str = r#"{"model": "tiny-qwen3", "prompt": [19, 13, 19, 31], "repetition_penalty": 1.0, "max_tokens": 24, "logprobs": null, "stream": true, "stream_options": {"include_usage": true}}"#;
const LOGPROBS: &str = r#"{"model": "tiny-qwen3", "prompt": "1+1=", "repetition_penalty": 1.0, "max_tokens": 24, "logprobs": 3, "stream": true, "stream_options": {"include_usage": true}}"#;
const CHAT_BODY: &str = r#"{"model": "tiny-qwen3", "messages": [{"role": "user", "content": [{"type": "text", "text": "What is 12+34?"}]}], "max_completion_tokens": 24, "stream": true, "stream_options": {"include_usage": true}}"#;

const BODIES: [(&str, &str); 4] = [
    (COMPLETIONS, COMPLETION),
    (COMPLETIONS, OF_IDS),
    (COMPLETIONS, LOGPROBS),
    (CHAT, CHAT_BODY),
];

#[test]
fn its_requests_are_taken_as_they_are() {
    let server = Server::start(&[]);
    for (path, body) in BODIES {
        check(&server, path, body, false);
        check(&server, path, &with(body, r#", "ignore_eos": true"#), true);
        // With --temperature=0 the text is that of a whole answer.
        let body = with(body, r#", "ignore_eos": true, "temperature": 0.0"#);
        let noted = check(&server, path, &body, true);
        let mut whole: Value = serde_json::from_str(&body).unwrap();
        whole["stream"] = json!(false);
        whole["return_token_ids"] = json!(true);
        whole.as_object_mut().unwrap().remove("stream_options");
        let whole = server.ok(path, whole).json();
        let choice = &whole["choices"][0];
        let text = choice["text"]
            .as_str()
            .or(choice["message"]["content"].as_str());
        assert_eq!(Some(noted.text.as_str()), text, "{body}");
        assert_eq!(
            noted.prompt_tokens,
            whole["usage"]["prompt_tokens"].as_u64()
        );
        // One interval for each token that can be seen, at the least.
        assert!(
            noted.stamps >= noted.text.chars().count().min(TOKENS as usize),
            "{noted:?}"
        );
    }
}

#[test]
fn its_sampling_flags_are_taken() {
    let server = Server::start(&[]);
    let flags = r#", "ignore_eos": true, "top_p": 0.9, "top_k": 20, "min_p": 0.05, "temperature": 0.7, "frequency_penalty": 0.1, "presence_penalty": 0.1"#;
    let neutral =
        r#", "ignore_eos": true, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "temperature": 1.0"#;
    for (path, body) in BODIES {
        let (penalty, raised) = (
            r#""repetition_penalty": 1.0"#,
            r#""repetition_penalty": 1.1"#,
        );
        // A Python dict keeps the place of a member that is set again.
        let flagged = if path == CHAT {
            with(body, &format!("{flags}, {raised}"))
        } else {
            with(&body.replace(penalty, raised), flags)
        };
        check(&server, path, &flagged, true);
        check(&server, path, &with(body, neutral), true);
    }
}

/// Without `--model`, the first model's `id` and `root` are taken.
#[test]
fn its_look_up_of_the_model_succeeds() {
    let server = Server::start(&[]);
    let list = server.get("/v1/models").json();
    for name in ["id", "root"] {
        assert!(list["data"][0][name].is_string(), "no `{name}` in {list}");
    }
}

#[test]
fn a_refusal_is_no_success() {
    let server = Server::start(&[]);
    let body = COMPLETION.replace("tiny-qwen3", "other");
    assert_eq!(send(&server, COMPLETIONS, &body).status, 404);
}
