//! Metrics that are the same in every launch of a build: compared exactly, with no test and no chance.

use super::Rules;
use super::assessment::{Assessment, Figures};
use super::evidence::Values;
use super::limit::Side;
use super::timed;
use super::trail::Trail;
use super::view::View;
use super::words::{self, name_of};
use super::worst::worst;
use crate::plan::Rule;
use crate::plural::count;
use crate::record::{Arm, Comparison, Direction, Metric, Verdict};
use crate::stats::Scale;

pub fn assess(rules: &Rules<'_>, view: &View<'_, '_>, trail: &mut Trail) -> Assessment {
    match view.case.check.rule {
        Rule::Regression { .. } if view.comparison.is_recording() => timed::no_base(view),
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
    let base = match (view.comparison, &view.case.stored) {
        (Comparison::Stored, Ok(stored)) => &stored.values,
        (Comparison::Stored, Err(text)) => {
            return Assessment::never(Figures::of(view), "no-stored-base", text.clone());
        }
        _ => view.of(Arm::Base).tested(),
    };
    let head = view.of(Arm::Head).tested();
    let figures = Figures::of(view).with_launches(base.n, head.n);
    if base.n == 0 || head.n == 0 || !view.is_complete() {
        return incomplete(view, figures);
    }
    match (base.constant(), head.constant()) {
        (Some(base), Some(head)) => compare(view, figures, base, head, margin),
        _ if base.are_positive() && head.are_positive() => {
            timed::assess(rules, view, Scale::Log, trail)
        }
        _ => {
            let text = view.scope.say(|| varies(view));
            Assessment::never(figures, "counter-varies", text)
        }
    }
}

fn varies(view: &View<'_, '_>) -> String {
    let metric = view.case.check.metric;
    let limit = match metric.direction() {
        Direction::LowerIsBetter => "ceiling",
        Direction::HigherIsBetter => "floor",
    };
    format!(
        "{metric} differs between launches of one build and touches zero: there is no scale to compare on; give it a {limit} instead"
    )
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
    let beyond = |from: f64, to: f64| to > from * (1.0 + margin);
    let (is_worse, is_better) = match check.metric.direction() {
        Direction::LowerIsBetter => (beyond(base, head), change.is_some_and(|c| c < -margin)),
        // What falls to 1 / (1 + margin) has lost as much as what rises by the margin, as for times.
        Direction::HigherIsBetter => (beyond(head, base), change.is_none_or(|c| c > margin)),
    };
    let text = |how: &str| {
        let name = name_of(check);
        let values = words::change(check.metric, base, head);
        let by = change.map_or("up from nothing".to_owned(), words::signed_percent);
        let (limit, behind) = (words::percent(margin), figures.behind());
        format!("{name} {values}: {by}, {how} the margin of {limit} (the same in all of {behind})")
    };
    if is_worse {
        let text = view.scope.say(|| text("beyond"));
        return Assessment::settled(figures, Verdict::Fail, "regression", text);
    }
    let text = view.scope.say(|| text("within"));
    if is_better {
        figures
            .notes
            .push("better than the margin explains: check that the work is still done".to_owned());
    }
    Assessment::settled(figures, Verdict::Pass, "regression", text)
}

/// The worst launch of head against the limit: one launch that breaks it for sure is enough.
fn absolute(view: &View<'_, '_>, side: Side, limit: f64) -> Assessment {
    let worst = |values: &Values| match side {
        Side::Ceiling => values.greatest,
        Side::Floor => values.least,
    };
    let (base, head) = (&view.of(Arm::Base).values, &view.of(Arm::Head).values);
    let mut figures = Figures::of(view).with_launches(base.n, head.n);
    (figures.base, figures.head) = (worst(base), worst(head));
    let Some(value) = figures.head else {
        return incomplete(view, figures);
    };
    let is_broken = match side {
        Side::Ceiling => value > limit,
        Side::Floor => value < limit,
    };
    let (rule, ..) = side.words();
    if is_broken && !is_sure(view, side, limit) {
        let text = view
            .scope
            .say(|| unsure(view, &figures, side, (value, limit)));
        let rule = match view.case.check.metric {
            Metric::AnswerMismatches | Metric::GoldenMismatches => "answers-differ",
            _ => "growth-by-chance",
        };
        return match view.is_exhausted() {
            true => Assessment::never(figures, rule, text),
            false => Assessment::waiting(figures, text, view.wants()),
        };
    }
    if is_broken {
        let text = view
            .scope
            .say(|| broken(view, &figures, side, (value, limit)));
        return Assessment::settled(figures, Verdict::Fail, rule, text);
    }
    if !view.is_complete() {
        return incomplete(view, figures);
    }
    let text = view
        .scope
        .say(|| kept(view, &figures, side, (value, limit)));
    Assessment::settled(figures, Verdict::Pass, rule, text)
}

/// True if a launch is beyond the limit by more than chance. Only what grows, and answers that may differ by a
/// near-tie, have a least value.
fn is_sure(view: &View<'_, '_>, side: Side, limit: f64) -> bool {
    let kept = view.of(Arm::Head).kept.iter();
    let mut measured = kept.filter_map(|reading| reading.measure.as_ref().ok());
    side == Side::Floor || measured.any(|m| m.at_least.unwrap_or(m.value) > limit)
}

fn unsure(view: &View<'_, '_>, figures: &Figures, side: Side, worst: (f64, f64)) -> String {
    let broken = broken(view, figures, side, worst);
    let why = match view.case.check.metric {
        Metric::AnswerMismatches => {
            "near-ties of the engine's own may explain it, and nothing tells: log-probabilities do (`top_k` of a \
             workload of the kind `answers`), else more prompts"
        }
        Metric::GoldenMismatches => {
            "a near-tie may explain it, and the goldens hold no log-probabilities there that tell: make them with \
             `gate golden make --model`, or with more cases; where main itself has changed, make them anew"
        }
        _ => {
            "the readings vary so much that chance alone can show that: a longer workload, or more frequent \
             telemetry, gives more of them"
        }
    };
    format!("{broken}; {why}")
}

fn broken(
    view: &View<'_, '_>,
    figures: &Figures,
    side: Side,
    (value, limit): (f64, f64),
) -> String {
    let (rule, broken, _) = side.words();
    let (subject, remarks) = (subject(view, figures, value), remarks(view));
    let limit = words::value(view.case.check.metric, limit);
    format!("{subject}, {broken} the {rule} of {limit}{remarks}")
}

fn kept(view: &View<'_, '_>, figures: &Figures, side: Side, (value, limit): (f64, f64)) -> String {
    let (rule, broken, _) = side.words();
    let subject = subject(view, figures, value);
    let limit = words::value(view.case.check.metric, limit);
    let behind = count(view.of(Arm::Head).values.n, "launch");
    format!("{subject}, not {broken} the {rule} of {limit} ({behind})")
}

fn subject(view: &View<'_, '_>, figures: &Figures, value: f64) -> String {
    let check = view.case.check;
    let against = figures.base.map_or(String::new(), |b| {
        format!(" (base {})", words::value(check.metric, b))
    });
    format!(
        "{} {}{against}",
        name_of(check),
        words::value(check.metric, value)
    )
}

/// Remarks that a reason holds; the notes have the others (`worst`).
const IN_A_REASON: usize = 6;

/// The remarks of the launch with the value that decided.
fn remarks(view: &View<'_, '_>) -> String {
    match worst(view) {
        Some((_, m)) if !m.remarks.is_empty() => {
            let shown = m.remarks.len().min(IN_A_REASON);
            format!(": {}", m.remarks[..shown].join("; "))
        }
        _ => String::new(),
    }
}

fn incomplete(view: &View<'_, '_>, figures: Figures) -> Assessment {
    let text = view.scope.say(|| format!("{} so far", figures.behind()));
    if view.is_exhausted() {
        return Assessment::never(figures, "too-few-launches", text);
    }
    Assessment::waiting(figures, text, view.wants())
}
