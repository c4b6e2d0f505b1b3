//! Streams whose events hold several tokens and do not tell how many the first one had: TPOT estimates that number,
//! and the estimate is reported.
//!
//! Refuses to know: how TPOT is computed.

use super::tally::untold;
use super::view::View;
use super::words::number;
use crate::metrics::Requests;
use crate::record::{Arm, Sample, USUAL_TOKENS_AN_EVENT};
use crate::stats;

/// One remark for each arm whose answers have more tokens an event than that, in the middle.
pub fn remarks(view: &View<'_, '_>) -> Vec<String> {
    let check = view.case.check;
    if !check.part.reads_tpot(check.metric) {
        return Vec::new();
    }
    let arms = view.arms().iter();
    arms.filter_map(|&arm| remark(view, arm)).collect()
}

fn remark(view: &View<'_, '_>, arm: Arm) -> Option<String> {
    let evidence = view.of(arm);
    if !evidence.tally.may_burst_untold() {
        return None;
    }
    let (check, workload) = (view.case.check, view.case.workload);
    let launches = evidence.kept.iter().map(|r| r.launch);
    let sound = launches.flat_map(|launch| Requests::of(check, workload, launch).measured);
    let taken = first_event_estimate(&format!("answers of {}", arm.name()), sound)?;
    Some(format!(
        "{taken} (return_token_ids = true, if the engine can)"
    ))
}

/// That TPOT estimates the tokens of first events: where the middle one of the streams that do not tell has more
/// tokens an event than usual. `answers` names them, and `sound` are their samples.
pub fn first_event_estimate<'a>(
    answers: &str,
    sound: impl Iterator<Item = &'a Sample>,
) -> Option<String> {
    let untold = sound.filter_map(|sample| {
        let at_first = sample.tokens.first_event(sample.stamps.events_ns.len());
        Some((untold(sample)?, at_first))
    });
    let (factors, at_first): (Vec<f64>, Vec<f64>) = untold.unzip();
    let factor = stats::median(&factors).filter(|factor| *factor > USUAL_TOKENS_AN_EVENT)?;
    Some(format!(
        "{answers} have {} tokens an event, and nothing tells how many the first one had: TPOT takes {} for it, an \
         estimate",
        number(factor),
        number(stats::median(&at_first)?)
    ))
}
