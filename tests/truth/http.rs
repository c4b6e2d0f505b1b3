//! Requests as the server reads them: as much of HTTP and of the API as clients use here.
//!
//! Main type: [`Call`]. Refuses to know: sockets, answers.

use super::TOKENS;
use super::quirk::Quirk;
use serde_json::Value;

/// What a request wants.
#[derive(Debug)]
pub(super) enum Call {
    Complete(Ask),
    /// `GET /truth`.
    Truth,
    /// `DELETE /truth`.
    Forget,
    Models,
    /// A path that nothing answers.
    Unknown,
}

/// A completion that is asked for.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) chat: bool,
    pub(super) stream: bool,
    pub(super) usage: bool,
    pub(super) tokens: u32,
    pub(super) prompt_tokens: usize,
    pub(super) quirk: Quirk,
}

/// The request at the beginning of `bytes`, once all of it is there, and its length. Bytes that are no
/// HTTP are a request for nothing.
pub(super) fn parse(bytes: &[u8]) -> Option<(Call, usize)> {
    let head_end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..head_end]);
    let length = header(&head, "content-length").map_or(0, |text| text.parse().unwrap_or(0));
    let body = bytes[head_end..].get(..length)?;
    let mut line = head.split(' ');
    let call = match (line.next(), line.next()) {
        (Some("POST"), Some("/v1/completions")) => complete(false, body),
        (Some("POST"), Some("/v1/chat/completions")) => complete(true, body),
        (Some("GET"), Some("/truth")) => Call::Truth,
        (Some("DELETE"), Some("/truth")) => Call::Forget,
        (Some("GET"), Some("/v1/models" | "/health")) => Call::Models,
        _ => Call::Unknown,
    };
    Some((call, head_end + length))
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(key, _)| key.eq_ignore_ascii_case(name))?;
    Some(value.trim())
}

fn complete(chat: bool, body: &[u8]) -> Call {
    let Ok(json) = serde_json::from_slice::<Value>(body) else {
        return Call::Unknown;
    };
    let limit = json["max_completion_tokens"]
        .as_u64()
        .or(json["max_tokens"].as_u64());
    Call::Complete(Ask {
        chat,
        stream: json["stream"] == true,
        usage: json["stream_options"]["include_usage"] == true,
        tokens: limit.map_or(TOKENS, |limit| limit as u32),
        prompt_tokens: prompt_tokens(if chat {
            &json["messages"]
        } else {
            &json["prompt"]
        }),
        quirk: Quirk::of(json["model"].as_str().unwrap_or_default()),
    })
}

/// Ids count one each, texts one a word.
fn prompt_tokens(prompt: &Value) -> usize {
    match prompt {
        Value::Number(_) => 1,
        Value::String(text) => text.split_whitespace().count(),
        Value::Array(parts) => parts.iter().map(prompt_tokens).sum(),
        Value::Object(part) => ["content", "text"]
            .iter()
            .filter_map(|key| part.get(*key))
            .map(prompt_tokens)
            .sum(),
        _ => 0,
    }
}
