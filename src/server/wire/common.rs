//! What both generation requests share: length, stream options, and how tokens are shown.
//!
//! [`Common`] is read by each route's request type before its own parameters.

use super::error::ApiError;
use super::fields::Fields;
use super::neutral;

/// Greatest number of best tokens that may be asked for, as at OpenAI.
pub(super) const MAX_TOP_LOGPROBS: u32 = 20;

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
];

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Common {
    /// `None`: whatever is served.
    pub(crate) model: Option<String>,
    pub(crate) max_tokens: Option<u32>,
    pub(crate) min_tokens: u32,
    pub(crate) ignore_eos: bool,
    pub(crate) delivery: Delivery,
    pub(crate) show: Show,
    /// llama.cpp's `cache_prompt`: use and feed the prefix cache.
    pub(crate) cache_prompt: bool,
}

/// Whole, or as a stream of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    Whole,
    Stream(StreamUsage),
}

/// Where a stream tells its token counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamUsage {
    Never,
    /// In one event of its own before `[DONE]`.
    Last,
    /// There, and so far in every event (vLLM's `continuous_usage_stats`).
    Each,
}

/// How tokens are shown beside the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Show {
    /// Log-probabilities with this many best tokens.
    pub(crate) logprobs: Option<u32>,
    /// vLLM's `return_token_ids`: the ids of the prompt and of the answer.
    pub(crate) token_ids: bool,
    /// vLLM's `return_tokens_as_token_ids`: `token_id:5` in place of the text in log-probabilities.
    pub(crate) tokens_as_ids: bool,
}

impl Common {
    /// Reads the shared parameters; `show.logprobs` is left to the route, whose form of it differs.
    pub(super) fn read(fields: &mut Fields) -> Result<Self, ApiError> {
        neutral::refuse_unsupported(fields)?;
        Ok(Self {
            model: fields.string("model")?,
            max_tokens: fields.count("max_tokens")?,
            min_tokens: fields.count("min_tokens")?.unwrap_or(0),
            ignore_eos: fields.bool("ignore_eos")?.unwrap_or(false),
            delivery: Delivery::read(fields)?,
            show: Show {
                logprobs: None,
                token_ids: fields.bool("return_token_ids")?.unwrap_or(false),
                tokens_as_ids: fields.bool("return_tokens_as_token_ids")?.unwrap_or(false),
            },
            cache_prompt: fields.bool("cache_prompt")?.unwrap_or(true),
        })
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
pub(super) fn finish(
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
    let shared = NAMES.iter().copied().chain(neutral::names());
    fields.finish(own.iter().copied().chain(shared))
}

/// Refuses a count of best tokens over [`MAX_TOP_LOGPROBS`].
pub(super) fn check_top_logprobs(name: &str, count: u32) -> Result<u32, ApiError> {
    if count > MAX_TOP_LOGPROBS {
        let message = format!("`{name}` must be at most {MAX_TOP_LOGPROBS}, not {count}");
        return Err(ApiError::invalid_value(name, message));
    }
    Ok(count)
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
