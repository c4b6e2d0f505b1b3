//! Chat answers that end by themselves, and requests that should be refused: what base does is right.
//!
//! Main functions: [`compare`], [`refusal`].

use super::{ends_otherwise, is_same};
use crate::record::Sample;

/// The result of a comparison with base's answer to the same question.
pub enum Ended {
    Same,
    /// It goes on where base's ends, or ends where base's goes on.
    ElsewhereThan(String),
    /// Another text.
    Differs,
}

pub fn compare(sample: &Sample, base: &Sample) -> Ended {
    if let Some(end) = ends_otherwise(sample, base) {
        return Ended::ElsewhereThan(end);
    }
    let (own, right) = (text(sample), text(base));
    let one_goes_on = own != right && (own.starts_with(right) || right.starts_with(own));
    let reasons = [sample, base].map(|of| of.finish_reason.as_deref().unwrap_or("none"));
    match is_same(sample, base) && ended(sample) == ended(base) {
        true => Ended::Same,
        false if (one_goes_on || own == right) && (ended(sample) || ended(base)) => {
            Ended::ElsewhereThan(format!(
                "{own:?} ({}) instead of {right:?} ({}) in base",
                reasons[0], reasons[1]
            ))
        }
        false => Ended::Differs,
    }
}

/// True unless the answer ran into its limit.
pub fn ended(sample: &Sample) -> bool {
    sample.finish_reason.as_deref() != Some("length")
}

/// `status 500 instead of 400 in base`: head answers a request that base refuses, or fails at it.
pub fn refusal(sample: &Sample, base: &Sample) -> Option<String> {
    let (own, of_base) = (sample.status?, base.status?);
    let refuses = |status: u16| (400..500).contains(&status);
    let is_worse = (refuses(of_base) && !refuses(own)) || (of_base < 500 && own >= 500);
    is_worse.then(|| format!("status {own} instead of {of_base} in base"))
}

fn text(sample: &Sample) -> &str {
    sample.text.as_deref().unwrap_or_default().trim()
}
