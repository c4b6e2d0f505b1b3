//! Requests that measured nothing, and who is to blame for them.

use super::finding::{Finding, invalid};
use super::session;
use crate::judge::view::View;
use crate::metrics::SURE;
use crate::plan::Rule;
use crate::record::{
    Arm, Facts, Launch, Metric, Phase, RuleId, Sample, Verdict, Void, VoidRule, Voids,
};
use crate::stats;
use std::collections::{BTreeMap, BTreeSet};

/// Fewer requests of head that break the API where base's do not may be chance.
const LEAST_BROKEN: usize = 3;

/// Share of requests that a model may answer with nothing, in both arms.
const EMPTY: f64 = 0.1;

/// Share of head's answers that may have no other to be compared with.
const UNCOMPARED: f64 = 0.1;

/// Void samples. An engine that fails to answer in the head alone fails the gate; one that fails in both
/// arms was asked wrongly; and any other rule says that the measurement cannot be trusted.
pub fn find(view: &View<'_, '_>) -> Option<Finding> {
    let metric = view.case.check.metric;
    let empty = empty_in_both(view);
    let kept = |voids: &[_]| without_counted(voids, metric, &empty);
    let unanswered = |arm| kept(&view.of(arm).unanswered);
    let (base, mut head) = (&unanswered(Arm::Base), unanswered(Arm::Head));
    if base.is_empty() && head.is_empty() {
        head = kept(&view.of(Arm::Head).lost_elsewhere);
        if !head.is_empty() && base_loses_any(view) {
            return invalid(RuleId::VoidSamples, unanswered_in(None, &head)?);
        }
    }
    let head = &head;
    let reads_base = view.arms().contains(&Arm::Base);
    let arm = match (base.is_empty(), head.is_empty()) {
        (_, false) if view.lacks_base() => Some(Arm::Head),
        // Base's model ends some at once too: a near-tie may decide of which.
        (true, false) if !empty.is_empty() && are_few_empty(head) => None,
        (true, false) => {
            let facts = unanswered_in(Some(Arm::Head), head)?;
            return Some(Finding::new(Verdict::Fail, RuleId::Reliability, facts));
        }
        (false, true) if reads_base => Some(Arm::Base),
        (false, false) => None,
        _ if let Some(finding) = breaks_protocol(view) => return Some(finding),
        _ if metric == Metric::FailedCells => return miscounted(view),
        _ if counts_measured(metric) => return None,
        _ => return untrusted(view).or_else(|| uncompared(view)),
    };
    let all = [base.as_slice(), head].concat();
    invalid(RuleId::VoidSamples, unanswered_in(arm, &all)?)
}

/// True of answers that ended at once, so few that chance may choose them.
fn are_few_empty(head: &[(&Launch, &Sample)]) -> bool {
    let are_empty = head.iter().all(|(_, sample)| is_empty(sample));
    are_empty && stats::mcnemar_p_worse(head.len() as u64, 0) > SURE
}

/// True if base left a request of the workload unanswered, in any part, unless the metric counts such requests itself.
fn base_loses_any(view: &View<'_, '_>) -> bool {
    let (case, base) = (view.case, view.of(Arm::Base));
    let mut lost = base.lost().filter(|s| s.workload == case.workload.id);
    lost.any(|sample| !is_counted(case.check.metric, sample))
}

fn unanswered_in(arm: Option<Arm>, voids: &[(&Launch, &Sample)]) -> Option<Facts> {
    let voids = counted(voids.iter().copied())?;
    Some(Facts::Unanswered { arm, voids })
}

fn untrusted(view: &View<'_, '_>) -> Option<Finding> {
    let arms = view.arms().iter();
    let voids = arms.flat_map(|&arm| &view.of(arm).untrusted).copied();
    let voids = voids.filter(|(launch, sample)| !is_bases_cache(view, launch, sample));
    untrusted_in(view, voids)
}

/// True if the cache was in the wrong state for this prompt in base too: the engine has no prefix cache, or its prompts share
/// a beginning. The answers are comparable nevertheless.
fn is_bases_cache(view: &View<'_, '_>, launch: &Launch, sample: &Sample) -> bool {
    let is_so = |of: &Sample| {
        let void = of.void.as_ref();
        void.is_some_and(|void| void.rule == VoidRule::CacheState)
    };
    let compares_answers = view.case.check.metric == Metric::AnswerMismatches;
    compares_answers && is_so(sample) && beside(view, launch, sample).any(is_so)
}

/// Base's answers to the same request of the same block.
fn beside<'v>(
    view: &'v View<'_, '_>,
    launch: &Launch,
    sample: &Sample,
) -> impl Iterator<Item = &'v Sample> {
    let (block, of) = (launch.block, (sample.workload.clone(), sample.index));
    let kept = view.of(Arm::Base).kept.iter();
    let launches = kept.filter(move |reading| reading.launch.block == block);
    let samples = launches.flat_map(|reading| &reading.launch.samples);
    samples.filter(move |base| (&base.workload, base.index) == (&of.0, of.1))
}

