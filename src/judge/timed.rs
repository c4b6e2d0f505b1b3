//! Metrics that vary from launch to launch: Welch's, the prediction and the one-sample t, at looks.

use super::Rules;
use super::assessment::{Assessment, Figures, Finding, Tested};
use super::limit::{self, Side};
use super::trail::{Trail, smallest_effect};
use super::treatment::Scale;
use super::view::{View, values};
use super::words::{self, label};
use crate::plan::Rule;
use crate::record::{Arm, Comparison, Direction, Verdict};
use crate::stats::{self, Degenerate, Estimate};

/// Fewer launches an arm than this carry no t-test.
const LAUNCHES: usize = 4;
/// Error of the repeated interval over all looks.
pub(super) const INTERVAL_ALPHA: f64 = 0.05;

/// Launch values on the scale of the test.
struct Sides {
    base: Vec<f64>,
    head: Vec<f64>,
    /// Means of stored sessions, where they stand for the base.
    sessions: Option<Vec<f64>>,
}

/// Judges a check by t on `scale`.
pub(super) fn assess(
    rules: &Rules<'_>,
    view: &View<'_, '_>,
    scale: Scale,
    trail: &mut Trail,
) -> Assessment {
    match view.case.check.rule {
        Rule::Regression { .. } if view.comparison == Comparison::Alone => no_base(view),
        Rule::Regression { margin, ceiling } => {
            regression(rules, view, scale, trail, (margin, ceiling))
        }
        Rule::Ceiling { limit } => limit::assess(rules, view, scale, trail, Side::Ceiling, limit),
        Rule::Floor { limit } => limit::assess(rules, view, scale, trail, Side::Floor, limit),
    }
}

/// A regression check of a session that has no base.
pub(super) fn no_base(view: &View<'_, '_>) -> Assessment {
    let text = "head was measured alone: there is nothing to compare it with".to_owned();
    Assessment::never(Figures::of(view), "no-base", text)
}

fn regression(
    rules: &Rules<'_>,
    view: &View<'_, '_>,
    scale: Scale,
    trail: &mut Trail,
    (margin, ceiling): (f64, f64),
) -> Assessment {
    let sides = match sides(rules, view, scale) {
        Ok(sides) => sides,
        Err(text) => return Assessment::never(Figures::of(view), "no-stored-base", text),
    };
    let mut figures = Figures::of(view).with_launches(sides.base.len(), sides.head.len());
    if let Some(assessment) = too_few(view, sides.head.len().min(sides.base.len())) {
        return assessment;
    }
    let estimate = match &sides.sessions {
        None => stats::welch(&sides.head, &sides.base),
        Some(means) => {
            let head = stats::mean(&sides.head).unwrap_or(f64::NAN);
            stats::prediction(head, means)
        }
    };
    let e = match estimate {
        Ok(e) => e,
        Err(degenerate) => return no_t(figures, degenerate),
    };
    let (m, c) = (margin.ln_1p(), ceiling.ln_1p());
    describe_change(rules, view, scale, &sides, &e, m, &mut figures);
    let direction = view.case.check.metric.direction();
    let loss = loss(&e, direction);
    trail.look(rules, view, loss.p_greater(m), loss.p_less(c));
    trail.foretell(rules, view, &loss, (m, c), sides.head.len());
    trail.write(&mut figures);
    figures
        .notes
        .extend(improvement(&figures, margin, direction));
    tested(view, trail, figures, (margin, ceiling))
}

/// The estimate with its sign turned so that more is worse: a rate that falls to 1 / (1 + margin) of the
/// base's has lost as much as a time that rises by the margin.
fn loss(change: &Estimate, direction: Direction) -> Estimate {
    match direction {
        Direction::LowerIsBetter => *change,
        Direction::HigherIsBetter => Estimate {
            est: -change.est,
            ..*change
        },
    }
}

