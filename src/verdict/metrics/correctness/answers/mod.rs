//! Answers to one greedy prompt held against one another: alone, cached, in a batch, beside a prefill, in head and
//! in base.
//!
//! Main type: [`Answers`]. A difference is benign at a near-tie of the engine's own (`near_tie.rs`); where no
//! log-probabilities tell, it is held against how often base differs from itself. An answer that is another prompt's and no
//! near-tie can lead to, or blank where the prompt's other answers are not, is wrong whatever the engine tells.

mod chats;
mod difference;
mod drawn;
mod ended;
mod logprobs;
mod mismatches;
mod stopped;

pub use difference::name as request_name;
pub use logprobs::{Moved, moved};
pub use mismatches::mismatches;

use super::near_tie::{lists_as_near, parts_at_once, parts_within, quoted};
use crate::digest;
use crate::metrics::{Place, Requests};
use crate::plan::WorkloadKind;
use crate::record::{Condition, ENDING, Phase, Sample, Setting, VoidRule, is_blank};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

/// An answer of fewer tokens may be another prompt's by chance: `yes`, `no`.
const TELLING: u32 = 8;

/// A loop repeats a piece of at most `PIECE` bytes at least `TIMES` times: an answer of 32 tokens may loop over four.
const TIMES: usize = 8;
const PIECE: usize = 32;

/// Fewer answers that part from base's at once may be near-ties.
const LEAST_OTHER: usize = 3;

/// Answers that part within an eighth of their length part early: some near-ties lie there, but not in nine of ten answers.
const EARLY: usize = 8;

/// Of a long answer, tokens within which it parts early.
const EARLY_TOKENS: usize = 16;

/// White space at the end of an answer, in characters, that one mode may lack.
const END: usize = 4;

/// Of an answer that nothing is held against.
const BLANK: &str =
    "nothing but white space, like most answers: choose prompts that the engine answers with text";

/// So unlikely is it that head differs from itself so much more often than base does, were both alike.
pub const SURE: f64 = 0.001;

/// Near-ties lie at the first token of at most this share of prompts.
const NEAR_TIES: f64 = 0.1;

/// What tells prompts apart within a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Prompt<'a> {
    Case(&'a str),
    /// Sent once a launch: by the request's number.
    Request(u32),
}

impl std::fmt::Display for Prompt<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Case(case) => write!(f, "prompt {case}"),
            Self::Request(index) => write!(f, "request {index}"),
        }
    }
}

impl<'a> Prompt<'a> {
    fn of(sample: &'a Sample) -> Self {
        match &sample.case {
            Some(case) => Self::Case(case),
            None => Self::Request(sample.index),
        }
    }

    /// Its case without what says that it ends otherwise.
    fn body(self) -> Self {
        match self {
            Self::Case(case) => Self::Case(case.strip_suffix(ENDING).unwrap_or(case)),
            Self::Request(_) => self,
        }
    }

    /// True of two prompts of an `answers` workload that end alike.
    fn ends_as(self, other: Self) -> bool {
        let number = |prompt| match prompt {
            Self::Case(case) => case.strip_prefix('p')?.parse::<u32>().ok(),
            Self::Request(_) => None,
        };
        let numbers = number(self).zip(number(other));
        numbers.is_some_and(|(a, b)| a ^ 1 == b)
    }
}

/// One launch's answers, and base's to the same prompts where base was launched beside it. Answers that a
/// stop string ([`stopped`]) or the client cut are left out: they equal no other answer.
pub struct Answers<'a> {
    /// Of each case the first answer that was got alone.
    alone: BTreeMap<&'a str, &'a Sample>,
    /// Base's answer to each request, by its number.
    base: BTreeMap<u32, &'a Sample>,
    /// The prompts that each text was given to in either launch, by the text's digest; short texts and repetitions
    /// left out. Read where an answer differs.
    given_to: OnceCell<BTreeMap<&'a str, BTreeSet<Prompt<'a>>>>,
    /// Both launches' sound answers, those of this launch first.
    both: Vec<&'a Sample>,
    own: usize,
    /// [`Answers::are_mixed_up`].
    are_mixed_up: OnceCell<bool>,
    /// [`Answers::are_led_astray`].
    are_led_astray: OnceCell<bool>,
}

