//! Requests that measured nothing, and who is to blame for them.

use super::invalid::{Finding, invalid};
use super::view::View;
use crate::metrics::is_in_part;
use crate::record::{Arm, Launch, Metric, Phase, Sample, Verdict};
use std::collections::BTreeMap;

/// Void samples. An engine that fails to answer in the head alone fails the gate; one that fails in both
/// arms was asked wrongly; and any other rule says that the measurement cannot be trusted.
pub(super) fn find(view: &View<'_, '_>) -> Option<Finding> {
    if counts_voids(view.case.check.metric) {
        return None;
    }
    let blamed = |arm| voids(view, arm, true);
    let (base, head) = (blamed(Arm::Base), blamed(Arm::Head));
    if !head.is_empty() && base.is_empty() {
        return Some(Finding {
            verdict: Verdict::Fail,
            rule: "reliability",
            text: format!(
                "head failed to answer: {}, and base answered all",
                describe_voids(&head)
            ),
        });
    }
    let reads_base = view.arms().contains(&Arm::Base);
    if !base.is_empty() && (reads_base || !head.is_empty()) {
        let arms = if head.is_empty() { "base" } else { "both arms" };
        let all: Vec<_> = base.into_iter().chain(head).collect();
        return invalid(
            "void-samples",
            format!("{arms} failed to answer: {}", describe_voids(&all)),
        );
    }
    let untrusted: Vec<_> = view
        .arms()
        .iter()
        .flat_map(|&arm| voids(view, arm, false))
        .collect();
    if untrusted.is_empty() {
        return None;
    }
    invalid(
        "void-samples",
        format!(
            "requests that measured nothing: {}",
            describe_voids(&untrusted)
        ),
    )
}

/// Whether the metric is itself about answers that failed: it judges them by its own rule.
fn counts_voids(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::FailedCells | Metric::FailedRequests | Metric::Goodput
    )
}

/// Void samples of the check's workload. A warm-up request counts where the engine is to blame: it was
/// asked and did not answer; its numbers would not have been used otherwise.
fn voids<'s>(view: &View<'s, '_>, arm: Arm, blames_engine: bool) -> Vec<(&'s Launch, &'s Sample)> {
    let workload = &view.case.workload.id;
    let mut found = Vec::new();
    for reading in view.kept(arm) {
        let mine = reading
            .launch
            .samples
            .iter()
            .filter(|s| s.workload == *workload && is_in_part(&view.case.check.part, s));
        let void = mine.filter(|s| {
            let counts = blames_engine || s.phase == Phase::Measured;
            counts
                && s.void
                    .as_ref()
                    .is_some_and(|v| v.rule.blames_engine() == blames_engine)
        });
        found.extend(void.map(|s| (reading.launch, s)));
    }
    found
}

/// `3 × cut-stream, 1 × status; first: request 7 of tpot/decode in launch 2 (the detail)`.
fn describe_voids(voids: &[(&Launch, &Sample)]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for rule in voids
        .iter()
        .filter_map(|(_, s)| s.void.as_ref())
        .map(|v| v.rule)
    {
        *counts.entry(rule.name()).or_default() += 1;
    }
    let counts: Vec<String> = counts
        .iter()
        .map(|(rule, n)| format!("{n} × {rule}"))
        .collect();
    let first = voids.first().map(|(launch, sample)| {
        let detail = sample.void.as_ref().map_or("", |v| v.detail.as_str());
        let (index, workload, position) = (sample.index, &sample.workload, launch.position);
        format!("; first: request {index} of {workload} in launch {position} ({detail})")
    });
    format!("{}{}", counts.join(", "), first.unwrap_or_default())
}
