//! `/v1/chat/completions`: the request, read strictly, and the answer's objects.
//!
//! Refuses to know: the chat template, the engine, and in which order chunks are sent.

use super::common::{self, Common};
use super::error::ApiError;
use super::fields::{Fields, kind};
use super::logprobs::ChatLogprobs;
use super::shown::shorten;
use super::usage::{StopReason, Timings, Usage};
use serde::Serialize;
use serde_json::{Map, Value};

const NAMES: &[&str] = &[
    "messages",
    "logprobs",
    "top_logprobs",
    "max_completion_tokens",
    "add_generation_prompt",
];
const COMPLETION_NAMES: &[&str] = &["prompt", "echo"];

#[derive(Clone, Debug, PartialEq)]
pub struct ChatRequest {
    pub common: Common,
    pub messages: Vec<ChatMessage>,
    pub add_generation_prompt: bool,
}

/// What the template does for one message takes about as long as so many bytes to tokenise.
const MESSAGE_BYTES: usize = 128;

/// A message with its text parts joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatMessage {
    pub role: String,
    pub content: String,
}

impl ChatRequest {
    pub fn read(members: Map<String, Value>) -> Result<Self, ApiError> {
        let mut fields = Fields::new(members);
        let mut common = Common::read(&mut fields)?;
        let limit = fields.count("max_completion_tokens", 0..=u32::MAX)?;
        common.max_tokens = max_tokens(common.max_tokens, limit)?;
        common.show.logprobs = logprobs(&mut fields)?;
        let messages = fields
            .array("messages")?
            .ok_or_else(|| ApiError::missing("messages"))?;
        if messages.is_empty() {
            return Err(ApiError::invalid_value("messages", "`messages` is empty"));
        }
        let messages = messages.into_iter().enumerate();
        let messages = messages.map(|(at, message)| ChatMessage::read(at, message));
        let request = Self {
            common,
            messages: messages.collect::<Result<_, _>>()?,
            add_generation_prompt: fields.bool("add_generation_prompt")?.unwrap_or(true),
        };
        common::finish(fields, NAMES, COMPLETION_NAMES, "/v1/completions")?;
        Ok(request)
    }
}

/// The two names of one limit.
fn max_tokens(old: Option<u32>, new: Option<u32>) -> Result<Option<u32>, ApiError> {
    match (old, new) {
        (Some(old), Some(new)) if old != new => {
            let message = format!(
                "`max_tokens` = {old} and `max_completion_tokens` = {new} disagree: send one"
            );
            Err(ApiError::invalid_value("max_completion_tokens", message))
        }
        (Some(0), _) | (_, Some(0)) => {
            let message = "an answer of 0 tokens can't be asked for here; /v1/completions with `echo` scores a prompt";
            Err(ApiError::invalid_value("max_tokens", message))
        }
        (old, new) => Ok(new.or(old)),
    }
}

/// `logprobs: true` with `top_logprobs` best tokens.
fn logprobs(fields: &mut Fields) -> Result<Option<u32>, ApiError> {
    let wanted = fields.bool("logprobs")?.unwrap_or(false);
    let top = fields.count("top_logprobs", 0..=common::MAX_TOP_LOGPROBS)?;
    match (wanted, top) {
        (false, None | Some(0)) => Ok(None),
        (true, top) => Ok(Some(top.unwrap_or(0))),
        (false, Some(_)) => {
            let message = "`top_logprobs` needs `logprobs: true`";
            Err(ApiError::invalid_value("top_logprobs", message))
        }
    }
}

impl ChatMessage {
    /// How much there is to render and to tokenise.
    pub fn work_bytes(&self) -> usize {
        MESSAGE_BYTES + self.content.len()
    }

