//! Streams whose events hold several tokens and do not tell how many the first one had: TPOT leaves out one
//! token for it, which may be too few, and that is said.
//!
//! Refuses to know: how TPOT is computed.

use super::tally::{USUAL_TOKENS_AN_EVENT, untold};
use super::view::View;
use super::words::number;
use crate::metrics::Requests;
use crate::record::{Arm, Sample};
use crate::stats;

/// One remark for each arm whose answers have more tokens an event than that, in the middle.
pub(super) fn remarks(view: &View<'_, '_>) -> Vec<String> {
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
    let taken = first_event_taken_as_one(&format!("answers of {}", arm.name()), sound)?;
    Some(format!(
        "{taken} (return_token_ids = true, if the engine can)"
    ))
}

/// That TPOT takes 1 for the tokens of a first event which may have had more: where the middle one of the streams
/// that do not tell has more tokens an event than usual. `answers` names them, and `sound` are their samples.
pub fn first_event_taken_as_one<'a>(
    answers: &str,
    sound: impl Iterator<Item = &'a Sample>,
) -> Option<String> {
    let factors: Vec<f64> = sound.filter_map(untold).collect();
    let factor = stats::median(&factors).filter(|factor| *factor > USUAL_TOKENS_AN_EVENT)?;
    Some(format!(
        "{answers} have {} tokens an event, and nothing tells how many the first one had: TPOT takes 1",
        number(factor)
    ))
}
