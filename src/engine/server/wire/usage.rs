//! Token counts in OpenAI's form, and timings in the form of llama.cpp's server.
//!
//! The end token counts as generated, as it does at OpenAI and in vLLM. A rate or a mean that is undefined
//! (no tokens, no time) is null, never 0.

use crate::request;
use serde::Serialize;
use std::time::Duration;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    pub prompt_tokens: u32,
    pub completion_tokens: u32,
    pub total_tokens: u32,
    pub prompt_tokens_details: PromptTokensDetails,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PromptTokensDetails {
    /// Leading prompt tokens that were found in the prefix cache.
    pub cached_tokens: u32,
}

impl Usage {
    /// With so many more generated tokens, and prompt tokens found in the cache.
    pub fn grown(self, completion: u32, cached: u32) -> Self {
        Self::new(
            self.prompt_tokens,
            self.completion_tokens + completion,
            self.prompt_tokens_details.cached_tokens + cached,
        )
    }

    pub fn new(prompt: u32, completion: u32, cached: u32) -> Self {
        Self {
            prompt_tokens: prompt,
            completion_tokens: completion,
            total_tokens: prompt + completion,
            prompt_tokens_details: PromptTokensDetails {
                cached_tokens: cached,
            },
        }
    }
}

/// vLLM's `stop_reason`: which of the request's stops ended the answer; null where none did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum StopReason {
    Text(String),
    Id(u32),
}

/// The engine's own clock on one request, names as llama.cpp's server has them; `queue_ms` is ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Timings {
    /// Prompt tokens taken from the cache.
    cache_n: u32,
    /// From submission to the start of prefill.
    queue_ms: f64,
    /// Prompt tokens computed.
    prompt_n: u32,
    /// From the start of prefill to the first token.
    prompt_ms: f64,
    prompt_per_token_ms: Option<f64>,
    prompt_per_second: Option<f64>,
    predicted_n: u32,
    /// From the first generated token to the last.
    predicted_ms: f64,
    /// `predicted_ms` / (`predicted_n` − 1): the first token's time is in `prompt_ms`. llama.cpp divides
    /// by `predicted_n`.
    predicted_per_token_ms: Option<f64>,
    predicted_per_second: Option<f64>,
}

impl Timings {
    pub fn new(cached: u32, engine: request::Timings) -> Self {
        let steps = engine.predicted_n.saturating_sub(1);
        Self {
            cache_n: cached,
            queue_ms: milliseconds(engine.queue),
            prompt_n: engine.prompt_n,
            prompt_ms: milliseconds(engine.prompt),
            prompt_per_token_ms: per_token_ms(engine.prompt, engine.prompt_n),
            prompt_per_second: per_second(engine.prompt_n, engine.prompt),
            predicted_n: engine.predicted_n,
            predicted_ms: milliseconds(engine.predicted),
            predicted_per_token_ms: per_token_ms(engine.predicted, steps),
            predicted_per_second: per_second(steps, engine.predicted),
        }
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn per_token_ms(time: Duration, tokens: u32) -> Option<f64> {
    (tokens > 0).then(|| milliseconds(time) / f64::from(tokens))
}

fn per_second(tokens: u32, time: Duration) -> Option<f64> {
    (tokens > 0 && !time.is_zero()).then(|| f64::from(tokens) / time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn timings(prompt_n: u32, predicted_n: u32, predicted_ms: u64) -> serde_json::Value {
        let engine = request::Timings {
            queue: Duration::from_millis(3),
            prompt_n,
            prompt: Duration::from_millis(20),
            predicted_n,
            predicted: Duration::from_millis(predicted_ms),
        };
        serde_json::to_value(Timings::new(7, engine)).unwrap()
    }

    #[test]
    fn names_and_rates_are_as_llama_cpp_has_them() {
        assert_eq!(
            timings(10, 5, 40),
            json!({
                "cache_n": 7, "queue_ms": 3.0,
                "prompt_n": 10, "prompt_ms": 20.0, "prompt_per_token_ms": 2.0, "prompt_per_second": 500.0,
                "predicted_n": 5, "predicted_ms": 40.0,
                "predicted_per_token_ms": 10.0, "predicted_per_second": 100.0,
            })
        );
    }

    #[test]
    fn undefined_rates_are_null() {
        for (prompt_n, predicted_n) in [(0, 0), (0, 1)] {
            let value = timings(prompt_n, predicted_n, 0);
            for name in [
                "prompt_per_token_ms",
                "predicted_per_token_ms",
                "predicted_per_second",
            ] {
                assert!(value[name].is_null(), "{name} of {prompt_n}, {predicted_n}");
            }
        }
    }

    #[test]
    fn usage_adds_up() {
        let usage = Usage::new(12, 5, 8);
        assert_eq!(usage.total_tokens, 17);
        assert_eq!(usage.prompt_tokens_details.cached_tokens, 8);
        assert_eq!(usage.grown(1, 2), Usage::new(12, 6, 10));
    }
}
