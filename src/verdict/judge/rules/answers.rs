//! Rules on what the engine answered: a time of other work is no time of the work that was asked for.

use super::super::Rules;
use super::super::view::View;
use super::client::reads_medians;
use super::finding::{Finding, of_launch};
use crate::judge::launch_view::LaunchView;
use crate::plan::{Rule, WorkloadKind};
use crate::record::{Arm, Facts, LaunchFact, Metric, MetricKind, Reason, RuleId};
use crate::stats;

/// Share of wrong answers that a median can bear.
const WRONG_MEDIAN: f64 = 0.1;
/// Share of them that any other statistic can bear.
const WRONG: f64 = 0.01;
/// Share of base's turns below which head's conversation is another one.
const TURNS: f64 = 0.9;
/// Fewer wrong answers may be near-ties that led into a repetition or another prompt's text.
const FEWEST_WRONG: usize = 3;

/// The time of a blank answer, or of another prompt's, is no time of the work that was asked for. A median bears few of
/// them; a mean, a tail and a throughput bear next to none.
pub fn wrong_answers(_: &Rules<'_>, launch_view: &LaunchView<'_, '_>) -> Option<Finding> {
    let found = launch_view.answers.wrong.as_ref()?;
    let is_timed = launch_view.check.metric.kind() == MetricKind::Latency;
    let bearable = match reads_medians(launch_view.check) {
        true => WRONG_MEDIAN,
        false => WRONG,
    };
    let is_borne = found.wrong < FEWEST_WRONG && 2 * found.wrong <= found.all;
    if !is_timed || is_borne || found.wrong as f64 <= bearable * found.all as f64 {
        return None;
    }
    let fact = LaunchFact::WrongAnswers {
        wrong: found.wrong,
        all: found.all,
        first: found.first.clone(),
    };
    of_launch(launch_view, RuleId::WrongAnswers, fact)
}

/// Most of head's answers part from base's at once, so head may have been timed at other work. That is no fault of head
/// where the change is meant, as a new chat template is.
pub fn other_answers(view: &View<'_, '_>) -> Option<Reason> {
    let check = view.case.check;
    let is_timed = check.metric.kind() == MetricKind::Latency;
    if !is_timed || !matches!(check.rule, Rule::Regression { .. }) {
        return None;
    }
    let found = Some(&view.of(Arm::Head).other).filter(|found| found.are_most())?;
    let facts = Facts::OtherAnswers {
        other: found.other.max(found.early),
        all: found.all,
        first: found.first.clone().unwrap_or_default(),
    };
    Some(Reason::new(RuleId::AnswersDiffer, facts))
}

/// Head counts other numbers of tokens in the same prompts: its tokenizer or chat template has changed, be it by one token
/// more at the beginning.
pub fn other_prompts(view: &View<'_, '_>) -> Option<Reason> {
    let check = view.case.check;
    let is_timed = check.metric.kind() == MetricKind::Latency;
    let is_compared = is_timed && matches!(check.rule, Rule::Regression { .. });
    if !is_compared && check.metric != Metric::AnswerMismatches {
        return None;
    }
    let (base, head) = view.of(Arm::Head).other.other_prompt()?;
    let facts = Facts::PromptTokens {
        base: base.into(),
        head: head.into(),
    };
    Some(Reason::new(RuleId::TokenParity, facts))
}

/// Head's log-probabilities of the same tokens lie further from base's than base's own from one another.
pub fn moved_logprobs(view: &View<'_, '_>) -> Option<Reason> {
    if view.case.check.metric != Metric::AnswerMismatches {
        return None;
    }
    let kept = &view.of(Arm::Head).kept;
    let moved = kept.iter().find_map(|reading| reading.moved)?;
    let facts = Facts::MovedLogprobs {
        base_nats: moved.base_nats,
        head_nats: moved.head_nats,
    };
    Some(Reason::new(RuleId::LogprobsMoved, facts))
}

/// Head's conversations ended after fewer turns than base's, by their `duration`: what grows with them grew less.
pub fn fewer_turns(view: &View<'_, '_>) -> Option<Reason> {
    let WorkloadKind::Session(session) = &view.case.workload.kind else {
        return None;
    };
    if session.duration.is_none() || view.comparison.is_recording() {
        return None;
    }
    let of = |arm| {
        let turns = view.of(arm).kept.iter().map(|kept| kept.sent as f64);
        stats::median(&turns.collect::<Vec<_>>())
    };
    let (base, head) = (of(Arm::Base)?, of(Arm::Head)?);
    let facts = Facts::FewerTurns { base, head };
    (head < TURNS * base).then(|| Reason::new(RuleId::FewerTurns, facts))
}