fn sides(rules: &Rules<'_>, view: &View<'_, '_>, scale: Scale) -> Result<Sides, String> {
    let on_scale = |values: Vec<f64>| values.into_iter().map(|v| scale.forward(v)).collect();
    let head = on_scale(values(view.looked_at(Arm::Head)));
    if view.comparison != Comparison::Stored {
        let base = on_scale(values(view.looked_at(Arm::Base)));
        return Ok(Sides {
            base,
            head,
            sessions: None,
        });
    }
    let stored = rules.stored(&view.case.check.id)?;
    let base: Vec<Vec<f64>> = stored.into_iter().map(on_scale).collect();
    let means = base
        .iter()
        .filter_map(|session| stats::mean(session))
        .collect();
    Ok(Sides {
        base: base.concat(),
        head,
        sessions: Some(means),
    })
}

pub(super) fn too_few(view: &View<'_, '_>, n: usize) -> Option<Assessment> {
    if n >= LAUNCHES {
        return None;
    }
    let figures = Figures::of(view);
    let behind = figures.behind();
    if view.is_exhausted() {
        let text = format!("{behind} are all that there will be: a t-test needs {LAUNCHES} an arm");
        return Some(Assessment::never(figures, "too-few-launches", text));
    }
    let wants = view.wants();
    let text = format!("{behind} so far: the next look comes at {wants} blocks");
    Some(Assessment::waiting(figures, text, wants))
}

pub(super) fn no_t(figures: Figures, degenerate: Degenerate) -> Assessment {
    let text = format!("the launches' values carry no test: {degenerate}");
    Assessment::settled(figures, Verdict::Invalid, "no-variance", text)
}

/// Fills base, head, change, the repeated interval and the smallest effect.
fn describe_change(
    rules: &Rules<'_>,
    view: &View<'_, '_>,
    scale: Scale,
    sides: &Sides,
    e: &Estimate,
    margin: f64,
    figures: &mut Figures,
) {
    let middle = match &sides.sessions {
        Some(means) => stats::mean(means),
        None => stats::mean(&sides.base),
    };
    figures.base = middle.map(|y| scale.back(y));
    figures.head = stats::mean(&sides.head).map(|y| scale.back(y));
    let (low, high) = e.interval(1.0 - INTERVAL_ALPHA / rules.looks());
    figures.change = Some(e.est.exp_m1());
    figures.interval = Some((low.exp_m1(), high.exp_m1()));
    figures.smallest_effect = smallest_effect(rules, e.se, e.df, margin);
    if sides.sessions.is_some() {
        let n = sides.sessions.as_ref().map_or(0, Vec::len);
        figures.notes.push(format!(
            "base is {n} stored sessions of main; the interval holds what the machine moves between sessions"
        ));
    }
    if view.comparison == Comparison::SameBuild {
        figures
            .notes
            .push("both arms are one build: an A/A run".to_owned());
    }
}

/// A gain beyond the margin is as much of a surprise as a loss.
fn improvement(figures: &Figures, margin: f64, direction: Direction) -> Option<String> {
    let (change, (low, high)) = figures.change.zip(figures.interval)?;
    let is_better = match direction {
        Direction::LowerIsBetter => high < -margin,
        Direction::HigherIsBetter => low > margin,
    };
    is_better.then(|| {
        let percents = words::signed_percents(change, (low, high));
        format!("better than the margin explains: {percents}: check that the work is still done")
    })
}

fn tested(
    view: &View<'_, '_>,
    trail: &Trail,
    figures: Figures,
    (margin, ceiling): (f64, f64),
) -> Assessment {
    let check = view.case.check;
    let label = label(check.metric, check.statistic);
    let subject = match (figures.base, figures.head, figures.change, figures.interval) {
        (Some(base), Some(head), Some(change), Some(interval)) => {
            let values = words::change(check.metric, base, head);
            format!(
                "{label} {values}: {}",
                words::signed_percents(change, interval)
            )
        }
        _ => label,
    };
    let tested = Tested {
        rule: "regression",
        subject,
        beyond: format!("beyond the margin of {}", words::percent(margin)),
        within: format!("below the ceiling of {}", words::percent(ceiling)),
        behind: figures.behind(),
        advice: trail.too_noisy().map(str::to_owned),
        wants: (!view.is_exhausted()).then(|| view.wants()),
    };
    Assessment {
        figures,
        finding: Finding::Tested(tested),
    }
}
