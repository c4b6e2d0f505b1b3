//! A prompt that is echoed with its log-probabilities: each token has one that depends on the token alone.

use super::Engine;
use super::http::{Ask, Connection};
use serde_json::{Value, json};
use std::io;

impl Engine {
    pub(super) fn score(&self, ask: &Ask, connection: &mut Connection) -> io::Result<()> {
        let mut tokens = ask.prompt.clone();
        if self.knobs.is_on("cut") {
            tokens.truncate(tokens.len().div_ceil(2));
        }
        let scored: Vec<(f64, Value)> = tokens.iter().enumerate().map(|t| self.token(t)).collect();
        let (mut logprobs, mut top): (Vec<Value>, Vec<Value>) = scored
            .into_iter()
            .map(|(logprob, top)| (json!(logprob), top))
            .unzip();
        for first in [logprobs.first_mut(), top.first_mut()]
            .into_iter()
            .flatten()
        {
            *first = Value::Null;
        }
        let text = tokens.join(" ");
        let logprobs = json!({"tokens": tokens, "token_logprobs": logprobs, "top_logprobs": top});
        let choice = json!({"text": text, "finish_reason": "length", "logprobs": logprobs});
        let usage = json!({"prompt_tokens": tokens.len(), "completion_tokens": 0});
        let body = json!({"choices": [choice], "usage": usage});
        connection.page(200, &body.to_string())
    }

    /// Its log-probability, and the likeliest tokens in its place.
    fn token(&self, (place, token): (usize, &String)) -> (f64, Value) {
        let letters: u32 = token.bytes().map(u32::from).sum();
        let sure = -0.2 - f64::from(letters % 5) / 10.0 - self.knobs.get("surprise");
        let every = self.knobs.count("doubt");
        let (logprob, other) = match every > 0 && (place + 1).is_multiple_of(every) {
            true => (sure - 1.0, sure - 0.9),
            false => (sure, -3.0),
        };
        (logprob, json!({token.as_str(): logprob, " never": other}))
    }
}
