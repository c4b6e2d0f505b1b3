//! Answers that are drawn at temperature 1, each prompt's twice with one seed: an engine that ignores the temperature or the
//! seed, or draws from other probabilities, gives others than base.
//!
//! Main function: [`beside_base`].

use super::chats;
use super::difference::{Pair, Told, situation};
use super::ended::{self, Ended};
use super::{
    Answers, EARLY, EARLY_TOKENS, LEAST_OTHER, Prompt, SURE, is_answer, is_same, parts_within,
    quoted,
};
use crate::metrics::correctness::near_tie::first_character;
use crate::record::{Condition, Sample};
use crate::stats;
use std::collections::BTreeMap;

/// The result of a comparison of drawn answers.
#[derive(Default)]
pub struct Drawn {
    /// The situations of all compared prompts.
    pub situations: Vec<String>,
    pub wrong: Vec<Told>,
    /// It may be meant, as where an engine draws its random numbers otherwise.
    pub unsure: Vec<Told>,
    /// Base's two answers with one seed are alike for less than half of the prompts.
    pub ignores_seed: bool,
    /// [`Self::unsure`] are answers with base's seed that are not base's.
    pub draws_others: bool,
}

/// A prompt's two draws in each arm.
struct Twice<'a> {
    head: [&'a Sample; 2],
    base: [&'a Sample; 2],
    /// Greedy ones.
    alone: [&'a Sample; 2],
}

/// Draws that head refuses and base gives.
pub fn refused<'a>(pairs: impl Iterator<Item = Pair<'a>>) -> impl Iterator<Item = Told> {
    pairs
        .filter(|(_, of_base)| of_base.status.is_none())
        .filter_map(|(sample, of_base)| match ended::compare(sample, of_base) {
            Ended::Refused(text) => Some(Told::of(sample, &text)),
            _ => None,
        })
}

/// All prompts at once; if nothing is found, the chats by themselves, and of the others the streamed ones and the whole ones.
pub fn beside_base(head: &[&Sample], base: &[&Sample]) -> Drawn {
    let all = twice(head, base);
    let mut drawn = Drawn::of(&all);
    drawn.situations = all.iter().map(|it| situation(it.head[0])).collect();
    let seeded = all.iter().filter(|prompt| prompt.is_seeded()).count();
    drawn.ignores_seed = all.len() >= LEAST_OTHER && 2 * seeded < all.len();
    let (chats, others): (Vec<_>, Vec<_>) = all.into_iter().partition(Twice::is_chat);
    let (streamed, whole): (Vec<_>, Vec<_>) = others
        .into_iter()
        .partition(|prompt| prompt.head[0].streamed);
    for mode in [chats, streamed, whole] {
        if drawn.wrong.is_empty() && drawn.unsure.is_empty() {
            let of_mode = Drawn::of(&mode);
            (drawn.wrong, drawn.unsure) = (of_mode.wrong, of_mode.unsure);
            drawn.draws_others = of_mode.draws_others;
        }
    }
    drawn
}

impl Twice<'_> {
    fn is_chat(&self) -> bool {
        chats::is_chat(Prompt::of(self.head[0]))
    }

    /// Base's two answers are alike.
    fn is_seeded(&self) -> bool {
        repeats(self.base)
    }
}

/// Two draws with one seed: later on a near-tie of the draw may lead elsewhere.
fn repeats([first, second]: [&Sample; 2]) -> bool {
    !parts_within(first, second, EARLY, EARLY_TOKENS)
}

/// Both where they part.
fn quoted_apart(answers: [&Sample; 2]) -> [String; 2] {
    let place = first_character(answers[0], answers[1]);
    answers.map(|it| quoted(it, place))
}