fn untrusted_in<'a>(
    view: &View<'_, 'a>,
    voids: impl Iterator<Item = (&'a Launch, &'a Sample)>,
) -> Option<Finding> {
    let base = view.of(Arm::Base);
    let is_base_sound = !base.kept.is_empty() && base.untrusted.is_empty();
    let facts = Facts::Untrusted {
        voids: counted(voids)?,
        only_head: is_base_sound && base.unanswered.is_empty(),
    };
    invalid(RuleId::VoidSamples, facts)
}

/// Cells of head whose tokens do not add up where base's answer is valid: head may have computed another prompt, or less.
/// All other voids the metric judges itself.
fn miscounted(view: &View<'_, '_>) -> Option<Finding> {
    let is_valid_in_base =
        |launch: &Launch, sample: &Sample| beside(view, launch, sample).any(Sample::may_enter);
    let mut voids = view.of(Arm::Head).untrusted.clone();
    voids.retain(|(launch, sample)| {
        let void = sample.void.as_ref();
        let is_count = void.is_some_and(|void| void.rule == VoidRule::TokenCounts);
        is_count && is_valid_in_base(launch, sample)
    });
    match fails_for_sure(view) {
        true => None,
        false => untrusted_in(view, voids.into_iter()),
    }
}

/// Most of head's answers lack the forced length or a valid finish reason, or more streams than chance explains lack `[DONE]`,
/// while base's are sound: head's engine is broken, and not the measurement.
fn breaks_protocol(view: &View<'_, '_>) -> Option<Finding> {
    let (head, base) = (view.of(Arm::Head), view.of(Arm::Base));
    let fail = |facts| Some(Finding::new(Verdict::Fail, RuleId::Reliability, facts));
    let (streams, all) = (head.tally.no_done, head.tally.streams);
    let ends = base.tally.streams > 0 && base.tally.no_done == 0;
    // Else by chance: ten of head, and none of base.
    if ends
        && (are_most(streams as usize, all as usize) || stats::mcnemar_p_worse(streams, 0) <= SURE)
    {
        return fail(Facts::NoDone { streams, all });
    }
    // The client's own count of a text may be at fault; the length that was asked for is not.
    let is_broken = |sample: &Sample| {
        let tokens = &sample.tokens;
        let lengths = tokens.requested.zip(tokens.completion);
        sample.void.as_ref().is_some_and(|void| match void.rule {
            VoidRule::FinishReason => true,
            VoidRule::TokenCounts => lengths.is_some_and(|(asked, counted)| asked != counted),
            _ => false,
        })
    };
    if head.untrusted.len() < LEAST_BROKEN {
        return None;
    }
    let mut voids = head.untrusted.clone();
    let sent: usize = head.kept.iter().map(|reading| reading.sent).sum();
    if !are_most(voids.len(), sent) {
        return None;
    }
    voids.retain(|(launch, sample)| {
        is_broken(sample) && beside(view, launch, sample).any(Sample::may_enter)
    });
    if !are_most(voids.len(), sent) {
        return None;
    }
    let only_head = true;
    let voids = counted(voids.into_iter())?;
    fail(Facts::Untrusted { voids, only_head })
}

/// More than half of `all`, and enough that it is no chance.
fn are_most(broken: usize, all: usize) -> bool {
    broken >= LEAST_BROKEN && 2 * broken > all
}

/// Over a tenth of head's answers had nothing to be compared with, because base ran and did not answer.
fn uncompared(view: &View<'_, '_>) -> Option<Finding> {
    let has_base = view.comparison.arms().contains(&Arm::Base);
    if view.case.check.metric != Metric::AnswerMismatches || !has_base {
        return None;
    }
    let base = view.of(Arm::Base);
    // A session may end between head's launch and base's.
    let has_twin = |launch: &Launch| {
        base.failed.is_some() || base.kept.iter().any(|of| of.launch.block == launch.block)
    };
    let of_head = view.of(Arm::Head).kept.iter();
    let of_head = of_head.filter_map(|reading| Some((reading, reading.measure.as_ref().ok()?)));
    let of_head = of_head.filter(|(reading, measure)| {
        measure.samples as usize >= reading.sent || has_twin(reading.launch)
    });
    let (sent, compared) = of_head.fold((0, 0), |(sent, compared), (reading, measure)| {
        (sent + reading.sent, compared + measure.samples as usize)
    });
    let alone = sent.saturating_sub(compared);
    if alone as f64 <= UNCOMPARED * sent as f64 || fails_for_sure(view) {
        return None;
    }
    let mut voids = [base.unanswered.as_slice(), &base.untrusted].concat();
    voids.retain(|(_, sample)| sample.phase == Phase::Measured);
    untrusted_in(view, voids.into_iter()).or_else(|| {
        let base = Some(base.failed.and_then(session::failed)?);
        invalid(RuleId::LaunchFailed, Facts::Exits { base, head: None })
    })
}

