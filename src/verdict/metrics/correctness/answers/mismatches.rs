//! Answers that are not what the same prompt got alone or in base: a metric's value.
//!
//! Main function: [`mismatches`].

use super::chats::{self, Chats};
use super::difference::{Difference, Pair, Told, Untied, lacking, name, prompts, situation};
use super::drawn::{self, Drawn};
use super::ended::{self, Refusal};
use super::logprobs::base_moves;
use super::stopped::{self, Stopped};
use super::{
    Answers, LEAST_OTHER, NEAR_TIES, Prompt, SURE, are_most, ends_otherwise, is_answer,
    is_degenerate, is_same,
};
use crate::metrics::correctness::near_tie::{lists_as_near, parting};
use crate::metrics::{LaunchMeasure, Place, Undefined, Why};
use crate::record::{Arm, Condition, LEFT_CASE, Phase, Sample};
use crate::stats;
use std::collections::{BTreeMap, BTreeSet};

/// Most answers that are quoted.
const QUOTED: usize = 3;

/// Most situations that are counted.
const SITUATIONS: usize = 6;

/// Share of sampled answers that may differ from the greedy ones.
const QUARTER: f64 = 0.25;

const SAMPLES_FREELY: &str = "answers with a `top_p` that leaves one token are not compared: many are not the greedy ones, so \
                              the engine does not know `top_p`";

const IGNORES_SEED: &str =
    "whether head obeys a seed is not compared: base's own answers with one seed are seldom alike";

const OTHER_DRAWS: &str = "with one seed head draws other tokens than base: if its random numbers were changed on purpose, take \"sampled\" out of \
                           `conditions` until main has the change";

const REFUSES: &str =
    "which are not compared: if it has no chats, take \"ended\" out of `conditions`";

const NO_PENALTIES: &str = "which are not compared: take \"penalised\" out of `conditions`";

const SHOWS_NO_PENALTY: &str = "base answers with penalties as without, so whether head obeys them is not compared: if the engine \
                                does not know them, take \"penalised\" out of `conditions`";

const FEW: &str = "So few are not counted, since rounding may make them";

const NEVER_ENDS: &str = "no chat answer of base ended by itself within its 64 tokens, so ends of answers are not compared; \
                          if the model thinks first, switch that off in `engine.request`";

