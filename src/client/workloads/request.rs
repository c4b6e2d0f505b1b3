//! The requests' JSON, as OpenAI's API defines it, with the two extensions that force a length.
//!
//! `ignore_eos` and `min_tokens` (vLLM, SGLang, llama.cpp and we know them) are sent only where the
//! output's length is forced. Nearly everything is greedy: temperature 0, or the one token that `top_p` leaves.
//!
//! Refuses to know: answers, sockets. Nothing here is shared with our server, so that a mistake on
//! one side cannot hide on the other.

use crate::Endpoint;
use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use verdict::record::{FREQUENCY_PENALTY, PRESENCE_PENALTY, STOPS};

/// `POST /v1/completions`.
#[derive(Debug, Serialize)]
pub struct Completion<'a> {
    pub model: &'a str,
    pub prompt: Prompt<'a>,
    #[serde(flatten)]
    pub length: Length,
    #[serde(flatten)]
    pub mode: Mode,
    /// Ask for each token's log-probability and this many best tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<u32>,
    /// Give the prompt back, log-probabilities included.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub echo: bool,
}

/// `POST /v1/chat/completions`.
#[derive(Debug, Serialize)]
pub struct Chat<'a> {
    pub model: &'a str,
    pub messages: &'a [Message],
    #[serde(flatten)]
    pub length: Length,
    #[serde(flatten)]
    pub mode: Mode,
    /// Ask for each token's log-probability and those of this many best tokens.
    #[serde(flatten)]
    pub logprobs: Option<ChatLogprobs>,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct ChatLogprobs {
    logprobs: bool,
    top_logprobs: u32,
}

impl ChatLogprobs {
    pub fn of(top_k: u32) -> Self {
        Self {
            logprobs: true,
            top_logprobs: top_k,
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Prompt<'a> {
    Ids(&'a [u32]),
    Text(&'a str),
}

#[derive(Clone, Debug, Serialize)]
pub struct Message {
    pub role: String,
    pub content: String,
}

impl Message {
    pub fn of(role: &str, content: &str) -> Self {
        Self {
            role: role.into(),
            content: content.into(),
        }
    }

    pub fn of_user(content: &str) -> Self {
        Self::of("user", content)
    }
}

/// How long the answer may or must be.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Length {
    max_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ignore_eos: Option<bool>,
}

impl Length {
    pub fn at_most(tokens: u32) -> Self {
        Self {
            max_tokens: tokens,
            min_tokens: None,
            ignore_eos: None,
        }
    }

    /// So many tokens, end-of-sequence tokens among them: unlike [`Self::exactly`] it forbids none, so
    /// that a reference which just went on after one can be followed.
    pub fn through_eos(tokens: u32) -> Self {
        Self {
            max_tokens: tokens,
            min_tokens: None,
            ignore_eos: Some(true),
        }
    }

    pub fn exactly(tokens: u32) -> Self {
        Self {
            max_tokens: tokens,
            min_tokens: Some(tokens),
            ignore_eos: Some(true),
        }
    }
}

/// `top_p` that leaves the best token alone: its share of the probability is greater.
const BEST_ALONE: f32 = 1e-6;

/// Seed of what is sampled.
const SEED: u32 = 7;

/// OpenAI's API takes up to 2.
const PENALTY: f32 = 1.5;

/// OpenAI's two penalties lower the logit of a token that occurred: for each time, or once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Penalty {
    Frequency,
    Presence,
}

impl Penalty {
    /// The end of a case's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Frequency => FREQUENCY_PENALTY,
            Self::Presence => PRESENCE_PENALTY,
        }
    }
}

/// Streamed or whole, and greedy.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Mode {
    temperature: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u32>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop: &'static [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency_penalty: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    presence_penalty: Option<f32>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    return_token_ids: bool,
}

/// What a stream is asked for beside its text.
#[derive(Clone, Copy, Debug)]
pub struct Extras {
    /// Usage, at the end.
    pub usage: bool,
    /// Token ids: where the engine can send them, they give every token an event, also one that has no
    /// text of its own (part of a character, a special token).
    pub token_ids: bool,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct StreamOptions {
    include_usage: bool,
}

impl Mode {
    pub const WHOLE: Self = Self {
        temperature: 0.0,
        top_p: None,
        seed: None,
        stop: &[],
        frequency_penalty: None,
        presence_penalty: None,
        stream: false,
        stream_options: None,
        return_token_ids: false,
    };

    pub fn streamed(extras: Extras) -> Self {
        Self {
            stream: true,
            stream_options: extras.usage.then_some(StreamOptions {
                include_usage: true,
            }),
            return_token_ids: extras.token_ids,
            ..Self::WHOLE
        }
    }

    /// The same, sampled from the best token alone.
    pub fn sampled(self) -> Self {
        Self {
            temperature: 1.0,
            top_p: Some(BEST_ALONE),
            seed: Some(SEED),
            ..self
        }
    }

    /// The same, drawn from all tokens.
    pub fn drawn(self) -> Self {
        Self {
            temperature: 1.0,
            seed: Some(SEED),
            ..self
        }
    }

    /// The same with a penalty for tokens that are there already.
    pub fn penalised(self, penalty: Penalty) -> Self {
        let of = |this| (penalty == this).then_some(PENALTY);
        Self {
            frequency_penalty: of(Penalty::Frequency),
            presence_penalty: of(Penalty::Presence),
            ..self
        }
    }