impl<'a> Answers<'a> {
    pub fn of(at: &Place<'a>) -> Self {
        Self::new(&at.requests.all, &at.requests.base)
    }

    fn new(own: &[&'a Sample], base: &[&'a Sample]) -> Self {
        let sound = |samples: &[&'a Sample]| {
            let mut samples = samples.to_vec();
            samples.retain(|s| is_answer(s) && !is_cut_short(s));
            samples.sort_by_key(|s| s.index);
            samples
        };
        let (own, base) = (sound(own), sound(base));
        let mut alone = BTreeMap::new();
        for sample in own.iter().filter(|s| is_alone(s)) {
            if let Some(case) = &sample.case {
                alone.entry(case.as_str()).or_insert(*sample);
            }
        }
        let both = [own.as_slice(), base.as_slice()].concat();
        Self {
            alone,
            base: base.into_iter().map(|s| (s.index, s)).collect(),
            given_to: OnceCell::new(),
            own: own.len(),
            both,
            are_mixed_up: OnceCell::new(),
            are_led_astray: OnceCell::new(),
        }
    }

    fn given_to(&self) -> &BTreeMap<&'a str, BTreeSet<Prompt<'a>>> {
        self.given_to.get_or_init(|| {
            let mut given_to: BTreeMap<&str, BTreeSet<Prompt<'_>>> = BTreeMap::new();
            for sample in self.both.iter().filter(|s| is_telling(s)) {
                let prompts = given_to.entry(&sample.text_sha256).or_default();
                prompts.insert(Prompt::of(sample));
            }
            given_to
        })
    }