    fn read(at: usize, value: Value) -> Result<Self, ApiError> {
        let name = format!("messages.{at}");
        let Value::Object(members) = value else {
            return Err(ApiError::invalid_type(&name, "an object", &kind(&value)));
        };
        let mut role = None;
        let mut content = None;
        for (key, value) in members {
            let path = format!("{name}.{}", shorten(&key));
            match (key.as_str(), value) {
                (_, Value::Null) => {}
                ("role", value) => role = Some(read_role(&path, value)?),
                ("content", value) => content = Some(read_content(&path, value)?),
                ("tool_calls", Value::Array(calls)) if calls.is_empty() => {}
                (
                    "name" | "tool_calls" | "tool_call_id" | "function_call" | "audio" | "refusal",
                    _,
                ) => {
                    return Err(ApiError::unsupported(
                        &path,
                        format!("`{path}` is not supported"),
                    ));
                }
                _ => {
                    let message = format!("`{path}` is not a parameter of this API");
                    return Err(ApiError::unknown(&path, message));
                }
            }
        }
        Ok(Self {
            role: role.ok_or_else(|| ApiError::missing(&format!("{name}.role")))?,
            content: content.ok_or_else(|| ApiError::missing(&format!("{name}.content")))?,
        })
    }
}

fn read_role(path: &str, value: Value) -> Result<String, ApiError> {
    match value {
        Value::String(role) => match role.as_str() {
            "system" | "user" | "assistant" => Ok(role),
            "developer" => Err(ApiError::unsupported(
                path,
                "the role `developer` is not supported: use `system`",
            )),
            "tool" | "function" => Err(ApiError::unsupported(path, "tools are not implemented")),
            _ => {
                let role = shorten(&role);
                let message = format!("`{role}` is no role: use `system`, `user` or `assistant`");
                Err(ApiError::invalid_value(path, message))
            }
        },
        other => Err(ApiError::invalid_type(path, "a string", &kind(&other))),
    }
}

/// A string, or an array of text parts, which are joined as they stand.
fn read_content(path: &str, value: Value) -> Result<String, ApiError> {
    match value {
        Value::String(text) => Ok(text),
        Value::Array(parts) => {
            let parts = parts.iter().enumerate();
            parts
                .map(|(at, part)| read_part(&format!("{path}.{at}"), part))
                .collect()
        }
        other => Err(ApiError::invalid_type(
            path,
            "a string or an array of text parts",
            &kind(&other),
        )),
    }
}

fn read_part<'a>(path: &str, part: &'a Value) -> Result<&'a str, ApiError> {
    match (part["type"].as_str(), part["text"].as_str()) {
        (Some("text"), Some(text)) => nothing_else(path, part).map(|()| text),
        (Some("text"), None) => Err(ApiError::missing(&format!("{path}.text"))),
        (Some(other), _) => {
            let other = shorten(other);
            let message = format!("content of type `{other}` is not supported: only `text` is");
            Err(ApiError::unsupported(path, message))
        }
        (None, _) => Err(ApiError::missing(&format!("{path}.type"))),
    }
}

/// Refuses what a text part has beside its text.
fn nothing_else(path: &str, part: &Value) -> Result<(), ApiError> {
    let mut names = part.as_object().into_iter().flat_map(Map::keys);
    match names.find(|name| !matches!(name.as_str(), "type" | "text")) {
        None => Ok(()),
        Some(name) => {
            let path = format!("{path}.{}", shorten(name));
            let message = format!("`{path}` is not a parameter of this API");
            Err(ApiError::unknown(&path, message))
        }
    }
}

/// An answer, whole or a chunk of one; they differ in `object` and in the choice.
#[derive(Debug, Serialize)]
pub struct Chat<'a> {
    pub id: &'a str,
    pub object: &'static str,
    pub created: u64,
    pub model: &'a str,
    pub choices: Vec<ChatChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<u32>>,
    /// Absent, null, or counts: OpenAI's streams tell all three apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Option<Usage>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timings: Option<Timings>,
}

#[derive(Debug, Serialize)]
pub struct ChatChoice {
    pub index: u32,
    #[serde(flatten)]
    pub part: ChatPart,
    pub logprobs: Option<ChatLogprobs>,
    pub finish_reason: Option<&'static str>,
    pub stop_reason: Option<StopReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<u32>>,
}