/// Answers that are not what the same prompt got alone or in base, near-ties left out. The least value counts those
/// that no near-tie can explain.
pub fn mismatches(at: &Place<'_>) -> Result<LaunchMeasure, Undefined> {
    let near_tie = at.workload.kind.logprobs().near_tie_nats;
    let requests = at.requests;
    let mut head = Compared::of(&requests.all, &Answers::of(at), near_tie);
    let mut base = Compared::of(&requests.base, &Answers::new(&requests.base, &[]), near_tie);
    let pairs = requests.beside_base(&requests.all);
    let of = |condition| {
        let pairs = pairs.iter().copied();
        pairs.filter(move |(head, _)| head.condition() == Some(condition))
    };
    head.chats(chats::beside_base(of(Condition::Ended), near_tie));
    let mut penalised = chats::beside_base(of(Condition::Penalised), near_tie);
    let lacks_penalties = std::mem::take(&mut penalised.refused);
    let (lost, shows_penalties) = chats::without_penalties(of(Condition::Penalised));
    let is_penalised = of(Condition::Penalised).next().is_some();
    let is_lost = |told: &Told| lost.iter().any(|it| it.index == told.index);
    penalised.wrong.retain(|told| !is_lost(told));
    penalised.from_base.retain(|d| !is_lost(&d.told));
    head.chats(penalised);
    head.wrong.extend(lost);
    head.chats(chats::beside_own(&requests.all, near_tie));
    base.chats(chats::beside_own(&requests.base, near_tie));
    let of_base: BTreeSet<_> = base.untied_prompts();
    let moves = base_moves(requests);
    let explained = head.weigh_untied(&of_base, moves);
    base.weigh_untied(&of_base, 0.0);
    let beside = (at.launch.arm == Arm::Head).then_some(&requests.base[..]);
    head.stopped(&requests.all, beside, near_tie);
    base.stopped(&requests.base, None, near_tie);
    head.refused(of(Condition::Refused));
    head.wrong.extend(drawn::refused(of(Condition::Drawn)));
    let drawn = drawn::beside_base(&requests.all, &requests.base);
    let ignores_seed = drawn.ignores_seed;
    let draws_others = drawn.draws_others;
    head.drawn(drawn);
    if head.answers == 0 {
        return Err(at.undefined(Why::NothingCompared, None));
    }
    let asked = if base.sampled > 0 { &base } else { &head };
    let obeys = asked.obeys_top_p();
    if !obeys {
        let are_bases = base.wrong.iter().any(is_sampled);
        head.drop_sampled(are_bases);
        base.drop_sampled(true);
    }
    if near_tie.is_none() {
        head.drop_few_left(&requests.all, &requests.base);
    }
    // An engine may lose some by chance, and one text may have several tokenizations.
    if head.lists_fewer.len() >= LEAST_OTHER && head.lists_fewer.len() > head.lists_more {
        head.unsure.append(&mut head.lists_fewer);
    }
    let own = lacking(&head.from_alone, &base.from_alone);
    let of_base = lacking(&base.from_alone, &head.from_alone);
    // A prompt that base itself answers in several ways says nothing on head.
    let varies = |d: &&Difference<'_>| base.from_alone.iter().any(|b| b.prompt == d.prompt);
    let beside_base: Vec<&Difference<'_>> = head.from_base.iter().filter(|d| !varies(d)).collect();

    let mut wrong: Vec<&Told> = head.wrong.iter().collect();
    let mut open: Vec<&Told> = head.unsure.iter().collect();
    let (n, n_base) = (prompts(&own), prompts(&of_base));
    let has_base = base.answers > 0;
    if has_base && stats::mcnemar_p_worse(n, n_base) <= SURE {
        wrong.extend(own.iter().map(|d| &d.told));
    } else if head.mostly_differs() {
        open.extend(head.from_alone.iter().map(|d| &d.told));
    } else if !has_base || n > n_base {
        open.extend(own.iter().map(|d| &d.told));
    }
    let are_others = head.are_others(&beside_base);
    for difference in beside_base {
        match are_others && (difference.is_at_once || difference.is_early) {
            true => wrong.push(&difference.told),
            false => open.push(&difference.told),
        }
    }
    let mut measure = LaunchMeasure {
        at_least: Some(wrong.len() as f64),
        ..LaunchMeasure::single((wrong.len() + open.len()) as f64, head.answers)
    };
    let all: Vec<&Told> = wrong.into_iter().chain(open).collect();
    let quoted = &all[..all.len().min(QUOTED)];
    measure.quoted = quoted.iter().map(|told| told.index).collect();
    let quoted = quoted.iter().map(|told| told.text.clone());
    measure.remarks.extend(quoted);
    if all.len() > QUOTED {
        measure.remarks.push(head.by_situation(&all));
    }
    if !obeys {
        measure.remarks.push(SAMPLES_FREELY.to_owned());
    }
    if near_tie.is_some() && 2 * head.unlisted > head.answers {
        measure.remarks.push(format!(
            "{} answers came with log-probabilities of a part of their tokens: which of those differ by near-ties, and whether \
             log-probabilities moved, is not known",
            head.unlisted
        ));
    }
    if head.never_ends {
        measure.remarks.push(NEVER_ENDS.to_owned());
    }
    if ignores_seed {
        measure.remarks.push(IGNORES_SEED.to_owned());
    }
    if all.is_empty() && !head.few.is_empty() {
        let named: Vec<String> = head
            .few
            .iter()
            .take(QUOTED)
            .map(ToString::to_string)
            .collect();
        measure.remarks.push(format!(
            "other answers than base's: {}{}. {FEW}{}",
            named.join("; "),
            if head.few.len() > QUOTED { "; …" } else { "" },
            if near_tie.is_none() {
                "; log-probabilities (`top_k`) would tell"
            } else {
                ""
            },
        ));
    }
    if let Some(status) = head.refused_by_base.first() {
        let n = head.refused_by_base.len();
        let text = format!("base refuses {n} of the questions (status {status}), {REFUSES}");
        measure.remarks.push(text);
    }
    if let Some(status) = lacks_penalties.first() {
        let n = lacks_penalties.len();
        let text = format!(
            "base refuses {n} of the requests with penalties (status {status}), {NO_PENALTIES}"
        );
        measure.remarks.push(text);
    }
    if is_penalised && !shows_penalties && lacks_penalties.is_empty() {
        measure.remarks.push(SHOWS_NO_PENALTY.to_owned());
    }
    if explained > 0 {
        measure.remarks.push(format!(
            "{explained} of these differ by two tokens no farther apart than base's log-probabilities move between its own \
             answers to one prompt, up to {moves:.2} nats: a `near_tie` beyond that takes them for near-ties"
        ));
    }
    let is_drawn = |told: &&Told| told.situation.starts_with(Condition::Drawn.name());
    if draws_others && all.iter().all(is_drawn) {
        measure.remarks.push(OTHER_DRAWS.to_owned());
    }
    let own_of_base: Vec<&Difference<'_>> = base.from_alone.iter().collect();
    let own_of_base = prompts(&own_of_base);
    if own_of_base > 0 {
        measure.remarks.push(format!(
            "base itself answers {own_of_base} of its prompts otherwise than alone: it is not deterministic, and head's differences \
             are held against these"
        ));
    }
    Ok(measure)
}

