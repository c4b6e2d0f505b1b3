//! Metrics that are the same in every launch of a build: compared exactly, with no test and no chance.

use super::Rules;
use super::assessment::{Assessment, Figures};
use super::continuous;
use super::evidence::Values;
use super::remarks::worst;
use super::sequential::PastLooks;
use super::view::View;
use crate::plan::Rule;
use crate::record::{
    Arm, Comparison, Direction, Facts, Held, Limit, Metric, Reason, Remark, RuleId, Side, TooFew,
    Verdict,
};
use crate::stats::Scale;

pub fn assess(rules: &Rules<'_>, view: &View<'_, '_>, trail: &mut PastLooks) -> Assessment {
    match view.case.check.rule {
        Rule::Regression { .. } if view.comparison.is_recording() => continuous::no_base(view),
        Rule::Regression { margin, .. } => regression(rules, view, trail, margin),
        Rule::Ceiling { limit } => absolute(view, Limit::ceiling(limit)),
        Rule::Floor { limit } => absolute(view, Limit::floor(limit)),
    }
}

/// Constant in each arm: exact, but for shares of requests. Otherwise the launches differ by chance after all, and Welch on the log
/// scale judges them, if no value is zero; with a zero there is no relative scale, and no verdict.
fn regression(
    rules: &Rules<'_>,
    view: &View<'_, '_>,
    trail: &mut PastLooks,
    margin: f64,
) -> Assessment {
    let base = match (view.comparison, &view.case.stored) {
        (Comparison::Stored, Ok(stored)) => &stored.values,
        (Comparison::Stored, Err(stored)) => return continuous::no_stored_base(view, stored),
        _ => view.of(Arm::Base).tested(),
    };
    let head = view.of(Arm::Head).tested();
    let figures = Figures::of(view).with_launches(base.n, head.n);
    if base.n == 0 || head.n == 0 || !view.is_complete() {
        return incomplete(view, figures);
    }
    // A share of requests by their times varies by chance, also where few launches show it.
    if view.case.check.metric == Metric::Goodput {
        return continuous::assess(rules, view, Scale::Log, trail);
    }
    match (base.constant(), head.constant()) {
        (Some(base), Some(head)) => compare(view, figures, base, head, margin),
        _ if base.are_positive() && head.are_positive() => {
            continuous::assess(rules, view, Scale::Log, trail)
        }
        _ => Assessment::never(figures, RuleId::CounterVaries, Facts::None),
    }
}

fn compare(
    view: &View<'_, '_>,
    mut figures: Figures,
    base: f64,
    head: f64,
    margin: f64,
) -> Assessment {
    let check = view.case.check;
    (figures.base, figures.head) = (Some(base), Some(head));
    let change = match (base > 0.0, head > 0.0) {
        (true, _) => Some(head / base - 1.0),
        (false, false) => Some(0.0),
        (false, true) => None,
    };
    figures.change = change;
    figures.interval = change.map(|c| (c, c));
    // The product and not the quotient, so that exactly the margin is within it.
    let (rise, fall) = (base * (1.0 + margin), base * (1.0 - margin));
    let (is_worse, is_better) = match check.metric.direction() {
        Direction::LowerIsBetter => (head > rise, head < fall),
        Direction::HigherIsBetter => (head < fall, head > rise),
    };
    if is_better && !is_worse {
        figures.remarks.push(Remark::Better { is_exact: true });
    }
    let verdict = if is_worse {
        Verdict::Fail
    } else {
        Verdict::Pass
    };
    let facts = Facts::Exact {
        margin,
        is_beyond: is_worse,
    };
    let reason = Reason::new(RuleId::Regression, facts);
    Assessment::settled(figures, verdict, reason)
}

/// The worst launch of head against the limit: one launch that breaks it for sure is enough.
fn absolute(view: &View<'_, '_>, limit: Limit) -> Assessment {
    let worst = |values: &Values| match limit.side {
        Side::Ceiling => values.greatest,
        Side::Floor => values.least,
    };
    let (base, head) = (&view.of(Arm::Base).values, &view.of(Arm::Head).values);
    let mut figures = Figures::of(view).with_launches(base.n, head.n);
    (figures.base, figures.head) = (worst(base), worst(head));
    if view.case.check.metric == Metric::AnswerMismatches {
        // Base's are counted beside nothing, head's beside base's.
        figures.base = None;
    }
    let Some(value) = figures.head else {
        return incomplete(view, figures);
    };
    let is_broken = limit.is_broken_by(value);
    if is_broken && !is_sure(view, limit) {
        let rule = match view.case.check.metric {
            Metric::AnswerMismatches | Metric::GoldenMismatches | Metric::StreamMismatches => {
                RuleId::AnswersDiffer
            }
            _ => RuleId::GrowthByChance,
        };
        let facts = facts(view, limit, Held::Unsure);
        return match view.is_exhausted() {
            true => Assessment::never(figures, rule, facts),
            false => Assessment::waiting(figures, facts, view.wants()),
        };
    }
    let (verdict, held) = match is_broken {
        true => (Verdict::Fail, Held::Broken),
        false if !view.is_complete() => return incomplete(view, figures),
        false => (Verdict::Pass, Held::Kept),
    };
    let reason = Reason::new(limit.rule(), facts(view, limit, held));
    Assessment::settled(figures, verdict, reason)
}

/// True if a launch is beyond the limit by more than chance. Only what grows, and answers that may differ by a
/// near-tie, have a least value.
fn is_sure(view: &View<'_, '_>, limit: Limit) -> bool {
    let kept = view.of(Arm::Head).kept.iter();
    let mut measured = kept.filter_map(|reading| reading.measure.as_ref().ok());
    limit.side == Side::Floor || measured.any(|m| m.at_least.unwrap_or(m.value) > limit.value)
}

/// Remarks that a reason holds; the check's remarks have the others.
const IN_A_REASON: usize = 6;

/// With the remarks of the launch that broke the limit.
fn facts(view: &View<'_, '_>, limit: Limit, held: Held) -> Facts {
    let worst = worst(view).filter(|_| held != Held::Kept);
    let remarks = worst.map_or(&[][..], |(_, measure)| &measure.remarks);
    let remarks = remarks.iter().take(IN_A_REASON).cloned().collect();
    Facts::Limit {
        limit,
        held,
        remarks,
    }
}

fn incomplete(view: &View<'_, '_>, figures: Figures) -> Assessment {
    let facts = Facts::TooFew(TooFew::SoFar);
    if view.is_exhausted() {
        return Assessment::never(figures, RuleId::TooFewLaunches, facts);
    }
    Assessment::waiting(figures, facts, view.wants())
}
