//! What goes into the engine and what comes out: the whole contract with a server.
//!
//! Order of events on a request's channel: one [`Event::Prompt`] when prefill is done, then one
//! [`Event::Token`] a generated token, then exactly one [`Event::Finished`] or [`Event::Failed`].

use std::time::Duration;

/// A validated generation request. `Engine::submit` checks it against the model once more.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub prompt: Vec<u32>,
    /// Tokens to generate at the most; 0 is allowed with `echo` (score the prompt only).
    pub max_tokens: u32,
    /// End-of-sequence tokens are not chosen before this many tokens were generated.
    pub min_tokens: u32,
    /// End-of-sequence tokens do not end the answer.
    pub ignore_eos: bool,
    /// Report each generated token's log-probability and this many best tokens (0: the chosen only).
    pub logprobs: Option<u32>,
    /// Report the prompt's own log-probabilities (teacher forcing) with `logprobs` best tokens. Such a
    /// prompt is computed whole: no cached prefix is used.
    pub prompt_logprobs: bool,
    /// Use and feed the prefix cache.
    pub use_cache: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Prompt(Prompt),
    Token(Token),
    Finished(Finished),
    /// The engine could not go on with this request; no further event follows.
    Failed(String),
}

/// Prefill is done.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// Leading prompt tokens whose keys and values were found in the cache.
    pub cached_tokens: u32,
    /// One entry a prompt token, if asked for; the first is `None` (nothing precedes it).
    pub logprobs: Option<Vec<Option<Logprob>>>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    pub id: u32,
    pub logprob: Option<Logprob>,
}

/// Natural-log probabilities at one position.
#[derive(Clone, Debug, PartialEq)]
pub struct Logprob {
    /// Of the token that stands there.
    pub chosen: f32,
    /// Best tokens, best first; ties by lower id.
    pub top: Vec<(u32, f32)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    pub reason: FinishReason,
    pub timings: Timings,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// An end-of-sequence token was generated. It is sent as the last token.
    Stop,
    /// `max_tokens` was reached.
    Length,
}

/// The engine's own clock on one request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Timings {
    /// From submission to the start of prefill.
    pub queue: Duration,
    /// Prompt tokens computed (cached ones not among them) and the time from the start of prefill to
    /// the first token.
    pub prompt_n: u32,
    pub prompt: Duration,
    /// Tokens generated, and the time from the first to the last.
    pub predicted_n: u32,
    pub predicted: Duration,
}
