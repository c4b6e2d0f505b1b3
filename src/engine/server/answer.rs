//! Engine events → what a choice gains by each: text, scored tokens, ids, and at the end the reason.
//!
//! [`Answer`] is the one place where tokens become text, for both routes, streamed or not, so that these
//! cannot differ. Refuses to know: JSON, HTTP, the form of chunks, other choices.

use super::parts::{Added, Expected, Parts};
use super::seeds::fresh_seed;
use super::stop_buffer::Tail;
use super::wire::Show;
use super::wire::chat::Call;
use super::wire::logprobs::{Score, Scored};
use super::wire::stops::Stops;
use super::wire::usage::{StopReason, Timings};
use crate::request::{Event, FinishReason, Finished, Logprob, Token};
use crate::{TextStream, Tokenizer};
use std::sync::Arc;

/// What one step adds. Members that were not asked for stay empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delta {
    pub text: String,
    /// Of a chat that thinks or calls.
    pub reasoning: String,
    pub calls: Vec<Call>,
    /// Shared: the choices of one prompt show the same scores of it.
    pub scored: Vec<Arc<Scored>>,
    pub ids: Vec<u32>,
}

impl Delta {
    pub fn is_empty(&self) -> bool {
        let is_silent = self.text.is_empty() && self.reasoning.is_empty() && self.calls.is_empty();
        is_silent && self.scored.is_empty() && self.ids.is_empty()
    }

    pub fn append(&mut self, more: Self) {
        self.text.push_str(&more.text);
        self.reasoning.push_str(&more.reasoning);
        self.calls.extend(more.calls);
        self.scored.extend(more.scored);
        self.ids.extend(more.ids);
    }
}

/// What follows from one event.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerStep {
    /// Prefill is done, with so many tokens from the cache; nothing is shown yet.
    Begin(u32),
    /// One more token. The delta may be empty: an unfinished character, a token without text, text that may
    /// still be cut.
    Grow(Delta),
    /// The end, with the text that was still held back.
    Finish(Delta, Ending),
    Fail(String),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    pub reason: &'static str,
    pub stop: Option<StopReason>,
    pub timings: Timings,
}

/// What is to stand before an answer.
pub struct Echo {
    pub text: String,
    /// The ids, and where in the text each one's begins, in characters; empty where no log-probabilities are asked for.
    pub places: Vec<(u32, usize)>,
}

/// One choice as it grows.
pub struct Answer {
    tokenizer: Tokenizer,
    stream: TextStream,
    show: Show,
    stops: Arc<Stops>,
    tail: Tail,
    /// The last token, where it is one of the stop ids: its text counts if it did not end the answer.
    last: Option<u32>,
    /// Taken when prefill is done.
    echo: Option<Echo>,
    /// Held until the first token, so that every event with output is a token's.
    waiting: Delta,
    /// Characters decoded so far, echo included.
    offset: usize,
    cached: u32,
    expected: Expected,
    /// `None`: all of it is text.
    parts: Option<Parts>,
}

impl Answer {
    /// `expected`: of a chat, which parts its answer may have.
    pub fn new(
        tokenizer: &Tokenizer,
        show: Show,
        stops: &Arc<Stops>,
        echo: Option<Echo>,
        expected: Expected,
    ) -> Self {
        let is_parted = expected != Expected::default();
        let parts = || Parts::new(expected, format!("{:016x}", fresh_seed()));
        Self {
            tokenizer: tokenizer.clone(),
            stream: tokenizer.stream(),
            show,
            stops: Arc::clone(stops),
            tail: Tail::new(stops.texts.clone(), stops.shown),
            last: None,
            echo,
            waiting: Delta::default(),
            offset: 0,
            cached: 0,
            expected,
            parts: is_parted.then(parts),
        }
    }

    /// Another choice of the same prompt, which `self` has just begun with: it has the same echo.
    pub fn sibling(&self) -> Self {
        Self {
            waiting: self.waiting.clone(),
            offset: self.offset,
            ..Self::new(&self.tokenizer, self.show, &self.stops, None, self.expected)
        }
    }

    pub fn step(&mut self, event: Event) -> AnswerStep {
        match event {
            Event::Prompt(prompt) => {
                self.cached = prompt.cached_tokens;
                if let Some(echo) = self.echo.take() {
                    self.begin(echo, prompt.logprobs);
                }
                AnswerStep::Begin(self.cached)
            }
            Event::Token(token) => {
                let mut delta = self.grow(token);
                self.part(&mut delta, false);
                AnswerStep::Grow(delta)
            }
            Event::Finished(finished) => {
                let (mut delta, mut ending) = self.finish(finished);
                self.part(&mut delta, true);
                let calls = self.parts.as_ref().is_some_and(Parts::has_calls);
                if calls && ending.reason == "stop" {
                    ending.reason = "tool_calls";
                }
                AnswerStep::Finish(delta, ending)
            }
            Event::Failed(detail) => AnswerStep::Fail(detail),
        }
    }

