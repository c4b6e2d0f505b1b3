//! What both generation requests share: length, how tokens are chosen and shown, number and delivery of
//! the answers.
//!
//! [`Common`] is read by each route's request type before its own parameters.

use super::error::ApiError;
use super::fields::Fields;
use super::neutral;
use super::sampling::{self, Choosing};
use super::stops::{self, Stops};
use crate::request::CacheUse;

/// Greatest number of best tokens that may be asked for, as at OpenAI.
pub const MAX_TOP_LOGPROBS: u32 = 20;

/// Greatest `n`, the choices of one prompt.
const MAX_N: u32 = 16;

/// Longest `cache_salt`: every page of a salted request is looked up by it.
const MAX_SALT_BYTES: usize = 256;

/// Names that every generation route reads.
const NAMES: &[&str] = &[
    "model",
    "max_tokens",
    "min_tokens",
    "ignore_eos",
    "stream",
    "stream_options",
    "return_token_ids",
    "return_tokens_as_token_ids",
    "cache_prompt",
    "cache_salt",
    "n",
    "best_of",
];

#[derive(Clone, Debug, PartialEq)]
pub struct Common {
    /// `None`: whatever is served.
    pub model: Option<String>,
    pub max_tokens: Option<u32>,
    pub min_tokens: u32,
    pub ignore_eos: bool,
    pub delivery: Delivery,
    pub show: Show,
    pub choosing: Choosing,
    pub stops: Stops,
    /// Choices of each prompt, at least 1.
    pub n: usize,
    pub cache: CacheUse,
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
    /// Reads the shared parameters; `show.logprobs` is left to the route, whose form of it differs.
    pub fn read(fields: &mut Fields) -> Result<Self, ApiError> {
        neutral::refuse_unsupported(fields)?;
        Ok(Self {
            model: fields.string("model")?,
            max_tokens: fields.count("max_tokens", 0..=u32::MAX)?,
            min_tokens: fields.count("min_tokens", 0..=u32::MAX)?.unwrap_or(0),
            ignore_eos: fields.bool("ignore_eos")?.unwrap_or(false),
            delivery: Delivery::read(fields)?,
            show: Show {
                logprobs: None,
                token_ids: fields.bool("return_token_ids")?.unwrap_or(false),
                tokens_as_ids: fields.bool("return_tokens_as_token_ids")?.unwrap_or(false),
            },
            choosing: Choosing::read(fields)?,
            stops: Stops::read(fields)?,
            n: n(fields)?,
            cache: cache(fields)?,
        })
    }
}

/// `best_of` would make more choices than it shows; here it may only say the same as `n`.
fn n(fields: &mut Fields) -> Result<usize, ApiError> {
    let n = fields.count("n", 1..=MAX_N)?.unwrap_or(1);
    match fields.count("best_of", 0..=u32::MAX)? {
        Some(best_of) if best_of != n => {
            let message = format!("`best_of` = {best_of} is not supported unless it equals `n`");
            Err(ApiError::unsupported("best_of", message))
        }
        _ => Ok(n as usize),
    }
}

/// llama.cpp's `cache_prompt`, whether to use and feed the prefix cache, and vLLM's `cache_salt`, with whom
/// to share it.
fn cache(fields: &mut Fields) -> Result<CacheUse, ApiError> {
    let used = fields.bool("cache_prompt")?.unwrap_or(true);
    match fields.string("cache_salt")? {
        Some(salt) if salt.is_empty() => {
            let message = "`cache_salt` is empty: leave it out to share the cache with all";
            Err(ApiError::invalid_value("cache_salt", message))
        }
        Some(salt) if salt.len() > MAX_SALT_BYTES => {
            let message = format!(
                "`cache_salt` must be at most {MAX_SALT_BYTES} bytes, not {}",
                salt.len()
            );
            Err(ApiError::invalid_value("cache_salt", message))
        }
        _ if !used => Ok(CacheUse::Off),
        Some(salt) => Ok(CacheUse::Salted(salt)),
        None => Ok(CacheUse::Shared),
    }
}

impl Delivery {
    fn read(fields: &mut Fields) -> Result<Self, ApiError> {
        let streamed = fields.bool("stream")?.unwrap_or(false);
        let Some(mut options) = fields.object("stream_options")? else {
            return Ok(match streamed {
                true => Self::Stream(StreamUsage::Never),
                false => Self::Whole,
            });
        };
        if !streamed {
            let message = "`stream_options` may only be sent with `stream: true`";
            return Err(ApiError::invalid_value("stream_options", message));
        }
        let last = options.bool("include_usage")?.unwrap_or(false);
        let each = options.bool("continuous_usage_stats")?.unwrap_or(false);
        if options.bool("include_obfuscation")? == Some(true) {
            let message = "`include_obfuscation` is not implemented: send false or leave it out";
            return Err(ApiError::unsupported(
                "stream_options.include_obfuscation",
                message,
            ));
        }
        options.finish(["include_usage", "continuous_usage_stats"].into_iter())?;
        match (last, each) {
            (false, false) => Ok(Self::Stream(StreamUsage::Never)),
            (true, false) => Ok(Self::Stream(StreamUsage::Last)),
            (true, true) => Ok(Self::Stream(StreamUsage::Each)),
            (false, true) => Err(ApiError::invalid_value(
                "stream_options.continuous_usage_stats",
                "`continuous_usage_stats` needs `include_usage: true`",
            )),
        }
    }
}