    /// The same prompt's answer alone, if this is not that answer.
    pub fn alone(&self, sample: &Sample) -> Option<&'a Sample> {
        if is_cut_short(sample) {
            return None;
        }
        let alone = self.alone.get(sample.case.as_deref()?)?;
        (alone.index != sample.index).then_some(*alone)
    }

    /// Base's answer to the same request.
    pub fn in_base(&self, sample: &Sample) -> Option<&'a Sample> {
        self.base.get(&sample.index).copied()
    }

    /// True if the same prompt got another text alone.
    pub fn differs_from_alone(&self, sample: &Sample) -> bool {
        let alone = self.alone(sample);
        alone.is_some_and(|alone| !is_same(alone, sample))
    }

    /// True if base answered the same request with another text.
    pub fn differs_from_base(&self, sample: &Sample) -> bool {
        let base = self.in_base(sample);
        base.is_some_and(|base| !is_same(base, sample))
    }

    /// False if base's answer begins with the same tokens up to `place`, and lists that of `sample` far from its best: twice as
    /// far as a near-tie, which roundings of two engines add up to. Head's own lists may have the fault that made the difference.
    fn base_may_part(&self, sample: &Sample, place: usize, near_tie: Option<f64>) -> bool {
        let Some((nats, base)) = near_tie.zip(self.in_base(sample)) else {
            return true;
        };
        let begins_alike = {
            let tokens = sample.logprobs.iter().zip(&base.logprobs).take(place);
            tokens.filter(|(own, base)| own.token == base.token).count() == place
        };
        let is_listed = base
            .logprobs
            .get(place)
            .is_some_and(|at| !at.top.is_empty());
        !begins_alike || !is_listed || lists_as_near(base, sample, place, 2.0 * nats)
    }

    /// Another prompt that was answered with this text, if the prompt's own other answers are not this text; of several one
    /// that ends otherwise. One of which only the last words differ is none: a near-tie may lead to its answer.
    fn owner(&self, sample: &Sample) -> Option<Prompt<'a>> {
        let own = Prompt::of(sample);
        let given_to = self.given_to().get(sample.text_sha256.as_str())?;
        let others = given_to.iter();
        let others = others.filter(|other| **other != own && other.body() != own.body());
        let owner = others.min_by_key(|other| other.ends_as(own))?;
        let differs = self.differs_from_alone(sample) || self.differs_from_base(sample);
        differs.then_some(*owner)
    }

    /// Three answers or more, and over a quarter, are whole answers of other prompts: near-ties do not lead there so often.
    fn are_mixed_up(&self) -> bool {
        *self.are_mixed_up.get_or_init(|| {
            let own = &self.both[..self.own];
            let owned = own.iter().filter(|s| self.owner(s).is_some()).count();
            owned >= LEAST_OTHER && 4 * owned > own.len()
        })
    }

    /// True if three prompts or more got the answer of the one that ends alike: near-ties do not lead there so often.
    fn are_led_astray(&self) -> bool {
        *self.are_led_astray.get_or_init(|| {
            let own = self.both[..self.own].iter().map(|s| (Prompt::of(s), s));
            let led = own.filter(|(own, s)| self.owner(s).is_some_and(|owner| owner.ends_as(*own)));
            let prompts: BTreeSet<Prompt<'_>> = led.map(|(own, _)| own).collect();
            prompts.len() >= LEAST_OTHER
        })
    }

    /// True if a near-tie may have led into the own answer of a prompt that ends alike. One that got this prompt's answer in
    /// turn was swapped with it.
    fn may_lead_to(&self, sample: &Sample, owner: Prompt<'_>) -> bool {
        let own = Prompt::of(sample);
        let is_text_of = |prompt: Prompt<'_>, text: &str, alone: bool| {
            let mut answers = self.both.iter().filter(|s| Prompt::of(s) == prompt);
            answers.any(|s| s.text_sha256 == text && (is_alone(s) || !alone))
        };
        let mut owns = self
            .both
            .iter()
            .filter(|s| Prompt::of(s) == own && is_alone(s));
        owner.ends_as(own)
            && !self.are_led_astray()
            && is_text_of(owner, &sample.text_sha256, true)
            && !owns.any(|s| is_text_of(owner, &s.text_sha256, false))
    }

    /// True if a near-tie may have led into a text that another prompt got too: base gives it to several prompts, or the
    /// answer parts late from base's to its prompt, where base gave none or this one from the answer alone; or
    /// this answer and the prompt's others loop, and the other prompt got none of theirs.
    fn may_be_near_tie(&self, sample: &Sample, owner: Prompt<'_>) -> bool {
        // In a batch base may have the same fault.
        let in_base = self
            .base
            .values()
            .filter(|s| s.case.is_none() || is_alone(s));
        let alike = in_base.filter(|other| other.text_sha256 == sample.text_sha256);
        let prompts: BTreeSet<Prompt<'_>> = alike.map(|other| Prompt::of(other)).collect();
        if prompts.len() > 1 {
            return true;
        }
        let others = self.in_base(sample).into_iter().chain(self.alone(sample));
        let mut others = others.filter(|other| !is_same(other, sample)).peekable();
        let is_swapped = |other: &Sample| {
            let given_to = self.given_to().get(other.text_sha256.as_str());
            given_to.is_some_and(|prompts| prompts.contains(&owner))
        };
        if loops(sample) && others.peek().is_some() && others.clone().all(loops) {
            return !others.any(is_swapped);
        }
        others.next().is_some_and(|other| {
            let are_kept = other.text.is_some() && sample.text.is_some();
            are_kept && !parts_within(other, sample, EARLY, EARLY_TOKENS)
        })
    }

    /// Why an answer is wrong beside what the prompt got alone, or in base; `None` where neither is there, where it is
    /// the same as both, and where it only differs. Main may have the same fault, so base excuses nothing but a
    /// repetition, into which a near-tie may lead, and a text that it gives to several prompts. The answer alone may have
    /// the fault too: it fills the cache.
    pub fn wrong(&self, sample: &Sample) -> Option<String> {
        let (alone, base) = (self.alone(sample), self.in_base(sample));
        if !is_answer(sample) {
            return None;
        }
        let mut whole = alone.into_iter().chain(base);
        let is_cut = |whole: &&Sample| !is_same(sample, whole) && is_beginning(sample, whole);
        if let Some(whole) = whole.find(is_cut) {
            let end = whole.text.as_deref().unwrap_or_default().chars().count();
            return Some(format!(
                "the beginning of what the same prompt got, {} of {end} characters, and as many tokens are counted for it",
                sample.text.as_deref().unwrap_or_default().chars().count()
            ));
        }
        let mut others = alone.into_iter().chain(base);
        others.find_map(|other| self.wrong_beside(sample, other))
    }

    /// The same beside one other answer to the prompt.
    fn wrong_beside(&self, sample: &Sample, other: &Sample) -> Option<String> {
        if is_same(other, sample) {
            return None;
        }
        if sample.is_blank() && !other.is_blank() {
            return Some(format!(
                "nothing but white space instead of {}",
                quoted(other, 0)
            ));
        }
        let (alone, base) = (self.alone(sample), self.in_base(sample));
        let mut others = alone.into_iter().chain(base);
        // Head's own loop may be the same fault.
        let is_usual = base.is_some_and(loops) || others.any(|other| other.tokens.repeats);
        if sample.tokens.repeats && !is_usual {
            let (said, expected) = (quoted(sample, 0), quoted(other, 0));
            return Some(format!(
                "one token over and over, {said} instead of {expected}"
            ));
        }
        let owner = self.owner(sample)?;
        let may_be_near_tie =
            self.may_lead_to(sample, owner) || self.may_be_near_tie(sample, owner);
        if may_be_near_tie && !self.are_mixed_up() {
            return None;
        }
        let (said, expected) = (quoted(sample, 0), quoted(other, 0));
        Some(format!(
            "{said} instead of {expected}, and that is what {owner} was answered"
        ))
    }
}

