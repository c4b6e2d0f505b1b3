//! The same greedy prompts under several conditions, as waves. In each pass three groups of prompts:
//!
//! - known to the cache: each alone, alone again, in a batch, beside prefills;
//! - new in a batch, then alone;
//! - new beside prefills, then alone.
//!
//! An answer alone is whole; of the others every second one is streamed. Every second prompt ends as the one before
//! it and begins otherwise: a prefix cache that knows a page by its own tokens alone gives it the other's state. Of the known
//! ones every fourth begins as the one two before it and ends otherwise: so does one that looks at the first pages alone.
//! One in eight has only its last two tokens for itself: one that takes whole pages alike for the whole prompt.
//!
//! A workload may add conditions:
//!
//! - sampled: the known prompts once more, in a batch, from the sampler, which is left one token; and twice more, drawn at
//!   temperature 1 with one seed;
//! - stopped: the known prompts once more, each up to the first of some strings;
//! - ended: questions over the chat route, whole and then streamed, which the model ends by itself, and as plain text;
//! - penalised: texts that ask for repetition, each with either penalty for tokens that are there already, and without;
//! - refused: between the known prompts of a batch, requests that an engine should refuse;
//! - left: of what is prefilled every second answer is left by its client as it begins; those beside new prompts most while
//!   the prompt is computed, and they are then answered alone, from what the cache kept of them.
//!
//! Refuses to know: sockets, what the answers say.

use super::bad_request::BAD;
use super::prompt::SentPrompt;
use super::questions::{QUESTIONS, REPEATED, STORIES};
use super::request::Penalty;
use super::request_plan::{CHAT, COMPLETIONS, Expect, Label, Pace, Planned, Wave};
use super::{Output, chat, prompted};
use crate::socket::connection::Ask;
use crate::{Endpoint, PromptSeed};
use std::time::Duration;
use verdict::plan::Answers;
use verdict::record::{Condition, ENDING, LEFT_CASE, Phase, Setting, WITH};

/// Prompts to be prefilled are numbered from here: far from the others.
const BESIDE: u32 = 1 << 30;

/// Tokens by which the prompts of later passes are shorter: of a length that is three over whole pages of a cache they fill
/// them, are one over, and lack one.
const SHORTER: [u32; 4] = [0, 3, 2, 4];

/// All waves of the workload `id`.
pub fn waves(endpoint: &Endpoint, id: &str, answers: &Answers, seed: PromptSeed) -> Vec<Wave> {
    let mut writer = Writer {
        endpoint,
        id,
        answers,
        seed,
        next: 0,
        left: Vec::new(),
    };
    let mut waves = Vec::new();
    if writer.has(Condition::Ended) {
        waves.push(writer.questions());
    }
    if writer.has(Condition::Penalised) {
        waves.push(writer.penalised());
    }
    for pass in 0..answers.passes {
        let first = 3 * pass * answers.prompts;
        let [known, batched, prefilled] = [0, 1, 2].map(|group| first + group * answers.prompts);
        for (group, conditions) in [
            (
                known,
                &[
                    Condition::Alone,
                    Condition::Cached,
                    Condition::Stopped,
                    Condition::Sampled,
                    Condition::Drawn,
                    Condition::Drawn,
                    Condition::CachedBatch,
                    Condition::CachedPrefill,
                ][..],
            ),
            (batched, &[Condition::Batch, Condition::Alone]),
            (prefilled, &[Condition::Prefill, Condition::Alone]),
        ] {
            let wanted = |condition: &&Condition| {
                let asked = match condition {
                    Condition::Drawn => Condition::Sampled,
                    Condition::Sampled | Condition::Stopped => **condition,
                    _ => return true,
                };
                answers.conditions.contains(&asked)
            };
            for condition in conditions.iter().filter(wanted) {
                waves.push(writer.wave(group, *condition, pass));
            }
        }
    }
    waves
}

/// A client leaves as the answer begins.
const AT_ANSWER: Duration = Duration::from_secs(3_600);