/// Numbers of tokens with log-probabilities in `sample` and in `other`, if more tokens of `sample` lack theirs, or its list alone
/// cannot be read token by token.
fn lists_fewer(sample: &Sample, other: &Sample) -> Option<(u32, u32)> {
    let lacking = |of: &Sample| of.tokens.completion?.checked_sub(of.tokens.by_logprobs?);
    let is_lost = sample.logprobs.is_empty() && !other.logprobs.is_empty();
    let is_fewer = lacking(sample)? > lacking(other)?;
    (is_fewer || is_lost).then_some((sample.tokens.by_logprobs?, other.tokens.by_logprobs?))
}

fn is_sampled(told: &Told) -> bool {
    told.condition == Some(Condition::Sampled)
}

/// The answers of one launch after comparison.
#[derive(Default)]
struct Compared<'a> {
    /// Those that have another one to be compared with.
    answers: usize,
    /// The same of each situation in which one was got.
    situations: BTreeMap<String, usize>,
    /// Wrong for sure.
    wrong: Vec<Told>,
    from_alone: Vec<Difference<'a>>,
    from_base: Vec<Difference<'a>>,
    /// Those that the lists show to be no near-ties.
    untied: Vec<Untied<'a>>,
    /// What may be meant, chance, or what base has too, once or twice.
    unsure: Vec<Told>,
    /// Answers with base's text and log-probabilities of fewer of its tokens.
    lists_fewer: Vec<Told>,
    /// The same where base lists fewer.
    lists_more: usize,
    /// Answers whose list lacks tokens.
    unlisted: usize,
    /// Prompts that base answered too.
    in_base: BTreeSet<Prompt<'a>>,
    /// Prompts that were answered alone and again.
    repeated: BTreeSet<Prompt<'a>>,
    /// Sampled answers that were compared.
    sampled: usize,
    /// Chat answers were compared, and none of base's ended by itself.
    never_ends: bool,
    /// Prompts of chats and texts with other answers than base's, too few to be counted.
    few: BTreeSet<Prompt<'a>>,
    /// Base's statuses for the questions that it refuses.
    refused_by_base: Vec<u16>,
}