/// Wrong answers among the measured ones of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongAnswers {
    pub wrong: usize,
    pub all: usize,
    /// `request 4: nothing but white space instead of "twelve"`.
    pub first: String,
}

/// The sound ones among them that are wrong, or blank where more than half are; `None` where there are none. Answers
/// that a workload has a reference for are that reference's to judge.
pub fn wrong_answers(requests: &Requests<'_>) -> Option<WrongAnswers> {
    if has_reference(requests) {
        return None;
    }
    let measured = &requests.measured;
    let answers = Answers::new(&requests.all, &requests.base);
    let blank = measured.iter().filter(|s| s.is_blank()).count();
    let is_mostly_blank = 2 * blank > measured.len();
    let why = |sample: &Sample| {
        let blank = || (is_mostly_blank && sample.is_blank()).then(|| BLANK.to_owned());
        answers.wrong(sample).or_else(blank)
    };
    let wrong: Vec<_> = measured
        .iter()
        .filter_map(|sample| Some((sample, why(sample)?)))
        .collect();
    let (sample, why) = wrong.first()?;
    Some(WrongAnswers {
        wrong: wrong.len(),
        all: measured.len(),
        first: format!("request {}: {why}", sample.index),
    })
}

/// Head's answers held against base's to the same requests, of one launch or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtherAnswers {
    /// Those that part from base's at once.
    pub other: usize,
    /// Those that part early: within its first eighth, and its first 16 tokens.
    pub early: usize,
    /// Those that were compared.
    pub all: usize,
    /// `launch 1, request 4: "fifteen" instead of "twelve"`.
    pub first: Option<String>,
    /// Prompts of which both count the tokens, those that base counts otherwise, and the first of them, in base and in head.
    counted: usize,
    counted_otherwise: usize,
    prompt_tokens: Option<(u32, u32)>,
}

