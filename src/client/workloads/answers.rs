//! The same greedy prompts under several conditions, as waves. In each pass three groups of prompts:
//!
//! - known to the cache: each alone, alone again, in a batch, beside prefills;
//! - new in a batch, then alone;
//! - new beside prefills, then alone.
//!
//! An answer alone is whole; of the others every second one is streamed. Every second prompt ends as the one before
//! it and begins otherwise: a prefix cache that knows a page by its own tokens alone gives it the other's state.
//!
//! Refuses to know: sockets, what the answers say.

use super::prompt::SentPrompt;
use super::request_plan::{Label, Pace, Planned, Wave};
use super::{Output, prompted};
use crate::{Endpoint, PromptSeed};
use verdict::plan::Answers;
use verdict::record::{Condition, Phase, Setting};

/// Prompts to be prefilled are numbered from here: far from the others.
const BESIDE: u32 = 1 << 30;

/// All waves of the workload `id`.
pub fn waves(endpoint: &Endpoint, id: &str, answers: &Answers, seed: PromptSeed) -> Vec<Wave> {
    let mut writer = Writer {
        endpoint,
        id,
        answers,
        seed,
        next: 0,
    };
    let mut waves = Vec::new();
    for pass in 0..answers.passes {
        let first = 3 * pass * answers.prompts;
        let [known, batched, prefilled] = [0, 1, 2].map(|group| first + group * answers.prompts);
        for (group, conditions) in [
            (
                known,
                &[
                    Condition::Alone,
                    Condition::Cached,
                    Condition::CachedBatch,
                    Condition::CachedPrefill,
                ][..],
            ),
            (batched, &[Condition::Batch, Condition::Alone]),
            (prefilled, &[Condition::Prefill, Condition::Alone]),
        ] {
            let wave = |condition| writer.wave(group, condition, pass);
            waves.extend(conditions.iter().copied().map(wave));
        }
    }
    waves
}

struct Writer<'a> {
    endpoint: &'a Endpoint,
    id: &'a str,
    answers: &'a Answers,
    seed: PromptSeed,
    /// Index of the next request.
    next: u32,
}

impl Writer<'_> {
    /// A group's prompts, numbered from `group`, under one condition.
    fn wave(&mut self, group: u32, condition: Condition, pass: u32) -> Wave {
        let mut requests = Vec::new();
        for place in 0..self.answers.prompts {
            requests.push(self.prompt(group + place, condition, pass, place));
            if matches!(condition, Condition::Prefill | Condition::CachedPrefill) {
                requests.push(self.beside());
            }
        }
        let slots = match condition {
            Condition::Alone | Condition::Cached => 1,
            _ => self.answers.batch,
        };
        Wave::new(requests, Pace::Slots(slots))
    }

    fn prompt(&mut self, number: u32, condition: Condition, pass: u32, place: u32) -> Planned {
        let label = Label {
            case: Some(format!("p{number}")),
            setting: Some(Setting::Answer { condition, pass }),
            ..Label::of(self.take(), Phase::Measured)
        };
        let output = Output {
            tokens: self.answers.output_tokens,
            streamed: condition != Condition::Alone && place.is_multiple_of(2),
            logprobs: self.answers.top_k,
        };
        // Every second prompt ends as the one before.
        let other = number - number % 2;
        let tokens = self.answers.prompt_tokens;
        let said =
            SentPrompt::ending_as(self.endpoint, self.id, self.seed, (number, other), tokens);
        prompted(self.endpoint, said, label, output)
    }

    /// A prompt that is prefilled. Its answer is as long as the others', so that a mixed-up one is no count's fault.
    fn beside(&mut self) -> Planned {
        let label = Label::of(self.take(), Phase::Warmup);
        let said = self.said(BESIDE + label.index, self.answers.beside_tokens);
        prompted(
            self.endpoint,
            said,
            label,
            Output::streamed(self.answers.output_tokens),
        )
    }

    fn said(&self, number: u32, tokens: u32) -> SentPrompt {
        SentPrompt::new(self.endpoint, self.id, self.seed, number, tokens)
    }

    fn take(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }
}
