//! Chat answers, and those to plain text, that end by themselves: beside base's, and each streamed one beside the whole one.
//!
//! Main functions: [`beside_base`], [`beside_own`].

use super::difference::{Difference, Pair, Told, Untied, situation};
use super::ended::{self, Ended};
use super::{LEAST_OTHER, NEAR_TIES, Prompt, SURE, is_answer, is_same};
use crate::metrics::correctness::near_tie::{
    Parting, first_character, lists_alike, may_part_at, parting, parts_at_once,
};
use crate::record::{Condition, EARLIER_TURNS, FREQUENCY_PENALTY, SYSTEM_MESSAGE, Sample, WITH};
use crate::stats;
use std::collections::{BTreeMap, BTreeSet};

/// Characters of a field's name that are shown.
const SHOWN: usize = 100;

/// The result of a comparison of chats.
#[derive(Default)]
pub struct Chats<'a> {
    /// The situations of all compared answers.
    pub situations: Vec<String>,
    pub wrong: Vec<Told>,
    /// Answers without a field that base's have, with a broken character, or of the same tokens: it may be meant.
    pub unsure: Vec<Told>,
    /// Differences that the lists show to be no near-ties.
    pub untied: Vec<Untied<'a>>,
    pub from_alone: Vec<Difference<'a>>,
    pub from_base: Vec<Difference<'a>>,
    /// Prompts that were asked whole and streamed.
    pub repeated: BTreeSet<Prompt<'a>>,
    /// Prompts that were compared, where some differ.
    pub in_base: BTreeSet<Prompt<'a>>,
    /// No chat answer of base ended by itself.
    pub never_ends: bool,
    /// Prompts of which head gave other answers, too few to tell a fault from near-ties.
    pub few: BTreeSet<Prompt<'a>>,
    /// Base's statuses for the questions that it refuses.
    pub refused: Vec<u16>,
}

/// Head's answers beside base's. Without log-probabilities a few others may be near-ties.
pub fn beside_base<'a>(pairs: impl Iterator<Item = Pair<'a>>, near_tie: Option<f64>) -> Chats<'a> {
    let mut chats = Chats::default();
    let (mut lost, mut early, mut others) = (Vec::new(), Vec::new(), Vec::new());
    let mut suspect = Vec::new();
    let (mut ending, mut compared) = (BTreeSet::new(), BTreeSet::new());
    let pairs: Vec<Pair<'_>> = pairs.filter(|(head, _)| is_answer(head)).collect();
    let whole = whole(pairs.iter().map(|(_, of_base)| *of_base));
    let counts = agreed_counts(&pairs);
    for (sample, of_base) in &pairs {
        let prompt = Prompt::of(sample);
        // Base may have no chat route, or its template no system message.
        if let Some(status) = of_base.status {
            chats.refused.push(status);
            continue;
        }
        chats.situations.push(situation(sample));
        compared.insert(prompt);
        if is_chat(prompt) && ended::ended(of_base) {
            ending.insert(prompt);
        }
        let parting = beside(of_base, sample, whole.get(&prompt), near_tie);
        let (found, text) = match ended::compare(sample, of_base) {
            Ended::Same => continue,
            Ended::Refused(text) => {
                chats.wrong.push(Told::of(sample, &text));
                continue;
            }
            Ended::GoesOn(text) if is_chat(prompt) => (&mut lost, text),
            Ended::Early(text) if is_chat(prompt) => (&mut early, text),
            _ => (&mut others, format!("{} in base", parting.text)),
        };
        let told = Told::of(sample, &text);
        let difference = Difference::of(of_base, sample, parting.place, told);
        let count = sample.tokens.prompt.zip(counts.get(&prompt).copied());
        let other_count = count.filter(|(own, of_base)| own != of_base);
        match (parting.is_tie, other_count) {
            (Some(true), _) => {}
            // No near-tie makes another prompt.
            (_, Some((own, of_base))) => {
                let text = format!("a prompt of {own} tokens instead of {of_base}; {text}");
                chats.wrong.push(Told::of(sample, &text));
            }
            (Some(false), None) => chats.untied.push(Untied::of(difference, false, &parting)),
            (None, None) if parting.has_same_tokens => chats.wrong.push(difference.told),
            (None, None) => {
                if lists_alike(of_base, sample) || breaks_character(of_base, sample) {
                    suspect.push(Told::of(sample, &text));
                }
                found.push(difference);
            }
        }
    }
    chats.never_ends = compared.iter().any(|it| is_chat(*it)) && ending.is_empty();
    let [wrong, mut differing, few] = in_most_of_a_group(others, &compared);
    chats.few = prompts_of(&few, |_| true);
    chats.wrong.extend(wrong.into_iter().map(|d| d.told));
    let chatted = compared.iter().filter(|it| is_chat(**it)).count();
    for (differences, of) in [(lost, ending.len()), (early, chatted)] {
        let prompts = prompts_of(&differences, |_| true);
        match !chats.never_ends && are_most(prompts.len(), of) {
            true => chats.wrong.extend(differences.into_iter().map(|d| d.told)),
            false => differing.extend(differences),
        }
    }
    if !differing.is_empty() {
        chats.in_base = compared;
    } else if chats.wrong.is_empty() {
        // However few they are, no near-tie makes such.
        chats.unsure = suspect;
    }
    chats.unsure.extend(lacking_fields(&pairs));
    chats.from_base = differing;
    chats
}