/// Refuses what was not read. `own` are the route's names; `elsewhere` names that only `other` takes.
pub fn finish(
    fields: Fields,
    own: &'static [&'static str],
    elsewhere: &[&str],
    other: &str,
) -> Result<(), ApiError> {
    if let Some(name) = fields.left().find(|name| elsewhere.contains(name)) {
        return Err(ApiError::unsupported(
            name,
            format!("`{name}` belongs to {other}"),
        ));
    }
    let shared = [NAMES, sampling::NAMES, stops::NAMES].concat();
    let shared = shared.into_iter().chain(neutral::names());
    fields.finish(own.iter().copied().chain(shared))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(value: Value) -> Result<Common, ApiError> {
        let Value::Object(members) = value else {
            panic!("an object is needed");
        };
        Common::read(&mut Fields::new(members))
    }

    #[test]
    fn stream_options_decide_where_usage_stands() {
        let check = |options: Value, expect: StreamUsage| {
            let common = read(json!({"stream": true, "stream_options": options})).unwrap();
            assert_eq!(common.delivery, Delivery::Stream(expect));
        };
        check(json!(null), StreamUsage::Never);
        check(json!({}), StreamUsage::Never);
        check(json!({"include_usage": false}), StreamUsage::Never);
        check(json!({"include_usage": true}), StreamUsage::Last);
        check(
            json!({"include_usage": true, "continuous_usage_stats": true}),
            StreamUsage::Each,
        );
        assert_eq!(read(json!({})).unwrap().delivery, Delivery::Whole);
    }

    #[test]
    fn n_is_from_one_to_sixteen_and_best_of_its_equal() {
        let check = |body: Value, expect: Result<usize, (&'static str, &str)>| {
            let error = |error: ApiError| (error.code, error.param.unwrap());
            let found = read(body).map(|common| common.n).map_err(error);
            assert_eq!(
                found,
                expect.map_err(|(code, param)| (code, param.to_owned()))
            );
        };
        check(json!({}), Ok(1));
        check(json!({"n": 16, "best_of": 16}), Ok(16));
        check(json!({"best_of": 1}), Ok(1));
        check(json!({"n": 0}), Err(("invalid_value", "n")));
        check(json!({"n": 17}), Err(("invalid_value", "n")));
        check(json!({"n": 1.5}), Err(("invalid_type", "n")));
        check(
            json!({"n": 2, "best_of": 3}),
            Err(("unsupported_parameter", "best_of")),
        );
        check(
            json!({"best_of": 2}),
            Err(("unsupported_parameter", "best_of")),
        );
    }

    #[test]
    fn the_cache_is_shared_salted_or_off() {
        let check = |body: Value, expect: CacheUse| assert_eq!(read(body).unwrap().cache, expect);
        check(json!({}), CacheUse::Shared);
        check(json!({"cache_salt": "x"}), CacheUse::Salted("x".to_owned()));
        check(json!({"cache_prompt": false}), CacheUse::Off);
        check(
            json!({"cache_prompt": false, "cache_salt": "x"}),
            CacheUse::Off,
        );
        let longest = "x".repeat(256);
        check(
            json!({"cache_salt": longest.clone()}),
            CacheUse::Salted(longest.clone()),
        );
        for salt in [String::new(), longest + "x"] {
            let error = read(json!({"cache_salt": salt})).unwrap_err();
            assert_eq!(
                (error.code, error.param.as_deref()),
                ("invalid_value", Some("cache_salt"))
            );
        }
    }

    #[test]
    fn stream_options_that_would_do_nothing_are_refused() {
        let check = |body: Value, param: &str| {
            assert_eq!(read(body).unwrap_err().param.as_deref(), Some(param));
        };
        check(
            json!({"stream_options": {"include_usage": true}}),
            "stream_options",
        );
        check(
            json!({"stream": true, "stream_options": {"continuous_usage_stats": true}}),
            "stream_options.continuous_usage_stats",
        );
        check(
            json!({"stream": true, "stream_options": {"include_usages": true}}),
            "stream_options.include_usages",
        );
    }
}