impl<'a> Compared<'a> {
    /// More than half of the prompts are answered otherwise than alone: no near-ties, though base may do the same.
    fn mostly_differs(&self) -> bool {
        let differing: Vec<&Difference<'_>> = self.from_alone.iter().collect();
        2 * prompts(&differing) > self.repeated.len() as u64
    }

    /// Prompts with differences beyond near-ties. A sampler that does not know `top_p` has them by itself.
    fn untied_prompts(&self) -> BTreeSet<Prompt<'a>> {
        let greedy = self
            .untied
            .iter()
            .map(|untied| &untied.difference)
            .filter(|difference| difference.told.condition != Some(Condition::Sampled));
        greedy.map(|difference| difference.prompt).collect()
    }

    /// Without batch-invariant kernels an engine may part from itself beyond near-ties, as where a mixture chooses other experts.
    /// Where base does for one or two prompts (`of_base`), these are open, but for those that base gave too; for more, they are
    /// held against how often. Where it does for none, a few are open: those no farther apart than base `moves`, in nats.
    /// Returns the number of the latter.
    fn weigh_untied(&mut self, of_base: &BTreeSet<Prompt<'a>>, moves: f64) -> usize {
        let untied = std::mem::take(&mut self.untied);
        let prompts = |that: &dyn Fn(&Untied<'a>) -> bool| {
            let those = untied.iter().filter(|it| that(it));
            let prompts: BTreeSet<_> = those.map(|it| it.difference.prompt).collect();
            prompts.len()
        };
        let is_near = |it: &Untied<'_>| {
            let is_sampled = it.difference.told.condition == Some(Condition::Sampled);
            it.gap <= moves && !is_sampled
        };
        let is_bases = |it: &Untied<'a>| it.is_as_base && of_base.contains(&it.difference.prompt);
        let near = prompts(&is_near);
        let are_few =
            stats::mcnemar_p_worse(near as u64, 0) > SURE && 2 * near <= self.in_base.len();
        let are_bases = 2 * prompts(&is_bases) <= self.repeated.len();
        let mut explained = 0;
        for it in untied {
            let (is_near, is_bases) = (is_near(&it), is_bases(&it));
            let told = it.difference.told;
            match (of_base.len(), it.is_alone) {
                (0, _) if are_few && is_near => {
                    explained += 1;
                    self.unsure.push(told);
                }
                (0, _) => self.wrong.push(told),
                // Base has this one too.
                (n, true) if n < LEAST_OTHER && are_bases && is_bases => {}
                (n, _) if n < LEAST_OTHER => self.unsure.push(told),
                (_, true) => self.from_alone.push(Difference {
                    told,
                    ..it.difference
                }),
                (_, false) => self.from_base.push(Difference {
                    told,
                    ..it.difference
                }),
            }
        }
        explained
    }

    /// No more than a quarter of the sampled answers differ from the greedy ones where those of the same batch do not: else the
    /// engine does not know `top_p`, and they tell nothing.
    fn obeys_top_p(&self) -> bool {
        let differing = |condition| {
            let of_it = self
                .from_alone
                .iter()
                .filter(move |d| d.told.condition == Some(condition));
            of_it.map(|d| d.prompt).collect::<BTreeSet<_>>()
        };
        let in_batch = differing(Condition::CachedBatch);
        let sampled = differing(Condition::Sampled);
        let of_sampler = sampled.difference(&in_batch).count();
        let sure = self
            .wrong
            .iter()
            .chain(&self.unsure)
            .filter(|told| told.condition == Some(Condition::Sampled));
        (of_sampler + sure.count()) as f64 <= QUARTER * self.sampled as f64
    }

    /// `are_bases`: base gives several prompts one sampled text too, so that head's are no fault of its own.
    fn drop_sampled(&mut self, are_bases: bool) {
        self.wrong.retain(|told| !are_bases || !is_sampled(told));
        self.unsure.retain(|told| !is_sampled(told));
        self.from_alone.retain(|d| !is_sampled(&d.told));
        self.from_base.retain(|d| !is_sampled(&d.told));
    }

    /// Without log-probabilities a few prompts that come again may differ from base's by near-ties where a client of either arm
    /// left before the answer began: the caches kept different parts of them.
    fn drop_few_left(&mut self, own: &[&Sample], base: &[&Sample]) {
        let is_early = |d: &Difference<'_>| {
            let Prompt::Case(case) = d.prompt else {
                return false;
            };
            let index = case
                .strip_prefix(LEFT_CASE)
                .and_then(|n| n.parse::<u32>().ok());
            let mut left = own.iter().chain(base).filter(|s| Some(s.index) == index);
            left.any(|s| s.condition() == Some(Condition::Left) && s.stamps.first_byte_ns.is_none())
        };
        let (early, mut others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.from_base)
            .into_iter()
            .partition(is_early);
        if early.len() >= LEAST_OTHER {
            others.extend(early);
        }
        self.from_base = others;
    }

    /// Takes the answers that a stop string ends. `base`: its samples, beside head's; where these are base's, its own way to
    /// end them is no difference.
    fn stopped(&mut self, own: &[&'a Sample], base: Option<&[&'a Sample]>, near_tie: Option<f64>) {
        let is_base = base.is_none();
        let base = base.unwrap_or_default();
        let (own_alone, base_alone) = (Answers::new(own, &[]), Answers::new(base, &[]));
        let sound = |s: &&&Sample| s.condition() == Some(Condition::Stopped) && is_answer(s);
        for sample in own.iter().filter(sound) {
            let case = sample.case.as_deref().unwrap_or_default();
            let Some(alone) = own_alone.alone.get(case) else {
                continue;
            };
            let in_base = base.iter().filter(sound).find(|s| s.index == sample.index);
            let in_base = in_base.copied().zip(base_alone.alone.get(case).copied());
            let situation = situation(sample);
            self.count(&situation);
            let told = |text| Told {
                index: sample.index,
                text: format!("{}: {text}", name(sample)),
                situation,
                condition: None,
            };
            match stopped::compare(sample, alone, in_base, near_tie) {
                Stopped::Same => {}
                Stopped::Wrong(text) => self.wrong.push(told(text)),
                Stopped::Differs { ends: true, .. } if is_base => {}
                Stopped::Differs { place, text, .. } => self.from_alone.push(Difference {
                    prompt: Prompt::of(sample),
                    place,
                    is_at_once: false,
                    is_early: false,
                    told: told(text),
                }),
            }
        }
    }

    fn drawn(&mut self, drawn: Drawn) {
        drawn.situations.iter().for_each(|it| self.count(it));
        self.wrong.extend(drawn.wrong);
        self.unsure.extend(drawn.unsure);
    }

    fn chats(&mut self, chats: Chats<'a>) {
        chats.situations.iter().for_each(|it| self.count(it));
        self.never_ends |= chats.never_ends;
        self.few.extend(chats.few);
        self.refused_by_base.extend(chats.refused);
        self.wrong.extend(chats.wrong);
        self.unsure.extend(chats.unsure);
        self.untied.extend(chats.untied);
        self.from_alone.extend(chats.from_alone);
        self.from_base.extend(chats.from_base);
        self.repeated.extend(chats.repeated);
        self.in_base.extend(chats.in_base);
    }

    /// Takes the requests that should be refused: head's status beside base's. One failure may be chance, such as a full queue's;
    /// if all requests of a kind fail, and two or more, it is none.
    fn refused(&mut self, pairs: impl Iterator<Item = Pair<'a>>) {
        let mut kinds: BTreeMap<Option<&str>, (usize, Vec<Told>)> = BTreeMap::new();
        for (sample, of_base) in pairs.filter(|(head, _)| head.void.is_none()) {
            let told = |text| Told {
                index: sample.index,
                text: format!(
                    "a bad request ({}): {text}",
                    sample.case.as_deref().unwrap_or_default()
                ),
                situation: situation(sample),
                condition: None,
            };
            let (sent, failing) = kinds.entry(sample.case.as_deref()).or_default();
            *sent += 1;
            match ended::refusal(sample, of_base) {
                Refusal::Same => {}
                Refusal::Fails(text) => failing.push(told(text)),
                Refusal::Accepts(text) => self.unsure.push(told(text)),
            }
        }
        for (sent, failing) in kinds.into_values() {
            match failing.len() >= 2 && failing.len() == sent {
                true => self.wrong.extend(failing),
                false => self.unsure.extend(failing),
            }
        }
    }

    /// `and 9 more of 160 compared; by situation: in a batch, streamed 8 of 40; alone, streamed 4 of 40; elsewhere none`.
    fn by_situation(&self, all: &[&Told]) -> String {
        let (more, of) = (all.len() - QUOTED, self.answers);
        let text = format!("and {more} more of {of} compared");
        let mut counts: Vec<(usize, &str, usize)> = Vec::new();
        for (situation, n) in &self.situations {
            let differ = all.iter().filter(|told| told.situation == *situation);
            counts.push((differ.count(), situation, *n));
        }
        if counts.len() < 2 {
            return text;
        }
        if counts.iter().all(|(differ, _, n)| differ == n) {
            return format!("{text}: all, in each of {} situations", counts.len());
        }
        counts.sort_by_key(|(differ, ..)| std::cmp::Reverse(*differ));
        let differing = counts.iter().filter(|(differ, ..)| *differ > 0).count();
        let listed = counts.iter().take(differing.min(SITUATIONS));
        let mut listed: Vec<String> = listed
            .map(|(differ, situation, n)| format!("{situation} {differ} of {n}"))
            .collect();
        let unlisted = counts[listed.len()..differing].iter();
        let (differ, n) = unlisted.fold((0, 0), |(k, m), (differ, _, n)| (k + differ, m + n));
        if n > 0 {
            listed.push(format!("in others {differ} of {n}"));
        }
        if differing < counts.len() {
            listed.push("elsewhere none".to_owned());
        }
        format!("{text}; by situation: {}", listed.join("; "))
    }

    /// So many prompts part from base's answers so soon that near-ties do not explain it.
    fn are_others(&self, beside_base: &[&Difference<'_>]) -> bool {
        let that = |parts: fn(&Difference<'_>) -> bool| {
            let parting: Vec<&Difference<'_>> =
                beside_base.iter().copied().filter(|d| parts(d)).collect();
            prompts(&parting) as usize
        };
        let (at_once, early) = (that(|d| d.is_at_once), that(|d| d.is_early));
        let all = self.in_base.len();
        let p = stats::binomial_p_more(at_once as u64, all as u64, NEAR_TIES);
        are_most(at_once, early, all) || p <= SURE
    }

    fn of(samples: &[&'a Sample], answers: &Answers<'a>, near_tie: Option<f64>) -> Self {
        let mut compared = Self::default();
        let mut measured: Vec<&Sample> = samples.to_vec();
        // What fills a cache, or is prefilled beside others, has no answer to be compared, and may not be blank.
        measured.retain(|s| s.phase == Phase::Measured || is_degenerate(s));
        // They are compared with base's.
        let is_elsewhere = |s: &Sample| {
            matches!(
                s.condition(),
                Some(Condition::Drawn | Condition::Ended | Condition::Penalised)
            )
        };
        measured.retain(|s| !is_elsewhere(s) || is_degenerate(s));
        measured.sort_by_key(|s| s.index);
        for sample in measured {
            compared.take(sample, answers, near_tie);
        }
        compared
    }

    fn count(&mut self, situation: &str) {
        self.answers += 1;
        *self.situations.entry(situation.to_owned()).or_default() += 1;
    }

    fn take(&mut self, sample: &'a Sample, answers: &Answers<'a>, near_tie: Option<f64>) {
        let (situation, place) = (situation(sample), name(sample));
        let is_sampled = sample.condition() == Some(Condition::Sampled);
        let told = |text: String| Told {
            index: sample.index,
            situation: situation.clone(),
            condition: None,
            text: format!("{place}: {text}"),
        };
        if let Some(void) = sample.void.as_ref().filter(|_| !is_answer(sample)) {
            // Other rules say that nothing was measured: they are judged as such.
            if is_degenerate(sample) {
                self.count(&situation);
                self.wrong.push(told(void.detail.clone()));
            }
            return;
        }
        let (alone, base) = (answers.alone(sample), answers.in_base(sample));
        if alone.is_none() && base.is_none() {
            return;
        }
        self.count(&situation);
        self.sampled += usize::from(is_sampled);
        if alone.is_some() {
            self.repeated.insert(Prompt::of(sample));
        }
        if base.is_some() {
            self.in_base.insert(Prompt::of(sample));
        }
        if let Some(wrong) = answers.wrong(sample) {
            // With one seed and no `top_p`, several prompts may get one text.
            let is_shared = !sample.is_blank() && answers.owner(sample).is_some();
            self.wrong.push(Told {
                condition: sample.condition().filter(|_| is_sampled && is_shared),
                ..told(wrong)
            });
            return;
        }
        let listed = sample.tokens.by_logprobs;
        self.unlisted += usize::from(listed.is_some() && sample.logprobs.is_empty());
        let differs = |other: &&Sample| !is_same(other, sample);
        let (other, whose) = match (alone.filter(differs), base.filter(differs)) {
            (Some(alone), _) => (alone, "alone"),
            (None, Some(base)) => (base, "in base"),
            (None, None) => {
                let end = base.and_then(|base| ends_otherwise(sample, base));
                if let Some((listed, of_base)) = base.and_then(|base| lists_fewer(sample, base)) {
                    let text = format!(
                        "log-probabilities of {listed} tokens instead of {of_base} in base"
                    );
                    self.lists_fewer.push(told(text));
                }
                self.lists_more +=
                    usize::from(base.is_some_and(|base| lists_fewer(base, sample).is_some()));
                self.wrong.extend(end.map(told));
                return;
            }
        };
        let parting = parting(other, sample, near_tie);
        let at = parting.place;
        let told = Told {
            condition: sample.condition(),
            ..told(format!("{} {whose}", parting.text))
        };
        let difference = Difference::of(other, sample, at, told);
        let leads = |nats| lists_as_near(other, sample, at, nats);
        match parting.is_tie {
            Some(true) if parting.is_token && !answers.base_may_part(sample, at, near_tie) => {
                self.unsure.push(difference.told);
            }
            Some(true) => {}
            Some(false) if is_sampled && parting.is_token && near_tie.is_some_and(leads) => {}
            Some(false) => {
                let is_alone = whose == "alone";
                let is_bases = |own: &Sample| {
                    let of_base = answers.in_base(own);
                    of_base.is_some_and(|base| is_same(base, own))
                };
                self.untied.push(Untied {
                    is_as_base: is_bases(sample) && alone.is_some_and(is_bases),
                    ..Untied::of(difference, is_alone, &parting)
                });
            }
            // Beside the answer alone it may be the mode: base's of the same mode tells more.
            None if parting.has_same_tokens && whose == "in base" => {
                self.wrong.push(difference.told)
            }
            None if whose == "alone" => self.from_alone.push(difference),
            None => self.from_base.push(difference),
        }
    }
}
