//! Successes out of cases. The launches of a build answer alike, so the cases of one launch are the
//! trials, and further launches are repeats of them and not more evidence.

use super::Rules;
use super::assessment::{Assessment, Figures, Finding, Tested};
use super::limit::Side;
use super::timed;
use super::view::View;
use super::words::{self, label};
use crate::metrics::LaunchMeasure;
use crate::plan::Rule;
use crate::record::{Arm, Comparison, Direction, Verdict};
use crate::stats;

/// Confidence of the interval that is shown.
const SHOWN: f64 = 0.95;

pub(super) fn assess(rules: &Rules<'_>, view: &View<'_, '_>) -> Assessment {
    let mut figures = Figures::of(view);
    let head = chosen(view, Arm::Head, &mut figures);
    let base = chosen(view, Arm::Base, &mut figures);
    (figures.base, figures.head) = (base.map(|m| m.value), head.map(|m| m.value));
    let no_pairs = "stored sessions keep no single cases, and shares are compared case by case: use --base REF";
    match (view.case.check.rule, view.comparison) {
        (Rule::Regression { .. }, Comparison::Alone | Comparison::Anchored) => {
            return timed::no_base(view);
        }
        (Rule::Regression { .. }, Comparison::Stored) => {
            return Assessment::never(figures, "no-paired-cases", no_pairs.to_owned());
        }
        _ => {}
    }
    match (view.case.check.rule, head, base) {
        _ if !view.is_complete() => {
            let text = view.scope.say(|| format!("{} so far", figures.behind()));
            Assessment::waiting(figures, text, view.wants())
        }
        (Rule::Regression { margin, ceiling }, Some(head), Some(base)) => {
            regression(rules, view, figures, base, head, (margin, ceiling))
        }
        (Rule::Ceiling { limit }, Some(head), _) => {
            absolute(rules, view, figures, head, Side::Ceiling, limit)
        }
        (Rule::Floor { limit }, Some(head), _) => {
            absolute(rules, view, figures, head, Side::Floor, limit)
        }
        _ => Assessment::never(
            figures,
            "too-few-launches",
            "no launch answered the cases".to_owned(),
        ),
    }
}

/// The launch that stands for an arm. Where launches disagree, the one least kind to the head is taken:
/// head's worst, base's best.
fn chosen<'s>(view: &View<'s, '_>, arm: Arm, figures: &mut Figures) -> Option<&'s LaunchMeasure> {
    let evidence = view.of(arm);
    let values = &evidence.values;
    if evidence.differs {
        let note = format!(
            "launches of {} answer differently; the one least kind to head is taken",
            arm.name()
        );
        figures.notes.push(note);
    }
    let higher = view.case.check.metric.direction() == Direction::HigherIsBetter;
    let want_greatest = (arm == Arm::Base) == higher;
    let found = if want_greatest {
        values.greatest
    } else {
        values.least
    };
    evidence.measure(found?.0)
}

/// McNemar's exact test for a loss beyond the margin; a pass needs the lost share shown to be below the
/// ceiling by Wilson's bound, cases gained not counted against it.
fn regression(
    rules: &Rules<'_>,
    view: &View<'_, '_>,
    mut figures: Figures,
    base: &LaunchMeasure,
    head: &LaunchMeasure,
    (margin, ceiling): (f64, f64),
) -> Assessment {
    let pairs: Vec<(bool, bool)> = base
        .successes
        .iter()
        .filter_map(|(case, &was)| Some((was, *head.successes.get(case)?)))
        .collect();
    let count = |pair: (bool, bool)| pairs.iter().filter(|&&p| p == pair).count() as u64;
    let (lost, gained, n) = (
        count((true, false)),
        count((false, true)),
        pairs.len() as u64,
    );
    let loss = (lost as f64 - gained as f64) / (n.max(1)) as f64;
    figures.change = Some(-loss);
    let p_fail = if loss > margin {
        stats::mcnemar_p_worse(lost, gained)
    } else {
        1.0
    };
    figures.p_fail = Some(p_fail);
    figures.p_pass = Some(stats::share_p_below(lost, n, ceiling));
    let check = view.case.check;
    let say = |sentence: &dyn Fn() -> String| view.scope.say(sentence);
    let tested = Tested {
        rule: "regression",
        subject: say(&|| {
            let values = words::change(check.metric, base.value, head.value);
            let name = label(check.metric, check.statistic);
            format!("{name} {values}: {lost} of {n} cases lost, {gained} gained")
        }),
        beyond: say(&|| format!("beyond the margin of {}", words::percent(margin))),
        within: say(&|| format!("below the ceiling of {}", words::percent(ceiling))),
        behind: say(&|| words::count(pairs.len(), "case")),
        advice: cases_needed(rules, 1.0 - ceiling, n),
        wants: None,
    };
    Assessment {
        figures,
        finding: Finding::Tested(tested),
    }
}