/// Whether what was measured breaks the check's ceiling, whatever the rest is.
fn fails_for_sure(view: &View<'_, '_>) -> bool {
    let kept = view.of(Arm::Head).kept.iter();
    let mut measured = kept.filter_map(|reading| reading.measure.as_ref().ok());
    let mut fails = |limit: f64| measured.any(|m| m.at_least.unwrap_or(m.value) > limit);
    matches!(view.case.check.rule, Rule::Ceiling { limit } if fails(limit))
}

/// True for a metric that counts measured requests that failed by a rule of its own. Those before them it does not see.
pub fn counts_measured(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::FailedCells | Metric::FailedRequests | Metric::Goodput
    )
}

/// Without those that the metric counts itself, and those that a model answers with nothing.
fn without_counted<'a>(
    voids: &[(&'a Launch, &'a Sample)],
    metric: Metric,
    empty: &BTreeSet<Request<'_>>,
) -> Vec<(&'a Launch, &'a Sample)> {
    let is_kept = |(launch, sample): &&(&Launch, &Sample)| {
        !is_counted(metric, sample) && !empty.contains(&request(launch, sample))
    };
    voids.iter().filter(is_kept).copied().collect()
}

/// A block, a workload and a request of it, which both arms are sent.
pub type Request<'a> = (u32, &'a str, u32);

fn request<'a>(launch: &Launch, sample: &'a Sample) -> Request<'a> {
    (launch.block, &sample.workload, sample.index)
}

/// Requests whose answer ends by itself before its first token, in both arms: so the model answers them. Those of head alone
/// too where base did not run in the block. None if over a tenth of the measured ones are such.
pub fn empty_in_both<'a>(view: &View<'_, 'a>) -> BTreeSet<Request<'a>> {
    let of = |arm| -> BTreeSet<Request<'a>> {
        let evidence = view.of(arm);
        let lost = evidence.unanswered.iter().chain(&evidence.lost_elsewhere);
        let empty = lost.filter(|(_, sample)| is_empty(sample));
        empty
            .map(|(launch, sample)| request(launch, sample))
            .collect()
    };
    let (of_base, mut of_head) = (of(Arm::Base), of(Arm::Head));
    // As nearly always: the launches of a long session are then not looked through.
    if of_base.is_empty() || of_head.is_empty() {
        return BTreeSet::new();
    }
    let ran = view.of(Arm::Base).launches();
    let blocks: BTreeSet<u32> = ran.map(|launch| launch.block).collect();
    of_head.retain(|it| of_base.contains(it) || !blocks.contains(&it.0));
    let measured = |(_, sample): &&(&Launch, &Sample)| sample.phase == Phase::Measured;
    let lost = view.of(Arm::Head).unanswered.iter().filter(measured);
    let empty = lost.filter(|(launch, sample)| of_head.contains(&request(launch, sample)));
    match empty.count() as f64 <= EMPTY * measured_of_head(view) as f64 {
        true => of_head,
        false => BTreeSet::new(),
    }
}

/// Measured requests of head, void ones too.
pub fn measured_of_head(view: &View<'_, '_>) -> usize {
    view.of(Arm::Head).kept.iter().map(|it| it.sent).sum()
}

/// True of an answer that had no tokens, or the end of sequence alone, where as many as the model likes were allowed.
fn is_empty(sample: &Sample) -> bool {
    let is_void = |void: &Void| void.rule == VoidRule::NoOutput;
    let tokens = &sample.tokens;
    sample.finish_reason.as_deref() == Some("stop")
        && tokens.requested.is_none()
        && tokens.completion.is_none_or(|tokens| tokens <= 1)
        && sample.void.as_ref().is_some_and(is_void)
}

fn is_counted(metric: Metric, sample: &Sample) -> bool {
    let degenerate = |void: &Void| void.rule == VoidRule::Degenerate;
    let is_mismatch =
        metric == Metric::AnswerMismatches && sample.void.as_ref().is_some_and(degenerate);
    is_mismatch || counts_measured(metric) && sample.phase == Phase::Measured
}

/// `None` where there are no void samples.
fn counted<'a>(voids: impl Iterator<Item = (&'a Launch, &'a Sample)>) -> Option<Voids> {
    let mut voids = voids.peekable();
    let (launch, first) = *voids.peek()?;
    let mut counts: BTreeMap<VoidRule, usize> = BTreeMap::new();
    for void in voids.filter_map(|(_, sample)| sample.void.as_ref()) {
        *counts.entry(void.rule).or_default() += 1;
    }
    Some(Voids {
        counts,
        index: first.index,
        workload: first.workload.clone(),
        launch: launch.position,
        arm: launch.arm,
        detail: first
            .void
            .as_ref()
            .map_or_else(String::new, |v| v.detail.clone()),
    })
}
