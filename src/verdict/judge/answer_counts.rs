//! Counts over the sound requests of one arm, for what is remarked on answers and for the parity of tokens.
//!
//! Main type: [`AnswerCounts`]. Refuses to know: what is worth a remark.

use crate::record::{Condition, Sample, USUAL_TOKENS_AN_EVENT};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerCounts {
    /// Requests.
    pub all: u64,
    /// Those with a count of output tokens, and the tokens.
    counted: u64,
    tokens: u64,
    /// Those with a count of prompt tokens, and the tokens.
    prompts: u64,
    prompt_tokens: u64,
    /// Those that ended by themselves, and their tokens.
    pub ended: u64,
    ended_tokens: u64,
    /// Those of white space alone: none of them ended by itself.
    pub blank: u64,
    /// Those that are one token over and over.
    pub repeated: u64,
    /// Streams, and those of them that ended without `[DONE]`.
    pub streams: u64,
    pub no_done: u64,
    /// Streams that do not tell the tokens of their first event, and those of them with unusually many
    /// tokens an event.
    untold: u64,
    untold_bursts: u64,
}

impl AnswerCounts {
    pub fn add(&mut self, samples: &[&Sample]) {
        for sample in samples {
            let tokens = sample.tokens.completion;
            self.all += 1;
            self.counted += u64::from(tokens.is_some());
            self.tokens += u64::from(tokens.unwrap_or(0));
            self.prompts += u64::from(sample.tokens.prompt.is_some());
            self.prompt_tokens += u64::from(sample.tokens.prompt.unwrap_or(0));
            // A stop string may end an answer before its first word.
            if sample.is_blank() && sample.condition() != Some(Condition::Stopped) {
                self.blank += 1;
            } else if sample.finish_reason.as_deref() == Some("stop") {
                self.ended += 1;
                self.ended_tokens += u64::from(tokens.unwrap_or(0));
            }
            self.repeated += u64::from(sample.tokens.repeats);
            self.streams += u64::from(sample.streamed);
            self.no_done += u64::from(sample.stamps.no_done);
            if let Some(factor) = untold(sample) {
                self.untold += 1;
                self.untold_bursts += u64::from(factor > USUAL_TOKENS_AN_EVENT);
            }
        }
    }

    /// Adds what another has counted.
    pub fn join(&mut self, other: &Self) {
        self.all += other.all;
        self.counted += other.counted;
        self.tokens += other.tokens;
        self.prompts += other.prompts;
        self.prompt_tokens += other.prompt_tokens;
        self.ended += other.ended;
        self.ended_tokens += other.ended_tokens;
        self.blank += other.blank;
        self.repeated += other.repeated;
        self.streams += other.streams;
        self.no_done += other.no_done;
        self.untold += other.untold;
        self.untold_bursts += other.untold_bursts;
    }

    /// Output tokens a request; `None` where none was counted.
    pub fn mean_tokens(&self) -> Option<f64> {
        mean(self.tokens, self.counted)
    }

    /// Prompt tokens a request, as the engine counts them; `None` where it counted none.
    pub fn mean_prompt_tokens(&self) -> Option<f64> {
        mean(self.prompt_tokens, self.prompts)
    }

    /// Output tokens of an answer that ended by itself; `None` where none did.
    pub fn mean_ended_tokens(&self) -> Option<f64> {
        mean(self.ended_tokens, self.ended)
    }

    /// Whether the middle one of the untold streams can have unusually many tokens an event.
    pub fn may_burst_untold(&self) -> bool {
        2 * self.untold_bursts >= self.untold.max(1)
    }
}

fn mean(sum: u64, n: u64) -> Option<f64> {
    (n > 0).then(|| sum as f64 / n as f64)
}

/// Tokens an event of a stream that does not tell those of its first.
pub fn untold(sample: &Sample) -> Option<f64> {
    let (tokens, events) = (sample.tokens.completion?, sample.stamps.events_ns.len());
    let asks = sample.streamed && events > 0 && sample.tokens.of_first_event().is_none();
    asks.then(|| f64::from(tokens) / events as f64)
}
