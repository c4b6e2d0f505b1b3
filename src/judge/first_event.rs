//! Streams whose events hold several tokens and do not tell how many the first one had: TPOT leaves out one
//! token for it, which may be too few, and that is said.
//!
//! Refuses to know: how TPOT is computed.

use super::view::View;
use super::words::number;
use crate::record::{Arm, Metric, Sample};
use crate::stats;

/// A token without text of its own comes with the next one: so many more tokens than events are usual.
const USUAL: f64 = 1.1;

/// One remark for each arm whose answers have more tokens an event than that, in the middle.
pub(super) fn remarks(view: &View<'_, '_>) -> Vec<String> {
    let check = view.case.check;
    let reads_tpot = match check.metric {
        Metric::Tpot | Metric::TpotBase | Metric::TpotSlope | Metric::DecodeRate => true,
        Metric::Goodput => check.part.slo.is_some_and(|slo| slo.tpot_ms.is_some()),
        _ => false,
    };
    if !reads_tpot {
        return Vec::new();
    }
    let arms = view.arms().iter();
    arms.filter_map(|&arm| remark(view, arm)).collect()
}

fn remark(view: &View<'_, '_>, arm: Arm) -> Option<String> {
    let samples = view.kept(arm).flat_map(|r| view.samples(r.launch));
    let factors: Vec<f64> = samples.filter_map(untold).collect();
    let factor = stats::median(&factors).filter(|factor| *factor > USUAL)?;
    Some(format!(
        "answers of {} have {} tokens an event, and nothing tells how many the first one had: TPOT takes 1 \
         (return_token_ids = true, if the engine can)",
        arm.name(),
        number(factor)
    ))
}

/// Tokens an event of a stream that does not tell those of its first.
fn untold(sample: &Sample) -> Option<f64> {
    let (tokens, events) = (sample.tokens.completion?, sample.stamps.events_ns.len());
    let asks = sample.streamed && events > 0 && sample.tokens.of_first_event().is_none();
    asks.then(|| f64::from(tokens) / events as f64)
}