/// A launch's streamed answers beside the whole ones to the same questions.
pub fn beside_own<'a>(samples: &[&'a Sample], near_tie: Option<f64>) -> Chats<'a> {
    let mut chats = Chats::default();
    let is_sound = |s: &&Sample| s.condition() == Some(Condition::Ended) && is_answer(s);
    let sound = || samples.iter().copied().filter(is_sound);
    let whole = whole(sound());
    for sample in sound().filter(|s| s.streamed && s.status.is_none()) {
        let prompt = Prompt::of(sample);
        let Some(whole) = whole.get(&prompt) else {
            continue;
        };
        chats.situations.push(situation(sample));
        chats.repeated.insert(prompt);
        if is_same(whole, sample) {
            continue;
        }
        let parting = beside(whole, sample, Some(whole), near_tie);
        let told = Told::of(sample, &format!("{} in the whole answer", parting.text));
        let difference = Difference::of(whole, sample, parting.place, told);
        match parting.is_tie {
            Some(true) => {}
            Some(false) => chats.untied.push(Untied::of(difference, true, &parting)),
            None => chats.from_alone.push(difference),
        }
    }
    chats
}

/// The whole answer to each question, if it is not refused.
fn whole<'a>(samples: impl Iterator<Item = &'a Sample>) -> BTreeMap<Prompt<'a>, &'a Sample> {
    let whole = samples.filter(|s| !s.streamed && s.status.is_none());
    whole.map(|s| (Prompt::of(s), s)).collect()
}

/// The first difference. If a list is missing, the list of a `whole` answer of the same text shows near-ties. It does not show
/// which token head chose, so it excuses no difference at the first token, where near-ties are rare.
fn beside(
    other: &Sample,
    sample: &Sample,
    whole: Option<&&Sample>,
    near_tie: Option<f64>,
) -> Parting {
    let mut parting = parting(other, sample, near_tie);
    parting.is_tie = parting.is_tie.or_else(|| {
        let whole = whole.filter(|whole| is_same(whole, other))?;
        let is_tie = may_part_at(whole, first_character(other, sample), near_tie?);
        is_tie.filter(|is_tie| !is_tie || !parts_at_once(other, sample))
    });
    parting
}

/// Head's text has a broken character, and base's has none.
fn breaks_character(of_base: &Sample, sample: &Sample) -> bool {
    let is_broken = |s: &Sample| {
        let text = s.text.as_deref().unwrap_or_default();
        text.contains(char::REPLACEMENT_CHARACTER)
    };
    is_broken(sample) && !is_broken(of_base)
}

/// Answers with the same fields: whether they are chats, and whether they are streamed.
type Kind = (bool, bool);

/// Fields that all of base's answers of a kind have, and of those with the same text one of head's has not; each told once.
fn lacking_fields(pairs: &[Pair<'_>]) -> Vec<Told> {
    let kind = |s: &Sample| -> Kind { (is_chat(Prompt::of(s)), s.streamed) };
    let mut common: BTreeMap<Kind, BTreeSet<String>> = BTreeMap::new();
    for (_, of_base) in pairs.iter().filter(|(_, of_base)| of_base.status.is_none()) {
        let fields = &of_base.fields;
        let common = common
            .entry(kind(of_base))
            .or_insert_with(|| fields.clone());
        common.retain(|field| fields.contains(field));
        // What they say of a cache is sent where it knew something.
        common.retain(|field| !field.contains("_details"));
    }
    let mut told = Vec::new();
    for (sample, _) in pairs
        .iter()
        .filter(|(head, of_base)| is_same(head, of_base))
    {
        let Some(common) = common.get_mut(&kind(sample)) else {
            continue;
        };
        for field in common.difference(&sample.fields) {
            // A record from elsewhere may say anything.
            let field: String = field.chars().take(SHOWN).collect();
            let text = format!("no field {field:?} as in base's answers");
            told.push(Told::of(sample, &text));
        }
        common.retain(|field| sample.fields.contains(field));
    }
    told
}

/// Those of a group of which most differ: all chats, those with or without a system message or earlier turns, all texts with
/// one penalty, or all with none. Rounding makes few near-ties; a template or a tokenizer that changed makes most differ.
/// First those of a group that part from base's at once more often than near-ties do, and the others; then those of no such
/// group.
fn in_most_of_a_group<'a>(
    others: Vec<Difference<'a>>,
    compared: &BTreeSet<Prompt<'a>>,
) -> [Vec<Difference<'a>>; 3] {
    let all = sizes(compared.iter().copied());
    let differing = sizes(prompts_of(&others, |_| true).into_iter());
    let at_once = sizes(prompts_of(&others, |d| d.is_at_once).into_iter());
    let of = |sizes: &BTreeMap<Group, usize>, group: &Group| sizes.get(group).copied().unwrap_or(0);
    let is_wrong = |group: &Group| {
        let (at_once, all) = (of(&at_once, group) as u64, of(&all, group) as u64);
        stats::binomial_p_more(at_once, all, NEAR_TIES) <= SURE
    };
    let differs = |group: &Group| are_most(of(&differing, group), of(&all, group));
    let in_a_group = |d: &Difference<'_>, that: &dyn Fn(&Group) -> bool| {
        let mut groups = groups(d.prompt).into_iter();
        groups.any(|group| differs(&group) && that(&group))
    };
    let (kept, few): (Vec<_>, Vec<_>) = others.into_iter().partition(|d| in_a_group(d, &|_| true));
    let (wrong, differing) = kept.into_iter().partition(|d| in_a_group(d, &is_wrong));
    [wrong, differing, few]
}

