//! Log-probabilities in OpenAI's two forms: parallel arrays for completions, one object a token for chat.
//!
//! Both are written from the same [`Scored`] tokens. A log-probability of −∞ is written as −9999, as vLLM
//! does, since JSON has no infinity.

use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A token as log-probabilities show it.
#[derive(Clone, Debug, PartialEq)]
pub struct Scored {
    pub text: String,
    /// Where the token's text begins, in characters of the answer (echo included).
    pub offset: usize,
    /// `None` for the first prompt token: nothing precedes it.
    pub score: Option<Score>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    pub chosen: f32,
    /// Best tokens, best first.
    pub top: Vec<(String, f32)>,
}

/// The form of `/v1/completions`: arrays of one length.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CompletionLogprobs {
    tokens: Vec<String>,
    token_logprobs: Vec<Option<f32>>,
    /// The best tokens and always the chosen one. Tokens of one text (parts of a character) share an
    /// entry, the best one's.
    top_logprobs: Vec<Option<BTreeMap<String, f32>>>,
    text_offset: Vec<usize>,
}

impl CompletionLogprobs {
    pub fn new(tokens: &[Arc<Scored>]) -> Self {
        let mut arrays = Self::default();
        for token in tokens {
            let score = token.score.as_ref();
            let top = score.map(|score| top_map(score, &token.text));
            let chosen = score.map(|score| finite(score.chosen));
            arrays.token_logprobs.push(chosen);
            arrays.top_logprobs.push(top);
            arrays.tokens.push(token.text.clone());
            arrays.text_offset.push(token.offset);
        }
        arrays
    }
}

fn top_map(score: &Score, chosen: &str) -> BTreeMap<String, f32> {
    let mut map = BTreeMap::new();
    for (text, logprob) in &score.top {
        map.entry(text.clone()).or_insert(finite(*logprob));
    }
    map.entry(chosen.to_owned()).or_insert(finite(score.chosen));
    map
}

/// The form of `/v1/chat/completions`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ChatLogprobs {
    content: Vec<ChatToken>,
    refusal: Option<()>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct ChatToken {
    #[serde(flatten)]
    token: ChatAlternative,
    top_logprobs: Vec<ChatAlternative>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct ChatAlternative {
    token: String,
    logprob: f32,
    bytes: Vec<u8>,
}

impl ChatLogprobs {
    /// Tokens without a score (there are none in a chat's answer) are left out.
    pub fn new(tokens: &[Arc<Scored>]) -> Self {
        let scored = tokens
            .iter()
            .filter_map(|token| Some((&token.text, token.score.as_ref()?)));
        let content = scored.map(|(text, score)| ChatToken {
            token: ChatAlternative::new(text, score.chosen),
            top_logprobs: score
                .top
                .iter()
                .map(|(text, logprob)| ChatAlternative::new(text, *logprob))
                .collect(),
        });
        Self {
            content: content.collect(),
            refusal: None,
        }
    }
}

impl ChatAlternative {
    fn new(token: &str, logprob: f32) -> Self {
        Self {
            token: token.to_owned(),
            bytes: token.as_bytes().to_vec(),
            logprob: finite(logprob),
        }
    }
}

/// NaN stays NaN, and is null in JSON: it must not look like a number.
fn finite(logprob: f32) -> f32 {
    const FLOOR: f32 = -9999.0;
    if logprob < FLOOR { FLOOR } else { logprob }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tokens() -> Vec<Arc<Scored>> {
        let score = |chosen, top: &[(&str, f32)]| {
            let top = top
                .iter()
                .map(|(text, logprob)| ((*text).to_owned(), *logprob));
            Some(Score {
                chosen,
                top: top.collect(),
            })
        };
        let token = |text: &str, offset, score| {
            Arc::new(Scored {
                text: text.to_owned(),
                offset,
                score,
            })
        };
        vec![
            token("a", 0, None),
            token("b", 1, score(-0.5, &[("b", -0.5), ("c", -1.5)])),
            token(
                "d",
                2,
                score(f32::NEG_INFINITY, &[("b", -0.25), ("c", -2.5)]),
            ),
        ]
    }

    #[test]
    fn completions_form_has_parallel_arrays() {
        assert_eq!(
            serde_json::to_value(CompletionLogprobs::new(&tokens())).unwrap(),
            json!({
                "tokens": ["a", "b", "d"],
                "token_logprobs": [null, -0.5, -9999.0],
                "top_logprobs": [null, {"b": -0.5, "c": -1.5}, {"b": -0.25, "c": -2.5, "d": -9999.0}],
                "text_offset": [0, 1, 2],
            })
        );
    }

    #[test]
    fn of_tokens_with_one_text_the_best_is_shown() {
        let half = Arc::new(Scored {
            text: "\u{fffd}".to_owned(),
            offset: 0,
            score: Some(Score {
                chosen: -3.0,
                top: vec![("\u{fffd}".to_owned(), -0.5), ("\u{fffd}".to_owned(), -3.0)],
            }),
        });
        let value = serde_json::to_value(CompletionLogprobs::new(&[half])).unwrap();
        assert_eq!(value["top_logprobs"][0], json!({"\u{fffd}": -0.5}));
        assert_eq!(value["token_logprobs"][0], json!(-3.0));
    }

    #[test]
    fn nan_is_null() {
        assert!(finite(f32::NAN).is_nan());
        assert_eq!(serde_json::to_value(f32::NAN).unwrap(), json!(null));
    }
}
