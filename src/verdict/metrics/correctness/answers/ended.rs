//! Chat answers that end by themselves, and requests that should be refused: what base does is right.
//!
//! Main functions: [`compare`], [`refusal`].

use super::{ends_otherwise, is_same};
use crate::metrics::correctness::near_tie::{first_character, quoted};
use crate::record::Sample;

/// Statuses of a server that is busy, whatever it is asked.
const BUSY: [u16; 3] = [408, 425, 429];

/// The result of a comparison with base's answer to the same question.
pub enum Ended {
    Same,
    /// Head has no answer, base has one.
    Refused(String),
    /// It goes on where base's ends.
    GoesOn(String),
    /// It ends where base's goes on.
    Early(String),
    /// Another text.
    Differs,
}

pub fn compare(sample: &Sample, base: &Sample) -> Ended {
    if let Some(status) = sample.status {
        return Ended::Refused(format!("status {status} instead of an answer in base"));
    }
    let (own, right) = (text(sample), text(base));
    let beside = || {
        let reasons = [sample, base].map(|of| of.finish_reason.as_deref().unwrap_or("none"));
        let [own_reason, right_reason] = reasons;
        let place = first_character(base, sample);
        let [own, right] = [sample, base].map(|of| quoted(of, place));
        format!("{own} ({own_reason}) instead of {right} ({right_reason}) in base")
    };
    if is_same(sample, base) && ended(sample) == ended(base) {
        return match ends_otherwise(sample, base) {
            Some(end) => Ended::GoesOn(end),
            None => Ended::Same,
        };
    }
    // A model that thinks to the limit says nothing.
    let has_text = !own.is_empty() && !right.is_empty();
    if has_text && ended(base) && own.starts_with(right) {
        return Ended::GoesOn(beside());
    }
    match !right.is_empty() && ended(sample) && right.starts_with(own) {
        true => Ended::Early(beside()),
        false => Ended::Differs,
    }
}

/// True unless the answer ran into its limit.
pub fn ended(sample: &Sample) -> bool {
    sample.finish_reason.as_deref() != Some("length")
}

/// The result of a comparison with base's status for the same bad request.
pub enum Refusal {
    Same,
    /// Head fails at it, and base does not.
    Fails(String),
    /// Head answers it, and base refuses.
    Accepts(String),
}

/// Statuses of the 4xx kind refuse; those of a busy server are compared with nothing.
pub fn refusal(sample: &Sample, base: &Sample) -> Refusal {
    let statuses = sample.status.zip(base.status);
    let statuses = statuses.filter(|(own, base)| !BUSY.contains(own) && !BUSY.contains(base));
    let Some((own, of_base)) = statuses else {
        return Refusal::Same;
    };
    let text = match own {
        0 => format!("a dropped connection instead of status {of_base} in base"),
        _ => format!("status {own} instead of {of_base} in base"),
    };
    let refuses = |status: u16| (400..500).contains(&status);
    let answers = |status: u16| (1..500).contains(&status);
    if answers(of_base) && !answers(own) {
        Refusal::Fails(text)
    } else if refuses(of_base) && !refuses(own) {
        Refusal::Accepts(text)
    } else {
        Refusal::Same
    }
}

fn text(sample: &Sample) -> &str {
    sample.text.as_deref().unwrap_or_default().trim()
}