    /// The same up to the first of [`STOPS`].
    pub fn stopped(self) -> Self {
        Self {
            stop: &STOPS,
            ..self
        }
    }
}

/// The JSON of a request to this endpoint, with the further keys that it is sent.
pub fn body(endpoint: &Endpoint, request: &impl Serialize) -> Bytes {
    if endpoint.request.is_empty() {
        return json(request);
    }
    let own = serde_json::to_value(request).expect("strings and numbers always serialise");
    let Value::Object(mut keys) = own else {
        unreachable!("a request is an object");
    };
    keys.extend(endpoint.request.iter().cloned());
    json(&keys)
}

/// The JSON of a request.
pub fn json(request: &impl Serialize) -> Bytes {
    let text = serde_json::to_vec(request).expect("strings and numbers always serialise");
    // As long as it is and no longer: many wait to be sent.
    Bytes::from(text.into_boxed_slice())
}

#[cfg(test)]
mod tests {
    use super::{
        Chat, ChatLogprobs, Completion, Endpoint, Extras, Length, Message, Mode, Prompt, Value,
        body, json,
    };

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_forced_stream_asks_for_its_length_and_usage() {
        let body = json(&Completion {
            model: "m",
            prompt: Prompt::Ids(&[3, 4]),
            length: Length::exactly(64),
            mode: Mode::streamed(Extras {
                usage: true,
                token_ids: false,
            }),
            logprobs: None,
            echo: false,
        });
        assert_eq!(
            text(&body),
            r#"{"model":"m","prompt":[3,4],"max_tokens":64,"min_tokens":64,"ignore_eos":true,"#
                .to_owned()
                + r#""temperature":0.0,"stream":true,"stream_options":{"include_usage":true}}"#
        );
    }

    #[test]
    fn the_sampler_is_left_one_token_and_an_answer_its_stop_strings() {
        let of = |mode| {
            text(&json(&Completion {
                model: "m",
                prompt: Prompt::Text("a"),
                length: Length::through_eos(4),
                mode,
                logprobs: None,
                echo: false,
            }))
            .to_owned()
        };
        let begin = r#"{"model":"m","prompt":"a","max_tokens":4,"ignore_eos":true,"temperature":"#;
        assert_eq!(
            of(Mode::WHOLE.sampled()),
            begin.to_owned() + r#"1.0,"top_p":0.000001,"seed":7,"stream":false}"#
        );
        assert_eq!(
            of(Mode::WHOLE.drawn()),
            begin.to_owned() + r#"1.0,"seed":7,"stream":false}"#
        );
        assert_eq!(
            of(Mode::WHOLE.stopped()),
            begin.to_owned() + r#"0.0,"stop":["e ","s ",", ","\n"],"stream":false}"#
        );
    }

    #[test]
    fn further_keys_are_sent_beside_ours() {
        let address = ([127, 0, 0, 1], 1).into();
        let mut endpoint = Endpoint::usual(address, "m");
        let request = Completion {
            model: "m",
            prompt: Prompt::Ids(&[3]),
            length: Length::at_most(1),
            mode: Mode::WHOLE,
            logprobs: None,
            echo: false,
        };
        assert_eq!(body(&endpoint, &request), json(&request));
        endpoint.request = vec![
            ("repeat_penalty".into(), 1.0.into()),
            ("a".into(), "b".into()),
        ];
        endpoint.request.push(("temperature".into(), 0.5.into()));
        let sent: Value = serde_json::from_slice(&body(&endpoint, &request)).unwrap();
        let expect = serde_json::json!({
            "model": "m", "prompt": [3], "max_tokens": 1, "stream": false, "temperature": 0.5, "repeat_penalty": 1.0, "a": "b",
        });
        assert_eq!(sent, expect);
    }

    #[test]
    fn extensions_stay_out_where_no_length_is_forced() {
        let messages = [Message {
            role: "user".into(),
            content: "hi \"you\"".into(),
        }];
        let body = json(&Chat {
            model: "m",
            messages: &messages,
            length: Length::at_most(8),
            mode: Mode::WHOLE,
            logprobs: None,
        });
        let begin =
            r#"{"model":"m","messages":[{"role":"user","content":"hi \"you\""}],"max_tokens":8,"#;
        let end = r#""temperature":0.0,"stream":false"#;
        assert_eq!(text(&body), format!("{begin}{end}}}"));
        let body = json(&Chat {
            model: "m",
            messages: &messages,
            length: Length::at_most(8),
            mode: Mode::WHOLE,
            logprobs: Some(ChatLogprobs::of(5)),
        });
        let with = r#","logprobs":true,"top_logprobs":5}"#;
        assert_eq!(text(&body), format!("{begin}{end}{with}"));
    }

    #[test]
    fn scoring_a_prompt_echoes_it_and_generates_nothing() {
        let body = json(&Completion {
            model: "m",
            prompt: Prompt::Text("a"),
            length: Length::at_most(0),
            mode: Mode::WHOLE,
            logprobs: Some(5),
            echo: true,
        });
        assert_eq!(
            text(&body),
            r#"{"model":"m","prompt":"a","max_tokens":0,"temperature":0.0,"stream":false,"logprobs":5,"echo":true}"#
        );
    }
}
