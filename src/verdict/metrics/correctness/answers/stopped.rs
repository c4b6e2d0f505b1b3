//! Answers that a stop string ends: they are the same prompt's answer alone up to the first of the strings.
//!
//! Main function: [`compare`]. Engines differ in how they end an answer: with the string or without, for a reason of their own
//! name, at an end of sequence that the answer alone was not allowed to have. So base tells what is right.

use super::super::near_tie::{first_character, may_part_at, quoted};
use super::ends_otherwise;
use crate::record::{STOPS, Sample};

/// The result of a comparison with the expected answer.
pub enum Stopped {
    /// As expected, or as base's, or not comparable.
    Same,
    Wrong(String),
    /// Another one, which a near-tie may explain. `ends`: the text is the same and ends elsewhere.
    Differs {
        place: usize,
        ends: bool,
        text: String,
    },
}

/// `alone`: the prompt's answer without stop strings. `base`: base's answers to both requests. Wrong for sure is what no
/// near-tie explains where base does as it should.
pub fn compare(
    sample: &Sample,
    alone: &Sample,
    base: Option<(&Sample, &Sample)>,
    near_tie: Option<f64>,
) -> Stopped {
    if let Some(end) = base.and_then(|(stopped, _)| ends_otherwise(sample, stopped)) {
        return Stopped::Wrong(end);
    }
    let is_as_base = base.is_some_and(|(stopped, _)| is_alike(stopped, sample));
    if is_as_base || is_right(sample, alone) {
        return Stopped::Same;
    }
    let place = first_character(alone, sample);
    let (own, whole) = (text(sample), text(alone));
    let ends = whole.starts_with(own.trim_end());
    let expected = up_to_stop(alone);
    let (said, right) = (quoted(sample, place), quoted(&expected, place));
    let difference = format!("{said} instead of {right}, the answer alone up to a stop string");
    let differs = |text| Stopped::Differs { place, ends, text };
    // Base's list where it has the same answer: head's own would excuse whatever head lists.
    let of_base = base.map(|(_, of_base)| of_base);
    let is_same = |of: &&Sample| text(of) == whole && !of.logprobs.is_empty();
    let listed = of_base.filter(is_same).unwrap_or(alone);
    let is_tie = near_tie.and_then(|nats| may_part_at(listed, place, nats));
    if let Some((stopped, _)) = base.filter(|(stopped, alone)| !is_right(stopped, alone)) {
        // Base's engine follows other rules: only another text than the answer alone, or more or less than base's.
        let of_base = text(stopped);
        let goes_on = own.starts_with(of_base) || of_base.starts_with(own);
        let is_another = !ends && !own.starts_with(whole) && is_tie != Some(true);
        return match (goes_on && own != of_base) || is_another {
            true => differs(difference),
            false => Stopped::Same,
        };
    }
    if is_tie == Some(true) {
        return Stopped::Same;
    }
    // The expected answer, then the stop string or a part of it: no near-tie leads there.
    let leak = own
        .strip_prefix(text(&expected))
        .filter(|rest| !rest.is_empty());
    let is_leak = leak.is_some_and(|rest| {
        let after = &whole[text(&expected).len()..];
        ends && STOPS.iter().any(|stop| {
            after.starts_with(stop) && (stop.starts_with(rest) || rest.starts_with(stop))
        })
    });
    // A shorter one may have ended by itself, at a near-tie that the answer alone, whose length is forced, does not list.
    let is_shorter = text(&expected).starts_with(own.trim_end());
    let is_sure = (is_tie == Some(false) && !is_shorter) || is_leak;
    match base.is_some() && is_sure {
        true => Stopped::Wrong(difference),
        false => differs(difference),
    }
}

/// White space before a stop string may be left out.
fn is_right(sample: &Sample, alone: &Sample) -> bool {
    is_alike(&up_to_stop(alone), sample)
}

/// Equal texts but for white space at the end, and both ended by length or neither.
fn is_alike(a: &Sample, b: &Sample) -> bool {
    text(a).trim_end() == text(b).trim_end() && is_cut(a) == is_cut(b)
}

/// True unless it ended by length. Engines name the other reasons differently.
fn is_cut(sample: &Sample) -> bool {
    sample.finish_reason.as_deref() != Some("length")
}

/// The answer that one alone becomes with the stop strings.
fn up_to_stop(alone: &Sample) -> Sample {
    let whole = text(alone);
    let Some(end) = STOPS.iter().filter_map(|stop| whole.find(stop)).min() else {
        return alone.clone();
    };
    Sample {
        text: Some(whole[..end].to_owned()),
        finish_reason: Some("stop".to_owned()),
        ..alone.clone()
    }
}

fn text(sample: &Sample) -> &str {
    sample.text.as_deref().unwrap_or_default()
}
