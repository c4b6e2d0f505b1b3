//! The parameters of both generation routes as they are sent: serde knows each name's type and range.

use super::json::{Count, Ids, Real, Whole};
use super::truncate::shorten;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Number of best tokens to list with log-probabilities, 0 to 20 as at OpenAI.
pub type TopLogprobs = Whole<0, 20>;

/// Greatest `n`: choices of one prompt are generated side by side.
const MOST_CHOICES: i128 = 16;

/// The parameters as a body holds them. Null counts as absent, as OpenAI's clients send it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
    pub model: Option<String>,
    pub max_tokens: Option<Count>,
    pub min_tokens: Option<Count>,
    pub ignore_eos: Option<bool>,
    pub stream: Option<bool>,
    pub stream_options: Option<Map<String, Value>>,
    pub return_token_ids: Option<bool>,
    pub return_tokens_as_token_ids: Option<bool>,
    pub cache_prompt: Option<bool>,
    pub cache_salt: Option<String>,
    /// Choices of one prompt.
    pub n: Option<Whole<1, MOST_CHOICES>>,
    pub best_of: Option<Count>,
    pub temperature: Option<Real<0, 2>>,
    pub top_p: Option<Real<0, 1, true>>,
    /// −1, as vLLM has it, and 0 take all tokens.
    pub top_k: Option<Whole<-1, { u32::MAX as i128 }>>,
    pub min_p: Option<Real<0, 1>>,
    pub presence_penalty: Option<Real<-2, 2>>,
    pub frequency_penalty: Option<Real<-2, 2>>,
    pub repetition_penalty: Option<Real<0, 2, true>>,
    pub logit_bias: Option<Bias>,
    pub allowed_token_ids: Option<Ids>,
    pub seed: Option<Seed>,
    pub stop: Option<Stop>,
    pub stop_token_ids: Option<Ids>,
    pub include_stop_str_in_output: Option<bool>,
    /// Of completions a number, of chats a flag.
    pub logprobs: Option<Value>,
    pub prompt: Option<Value>,
    pub echo: Option<bool>,
    pub messages: Option<Vec<Value>>,
    pub top_logprobs: Option<TopLogprobs>,
    pub max_completion_tokens: Option<Count>,
    pub add_generation_prompt: Option<bool>,
    pub continue_final_message: Option<bool>,
    pub chat_template_kwargs: Option<Map<String, Value>>,
    pub tools: Option<Vec<Value>>,
    pub tool_choice: Option<Value>,
    pub response_format: Option<Value>,
}

/// Any integer of 64 bits; −1 is none, as vLLM and llama.cpp have it.
pub type Seed = Whole<{ i64::MIN as i128 }, { u64::MAX as i128 }>;

/// `logit_bias`: an object whose names are ids; here ascending by id.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bias(pub Vec<(u32, f32)>);

impl<'de> Deserialize<'de> for Bias {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let mut bias = Vec::new();
        for (name, Real(value)) in BTreeMap::<String, Real<-100, 100>>::deserialize(source)? {
            let id: u32 = name.parse().map_err(|_| {
                let name = shorten(&name);
                D::Error::custom(format_args!("must have token ids as names, not `{name}`"))
            })?;
            bias.push((id, value));
        }
        bias.sort_unstable_by_key(|(id, _)| *id);
        // Two spellings of an id, `5` and `05`.
        match bias.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            None => Ok(Self(bias)),
            Some(pair) => Err(D::Error::custom(format_args!(
                "must name the id {} once, not twice",
                pair[0].0
            ))),
        }
    }
}

/// `stop` as it is sent.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "a string or an array of strings")]
pub enum Stop {
    One(String),
    Several(Vec<String>),
}