    /// Divides the text of a chat that thinks or calls.
    fn part(&mut self, delta: &mut Delta, is_last: bool) {
        let Some(parts) = &mut self.parts else {
            return;
        };
        let text = std::mem::take(&mut delta.text);
        let mut take = |added: Added| {
            delta.text.push_str(&added.content);
            delta.reasoning.push_str(&added.reasoning);
            delta.calls.extend(added.calls);
        };
        take(parts.push(&text));
        if is_last {
            take(parts.finish());
        }
    }

    fn begin(&mut self, echo: Echo, logprobs: Option<Vec<Option<Logprob>>>) {
        if let Some(logprobs) = logprobs {
            self.waiting.scored = self.score_prompt(&echo, logprobs);
        }
        self.offset = echo.text.chars().count();
        self.waiting.text = echo.text;
    }

    fn score_prompt(&self, echo: &Echo, logprobs: Vec<Option<Logprob>>) -> Vec<Arc<Scored>> {
        let scored = echo.places.iter().zip(logprobs);
        scored
            .map(|(&(id, offset), logprob)| self.scored(id, offset, logprob))
            .collect()
    }

    fn grow(&mut self, token: Token) -> Delta {
        let mut delta = std::mem::take(&mut self.waiting);
        if let Some(id) = self.last.take() {
            delta.text.push_str(&self.decode(id));
        }
        if self.show.logprobs.is_some() {
            let scored = self.scored(token.id, self.offset, token.logprob);
            delta.scored.push(scored);
        }
        if self.show.token_ids {
            delta.ids.push(token.id);
        }
        if self.stops.ids.binary_search(&token.id).is_ok() {
            self.last = Some(token.id);
        } else {
            delta.text.push_str(&self.decode(token.id));
        }
        delta
    }

    /// The text that a token completes and that is certain to stay.
    fn decode(&mut self, id: u32) -> String {
        let piece = self.stream.push(id).unwrap_or_default();
        self.offset += piece.chars().count();
        self.tail.push(&piece)
    }

    fn finish(&mut self, finished: Finished) -> (Delta, Ending) {
        let mut delta = std::mem::take(&mut self.waiting);
        let by_id = matches!(finished.reason, FinishReason::StopId(_));
        if let Some(id) = self.last.take().filter(|_| !by_id || self.stops.shown) {
            delta.text.push_str(&self.decode(id));
        }
        let stream = std::mem::replace(&mut self.stream, self.tokenizer.stream());
        let mut tail = std::mem::replace(&mut self.tail, Tail::new(Vec::new(), false));
        if let FinishReason::StopText(index) = finished.reason {
            delta.text.push_str(&tail.stopped(index));
        } else {
            delta.text.push_str(&tail.push(&stream.finish()));
            delta.text.push_str(&tail.rest());
        }
        let ending = Ending {
            reason: match finished.reason {
                FinishReason::Length => "length",
                FinishReason::End | FinishReason::StopId(_) | FinishReason::StopText(_) => "stop",
            },
            stop: self.stop_reason(finished.reason),
            timings: Timings::new(self.cached, finished.timings),
        };
        (delta, ending)
    }

    fn stop_reason(&self, reason: FinishReason) -> Option<StopReason> {
        match reason {
            FinishReason::End | FinishReason::Length => None,
            FinishReason::StopId(id) => Some(StopReason::Id(id)),
            FinishReason::StopText(index) => {
                self.stops.texts.get(index).cloned().map(StopReason::Text)
            }
        }
    }

    fn scored(&self, id: u32, offset: usize, logprob: Option<Logprob>) -> Arc<Scored> {
        let score = logprob.map(|logprob| Score {
            chosen: logprob.chosen,
            top: logprob
                .top
                .iter()
                .map(|(id, logprob)| (self.name(*id), *logprob))
                .collect(),
        });
        Arc::new(Scored {
            text: self.name(id),
            offset,
            score,
        })
    }

    fn name(&self, id: u32) -> String {
        match self.show.tokens_as_ids {
            true => format!("token_id:{id}"),
            false => self.tokenizer.token_text(id),
        }
    }
}
