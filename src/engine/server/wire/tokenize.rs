//! `/tokenize` and `/detokenize`, in vLLM's form.

use super::error::ApiError;
use super::json::{self, Count};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A text; a chat has the body of `/v1/chat/completions`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenizeText {
    pub model: Option<String>,
    pub prompt: String,
    pub add_special_tokens: Option<bool>,
    pub return_token_strs: Option<bool>,
}

#[derive(Serialize)]
pub struct Tokens {
    pub count: usize,
    pub max_model_len: usize,
    pub tokens: Vec<u32>,
    pub token_strs: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Detokenize {
    pub model: Option<String>,
    pub tokens: Vec<Count>,
}

#[derive(Serialize)]
pub struct Text {
    pub prompt: String,
}

impl TokenizeText {
    pub fn read(members: Map<String, Value>) -> Result<Self, ApiError> {
        json::read(members, "")
    }
}

impl Detokenize {
    pub fn read(members: Map<String, Value>) -> Result<Self, ApiError> {
        json::read(members, "")
    }
}
