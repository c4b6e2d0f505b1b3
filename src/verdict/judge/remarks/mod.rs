//! Remarks beside a check's verdict: what head's worst launch shows, answers that are sound and odd, a machine that
//! moved. None of them changes a verdict.

mod modes;

pub use modes::modes;

use super::answer_counts::untold;
use super::rules::void_samples;
use super::rules::{others_cores, reads_gaps, stolen_share};
use super::session::base_of;
use super::test_kind::TestKind;
use super::view::{View, values};
use crate::metrics::{self, LaunchMeasure, Requests, Why};
use crate::plan::{Rule, WorkloadKind};
use crate::record::{
    Arm, CheckVerdict, Direction, FirstEvents, Launch, Remark, RuleId, Sample,
    USUAL_TOKENS_AN_EVENT, Verdict,
};
use crate::stats;

/// Remarks that a report shows of one launch.
const SHOWN: usize = 12;
/// Share of head's answers that are one token over and over, beyond base's share where base was measured, from which
/// they are remarked: a small model repeats itself now and then, in both arms alike.
const REPEATED: f64 = 0.05;
/// Processors' worth of other processes' work from which a missed limit on time is remarked.
const OTHERS: f64 = 0.5;
/// Share of the processors' time that the host may take without a word.
const STOLEN: f64 = 0.02;
/// So unlikely is a base that has moved, under sessions that vary as main's did.
const MOVED: f64 = 0.001;

/// Adds the remarks and the worst launch's cells.
pub fn add(view: &View<'_, '_>, check: &mut CheckVerdict) {
    if let Some((launch, measure)) = worst(view) {
        check.cells.clone_from(&measure.cells);
        let shown = of_launch(view, launch, measure, check.reason.quoted());
        check.remarks.extend(shown);
    }
    let arms = || view.arms().iter().copied();
    let answers = arms().flat_map(|arm| [ended_early(view, arm), blank(view, arm)]);
    check.remarks.extend(answers.flatten());
    check
        .remarks
        .extend(arms().filter_map(|arm| first_events(view, arm)));
    check.remarks.extend(empty(view));
    check.remarks.extend(repeated(view));
    check.remarks.extend(resent(view));
    if check.verdict == Verdict::Pass {
        check.remarks.extend(ends_later(view));
    }
    check.remarks.extend(moved(view));
    check.remarks.extend(old_failures(view));
    if check.verdict != Verdict::Pass {
        check.remarks.extend(disturbed(view));
    }
}

/// What disturbed the launches of a comparison that stayed open, or that was no steady state.
pub fn noise(view: &View<'_, '_>, cores: u32, check: &CheckVerdict) -> Option<Remark> {
    let is_open = check.verdict == Verdict::Inconclusive || check.reason.rule == RuleId::NotSteady;
    if !is_open || !view.is_regression() || !view.case.check.metric.is_by_clock() {
        return None;
    }
    let of = |read: &dyn Fn(&Launch) -> Option<f64>, least: f64| {
        let launches = view.arms().iter().flat_map(|&arm| &view.of(arm).kept);
        let read = launches.filter_map(|r| Some((read(r.launch)?, r.launch.position)));
        let most = read.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
        (most.0 > least).then_some(most)
    };
    let stolen = of(&|launch| stolen_share(launch, cores), STOLEN);
    let others = of(&others_cores, OTHERS);
    (stolen.is_some() || others.is_some()).then_some(Remark::Noise { stolen, others })
}

/// Head's launch with the worst value by the check's rule; of equal ones the first.
pub fn worst<'s, 'a>(view: &View<'s, 'a>) -> Option<(&'a Launch, &'s LaunchMeasure)> {
    let check = view.case.check;
    let more_is_worse = match check.rule {
        Rule::Ceiling { .. } => true,
        Rule::Floor { .. } => false,
        Rule::Regression { .. } => check.metric.direction() == Direction::LowerIsBetter,
    };
    let badness = |measure: &LaunchMeasure| match more_is_worse {
        true => measure.value,
        false => -measure.value,
    };
    let kept = view.of(Arm::Head).kept.iter();
    let measured = kept.filter_map(|r| Some((r.launch, r.measure.as_ref().ok()?)));
    measured
        .rev()
        .max_by(|(_, a), (_, b)| badness(a).total_cmp(&badness(b)))
}

