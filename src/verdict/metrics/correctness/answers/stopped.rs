//! Answers that a stop string ends: they are the same prompt's answer alone up to the first of the strings.
//!
//! Main function: [`compare`].

use super::super::near_tie::{first_character, may_part_at, quoted};
use super::ends_otherwise;
use crate::record::{STOPS, Sample};

/// What an answer is beside the one that it is to be.
pub enum Stopped {
    /// That, or what base's engine makes of it too.
    Same,
    Wrong(String),
    /// Another one, which a near-tie may explain. `ends`: the text is the same and ends elsewhere, so that none does.
    Differs {
        place: usize,
        ends: bool,
        text: String,
    },
}

/// `alone`: the prompt's answer without stop strings. `base`: base's answers to both requests. Wrong for sure is what no
/// near-tie explains where base does as it should: engines differ in how they end an answer.
pub fn compare(
    sample: &Sample,
    alone: &Sample,
    base: Option<(&Sample, &Sample)>,
    near_tie: Option<f64>,
) -> Stopped {
    let end = |of: &Sample| (text(of).to_owned(), of.finish_reason.clone());
    let is_as_base = base.is_some_and(|(stopped, _)| end(stopped) == end(sample));
    if is_as_base || is_right(sample, alone) {
        return Stopped::Same;
    }
    // It may end by itself, where the answer alone was not allowed to.
    if let Some(end) = base.and_then(|(stopped, _)| ends_otherwise(sample, stopped)) {
        return Stopped::Wrong(end);
    }
    let expected = up_to_stop(alone);
    let place = first_character(alone, sample);
    let ends = text(alone).starts_with(text(sample).trim_end());
    let is_tie = match (ends, near_tie) {
        (true, _) => Some(false),
        (false, Some(nats)) => may_part_at(alone, place, nats),
        (false, None) => None,
    };
    if is_tie == Some(true) {
        return Stopped::Same;
    }
    let text = match text(&expected).trim_end() == text(sample).trim_end() {
        true => format!(
            "finish reason {:?} instead of {:?}",
            sample.finish_reason.as_deref().unwrap_or("none"),
            expected.finish_reason.as_deref().unwrap_or("none")
        ),
        false => format!(
            "{} instead of {}, the answer alone up to a stop string",
            quoted(sample, place),
            quoted(&expected, place)
        ),
    };
    let base_is_right = base.is_some_and(|(stopped, alone)| is_right(stopped, alone));
    match base_is_right && is_tie == Some(false) {
        true => Stopped::Wrong(text),
        false => Stopped::Differs { place, ends, text },
    }
}

/// White space before a stop string may be left out.
fn is_right(sample: &Sample, alone: &Sample) -> bool {
    let expected = up_to_stop(alone);
    text(&expected).trim_end() == text(sample).trim_end()
        && expected.finish_reason == sample.finish_reason
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
