//! Engine events → what an answer gains by each: text, scored tokens, ids, and at the end the counts.
//!
//! [`Answer`] is the one place where tokens become text, for both routes, streamed or not, so that these
//! cannot differ. Refuses to know: JSON, HTTP, the form of chunks.

use super::wire::Show;
use super::wire::logprobs::{Score, Scored};
use super::wire::usage::{Timings, Usage};
use crate::engine::request::{Event, FinishReason, Logprob, Prompt, Token};
use crate::engine::{TextStream, Tokenizer};

/// What one step adds. Members that were not asked for stay empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Delta {
    pub(crate) text: String,
    pub(crate) scored: Vec<Scored>,
    pub(crate) ids: Vec<u32>,
}

impl Delta {
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.scored.is_empty() && self.ids.is_empty()
    }

    pub(crate) fn append(&mut self, more: Self) {
        self.text.push_str(&more.text);
        self.scored.extend(more.scored);
        self.ids.extend(more.ids);
    }
}

/// What follows from one event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Prefill is done; nothing is shown yet.
    Begin,
    /// One more token. The delta may be empty: an unfinished character, a token without text.
    Grow(Delta),
    /// The end, with the text that was still held back.
    Finish(Delta, Ending),
    Fail(String),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ending {
    pub(crate) reason: &'static str,
    pub(crate) usage: Usage,
    pub(crate) timings: Timings,
}

/// One request's answer as it grows.
pub(crate) struct Answer {
    tokenizer: Tokenizer,
    stream: TextStream,
    show: Show,
    prompt: Vec<u32>,
    /// The prompt's text, if it is to stand before the answer; taken when prefill is done.
    echo: Option<String>,
    /// Held until the first token, so that every event with output is a token's.
    waiting: Delta,
    /// Characters given out so far, echo included.
    offset: usize,
    cached: u32,
    generated: u32,
}

impl Answer {
    pub(crate) fn new(
        tokenizer: &Tokenizer,
        show: Show,
        prompt: Vec<u32>,
        echo: Option<String>,
    ) -> Self {
        Self {
            tokenizer: tokenizer.clone(),
            stream: tokenizer.stream(),
            show,
            prompt,
            echo,
            waiting: Delta::default(),
            offset: 0,
            cached: 0,
            generated: 0,
        }
    }

    /// Counts so far.
    pub(crate) fn usage(&self) -> Usage {
        Usage::new(self.prompt.len() as u32, self.generated, self.cached)
    }

    pub(crate) fn step(&mut self, event: Event) -> Step {
        match event {
            Event::Prompt(prompt) => {
                self.begin(prompt);
                Step::Begin
            }
            Event::Token(token) => Step::Grow(self.grow(token)),
            Event::Finished(finished) => {
                let ending = Ending {
                    reason: match finished.reason {
                        FinishReason::Stop => "stop",
                        FinishReason::Length => "length",
                    },
                    usage: self.usage(),
                    timings: Timings::new(self.cached, finished.timings),
                };
                Step::Finish(self.rest(), ending)
            }
            Event::Failed(detail) => Step::Fail(detail),
        }
    }

    fn begin(&mut self, prompt: Prompt) {
        self.cached = prompt.cached_tokens;
        let Some(text) = self.echo.take() else {
            return;
        };
        if let Some(logprobs) = prompt.logprobs {
            self.waiting.scored = self.score_prompt(logprobs);
        }
        self.offset = text.chars().count();
        self.waiting.text = text;
    }

    fn score_prompt(&self, logprobs: Vec<Option<Logprob>>) -> Vec<Scored> {
        let mut stream = self.tokenizer.stream();
        let mut offset = 0;
        let tokens = self.prompt.iter().zip(logprobs);
        let scored = tokens.map(|(id, logprob)| {
            let scored = self.scored(*id, offset, logprob);
            offset += stream.push(*id).map_or(0, |piece| piece.chars().count());
            scored
        });
        scored.collect()
    }

    fn grow(&mut self, token: Token) -> Delta {
        self.generated += 1;
        let mut delta = std::mem::take(&mut self.waiting);
        if self.show.logprobs.is_some() {
            let scored = self.scored(token.id, self.offset, token.logprob);
            delta.scored.push(scored);
        }
        if self.show.token_ids {
            delta.ids.push(token.id);
        }
        if let Some(piece) = self.stream.push(token.id) {
            self.offset += piece.chars().count();
            delta.text.push_str(&piece);
        }
        delta
    }

    fn rest(&mut self) -> Delta {
        let mut delta = std::mem::take(&mut self.waiting);
        let stream = std::mem::replace(&mut self.stream, self.tokenizer.stream());
        delta.text.push_str(&stream.finish());
        delta
    }

    fn scored(&self, id: u32, offset: usize, logprob: Option<Logprob>) -> Scored {
        let score = logprob.map(|logprob| Score {
            chosen: logprob.chosen,
            top: logprob
                .top
                .iter()
                .map(|(id, logprob)| (self.name(*id), *logprob))
                .collect(),
        });
        Scored {
            text: self.name(id),
            offset,
            score,
        }
    }

    fn name(&self, id: u32) -> String {
        match self.show.tokens_as_ids {
            true => format!("token_id:{id}"),
            false => self.tokenizer.token_text(id),
        }
    }
}
