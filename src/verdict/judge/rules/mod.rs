//! The rules by which a check is no measurement, or shows an engine that does not answer: in the order
//! in which they are tried, most basic first. The table with reasons stands in `docs/verdict.md`.
//!
//! Main function: [`find`]. What a rule says of one launch by itself is asked once a launch
//! ([`OF_A_LAUNCH`]), the rest after every block from what the launches have left behind.

mod answers;
mod client;
mod client_late;
pub mod finding;
mod machine;
mod session;
mod steady_state;
mod stream;
mod throttling;
mod token_parity;
mod tree_files;
mod vacuous;
mod value;
pub mod void_samples;

pub use client::{AMBIGUOUS_MIDDLE, AMBIGUOUS_TAIL, reads_gaps};
pub use machine::{others_cores, shared_gpu, stolen_share};
pub use steady_state::{drifts_apart, unsteady};

use super::Rules;
use super::view::View;
use crate::plan::Rule;
use crate::record::{Reason, RunRecord};
use finding::{Finding, LaunchRule};
use std::ops::Range;

/// Those rules, in the order in which they are tried.
pub const OF_A_LAUNCH: [LaunchRule; 15] = [
    machine::page_cache,
    machine::gpu_shared,
    machine::busy,
    machine::busy_beside,
    value::missing_value,
    value::impossible_value,
    value::too_few_samples,
    answers::wrong_answers,
    client_late::client_late,
    client::ambiguous,
    client::streams_not_reached,
    client::server_timings,
    client::implausible_phases,
    value::constant_latency,
    client::held_back,
];

/// Number of them before the parity of tokens, and before the last, which only a pass must answer to.
const BEFORE_PARITY: usize = OF_A_LAUNCH.len() - 2;
const BEFORE_DOUBT: usize = OF_A_LAUNCH.len() - 1;

/// The first rule that holds.
pub fn find(rules: &Rules<'_>, view: &View<'_, '_>) -> Option<Finding> {
    rules
        .session
        .clone()
        .or_else(|| session::not_interleaved(rules, view))
        .or_else(|| session::launch_failed(view))
        .or_else(|| void_samples::find(view))
        .or_else(|| of_a_launch(view, 0..BEFORE_PARITY))
        .or_else(|| token_parity::token_parity(view))
        .or_else(|| of_a_launch(view, BEFORE_PARITY..BEFORE_DOUBT))
        .or_else(|| vacuous::vacuous(view))
        .or_else(|| steady_state::not_steady(view))
        .or_else(|| throttling::throttled(view))
}

/// Why the check does not pass, though its value would: what was timed may be other work.
pub fn doubt(view: &View<'_, '_>) -> Option<Reason> {
    let found = of_a_launch(view, BEFORE_DOUBT..OF_A_LAUNCH.len());
    let held_back = found.map(|found| found.reason);
    held_back
        .or_else(|| throttling::passes_without_throttled(view))
        .or_else(|| tree_files::tree_files(view))
        .or_else(|| answers::other_answers(view))
        .or_else(|| answers::other_prompts(view))
        .or_else(|| answers::moved_logprobs(view))
        .or_else(|| stream::late_end(view))
        .or_else(|| stream::slow_warm_up(view))
        .or_else(|| stream::bursts(view))
        .or_else(|| stream::resent(view))
        .or_else(|| stream::unkept_connections(view))
        .or_else(|| answers::fewer_turns(view))
}

/// Why the check does not fail, though by `change` (a fraction of base) it would: a head that only takes longer to warm up
/// would be as slow.
pub fn doubt_of_failure(view: &View<'_, '_>, change: Option<f64>) -> Option<Reason> {
    let (reason, apart) = view.case.drifts_apart.as_ref()?;
    let Rule::Regression { margin, .. } = view.case.check.rule else {
        return None;
    };
    let direction = view.case.check.metric.direction();
    let loss = change?.ln_1p() * direction.sign();
    (loss - apart <= direction.loss(margin)).then(|| reason.clone())
}

/// The first finding of these rules in the launches that the check reads.
fn of_a_launch(view: &View<'_, '_>, mut rules: Range<usize>) -> Option<Finding> {
    rules.find_map(|rule| {
        let mut arms = view.arms().iter();
        arms.find_map(|&arm| view.of(arm).broken(rule))
    })
}

/// Why nothing of the session is a measurement.
pub fn of_session(record: &RunRecord) -> Option<Finding> {
    session::fingerprint_changed(record)
        .or_else(|| session::altered(record))
        .or_else(|| session::one_artifact(record))
}
