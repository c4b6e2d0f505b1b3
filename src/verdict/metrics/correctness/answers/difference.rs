//! An answer that is not what another one to its prompt is, and how reports tell of it.
//!
//! Main types: [`Difference`], [`Untied`], [`Told`].

use super::{EARLY, EARLY_TOKENS, Prompt};
use crate::metrics::correctness::near_tie::{Parting, parts_at_once, parts_within};
use crate::record::{Condition, Sample, Setting};
use std::collections::BTreeSet;

/// A sample of head, and base's of the same request.
pub type Pair<'a> = (&'a Sample, &'a Sample);

/// An answer that is not what it should be.
pub struct Told {
    /// The request's number.
    pub index: u32,
    pub situation: String,
    /// Its request's condition, if an engine that does not know what that asks for may answer so.
    pub condition: Option<Condition>,
    /// `in a batch, streamed, prompt p3: "six" instead of "seven" alone`.
    pub text: String,
}

impl Told {
    pub fn of(sample: &Sample, text: &str) -> Self {
        Self {
            index: sample.index,
            text: format!("{}: {text}", name(sample)),
            situation: situation(sample),
            condition: None,
        }
    }
}

/// An answer that differs from another one to its prompt, and not by a near-tie that is listed.
pub struct Difference<'a> {
    pub prompt: Prompt<'a>,
    /// Where the two part: at all; within the first token; within the first eighth and 16 tokens.
    pub place: usize,
    pub is_at_once: bool,
    pub is_early: bool,
    pub told: Told,
}

impl<'a> Difference<'a> {
    /// That of `sample` from another answer, at token or character `place`.
    pub fn of(other: &Sample, sample: &'a Sample, place: usize, told: Told) -> Self {
        // A blank answer or a repetition that head mends parts at once too.
        let is_answer = !other.is_blank() && !other.tokens.repeats;
        Self {
            prompt: Prompt::of(sample),
            place,
            is_at_once: is_answer && parts_at_once(other, sample),
            is_early: is_answer && parts_within(other, sample, EARLY, EARLY_TOKENS),
            told,
        }
    }
}

/// One that the lists show to be no near-tie.
pub struct Untied<'a> {
    pub difference: Difference<'a>,
    /// From the answer alone.
    pub is_alone: bool,
    /// [`Parting::gap`].
    pub gap: f64,
    /// Base gave both answers too.
    pub is_as_base: bool,
}

impl<'a> Untied<'a> {
    pub fn of(difference: Difference<'a>, is_alone: bool, parting: &Parting) -> Self {
        Self {
            difference,
            is_alone,
            gap: parting.gap,
            is_as_base: false,
        }
    }
}

/// Prompts among the differences: those of one prompt have one cause.
pub fn prompts(differences: &[&Difference<'_>]) -> u64 {
    let prompts: BTreeSet<_> = differences.iter().map(|d| d.prompt).collect();
    prompts.len() as u64
}

/// Those of `differences` whose prompt does not part at the same place in `others`.
pub fn lacking<'d, 'a>(
    differences: &'d [Difference<'a>],
    others: &[Difference<'a>],
) -> Vec<&'d Difference<'a>> {
    let known: BTreeSet<_> = others.iter().map(|d| (d.prompt, d.place)).collect();
    let is_new = |d: &&Difference<'_>| !known.contains(&(d.prompt, d.place));
    differences.iter().filter(is_new).collect()
}

/// The condition under which a request was sent, in words; empty where there is none.
pub fn situation(sample: &Sample) -> String {
    match sample.setting {
        Some(Setting::Cell { .. }) => {
            let cell = crate::metrics::requests::cell_of(sample);
            cell.map_or_else(String::new, |cell| cell.to_string())
        }
        Some(Setting::Answer { condition, .. }) => {
            let mode = if sample.streamed { "streamed" } else { "whole" };
            format!("{}, {mode}", condition.name())
        }
        Some(Setting::Together { .. }) => "together".to_owned(),
        Some(Setting::Sequential { .. }) => "in turn".to_owned(),
        None => String::new(),
    }
}

/// The same and what was asked.
pub fn name(sample: &Sample) -> String {
    let (situation, prompt) = (situation(sample), Prompt::of(sample));
    match sample.setting {
        Some(Setting::Together { user, pass, .. } | Setting::Sequential { user, pass, .. }) => {
            format!("user {user} {situation}, pass {pass}")
        }
        _ if situation.is_empty() => prompt.to_string(),
        _ => format!("{situation}, {prompt}"),
    }
}
