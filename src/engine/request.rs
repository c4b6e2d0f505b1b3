//! Requests and events of the engine: the whole contract with a server.
//!
//! Order of events on a request's channel: one [`Event::Prompt`] when prefill is done, then one
//! [`Event::Token`] a generated token, then exactly one [`Event::Finished`] or [`Event::Failed`].

use std::time::Duration;

pub use super::sampling::Sampling;
use super::text::guide::Guide;

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
    /// Further ids that end the answer; not before `min_tokens`. The engine sorts them.
    pub stop_ids: Vec<u32>,
    /// The answer ends with the token that completes one of these texts; not before `min_tokens`.
    pub stop: Vec<String>,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Which tokens may come next; `sampling.allowed` then holds those of the first, and the engine those of each
    /// further one.
    pub guide: Option<Guide>,
    /// Report each generated token's log-probability and this many best tokens (0: the chosen only).
    pub logprobs: Option<u32>,
    /// Report the prompt's own log-probabilities (teacher forcing) with `logprobs` best tokens. Such a
    /// prompt is computed whole: no cached prefix is used.
    pub prompt_logprobs: bool,
    pub cache: CacheUse,
}

impl Request {
    /// A greedy request that asks for nothing further.
    pub fn new(prompt: Vec<u32>, max_tokens: u32) -> Self {
        Self {
            prompt,
            max_tokens,
            min_tokens: 0,
            ignore_eos: false,
            stop_ids: Vec::new(),
            stop: Vec::new(),
            sampling: Sampling::default(),
            guide: None,
            logprobs: None,
            prompt_logprobs: false,
            cache: CacheUse::Shared,
        }
    }
}

/// A list of ids as the engine keeps it: each id once, so that none is longer than the vocabulary.
pub fn ascending(mut ids: Vec<u32>) -> Vec<u32> {
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// What a request has to do with the prefix cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CacheUse {
    /// Neither reads nor feeds it.
    Off,
    #[default]
    Shared,
    /// Shares with requests of the same salt alone.
    Salted(String),
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
    End,
    /// One of `stop_ids` was generated. It is sent as the last token.
    StopId(u32),
    /// The last token completed the text of this index in `stop`.
    StopText(usize),
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