/// Wilson's score test against a limit; a limit of 0 or 1 is exact.
fn absolute(
    rules: &Rules<'_>,
    view: &View<'_, '_>,
    mut figures: Figures,
    head: &LaunchMeasure,
    side: Side,
    limit: f64,
) -> Assessment {
    let check = view.case.check;
    let (right, n) = (
        head.successes.values().filter(|&&r| r).count() as u64,
        head.successes.len() as u64,
    );
    figures.interval = stats::wilson(right, n, SHOWN);
    let (rule, broken, kept) = side.words();
    let (low, high) = figures.interval.unwrap_or((0.0, 1.0));
    let say = |sentence: &dyn Fn() -> String| view.scope.say(sentence);
    let subject = say(&|| {
        format!(
            "{} {} [{}, {}], {right} of {n} cases",
            label(check.metric, check.statistic),
            words::value(check.metric, head.value),
            words::bare(check.metric, low),
            words::bare(check.metric, high),
        )
    });
    let stated = words::value(check.metric, limit);
    if !(limit > 0.0 && limit < 1.0) {
        let is_broken = match side {
            Side::Ceiling => head.value > limit,
            Side::Floor => head.value < limit,
        };
        let (verdict, word) = if is_broken {
            (Verdict::Fail, broken)
        } else {
            (Verdict::Pass, "not beyond")
        };
        let text = say(&|| format!("{subject}, {word} the {rule} of {stated}{}", quoted(head)));
        return Assessment::settled(figures, verdict, rule, text);
    }
    let (below, above) = (
        stats::share_p_below(right, n, limit),
        stats::share_p_above(right, n, limit),
    );
    let ((p_fail, p_pass), provable) = match side {
        Side::Ceiling => ((above, below), 1.0 - limit),
        Side::Floor => ((below, above), limit),
    };
    (figures.p_fail, figures.p_pass) = (Some(p_fail), Some(p_pass));
    let tested = Tested {
        rule,
        subject,
        beyond: say(&|| format!("{broken} the {rule} of {stated}{}", quoted(head))),
        within: say(&|| format!("{kept} the {rule} of {stated}")),
        behind: say(&|| words::count(head.successes.len(), "case")),
        advice: cases_needed(rules, provable, n),
        wants: None,
    };
    Assessment {
        figures,
        finding: Finding::Tested(tested),
    }
}

fn quoted(measure: &LaunchMeasure) -> String {
    if measure.remarks.is_empty() {
        return String::new();
    }
    format!(", for example {}", measure.remarks.join("; "))
}

/// Said where even a faultless answer to all cases could not have shown a share above `share`:
/// n ≥ z² · share / (1 − share).
fn cases_needed(rules: &Rules<'_>, share: f64, n: u64) -> Option<String> {
    let z = stats::t_quantile(1.0 - rules.design.beta, f64::INFINITY)?;
    let needed = (z * z * share / (1.0 - share)).ceil();
    (needed > n as f64).then(|| {
        format!(
            "{n} cases cannot show it even if all are right: {} are needed",
            words::number(needed)
        )
    })
}
