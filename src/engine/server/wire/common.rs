//! The parameters of both generation routes as they are meant: [`Common`], checked one against another.

use super::error::ApiError;
use super::form;
use super::json::{self, Count, Whole};
use super::neutral;
use super::parameters::Parameters;
use super::stops::Stops;
use crate::AnswerForm;
use crate::request::CacheUse;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Longest `cache_salt`: every page of a salted request is looked up by it.
const MAX_SALT_BYTES: usize = 256;

#[derive(Clone, Debug, PartialEq)]
pub struct Common {
    /// `None`: whatever is served.
    pub model: Option<String>,
    pub max_tokens: Option<u32>,
    pub min_tokens: u32,
    pub ignore_eos: bool,
    pub delivery: Delivery,
    pub show: Show,
    pub stops: Stops,
    /// Choices of each prompt, at least 1.
    pub n: usize,
    pub cache: CacheUse,
    /// What the answer must be, where it is not any text.
    pub form: Option<AnswerForm>,
    /// The other parameters: how tokens are sampled.
    pub parameters: Parameters,
}

/// Whole, or as a stream of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    Whole,
    Stream(StreamUsage),
}

/// Where a stream tells its token counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamUsage {
    Never,
    /// In one event of its own before `[DONE]`.
    Last,
    /// There, and so far in every event (vLLM's `continuous_usage_stats`).
    Each,
}

/// How tokens are shown beside the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Show {
    /// Log-probabilities with this many best tokens.
    pub logprobs: Option<u32>,
    /// vLLM's `return_token_ids`: the ids of the prompt and of the answer.
    pub token_ids: bool,
    /// vLLM's `return_tokens_as_token_ids`: `token_id:5` in place of the text in log-probabilities.
    pub tokens_as_ids: bool,
}

impl Common {
    /// Reads a body. `elsewhere`: names that only the route `other` takes. `show.logprobs` is left to the
    /// caller, since its form differs by route.
    pub fn read(
        mut members: Map<String, Value>,
        elsewhere: &[&str],
        other: &str,
    ) -> Result<Self, ApiError> {
        neutral::refuse_unsupported(&mut members)?;
        if let Some(name) = elsewhere.iter().find(|name| members.contains_key(**name)) {
            let message = format!("`{name}` belongs to {other}");
            return Err(ApiError::unsupported(name, message));
        }
        let mut parameters: Parameters = json::read(members, "")?;
        parameters.check_allowed()?;
        Ok(Self {
            model: parameters.model.take(),
            max_tokens: parameters.max_tokens.map(Count::get),
            min_tokens: parameters.min_tokens.map_or(0, Count::get),
            ignore_eos: parameters.ignore_eos == Some(true),
            delivery: parameters.delivery()?,
            show: Show {
                logprobs: None,
                token_ids: parameters.return_token_ids == Some(true),
                tokens_as_ids: parameters.return_tokens_as_token_ids == Some(true),
            },
            stops: Stops::read(&mut parameters)?,
            n: parameters.n()?,
            cache: parameters.cache()?,
            form: form::read(parameters.response_format.take())?,
            parameters,
        })
    }

    /// A form is held from the first token to the last, so that the answer must be free to end.
    pub fn check_form(&self) -> Result<(), ApiError> {
        let against = [
            ("ignore_eos", self.ignore_eos),
            ("min_tokens", self.min_tokens > 0),
            (
                "allowed_token_ids",
                self.parameters.allowed_token_ids.is_some(),
            ),
        ];
        let against = against.into_iter().find(|(_, is_set)| *is_set);
        match against.filter(|_| self.form.is_some()) {
            None => Ok(()),
            Some((name, _)) => {
                let message = format!("an answer of a set form takes no `{name}`: leave it out");
                Err(ApiError::invalid_value(name, message))
            }
        }
    }
}

impl Parameters {
    /// `best_of` would make more choices than it shows; here it may only say the same as `n`.
    fn n(&self) -> Result<usize, ApiError> {
        let n = self.n.map_or(1, |n| n.0);
        match self.best_of {
            Some(Whole(best_of)) if best_of != n => {
                let message =
                    format!("`best_of` = {best_of} is not supported unless it equals `n`");
                Err(ApiError::unsupported("best_of", message))
            }
            _ => Ok(n as usize),
        }
    }

    /// llama.cpp's `cache_prompt`, whether to use and feed the prefix cache, and vLLM's `cache_salt`, with
    /// whom to share it.
    fn cache(&mut self) -> Result<CacheUse, ApiError> {
        let bytes = self.cache_salt.as_ref().map(String::len);
        if bytes == Some(0) {
            let message = "`cache_salt` is empty: leave it out to share the cache with all";
            return Err(ApiError::invalid_value("cache_salt", message));
        }
        if let Some(bytes) = bytes.filter(|bytes| *bytes > MAX_SALT_BYTES) {
            let message =
                format!("`cache_salt` must be at most {MAX_SALT_BYTES} bytes, not {bytes}");
            return Err(ApiError::invalid_value("cache_salt", message));
        }
        Ok(match self.cache_salt.take() {
            _ if self.cache_prompt == Some(false) => CacheUse::Off,
            Some(salt) => CacheUse::Salted(salt),
            None => CacheUse::Shared,
        })
    }

    fn delivery(&mut self) -> Result<Delivery, ApiError> {
        #[derive(Default, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        struct StreamOptions {
            include_usage: Option<bool>,
            continuous_usage_stats: Option<bool>,
            include_obfuscation: Option<bool>,
        }
        let streamed = self.stream == Some(true);
        let Some(options) = self.stream_options.take() else {
            return Ok(match streamed {
                true => Delivery::Stream(StreamUsage::Never),
                false => Delivery::Whole,
            });
        };
        if !streamed {
            let message = "`stream_options` may only be sent with `stream: true`";
            return Err(ApiError::invalid_value("stream_options", message));
        }
        let options: StreamOptions = json::read(options, "stream_options")?;
        if options.include_obfuscation == Some(true) {
            let message = "`include_obfuscation` is not implemented: send false or leave it out";
            let param = "stream_options.include_obfuscation";
            return Err(ApiError::unsupported(param, message));
        }
        let each = options.continuous_usage_stats == Some(true);
        match (options.include_usage == Some(true), each) {
            (false, false) => Ok(Delivery::Stream(StreamUsage::Never)),
            (true, false) => Ok(Delivery::Stream(StreamUsage::Last)),
            (true, true) => Ok(Delivery::Stream(StreamUsage::Each)),
            (false, true) => Err(ApiError::invalid_value(
                "stream_options.continuous_usage_stats",
                "`continuous_usage_stats` needs `include_usage: true`",
            )),
        }
    }
}
