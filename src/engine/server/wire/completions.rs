//! `/v1/completions`: the request, read strictly, and the answer's objects.
//!
//! Refuses to know: the engine, and in which order chunks are sent.

use super::common::Common;
use super::error::ApiError;
use super::json::{self, TOKEN_IDS, token_ids};
use super::logprobs::CompletionLogprobs;
use super::parameters::TopLogprobs;
use super::truncate::kind;
use super::usage::{StopReason, Timings, Usage};
use serde::Serialize;
use serde_json::{Map, Value};

const CHAT_NAMES: &[&str] = &[
    "messages",
    "top_logprobs",
    "max_completion_tokens",
    "add_generation_prompt",
    "continue_final_message",
    "chat_template_kwargs",
    "tools",
    "tool_choice",
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
        let mut common = Common::read(members, CHAT_NAMES, "/v1/chat/completions")?;
        let prompt = common.parameters.prompt.take();
        let prompts = PromptInput::read(prompt.ok_or_else(|| ApiError::missing("prompt"))?)?;
        let echo = common.parameters.echo == Some(true);
        let logprobs = json::read_one("logprobs", common.parameters.logprobs.take())?;
        common.show.logprobs = logprobs.map(|top: TopLogprobs| top.0 as u32);
        if common.max_tokens == Some(0) && !echo {
            let message =
                "`max_tokens` = 0 generates nothing; it is allowed with `echo: true` alone";
            return Err(ApiError::invalid_value("max_tokens", message));
        }
        check_choices(prompts.len(), common.n)?;
        common.check_form()?;
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
        let ids = token_ids(items).map_err(|found| ApiError::invalid_type(path, TOKEN_IDS, &found));
        ids.map(Self::Tokens)
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