/// What the metric remarks on that launch and the reason does not quote: a matrix's cells, the first and the last turns
/// of a session, requests within a bound.
fn of_launch(
    view: &View<'_, '_>,
    launch: &Launch,
    measure: &LaunchMeasure,
    quoted: &[String],
) -> Option<Remark> {
    let new = measure.remarks.iter().filter(|it| !quoted.contains(it));
    let mut remarks: Vec<String> = new.cloned().collect();
    let hidden = remarks.len().saturating_sub(SHOWN);
    remarks.truncate(SHOWN);
    (!remarks.is_empty()).then(|| Remark::Worst {
        launch: launch.position,
        launches: view.of(Arm::Head).kept.len(),
        remarks,
        hidden,
    })
}

/// Goldens and tasks are meant to end, texts are answered with themselves.
fn may_not_end(view: &View<'_, '_>) -> bool {
    use WorkloadKind::{Goldens, Tasks, Texts};
    let kind = &view.case.workload.kind;
    !matches!(kind, Goldens(_) | Texts(_) | Tasks(_))
}

/// Answers that ended before the length that was asked for, where no length could be forced: a shorter answer is
/// quicker. Where one was forced such an answer is void; where arms differ by it, `token-parity` holds. Arms that do the
/// same work need no remark, nor does what reads no clock.
fn ended_early(view: &View<'_, '_>, arm: Arm) -> Option<Remark> {
    let of = |arm| {
        let tally = &view.of(arm).tally;
        (tally.ended, tally.all, tally.mean_ended_tokens())
    };
    let is_same_work = view.arms().len() > 1 && of(Arm::Base) == of(Arm::Head);
    if is_same_work || !view.case.check.metric.is_by_clock() {
        return None;
    }
    let tally = &view.of(arm).tally;
    let tokens = tally.mean_ended_tokens().filter(|_| may_not_end(view))?;
    let (ended, all) = (tally.ended, tally.all);
    Some(Remark::EndedEarly {
        arm,
        ended,
        all,
        tokens,
    })
}

fn blank(view: &View<'_, '_>, arm: Arm) -> Option<Remark> {
    let tally = &view.of(arm).tally;
    let (blank, all) = (tally.blank, tally.all);
    (blank > 0 && may_not_end(view)).then_some(Remark::Blank { arm, blank, all })
}

fn empty(view: &View<'_, '_>) -> Option<Remark> {
    let empty = void_samples::empty_in_both(view).len();
    let all = void_samples::measured_of_head(view);
    let counts_them = void_samples::counts_measured(view.case.check.metric);
    (empty > 0 && !counts_them).then_some(Remark::Empty { empty, all })
}

fn first_events(view: &View<'_, '_>, arm: Arm) -> Option<Remark> {
    let (check, workload) = (view.case.check, view.case.workload);
    let evidence = view.of(arm);
    if !check.part.reads_tpot(check.metric) || !evidence.tally.may_burst_untold() {
        return None;
    }
    let launches = evidence.kept.iter().map(|r| r.launch);
    let sound = launches.flat_map(|launch| Requests::of(check, workload, launch).measured);
    Some(Remark::FirstEvents(arm, first_event_estimate(sound)?))
}

/// That TPOT estimates the tokens of first events: where the middle one of the streams that do not tell has more
/// tokens an event than usual. `sound`: the answers' samples.
pub fn first_event_estimate<'a>(sound: impl Iterator<Item = &'a Sample>) -> Option<FirstEvents> {
    middle_of_untold(&sound.filter_map(untold_first).collect::<Vec<_>>())
}

/// Tokens an event of a stream that does not tell them, and the estimate for its first event.
pub fn untold_first(sample: &Sample) -> Option<(f64, f64)> {
    let at_first = sample.tokens.first_event(sample.stamps.events_ns.len());
    Some((untold(sample)?, at_first))
}

/// As [`first_event_estimate`], of what [`untold_first`] gives for each answer.
pub fn middle_of_untold(answers: &[(f64, f64)]) -> Option<FirstEvents> {
    let (factors, at_first): (Vec<f64>, Vec<f64>) = answers.iter().copied().unzip();
    let an_event = stats::median(&factors).filter(|factor| *factor > USUAL_TOKENS_AN_EVENT)?;
    let first = stats::median(&at_first)?;
    Some(FirstEvents { an_event, first })
}

fn resent(view: &View<'_, '_>) -> Option<Remark> {
    let launches = view.of(Arm::Head).kept.iter().map(|kept| kept.launch);
    let clients = launches.filter_map(|launch| launch.client(&view.case.workload.id));
    let requests = clients.map(|client| u64::from(client.resent)).sum();
    (requests > 0).then_some(Remark::Resent { requests })
}