impl OtherAnswers {
    /// Of one launch, warm-up included: the prompts are the same. Later turns are left out, since they ask with the answers
    /// before them, and so is what a reference judges.
    pub fn of(requests: &Requests<'_>) -> Self {
        let mut pairs = match has_reference(requests) {
            true => Vec::new(),
            false => requests.beside_base(&requests.all),
        };
        pairs.retain(|(head, _)| {
            let is_left_out = matches!(
                head.condition(),
                Some(Condition::Drawn | Condition::Refused)
            );
            head.void.is_none() && head.turn.unwrap_or(0) == 0 && !is_left_out
        });
        let counts = pairs
            .iter()
            .map(|(head, base)| base.tokens.prompt.zip(head.tokens.prompt));
        let counts: Vec<(u32, u32)> = counts.flatten().collect();
        let otherwise = || counts.iter().filter(|(base, head)| base != head);
        pairs.retain(|(_, base)| !base.is_blank());
        let other = pairs
            .iter()
            .filter(|(head, base)| parts_at_once(base, head));
        let early = pairs
            .iter()
            .filter(|(head, base)| parts_within(base, head, EARLY, EARLY_TOKENS));
        let (other, early): (Vec<_>, Vec<_>) = (other.collect(), early.collect());
        let first = other.first().or(early.first()).map(|(head, base)| {
            let (said, expected) = (quoted(head, 0), quoted(base, 0));
            let launch = requests.launch.position;
            format!(
                "launch {launch}, request {}: {said} instead of {expected}",
                head.index
            )
        });
        Self {
            other: other.len(),
            early: early.len(),
            all: pairs.len(),
            first,
            counted: counts.len(),
            counted_otherwise: otherwise().count(),
            prompt_tokens: otherwise().next().copied(),
        }
    }

    /// Adds those of a later launch.
    pub fn join(&mut self, later: &Self) {
        self.other += later.other;
        self.early += later.early;
        self.all += later.all;
        if self.first.is_none() {
            self.first.clone_from(&later.first);
        }
        self.counted += later.counted;
        self.counted_otherwise += later.counted_otherwise;
        self.prompt_tokens = self.prompt_tokens.or(later.prompt_tokens);
    }

    /// Tokens of a prompt in base and in head, if two prompts or all of them are counted otherwise.
    pub fn other_prompt(&self) -> Option<(u32, u32)> {
        let are_some = self.counted_otherwise >= 2 || self.counted_otherwise == self.counted;
        self.prompt_tokens.filter(|_| are_some)
    }

    /// True if more than half part at once, or nine in ten early, and three or more: near-ties are not that many.
    pub fn are_most(&self) -> bool {
        are_most(self.other, self.early, self.all)
    }
}

/// True if of `all` more than half part at once, or nine in ten early, and three or more.
fn are_most(at_once: usize, early: usize, all: usize) -> bool {
    let at_once = at_once >= LEAST_OTHER && 2 * at_once > all;
    let early = early >= LEAST_OTHER && 10 * early >= 9 * all;
    at_once || early
}

/// True if a workload has a reference for its answers, which judges them.
fn has_reference(requests: &Requests<'_>) -> bool {
    use WorkloadKind::{Goldens, Tasks, Texts};
    matches!(requests.workload.kind, Goldens(_) | Tasks(_) | Texts(_))
}

/// True if a request was sent while no other one was in flight, as the first of its prompt's: what fills a cache
/// before a hot cell, or the condition itself.
fn is_alone(sample: &Sample) -> bool {
    match sample.setting {
        Some(Setting::Cell { .. }) => sample.phase == Phase::Warmup,
        _ => sample.condition() == Some(Condition::Alone),
    }
}

/// True for an answer that was to end before its last token, or by itself, or not to be given.
fn is_cut_short(sample: &Sample) -> bool {
    matches!(
        sample.condition(),
        Some(
            Condition::Drawn
                | Condition::Stopped
                | Condition::Left
                | Condition::Ended
                | Condition::Penalised
                | Condition::Refused
        )
    )
}

/// True for a whole answer. What the cache knew of its prompt makes it no other one.
fn is_answer(sample: &Sample) -> bool {
    let void = sample.void.as_ref();
    void.is_none_or(|void| void.rule == VoidRule::CacheState)
}