/// When clients leave new prompts, at the latest: most while an engine that takes so long computes the prompt.
const LEAVE: [Duration; 4] = [
    Duration::from_millis(10),
    AT_ANSWER,
    Duration::from_millis(40),
    Duration::from_millis(160),
];

struct Writer<'a> {
    endpoint: &'a Endpoint,
    id: &'a str,
    answers: &'a Answers,
    seed: PromptSeed,
    /// Index of the next request.
    next: u32,
    /// Prompts whose clients left in the last wave of `Prefill`.
    left: Vec<u32>,
}

impl Writer<'_> {
    /// A group's prompts, numbered from `group`, under one condition.
    fn wave(&mut self, group: u32, condition: Condition, pass: u32) -> Wave {
        let mut requests = Vec::new();
        let mut refused = match condition {
            Condition::CachedBatch => self.answers.bad_requests(),
            _ => 0,
        };
        for place in 0..self.answers.prompts {
            // As many before each prompt as before any other.
            let left = refused.div_ceil(self.answers.prompts - place);
            for _ in 0..left {
                refused -= 1;
                requests.push(self.refused(pass, refused));
            }
            requests.push(self.prompt(group + place, condition, pass, place));
            if matches!(condition, Condition::Prefill | Condition::CachedPrefill) {
                requests.push(self.beside(condition, pass, place));
            }
        }
        if condition == Condition::Alone {
            let left = std::mem::take(&mut self.left).into_iter();
            requests.extend(left.map(|number| self.again(number, pass)));
        }
        let slots = match condition {
            Condition::Alone | Condition::Cached | Condition::Stopped => 1,
            _ => self.answers.batch,
        };
        Wave::new(requests, Pace::Slots(slots))
    }

    fn prompt(&mut self, number: u32, condition: Condition, pass: u32, place: u32) -> Planned {
        let is_odd = !place.is_multiple_of(2);
        // Of those that are known; two new ones would meet in a batch, and which is first is chance.
        let is_known = number - place == 3 * pass * self.answers.prompts;
        // A tokenizer may cut the last words off.
        let is_ending = place % 8 == 5
            && !number.is_multiple_of(2)
            && is_known
            && self.endpoint.tokenizer.is_none();
        let label = Label {
            case: Some(match is_ending {
                true => format!("p{}{ENDING}", number - 1),
                false => format!("p{number}"),
            }),
            setting: Some(Setting::Answer { condition, pass }),
            ..Label::of(self.take(), Phase::Measured)
        };
        let output = Output {
            tokens: self.answers.output_tokens,
            streamed: condition != Condition::Alone && !is_odd,
            // Engines differ in which tokens they list of a stop string.
            logprobs: (self.answers.logprobs.top_k).filter(|_| condition != Condition::Stopped),
            condition: Some(condition),
            penalty: None,
            is_free: condition == Condition::Stopped,
            leaves: None,
        };
        let shorter = SHORTER[pass as usize % SHORTER.len()];
        let tokens = (self.answers.prompt_tokens.saturating_sub(shorter)).max(1);
        let (endpoint, id, seed) = (self.endpoint, self.id, self.seed);
        let joined = |pair| SentPrompt::joined(endpoint, id, seed, number, pair, tokens);
        let said = match place % 4 {
            2 if is_known => joined((number - 2, number)),
            _ if is_ending => SentPrompt::ending(endpoint, id, seed, number, number - 1, tokens),
            _ => joined((number, number - number % 2)),
        };
        prompted(self.endpoint, said, label, output)
    }

    /// A prompt that is prefilled. Its answer is as long as the others', so that a mixed-up one is no count's fault.
    fn beside(&mut self, condition: Condition, pass: u32, place: u32) -> Planned {
        let mut label = Label::of(self.take(), Phase::Warmup);
        let number = BESIDE + label.index;
        let is_left = self.has(Condition::Left) && !place.is_multiple_of(2);
        let under = is_left.then_some(Condition::Left);
        label.setting = under.map(|condition| Setting::Answer { condition, pass });
        if is_left && condition == Condition::Prefill {
            self.left.push(number);
        }
        let turn = (place / 2 + pass) as usize % LEAVE.len();
        let leaves = match condition {
            Condition::Prefill => LEAVE[turn],
            _ => AT_ANSWER,
        };
        let output = Output {
            condition: under,
            leaves: is_left.then_some(leaves),
            ..Output::streamed(self.answers.output_tokens)
        };
        let said = self.said(number, self.answers.beside_tokens);
        prompted(self.endpoint, said, label, output)
    }

    /// A prompt that was left, to its end.
    fn again(&mut self, number: u32, pass: u32) -> Planned {
        let condition = Condition::Alone;
        let label = Label {
            case: Some(format!("{LEFT_CASE}{}", number - BESIDE)),
            setting: Some(Setting::Answer { condition, pass }),
            ..Label::of(self.take(), Phase::Measured)
        };
        let output = Output {
            logprobs: self.answers.logprobs.top_k,
            ..Output::whole(self.answers.output_tokens)
        };
        let said = self.said(number, self.answers.beside_tokens);
        prompted(self.endpoint, said, label, output)
    }

    /// Each question over the chat route, whole and then streamed, and its text alone; then stories, which are also drawn. In a
    /// chat an answer may have as many tokens as a model needs that thinks first.
    fn questions(&mut self) -> Wave {
        const TOKENS: u32 = 64;
        let mut requests = Vec::new();
        for (number, question) in QUESTIONS.iter().enumerate() {
            let name = question.name(number);
            for streamed in [false, true] {
                let (label, output) = self.ended(Condition::Ended, &name, TOKENS, streamed);
                let messages = question.messages();
                requests.push(chat(self.endpoint, &messages, label, output));
            }
            let is_odd = !number.is_multiple_of(2);
            let text = format!("text {number}");
            let (label, output) = self.ended(Condition::Ended, &text, TOKENS / 2, is_odd);
            let said = SentPrompt::Text {
                text: question.text.to_owned(),
                unfit: None,
            };
            requests.push(prompted(self.endpoint, said, label, output));
        }
        for (number, story) in (QUESTIONS.len()..).zip(&STORIES) {
            let name = story.name(number);
            let is_odd = !number.is_multiple_of(2);
            let greedy = (Condition::Ended, false);
            let drawn = (Condition::Drawn, is_odd);
            let asked = match self.has(Condition::Sampled) {
                true => &[greedy, drawn, drawn][..],
                false => &[greedy],
            };
            for (condition, streamed) in asked {
                let (label, output) = self.ended(*condition, &name, TOKENS / 2, *streamed);
                requests.push(chat(self.endpoint, &story.messages(), label, output));
            }
        }
        Wave::new(requests, Pace::Slots(1))
    }

    /// Each text without a penalty, and with either: in turn, so that those with and those without are in flight together.
    fn penalised(&mut self) -> Wave {
        const TOKENS: u32 = 32;
        let mut requests = Vec::new();
        for (number, repeated) in REPEATED.iter().enumerate() {
            let streamed = number.is_multiple_of(2);
            for penalty in [None, Some(Penalty::Frequency), Some(Penalty::Presence)] {
                let with = penalty.map_or_else(String::new, |it| format!("{WITH}{}", it.name()));
                let case = format!("repetition {number}{with}");
                let (label, output) = self.ended(Condition::Penalised, &case, TOKENS, streamed);
                let output = Output {
                    penalty,
                    // Some engines list them with the penalties, some without.
                    logprobs: output.logprobs.filter(|_| penalty.is_none()),
                    ..output
                };
                let said = SentPrompt::Text {
                    text: format!("Repeat this ten times: {repeated}"),
                    unfit: None,
                };
                requests.push(prompted(self.endpoint, said, label, output));
            }
        }
        Wave::new(requests, Pace::Slots(self.answers.batch))
    }

    /// Labels a request whose answer ends by itself.
    fn ended(
        &mut self,
        condition: Condition,
        case: &str,
        tokens: u32,
        streamed: bool,
    ) -> (Label, Output) {
        let label = Label {
            case: Some(case.to_owned()),
            setting: Some(Setting::Answer { condition, pass: 0 }),
            ..Label::of(self.take(), Phase::Measured)
        };
        let output = Output {
            streamed,
            // A streamed answer shows the path without them, which users take; some servers drop parts of lists in chunks.
            logprobs: (self.answers.logprobs.top_k).filter(|_| !streamed),
            condition: Some(condition),
            is_free: true,
            ..Output::whole(tokens)
        };
        (label, output)
    }

    /// A bad request. Where it is accepted, its client leaves as the answer begins.
    fn refused(&mut self, pass: u32, number: u32) -> Planned {
        let condition = Condition::Refused;
        // The prompt that is too long, where there is one, and then the others, all of them twice.
        let turn = (number % (self.answers.bad_requests() / 2)) as usize;
        let too_long = self.answers.beyond_tokens.filter(|_| turn == BAD.len());
        let bad = &BAD[turn % BAD.len()];
        let name = too_long.map_or_else(|| bad.name(), |n| format!("a prompt of {n} tokens"));
        let label = Label {
            case: Some(name),
            setting: Some(Setting::Answer { condition, pass }),
            ..Label::of(self.take(), Phase::Warmup)
        };
        let expect = Expect {
            streamed: true,
            refused: true,
            ..Expect::default()
        };
        if let Some(tokens) = too_long {
            let output = Output {
                leaves: Some(AT_ANSWER),
                ..Output::streamed(1)
            };
            let said = self.said(BESIDE + label.index, tokens);
            let planned = prompted(self.endpoint, said, label, output);
            return Planned { expect, ..planned };
        }
        let ask = Ask {
            leaves: Some(AT_ANSWER),
            ..Ask::post(self.route(), bad.body(self.endpoint))
        };
        Planned { label, expect, ask }
    }

    fn route(&self) -> &'static str {
        match self.endpoint.chat {
            true => CHAT,
            false => COMPLETIONS,
        }
    }

    fn has(&self, condition: Condition) -> bool {
        self.answers.conditions.contains(&condition)
    }

    fn said(&self, number: u32, tokens: u32) -> SentPrompt {
        SentPrompt::new(self.endpoint, self.id, self.seed, number, tokens)
    }

    fn take(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use verdict::plan::{Logprobs, WorkloadKind};

    /// The workload with these conditions, and its waves.
    fn with(prompts: u32, conditions: &[Condition], beyond: Option<u32>) -> (Answers, Vec<Wave>) {
        let answers = Answers {
            prompts,
            prompt_tokens: 8,
            output_tokens: 4,
            batch: 2,
            beside_tokens: 9,
            passes: 2,
            conditions: conditions.to_vec(),
            beyond_tokens: beyond,
            logprobs: Logprobs::default(),
        };
        let endpoint = Endpoint::usual(([127, 0, 0, 1], 1).into(), "m");
        let seed = PromptSeed {
            session: 1,
            block: 1,
        };
        let waves = waves(&endpoint, "w", &answers, seed);
        (answers, waves)
    }

    #[test]
    fn the_plan_counts_the_requests_that_are_sent() {
        let all = [
            Condition::Sampled,
            Condition::Stopped,
            Condition::Left,
            Condition::Ended,
            Condition::Penalised,
            Condition::Refused,
        ];
        for number in 0..=all.len() {
            let (answers, waves) = with(5, &all[..number], Some(99));
            let sent: u64 = waves.iter().map(|wave| u64::from(wave.len())).sum();
            assert_eq!(sent, WorkloadKind::Answers(answers).requests(), "{number}");
        }
    }

    #[test]
    fn each_bad_request_is_sent_twice_a_pass() {
        for beyond in [None, Some(99)] {
            let (answers, waves) = with(5, &[Condition::Refused], beyond);
            let planned = waves.iter().flat_map(|wave| &wave.requests);
            let refused = planned.filter(|planned| planned.expect.refused);
            let mut names: BTreeMap<_, u32> = BTreeMap::new();
            for planned in refused {
                *names.entry(&planned.label.case).or_default() += 1;
            }
            let all = BAD.len() + usize::from(beyond.is_some());
            assert_eq!(names.len(), all, "{names:?}");
            let twice = 2 * answers.passes;
            assert!(names.values().all(|sent| *sent == twice), "{names:?}");
        }
    }
}