/// The member that holds text: `message` in a whole answer, `delta` in a chunk.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChatPart {
    Message(ChatText),
    Delta(ChatText),
}

#[derive(Debug, Default, Serialize)]
pub struct ChatText {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(mut body: Value) -> Result<ChatRequest, ApiError> {
        if body.get("messages").is_none() {
            body["messages"] = json!([{"role": "user", "content": "hi"}]);
        }
        let Value::Object(members) = body else {
            panic!("an object is needed");
        };
        ChatRequest::read(members)
    }

    #[test]
    fn content_is_a_string_or_text_parts() {
        let check = |content: Value, expect: &str| {
            let body = json!({"messages": [{"role": "user", "content": content}]});
            assert_eq!(read(body).unwrap().messages[0].content, expect);
        };
        check(json!("hi"), "hi");
        check(
            json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
            "ab",
        );
        check(json!([]), "");
    }

    #[test]
    fn bad_messages_are_refused_by_their_path() {
        let check = |message: Value, code: &str, param: &str| {
            let good = json!({"role": "user", "content": "hi"});
            let error = read(json!({"messages": [good, message]})).unwrap_err();
            assert_eq!((error.code, error.param.as_deref()), (code, Some(param)));
        };
        check(json!("hi"), "invalid_type", "messages.1");
        check(
            json!({"content": "hi"}),
            "missing_required_parameter",
            "messages.1.role",
        );
        check(
            json!({"role": "user"}),
            "missing_required_parameter",
            "messages.1.content",
        );
        check(
            json!({"role": "user", "content": null}),
            "missing_required_parameter",
            "messages.1.content",
        );
        check(
            json!({"role": "user", "content": [{"type": "text", "text": "a", "x": 1}]}),
            "unknown_parameter",
            "messages.1.content.0.x",
        );
        check(
            json!({"role": "robot", "content": ""}),
            "invalid_value",
            "messages.1.role",
        );
        check(
            json!({"role": "tool", "content": ""}),
            "unsupported_parameter",
            "messages.1.role",
        );
        check(
            json!({"role": "user", "content": 5}),
            "invalid_type",
            "messages.1.content",
        );
        check(
            json!({"role": "user", "content": [{"type": "image_url"}]}),
            "unsupported_parameter",
            "messages.1.content.0",
        );
        check(
            json!({"role": "user", "content": "", "name": "x"}),
            "unsupported_parameter",
            "messages.1.name",
        );
        check(
            json!({"role": "user", "content": "", "nam": "x"}),
            "unknown_parameter",
            "messages.1.nam",
        );
    }

    #[test]
    fn the_two_names_of_the_limit_must_agree() {
        let limit = |body: Value| read(body).map(|request| request.common.max_tokens);
        assert_eq!(limit(json!({})), Ok(None));
        assert_eq!(limit(json!({"max_tokens": 5})), Ok(Some(5)));
        assert_eq!(limit(json!({"max_completion_tokens": 5})), Ok(Some(5)));
        assert_eq!(
            limit(json!({"max_tokens": 5, "max_completion_tokens": 5})),
            Ok(Some(5))
        );
        assert!(limit(json!({"max_tokens": 5, "max_completion_tokens": 6})).is_err());
        assert!(limit(json!({"max_tokens": 0})).is_err());
    }

    #[test]
    fn top_logprobs_needs_logprobs() {
        let logprobs = |body: Value| read(body).map(|request| request.common.show.logprobs);
        assert_eq!(logprobs(json!({"logprobs": false})), Ok(None));
        assert_eq!(logprobs(json!({"logprobs": true})), Ok(Some(0)));
        assert_eq!(
            logprobs(json!({"logprobs": true, "top_logprobs": 3})),
            Ok(Some(3))
        );
        assert!(logprobs(json!({"top_logprobs": 3})).is_err());
        assert!(logprobs(json!({"logprobs": true, "top_logprobs": 21})).is_err());
        assert!(logprobs(json!({"logprobs": 3})).is_err());
    }
}