/// Base's count of each prompt's tokens, where it counted them more than once and alike.
fn agreed_counts<'a>(pairs: &[Pair<'a>]) -> BTreeMap<Prompt<'a>, u32> {
    let mut counts: BTreeMap<Prompt<'_>, Vec<Option<u32>>> = BTreeMap::new();
    for (_, of_base) in pairs {
        let counts = counts.entry(Prompt::of(of_base)).or_default();
        counts.push(of_base.tokens.prompt);
    }
    let agreed = counts.into_iter().filter_map(|(prompt, counts)| {
        let count = counts[0]?;
        let is_agreed = counts.len() > 1 && counts.iter().all(|it| *it == Some(count));
        is_agreed.then_some((prompt, count))
    });
    agreed.collect()
}

/// Prompts of those differences that are such.
fn prompts_of<'a>(
    differences: &[Difference<'a>],
    that: fn(&Difference<'_>) -> bool,
) -> BTreeSet<Prompt<'a>> {
    let those = differences.iter().filter(|d| that(d));
    those.map(|d| d.prompt).collect()
}

/// How many of the prompts are in each group.
fn sizes<'a>(prompts: impl Iterator<Item = Prompt<'a>>) -> BTreeMap<Group, usize> {
    let mut sizes = BTreeMap::new();
    for group in prompts.flat_map(groups) {
        *sizes.entry(group).or_default() += 1;
    }
    sizes
}

/// Finds a penalty that head ignores: it changes base's answers, and most of those of head, three or more, are as without it.
/// Also says whether any penalty changes three of base's answers.
pub fn without_penalties<'a>(pairs: impl Iterator<Item = Pair<'a>>) -> (Vec<Told>, bool) {
    let is_sound = |s: &Sample| is_answer(s) && s.status.is_none();
    let sound = pairs.filter(|(head, of_base)| is_sound(head) && is_sound(of_base));
    let by_case: BTreeMap<&str, Pair<'_>> = sound
        .filter_map(|pair| Some((pair.0.case.as_deref()?, pair)))
        .collect();
    // By the penalty's name, streamed or whole: one path may lose it.
    let mut shown: BTreeMap<(&str, bool), Vec<(&Sample, bool)>> = BTreeMap::new();
    for (case, (head, of_base)) in &by_case {
        let parts = case.split_once(WITH);
        let plain = parts.and_then(|(text, penalty)| Some((by_case.get(text)?, penalty)));
        if let Some(((plain, of_base_plain), penalty)) = plain
            && !is_same(of_base, of_base_plain)
        {
            let is_lost = is_same(head, plain);
            let path = (penalty, head.streamed);
            shown.entry(path).or_default().push((head, is_lost));
        }
    }
    let mut told = Vec::new();
    for answers in shown.values() {
        let lost = answers.iter().filter(|(_, is_lost)| *is_lost);
        let lost: Vec<&Sample> = lost.map(|(head, _)| *head).collect();
        if are_most(lost.len(), answers.len()) {
            let text = "is what it is without the penalty; base's is another";
            told.extend(lost.into_iter().map(|head| Told::of(head, text)));
        }
    }
    (
        told,
        shown.values().any(|answers| answers.len() >= LEAST_OTHER),
    )
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Texts,
    Frequency,
    Presence,
    Chats,
    SystemMessage(bool),
    EarlierTurns(bool),
}

fn groups(prompt: Prompt<'_>) -> Vec<Group> {
    let Prompt::Case(case) = prompt else {
        return Vec::new();
    };
    match is_chat(prompt) {
        false if case.ends_with(FREQUENCY_PENALTY) => vec![Group::Frequency],
        false if case.contains(WITH) => vec![Group::Presence],
        false => vec![Group::Texts],
        true => vec![
            Group::Chats,
            Group::SystemMessage(case.contains(SYSTEM_MESSAGE)),
            Group::EarlierTurns(case.contains(EARLIER_TURNS)),
        ],
    }
}

pub fn is_chat(prompt: Prompt<'_>) -> bool {
    matches!(prompt, Prompt::Case(case) if case.starts_with("chat"))
}

fn are_most(differing: usize, of: usize) -> bool {
    differing >= LEAST_OTHER && 2 * differing > of
}
