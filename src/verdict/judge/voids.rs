//! Requests that measured nothing, and who is to blame for them.

use super::invalid::{Finding, invalid};
use super::view::View;
use crate::record::{Arm, Launch, Metric, Sample, Verdict, Void, VoidRule};
use std::collections::BTreeMap;

/// Void samples. An engine that fails to answer in the head alone fails the gate; one that fails in both
/// arms was asked wrongly; and any other rule says that the measurement cannot be trusted.
pub fn find(view: &View<'_, '_>) -> Option<Finding> {
    let metric = view.case.check.metric;
    if counts_voids(metric) {
        return None;
    }
    let unanswered = |arm| without_counted(&view.of(arm).unanswered, metric);
    let (base, head) = (&unanswered(Arm::Base), &unanswered(Arm::Head));
    if !head.is_empty() && view.lacks_base() {
        let text = view.scope.say(|| {
            let head = describe_voids(head);
            format!(
                "head failed to answer: {head}, and base was not launched: nothing to compare with"
            )
        });
        return invalid("void-samples", text);
    }
    if !head.is_empty() && base.is_empty() {
        return Some(Finding {
            verdict: Verdict::Fail,
            rule: "reliability",
            text: view.scope.say(|| {
                format!(
                    "head failed to answer: {}, and base answered all",
                    describe_voids(head)
                )
            }),
        });
    }
    let reads_base = view.arms().contains(&Arm::Base);
    if !base.is_empty() && (reads_base || !head.is_empty()) {
        let text = view.scope.say(|| {
            let arms = if head.is_empty() { "base" } else { "both arms" };
            let all: Vec<_> = base.iter().chain(head).copied().collect();
            format!("{arms} failed to answer: {}", describe_voids(&all))
        });
        return invalid("void-samples", text);
    }
    let arms = view.arms();
    if arms.iter().all(|&arm| view.of(arm).untrusted.is_empty()) {
        return None;
    }
    let text = view.scope.say(|| {
        let untrusted = arms.iter().flat_map(|&arm| &view.of(arm).untrusted);
        let untrusted: Vec<_> = untrusted.copied().collect();
        format!(
            "requests that measured nothing: {}",
            describe_voids(&untrusted)
        )
    });
    invalid("void-samples", text)
}

/// Whether the metric is itself about answers that failed: it judges them by its own rule.
fn counts_voids(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::FailedCells | Metric::FailedRequests | Metric::Goodput
    )
}

/// Without those that the metric counts itself.
fn without_counted<'a>(
    voids: &[(&'a Launch, &'a Sample)],
    metric: Metric,
) -> Vec<(&'a Launch, &'a Sample)> {
    let is_counted = |sample: &Sample| {
        let degenerate = |void: &Void| void.rule == VoidRule::Degenerate;
        metric == Metric::AnswerMismatches && sample.void.as_ref().is_some_and(degenerate)
    };
    let kept = voids.iter().filter(|(_, sample)| !is_counted(sample));
    kept.copied().collect()
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
