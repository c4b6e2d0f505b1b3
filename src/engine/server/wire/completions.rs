//! `/v1/completions`: the request, read strictly, and the answer's objects.
//!
//! Refuses to know: the engine, and in which order chunks are sent.

use super::common::{self, Common};
use super::error::ApiError;
use super::fields::{Fields, kind, token_id};
use super::logprobs::CompletionLogprobs;
use super::usage::{StopReason, Timings, Usage};
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
pub const DEFAULT_MAX_TOKENS: u32 = 16;

/// Most choices of one answer: prompts × `n`.
const MAX_CHOICES: usize = 256;

#[derive(Clone, Debug, PartialEq)]
pub struct CompletionRequest {
    pub common: Common,
    /// At least one.
    pub prompts: Vec<PromptInput>,
    pub echo: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum PromptInput {
    Text(String),
    Tokens(Vec<u32>),
}

impl CompletionRequest {
    pub fn read(members: Map<String, Value>) -> Result<Self, ApiError> {
        let mut fields = Fields::new(members);
        let mut common = Common::read(&mut fields)?;
        let prompt = fields
            .take("prompt")
            .ok_or_else(|| ApiError::missing("prompt"))?;
        let prompts = PromptInput::read(prompt)?;
        let echo = fields.bool("echo")?.unwrap_or(false);
        common.show.logprobs = fields.count("logprobs", 0..=common::MAX_TOP_LOGPROBS)?;
        common::finish(fields, NAMES, CHAT_NAMES, "/v1/chat/completions")?;
        if common.max_tokens == Some(0) && !echo {
            let message =
                "`max_tokens` = 0 generates nothing; it is allowed with `echo: true` alone";
            return Err(ApiError::invalid_value("max_tokens", message));
        }
        check_choices(prompts.len(), common.n)?;
        Ok(Self {
            common,
            prompts,
            echo,
        })
    }
}

impl PromptInput {
    /// How much there is to tokenise, or, for the echo, to decode: a token has some bytes of text.
    pub fn work_bytes(&self, echoed: bool) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Tokens(ids) if echoed => size_of_val(ids.as_slice()),
            Self::Tokens(_) => 0,
        }
    }

    /// A string, an array of token ids, or an array of either.
    fn read(value: Value) -> Result<Vec<Self>, ApiError> {
        const EXPECTED: &str = "a string, an array of token ids, or an array of either";
        let items = match value {
            Value::String(text) => return Ok(vec![Self::Text(text)]),
            Value::Array(items) => items,
            other => return Err(ApiError::invalid_type("prompt", EXPECTED, &kind(&other))),
        };
        match items.first() {
            None => Err(ApiError::invalid_value("prompt", "`prompt` is empty")),
            Some(Value::String(_) | Value::Array(_)) => {
                let items = items.into_iter().enumerate();
                items.map(|(at, item)| Self::read_one(at, item)).collect()
            }
            Some(_) => Self::read_ids("prompt", &items).map(|prompt| vec![prompt]),
        }
    }

    /// One of several.
    fn read_one(at: usize, value: Value) -> Result<Self, ApiError> {
        let path = format!("prompt.{at}");
        match value {
            Value::String(text) => Ok(Self::Text(text)),
            Value::Array(items) => Self::read_ids(&path, &items),
            other => {
                const EXPECTED: &str = "a string or an array of token ids, as the first is";
                Err(ApiError::invalid_type(&path, EXPECTED, &kind(&other)))
            }
        }
    }

    fn read_ids(path: &str, items: &[Value]) -> Result<Self, ApiError> {
        let ids = items.iter().map(|item| token_id(path, item));
        ids.collect::<Result<_, _>>().map(Self::Tokens)
    }
}

fn check_choices(prompts: usize, n: usize) -> Result<(), ApiError> {
    if prompts.saturating_mul(n) <= MAX_CHOICES {
        return Ok(());
    }
    let message = format!(
        "{prompts} prompts × `n` = {n} are more than the {MAX_CHOICES} choices that one request may have: \
         send several requests"
    );
    Err(ApiError::invalid_value("prompt", message))
}

/// An answer, whole (`usage` and `timings` set) or a chunk of one: the objects are the same.
#[derive(Debug, Serialize)]
pub struct Completion<'a> {
    pub id: &'a str,
    pub object: &'static str,
    pub created: u64,
    pub model: &'a str,
    pub choices: Vec<CompletionChoice>,
    /// Absent, null, or counts: OpenAI's streams tell all three apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Option<Usage>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timings: Option<Timings>,
}

#[derive(Debug, Serialize)]
pub struct CompletionChoice {
    pub index: u32,
    pub text: String,
    pub logprobs: Option<CompletionLogprobs>,
    pub finish_reason: Option<&'static str>,
    pub stop_reason: Option<StopReason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ids: Option<Vec<u32>>,
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
        let check = |prompt: Value, expect: &[PromptInput]| {
            assert_eq!(read(json!({"prompt": prompt})).unwrap().prompts, expect);
        };
        let text = |text: &str| PromptInput::Text(text.to_owned());
        let tokens = |ids: &[u32]| PromptInput::Tokens(ids.to_vec());
        check(json!("a"), &[text("a")]);
        check(json!(["a"]), &[text("a")]);
        check(json!(["a", "b"]), &[text("a"), text("b")]);
        check(json!([1, 2]), &[tokens(&[1, 2])]);
        check(json!([[1, 2]]), &[tokens(&[1, 2])]);
        check(json!([[1], [2]]), &[tokens(&[1]), tokens(&[2])]);
        check(json!([[1], "a"]), &[tokens(&[1]), text("a")]);
    }

    #[test]
    fn other_prompts_are_refused() {
        let check = |prompt: Value, code: &str, param: &str| {
            let error = read(json!({"prompt": prompt})).unwrap_err();
            assert_eq!((error.code, error.param.as_deref()), (code, Some(param)));
        };
        check(json!([]), "invalid_value", "prompt");
        check(json!(["a", 1]), "invalid_type", "prompt.1");
        check(json!([["a"]]), "invalid_type", "prompt.0");
        check(json!([[1], [[2]]]), "invalid_type", "prompt.1");
        check(json!([1, "a"]), "invalid_type", "prompt");
        check(json!([-1]), "invalid_type", "prompt");
        check(json!([1.5]), "invalid_type", "prompt");
        check(json!({}), "invalid_type", "prompt");
        check(json!(null), "missing_required_parameter", "prompt");
    }

    #[test]
    fn prompts_times_n_have_a_limit() {
        let prompts = |count| vec!["a"; count];
        assert!(read(json!({"prompt": prompts(256)})).is_ok());
        assert!(read(json!({"prompt": prompts(16), "n": 16})).is_ok());
        for body in [
            json!({"prompt": prompts(257)}),
            json!({"prompt": prompts(17), "n": 16}),
        ] {
            let error = read(body).unwrap_err();
            assert_eq!(
                (error.code, error.param.as_deref()),
                ("invalid_value", Some("prompt"))
            );
        }
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