fn is_same(a: &Sample, b: &Sample) -> bool {
    let is_one_mode = a.streamed == b.streamed;
    a.text_sha256 == b.text_sha256 || (!is_one_mode && beside_other_mode(a) == beside_other_mode(b))
}

/// `finish reason "stop" instead of "length" in base`, of the same text and as many tokens.
fn ends_otherwise(sample: &Sample, base: &Sample) -> Option<String> {
    let [own, of_base] = [sample, base].map(|of| of.finish_reason.as_deref().unwrap_or("none"));
    let tokens = sample.tokens.completion;
    let is_as_long = tokens.is_some() && tokens == base.tokens.completion;
    let is_same_text = is_same(sample, base);
    (own != of_base && is_same_text && is_as_long && sample.streamed == base.streamed)
        .then(|| format!("finish reason {own:?} instead of {of_base:?} in base"))
}

/// Key that compares streamed with whole answers: the text without white space at its end, which some servers leave out of
/// whole answers. It is the digest if the text was not kept, is not all that was generated, or runs on in white space.
pub fn beside_other_mode(sample: &Sample) -> &str {
    let text = sample.text.as_deref().unwrap_or_default();
    let kept = text.trim_end();
    let is_end = text.chars().count() - kept.chars().count() <= END;
    let is_all = || digest::of_parts([text.as_bytes()]) == sample.text_sha256;
    match kept.is_empty() || !is_end || !is_all() {
        true => &sample.text_sha256,
        false => kept,
    }
}

/// True if an answer is the beginning of another one though it is said to have as many tokens: they were counted and not
/// generated. The last characters may be missing, since engines hold back what is no whole character. Fewer characters
/// than tokens are what follows a long reasoning, which is no part of the text.
fn is_beginning(sample: &Sample, whole: &Sample) -> bool {
    let texts = sample.text.as_deref().zip(whole.text.as_deref());
    let tokens = sample.tokens.completion.zip(whole.tokens.completion);
    let (Some((text, whole)), Some((own, of_whole))) = (texts, tokens) else {
        return false;
    };
    let (kept, all) = (text.chars().count(), whole.chars().count());
    let is_told = own >= of_whole.max(TELLING) && all >= of_whole as usize;
    is_told && 10 * kept < 9 * all && !is_blank(text) && whole.starts_with(text)
}

fn is_degenerate(sample: &Sample) -> bool {
    let void = sample.void.as_ref();
    void.is_some_and(|void| void.rule == VoidRule::Degenerate)
}

fn is_telling(sample: &Sample) -> bool {
    let tokens = sample.tokens.completion.unwrap_or(sample.tokens.events);
    tokens >= TELLING && !sample.tokens.repeats && !sample.is_blank()
}

/// True of an answer of which fewer than eight tokens, by their mean length, come before it repeats itself to the end, the
/// repeated piece with them. False where the text is not all that was generated.
fn loops(sample: &Sample) -> bool {
    let text = sample.text.as_deref().unwrap_or_default().as_bytes();
    let tokens = sample.tokens.completion.unwrap_or(sample.tokens.events) as usize;
    let is_all = || digest::of_parts([text]) == sample.text_sha256;
    let Some((piece, repeated)) = repetition(text) else {
        return false;
    };
    tokens * (text.len() - repeated + piece) < TELLING as usize * text.len() && is_all()
}

/// Bytes of a piece, at most 32, and of what it repeats at the end of a text, 8 times or more.
fn repetition(text: &[u8]) -> Option<(usize, usize)> {
    let of_period = |n: usize| {
        let shifted = text.iter().rev().skip(n);
        let alike = text.iter().rev().zip(shifted).take_while(|(a, b)| a == b);
        n + alike.count()
    };
    let periods = 1..=PIECE.min(text.len() / TIMES);
    let mut lengths = periods.map(|n| (n, of_period(n)));
    lengths.find(|(n, length)| *length >= TIMES * n)
}

#[cfg(test)]
mod tests;
