//! Metrics that are the same in every launch of a build: compared exactly, with no test and no chance.

use super::Rules;
use super::assessment::{Assessment, Figures};
use super::limit::Side;
use super::timed;
use super::trail::Trail;
use super::treatment::Scale;
use super::view::{View, values};
use super::words::{self, label};
use crate::plan::Rule;
use crate::record::{Arm, Comparison, Direction, Verdict};

pub(super) fn assess(rules: &Rules<'_>, view: &View<'_, '_>, trail: &mut Trail) -> Assessment {
    match view.case.check.rule {
        Rule::Regression { .. } if view.comparison == Comparison::Alone => timed::no_base(view),
        Rule::Regression { margin, .. } => regression(rules, view, trail, margin),
        Rule::Ceiling { limit } => absolute(view, Side::Ceiling, limit),
        Rule::Floor { limit } => absolute(view, Side::Floor, limit),
    }
}

/// Constant in each arm: exact. Otherwise the launches differ by chance after all, and Welch on the log
/// scale judges them, if no value is zero; with a zero there is no relative scale, and no verdict.
fn regression(
    rules: &Rules<'_>,
    view: &View<'_, '_>,
    trail: &mut Trail,
    margin: f64,
) -> Assessment {
    let base = match view.comparison {
        Comparison::Stored => match rules.stored(&view.case.check.id) {
            Ok(sessions) => sessions.concat(),
            Err(text) => return Assessment::never(Figures::of(view), "no-stored-base", text),
        },
        _ => values(view.kept(Arm::Base)),
    };
    let head = values(view.kept(Arm::Head));
    let figures = Figures::of(view).with_launches(base.len(), head.len());
    if base.is_empty() || head.is_empty() || !view.is_complete() {
        return incomplete(view, figures);
    }
    match (constant(&base), constant(&head)) {
        (Some(base), Some(head)) => compare(view, figures, base, head, margin),
        _ if base.iter().chain(&head).all(|&v| v > 0.0) => {
            timed::assess(rules, view, Scale::Log, trail)
        }
        _ => {
            let metric = view.case.check.metric;
            let limit = match metric.direction() {
                Direction::LowerIsBetter => "ceiling",
                Direction::HigherIsBetter => "floor",
            };
            let text = format!(
                "{metric} differs between launches of one build and touches zero: there is no scale to compare on; give it a {limit} instead"
            );
            Assessment::never(figures, "counter-varies", text)
        }
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
    let name = label(check.metric, check.statistic);
    let values = words::change(check.metric, base, head);
    let by = change.map_or("up from nothing".to_owned(), words::signed_percent);
    let (how, behind) = ("the same in all of", figures.behind());
    // The product and not the quotient, so that exactly the margin is within it.
    let beyond = |from: f64, to: f64| to > from * (1.0 + margin);
    let (is_worse, is_better) = match check.metric.direction() {
        Direction::LowerIsBetter => (beyond(base, head), change.is_some_and(|c| c < -margin)),
        // What falls to 1 / (1 + margin) has lost as much as what rises by the margin, as for times.
        Direction::HigherIsBetter => (beyond(head, base), change.is_none_or(|c| c > margin)),
    };
    if is_worse {
        let limit = words::percent(margin);
        let text = format!("{name} {values}: {by}, beyond the margin of {limit} ({how} {behind})");
        return Assessment::settled(figures, Verdict::Fail, "regression", text);
    }
    if is_better {
        figures
            .notes
            .push("better than the margin explains: check that the work is still done".to_owned());
    }
    let text = format!(
        "{name} {values}: {by}, within the margin of {} ({how} {behind})",
        words::percent(margin)
    );
    Assessment::settled(figures, Verdict::Pass, "regression", text)
}

/// The worst launch of head against the limit: one launch that breaks it is enough.
fn absolute(view: &View<'_, '_>, side: Side, limit: f64) -> Assessment {
    let check = view.case.check;
    let (base, head) = (values(view.kept(Arm::Base)), values(view.kept(Arm::Head)));
    let worst = |values: &[f64]| match side {
        Side::Ceiling => values.iter().copied().max_by(f64::total_cmp),
        Side::Floor => values.iter().copied().min_by(f64::total_cmp),
    };
    let mut figures = Figures::of(view).with_launches(base.len(), head.len());
    (figures.base, figures.head) = (worst(&base), worst(&head));
    let Some(value) = figures.head else {
        return incomplete(view, figures);
    };
    let is_broken = match side {
        Side::Ceiling => value > limit,
        Side::Floor => value < limit,
    };
    let (rule, broken, _) = side.words();
    let against = figures.base.map_or(String::new(), |b| {
        format!(" (base {})", words::value(check.metric, b))
    });
    let subject = format!(
        "{} {}{against}",
        label(check.metric, check.statistic),
        words::value(check.metric, value)
    );
    let limit = words::value(check.metric, limit);
    if is_broken {
        let remarks = remarks(view, value);
        let text = format!("{subject}, {broken} the {rule} of {limit}{remarks}");
        return Assessment::settled(figures, Verdict::Fail, rule, text);
    }
    if !view.is_complete() {
        return incomplete(view, figures);
    }
    let behind = words::count(head.len(), "launch");
    let text = format!("{subject}, not {broken} the {rule} of {limit} ({behind})");
    Assessment::settled(figures, Verdict::Pass, rule, text)
}

/// What the launch with the value that decided says beside it.
fn remarks(view: &View<'_, '_>, value: f64) -> String {
    let mut measured = view.kept(Arm::Head).filter_map(|r| r.measure.as_ref().ok());
    let worst = measured.find(|m| m.value.to_bits() == value.to_bits());
    match worst {
        Some(m) if !m.remarks.is_empty() => format!(": {}", m.remarks.join("; ")),
        _ => String::new(),
    }
}

fn incomplete(view: &View<'_, '_>, figures: Figures) -> Assessment {
    let text = format!("{} so far", figures.behind());
    if view.is_exhausted() {
        return Assessment::never(figures, "too-few-launches", text);
    }
    Assessment::waiting(figures, text, view.wants())
}

fn constant(values: &[f64]) -> Option<f64> {
    let first = *values.first()?;
    values
        .iter()
        .all(|v| v.to_bits() == first.to_bits())
        .then_some(first)
}