impl Drawn {
    fn of(prompts: &[Twice<'_>]) -> Self {
        let mut drawn = Self::default();
        // The temperature is ignored.
        let is_greedy =
            |drawn: [&Sample; 2], alone: &Sample| drawn.iter().all(|it| is_same(it, alone));
        let greedy = |prompt: &Twice<'_>| {
            let [of_head, of_base] = prompt.alone;
            [
                is_greedy(prompt.head, of_head),
                is_greedy(prompt.base, of_base),
            ]
        };
        drawn.take(prompts, greedy, |prompt| {
            let [head, base] = quoted_apart([prompt.head[0], prompt.base[0]]);
            format!("{head} is what it says at temperature 0; base samples {base}")
        });
        // The seed is ignored.
        let others = |prompt: &Twice<'_>| [prompt.head, prompt.base].map(|it| !repeats(it));
        drawn.take(prompts, others, |prompt| {
            let [first, second] = quoted_apart(prompt.head);
            format!("{first} and {second} with one seed; base's are alike")
        });
        if !drawn.wrong.is_empty() || !drawn.unsure.is_empty() {
            return drawn;
        }
        // Other probabilities, or other random numbers.
        let seeded: Vec<&Twice<'_>> = prompts.iter().filter(|it| it.is_seeded()).collect();
        let parting = seeded
            .iter()
            .filter(|it| !repeats([it.base[0], it.head[0]]));
        let parting: Vec<&&Twice<'_>> = parting.collect();
        if parting.len() >= LEAST_OTHER && 2 * parting.len() > seeded.len() {
            let text = |prompt: &Twice<'_>| {
                let [head, base] = quoted_apart([prompt.head[0], prompt.base[0]]);
                format!("{head} instead of {base} in base, with one seed")
            };
            let told = parting.iter().map(|it| Told::of(it.head[0], &text(it)));
            drawn.unsure.extend(told);
            drawn.draws_others = true;
        }
        drawn
    }

    /// Takes the prompts of which head has the fault and base does not: sure by the sign test, unsure if they are most of the
    /// prompts.
    fn take(
        &mut self,
        prompts: &[Twice<'_>],
        has_fault: impl Fn(&Twice<'_>) -> [bool; 2],
        text: impl Fn(&Twice<'_>) -> String,
    ) {
        let of = |which: [bool; 2]| prompts.iter().filter(|it| has_fault(it) == which).collect();
        let (worse, better): (Vec<_>, Vec<_>) = (of([true, false]), of([false, true]));
        let p = stats::mcnemar_p_worse(worse.len() as u64, better.len() as u64);
        let faults = worse.iter().map(|it| Told::of(it.head[0], &text(it)));
        if p <= SURE {
            self.wrong.extend(faults);
        } else if worse.len() >= LEAST_OTHER && 2 * worse.len() > prompts.len() {
            self.unsure.extend(faults);
        }
    }
}

/// Those that both arms answered, drawn twice and greedily alone.
fn twice<'a>(head: &[&'a Sample], base: &[&'a Sample]) -> Vec<Twice<'a>> {
    let greedy = [head, base].map(greedy);
    let (pairs, base) = (pairs(head), pairs(base));
    let prompts = pairs.into_iter().filter_map(|(case, head)| {
        Some(Twice {
            head,
            base: *base.get(case)?,
            alone: [*greedy[0].get(case)?, *greedy[1].get(case)?],
        })
    });
    prompts.collect()
}

/// The greedy answer to each prompt: alone, or to a chat whole.
fn greedy<'a>(samples: &[&'a Sample]) -> BTreeMap<&'a str, &'a Sample> {
    let mut greedy = Answers::new(samples, &[]).alone;
    let ended = samples
        .iter()
        .filter(|s| s.condition() == Some(Condition::Ended));
    for sample in ended.filter(|s| !s.streamed && is_answer(s) && s.status.is_none()) {
        greedy.insert(sample.case.as_deref().unwrap_or_default(), sample);
    }
    greedy
}

/// The two answers of each prompt, in the order of the requests.
fn pairs<'a>(samples: &[&'a Sample]) -> BTreeMap<&'a str, [&'a Sample; 2]> {
    let mut of: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
    let sound = |s: &&&Sample| {
        s.condition() == Some(Condition::Drawn) && is_answer(s) && s.status.is_none()
    };
    for sample in samples.iter().filter(sound) {
        of.entry(sample.case.as_deref().unwrap_or_default())
            .or_default()
            .push(sample);
    }
    let pairs = of.into_iter().filter_map(|(case, mut samples)| {
        samples.sort_by_key(|sample| sample.index);
        Some((case, samples.try_into().ok()?))
    });
    pairs.collect()
}
