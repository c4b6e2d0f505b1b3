//! `/v1/completions`: the request, read strictly, and the answer's objects.
//!
//! Refuses to know: the engine, and in which order chunks are sent.

use super::common::{self, Common};
use super::error::ApiError;
use super::fields::{Fields, kind};
use super::logprobs::CompletionLogprobs;
use super::usage::{Timings, Usage};
use serde::Serialize;
use serde_json::{Map, Value};

const NAMES: &[&str] = &["prompt", "echo", "logprobs"];
const CHAT_NAMES: &[&str] = &[
    "messages",
    "top_logprobs",
    "max_completion_tokens",
    "add_generation_prompt",
];

/// OpenAI's default for `max_tokens` on this route.
pub(crate) const DEFAULT_MAX_TOKENS: u32 = 16;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CompletionRequest {
    pub(crate) common: Common,
    pub(crate) prompt: PromptInput,
    pub(crate) echo: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PromptInput {
    Text(String),
    Tokens(Vec<u32>),
}

impl CompletionRequest {
    pub(crate) fn read(members: Map<String, Value>) -> Result<Self, ApiError> {
        let mut fields = Fields::new(members);
        let mut common = Common::read(&mut fields)?;
        let prompt = fields
            .take("prompt")
            .ok_or_else(|| ApiError::missing("prompt"))?;
        let prompt = PromptInput::read(prompt)?;
        let echo = fields.bool("echo")?.unwrap_or(false);
        common.show.logprobs = match fields.count("logprobs")? {
            Some(count) => Some(common::check_top_logprobs("logprobs", count)?),
            None => None,
        };
        common::finish(fields, NAMES, CHAT_NAMES, "/v1/chat/completions")?;
        if common.max_tokens == Some(0) && !echo {
            let message =
                "`max_tokens` = 0 generates nothing; it is allowed with `echo: true` alone";
            return Err(ApiError::invalid_value("max_tokens", message));
        }
        Ok(Self {
            common,
            prompt,
            echo,
        })
    }
}

impl PromptInput {
    /// A string, an array of token ids, or an array that holds one of either.
    fn read(value: Value) -> Result<Self, ApiError> {
        const EXPECTED: &str = "a string or an array of token ids";
        let items = match value {
            Value::String(text) => return Ok(Self::Text(text)),
            Value::Array(items) => items,
            other => return Err(ApiError::invalid_type("prompt", EXPECTED, &kind(&other))),
        };
        match items.first() {
            None => Err(ApiError::invalid_value("prompt", "`prompt` is empty")),
            Some(Value::String(_) | Value::Array(_)) => one_of_several(items).and_then(Self::read),
            Some(_) => items
                .iter()
                .map(token_id)
                .collect::<Result<_, _>>()
                .map(Self::Tokens),
        }
    }
}

/// The prompt of a batch of one.
fn one_of_several(items: Vec<Value>) -> Result<Value, ApiError> {
    let count = items.len();
    let mut items = items.into_iter();
    match (items.next(), count) {
        (Some(Value::Array(inner)), 1) if inner.iter().any(|item| !item.is_number()) => {
            let message = "a prompt inside an array must be a string or an array of token ids";
            Err(ApiError::invalid_value("prompt", message))
        }
        (Some(only), 1) => Ok(only),
        _ => {
            let message = format!(
                "{count} prompts in one request are not supported: send one request a prompt"
            );
            Err(ApiError::unsupported("prompt", message))
        }
    }
}

fn token_id(value: &Value) -> Result<u32, ApiError> {
    let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
    id.ok_or_else(|| {
        ApiError::invalid_type(
            "prompt",
            "an array of token ids",
            &format!("one with {}", kind(value)),
        )
    })
}

/// An answer, whole (`usage` and `timings` set) or a chunk of one: the objects are the same.
#[derive(Debug, Serialize)]
pub(crate) struct Completion<'a> {
    pub(crate) id: &'a str,
    pub(crate) object: &'static str,
    pub(crate) created: u64,
    pub(crate) model: &'a str,
    pub(crate) choices: Vec<CompletionChoice>,
    /// Absent, null, or counts: OpenAI's streams tell all three apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<Option<Usage>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timings: Option<Timings>,
}

#[derive(Debug, Serialize)]
pub(crate) struct CompletionChoice {
    pub(crate) index: u32,
    pub(crate) text: String,
    pub(crate) logprobs: Option<CompletionLogprobs>,
    pub(crate) finish_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) prompt_token_ids: Option<Vec<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token_ids: Option<Vec<u32>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: Value) -> Result<CompletionRequest, ApiError> {
        let Value::Object(members) = value else {
            panic!("an object is needed");
        };
        CompletionRequest::read(members)
    }

    #[test]
    fn a_prompt_has_four_forms() {
        let check = |prompt: Value, expect: PromptInput| {
            assert_eq!(read(json!({"prompt": prompt})).unwrap().prompt, expect);
        };
        check(json!("a"), PromptInput::Text("a".to_owned()));
        check(json!(["a"]), PromptInput::Text("a".to_owned()));
        check(json!([1, 2]), PromptInput::Tokens(vec![1, 2]));
        check(json!([[1, 2]]), PromptInput::Tokens(vec![1, 2]));
    }

    #[test]
    fn other_prompts_are_refused() {
        let check = |prompt: Value, code: &str| {
            let error = read(json!({"prompt": prompt})).unwrap_err();
            assert_eq!((error.code, error.param.as_deref()), (code, Some("prompt")));
        };
        check(json!(["a", "b"]), "unsupported_parameter");
        check(json!([[1], [2]]), "unsupported_parameter");
        check(json!([]), "invalid_value");
        check(json!([["a"]]), "invalid_value");
        check(json!([1, "a"]), "invalid_type");
        check(json!([-1]), "invalid_type");
        check(json!([1.5]), "invalid_type");
        check(json!({}), "invalid_type");
        check(json!(null), "missing_required_parameter");
    }

    #[test]
    fn nothing_to_generate_needs_echo() {
        let error = read(json!({"prompt": "a", "max_tokens": 0})).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("max_tokens"));
        assert!(read(json!({"prompt": "a", "max_tokens": 0, "echo": true})).is_ok());
    }

    #[test]
    fn parameters_of_the_other_route_are_told_apart_from_unknown_ones() {
        let error = read(json!({"prompt": "a", "messages": []})).unwrap_err();
        assert_eq!(error.message, "`messages` belongs to /v1/chat/completions");
        let error = read(json!({"prompt": "a", "ech": true})).unwrap_err();
        assert!(
            error.message.ends_with("did you mean `echo`?"),
            "{}",
            error.message
        );
    }

    #[test]
    fn logprobs_is_a_number_up_to_twenty() {
        let logprobs = |value: Value| read(json!({"prompt": "a", "logprobs": value}));
        assert_eq!(logprobs(json!(0)).unwrap().common.show.logprobs, Some(0));
        assert_eq!(logprobs(json!(20)).unwrap().common.show.logprobs, Some(20));
        assert_eq!(logprobs(json!(21)).unwrap_err().code, "invalid_value");
        assert_eq!(logprobs(json!(true)).unwrap_err().code, "invalid_type");
    }
}
