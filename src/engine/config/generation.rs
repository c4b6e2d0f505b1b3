//! `generation_config.json`: how a model's authors would have tokens chosen, and what ends an answer.
//!
//! Main type: [`Generation`]. A number that no sampler can use is refused by its key. Refuses to know: the
//! network.

use std::path::Path;

use serde::Deserialize;

use super::{ConfigError, Ids, parse};
use crate::files::Files;
use crate::request::Sampling;

pub const FILE: &str = "generation_config.json";

#[derive(Default, Deserialize)]
pub struct Generation {
    pub eos_token_id: Option<Ids>,
    do_sample: Option<bool>,
    temperature: Option<f64>,
    top_k: Option<i64>,
    top_p: Option<f64>,
    min_p: Option<f64>,
    repetition_penalty: Option<f64>,
}

impl Generation {
    /// A model without the file says nothing.
    pub fn load(files: &Files) -> Result<Self, ConfigError> {
        if !files.has(FILE) {
            return Ok(Self::default());
        }
        let generation: Self = parse(files, FILE)?;
        generation.check(&files.path(FILE))?;
        Ok(generation)
    }

    /// Keys that are absent have OpenAI's defaults, as in vLLM; that a model is not to be sampled is heeded.
    pub fn sampling(&self) -> Sampling {
        let number = |value: Option<f64>, default: f32| value.map_or(default, |value| value as f32);
        let greedy = self.do_sample == Some(false);
        Sampling {
            temperature: if greedy {
                0.0
            } else {
                number(self.temperature, 1.0)
            },
            // transformers has 0 for all tokens, vLLM −1 too.
            top_k: self
                .top_k
                .map_or(0, |k| u32::try_from(k.max(0)).unwrap_or(0)),
            top_p: number(self.top_p, 1.0),
            min_p: number(self.min_p, 0.0),
            repetition_penalty: number(self.repetition_penalty, 1.0),
            ..Sampling::default()
        }
    }

    fn check(&self, path: &Path) -> Result<(), ConfigError> {
        let most = f64::from(f32::MAX);
        let top_k = self.top_k.map(|k| k as f64);
        for (key, value, possible) in [
            ("temperature", self.temperature, 0.0..=most),
            ("top_k", top_k, -1.0..=f64::from(u32::MAX)),
            ("top_p", self.top_p, f64::from(f32::MIN_POSITIVE)..=1.0),
            ("min_p", self.min_p, 0.0..=1.0),
            (
                "repetition_penalty",
                self.repetition_penalty,
                f64::from(f32::MIN_POSITIVE)..=most,
            ),
        ] {
            if let Some(value) = value.filter(|value| !possible.contains(value)) {
                return Err(ConfigError::Impossible {
                    path: path.to_path_buf(),
                    what: format!("`{key}` = {value} is out of range"),
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::load;
    use super::*;

    #[test]
    fn generation_config_says_how_tokens_are_chosen() {
        let sampled = |generation| load(|_| {}, generation).unwrap().sampling;
        let openai = Sampling {
            temperature: 1.0,
            ..Sampling::default()
        };
        assert_eq!(sampled(None), openai);
        assert_eq!(sampled(Some(json!({"top_k": null}))), openai);
        assert_eq!(
            sampled(Some(json!({"top_k": -1, "do_sample": true}))),
            openai
        );
        // As Qwen3's is published.
        let qwen = json!({"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95});
        let published = Sampling {
            temperature: 0.6,
            top_k: 20,
            top_p: 0.95,
            ..Sampling::default()
        };
        assert_eq!(sampled(Some(qwen)), published);
        let greedy = json!({"do_sample": false, "temperature": 0.6, "min_p": 0.1,
            "repetition_penalty": 1.05});
        let rules = Sampling {
            min_p: 0.1,
            repetition_penalty: 1.05,
            ..Sampling::default()
        };
        assert_eq!(sampled(Some(greedy)), rules);
    }

    #[test]
    fn impossible_sampling_is_refused_by_key() {
        for (key, value) in [
            ("temperature", -0.5),
            ("temperature", 1e300),
            ("top_k", -2.0),
            ("top_k", 1e12),
            ("top_p", 0.0),
            ("top_p", 1.01),
            ("min_p", -0.1),
            ("min_p", 1.5),
            ("repetition_penalty", 0.0),
            ("repetition_penalty", 1e-60),
        ] {
            let whole = key == "top_k";
            let value = if whole {
                json!(value as i64)
            } else {
                json!(value)
            };
            let error = load(|_| {}, Some(json!({key: value}))).unwrap_err();
            assert!(error.contains(&format!("`{key}` = ")), "{error}");
            assert!(error.contains(FILE), "{error}");
        }
    }
}