/// Answers that are one token over and over: perhaps an engine that is broken, perhaps a model that knows no better.
/// Their times are those of real tokens.
fn repeated(view: &View<'_, '_>) -> Option<Remark> {
    let share = |arm| {
        let tally = &view.of(arm).tally;
        tally.repeated as f64 / tally.all.max(1) as f64
    };
    let beyond = share(Arm::Head) - share(Arm::Base);
    let tally = &view.of(Arm::Head).tally;
    let (repeated, all) = (tally.repeated, tally.all);
    (beyond > REPEATED).then_some(Remark::Repeated { repeated, all })
}

/// Answers end later by more than the check's ceiling, and the check of their tokens' pace passes: first tokens came
/// later, perhaps since tokens were held back.
fn ends_later(view: &View<'_, '_>) -> Option<Remark> {
    let (check, workload) = (view.case.check, view.case.workload);
    let Rule::Regression { ceiling, .. } = check.rule else {
        return None;
    };
    if !reads_gaps(check) || !view.arms().contains(&Arm::Base) {
        return None;
    }
    let median = |arm, ms: fn(&Sample) -> Result<f64, Why>| {
        let launches = view.of(arm).kept.iter().map(|r| r.launch);
        let sound = launches.flat_map(|launch| Requests::of(check, workload, launch).measured);
        let all: Vec<f64> = sound.filter_map(|sample| ms(sample).ok()).collect();
        stats::median(&all)
    };
    let of_arms = |ms: fn(&Sample) -> Result<f64, Why>| {
        Some((median(Arm::Base, ms)?, median(Arm::Head, ms)?))
    };
    let e2e_ms = of_arms(metrics::e2e_ms)?;
    let ttft_ms = of_arms(metrics::ttft_ms)?;
    let is_later = e2e_ms.1 > e2e_ms.0 * (1.0 + ceiling) && ttft_ms.1 > ttft_ms.0;
    is_later.then_some(Remark::EndsLater { ttft_ms, e2e_ms })
}

/// What base measured today is not what main's stored sessions let one expect, though the fingerprint is the same. Both
/// arms feel it, so that no verdict rests on it.
fn moved(view: &View<'_, '_>) -> Option<Remark> {
    let (TestKind::Timed(scale), Ok(stored)) = (view.case.test_kind, &view.case.stored) else {
        return None;
    };
    if !scale.is_relative() || !view.comparison.arms().contains(&Arm::Base) {
        return None;
    }
    let mean = |values: &[f64]| {
        let values: Vec<f64> = values.iter().map(|v| scale.forward(*v)).collect();
        stats::mean(&values)
    };
    let today = mean(&values(view.of(Arm::Base).kept.iter()))?;
    let sessions: Vec<f64> = stored.sessions.iter().filter_map(|s| mean(s)).collect();
    let e = stats::prediction(today, &sessions).ok()?;
    if 2.0 * e.p_greater(0.0).min(e.p_less(0.0)) >= MOVED {
        return None;
    }
    let (low, high) = e.interval(1.0 - MOVED);
    Some(Remark::MachineMoved {
        change: e.est.exp_m1(),
        interval: (low.exp_m1(), high.exp_m1()),
        sessions: sessions.len(),
    })
}

/// Other processes' work beside head's launches: a limit on time that is not kept may be theirs, since base, beside
/// which an absolute rule holds nothing, is disturbed as well.
fn disturbed(view: &View<'_, '_>) -> Option<Remark> {
    if view.is_regression() || !view.case.check.metric.is_by_clock() {
        return None;
    }
    let launches = view.of(Arm::Head).kept.iter().map(|r| r.launch);
    let work = launches.filter_map(|launch| Some((others_cores(launch)?, launch.position)));
    let (cores, launch) = work.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (cores > OTHERS).then_some(Remark::OthersCpu { cores, launch })
}

/// Tests of the project's own suite that fail in base as they do in head, in the first launch in which they do.
fn old_failures(view: &View<'_, '_>) -> Option<Remark> {
    let WorkloadKind::Suite(suite) = &view.case.workload.kind else {
        return None;
    };
    let base: Vec<&Launch> = view.of(Arm::Base).kept.iter().map(|r| r.launch).collect();
    let id = &view.case.workload.id;
    let mut head = view.of(Arm::Head).kept.iter().map(|r| r.launch);
    let said = head.find_map(|head| {
        let base = base_of(&base, head)?;
        metrics::fails_in_both(suite, id, base, head)
    });
    said.map(Remark::Said)
}
