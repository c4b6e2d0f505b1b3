//! Metrics that vary from launch to launch: Welch's, the prediction and the one-sample t, at looks.

use super::Rules;
use super::assessment::{Assessment, Figures, Finding, Tested};
use super::limit::{self, Side};
use super::trail::{Trail, smallest_effect, too_noisy};
use super::treatment::no_relative_scale;
use super::view::{View, values};
use super::words::{self, name_of};
use crate::plan::Rule;
use crate::record::{Arm, Comparison, Direction, Ending, Verdict};
use crate::stats::{self, Degenerate, Estimate, Scale};

/// Fewer launches an arm than this carry no t-test.
const LAUNCHES: usize = 4;
/// Error of the repeated interval over all looks.
pub const INTERVAL_ALPHA: f64 = 0.05;

/// Launch values on the scale of the test.
struct Sides {
    base: Vec<f64>,
    head: Vec<f64>,
    /// Means of stored sessions, where they stand for the base.
    sessions: Option<Vec<f64>>,
}

impl Sides {
    fn estimate(&self) -> Result<Estimate, Degenerate> {
        match &self.sessions {
            None => stats::welch(&self.head, &self.base),
            Some(means) => {
                let head = stats::mean(&self.head).unwrap_or(f64::NAN);
                stats::prediction(head, means)
            }
        }
    }
}

/// Judges a check by t on `scale`.
pub fn assess(
    rules: &Rules<'_>,
    view: &View<'_, '_>,
    scale: Scale,
    trail: &mut Trail,
) -> Assessment {
    match view.case.check.rule {
        Rule::Regression { .. } if view.comparison.is_recording() => no_base(view),
        Rule::Regression { margin, ceiling } => {
            regression(rules, view, scale, trail, (margin, ceiling))
        }
        Rule::Ceiling { limit } => limit::assess(rules, view, scale, trail, Side::Ceiling, limit),
        Rule::Floor { limit } => limit::assess(rules, view, scale, trail, Side::Floor, limit),
    }
}

/// A regression check of a session that has no base.
pub fn no_base(view: &View<'_, '_>) -> Assessment {
    let text = match view.comparison {
        Comparison::Anchored => {
            "recorded beside its anchor, not judged against it: `gate history` reads main's course"
        }
        _ => "head was measured alone: there is nothing to compare it with",
    };
    let text = text.to_owned();
    Assessment::never(Figures::of(view), "no-base", text)
}

fn regression(
    rules: &Rules<'_>,
    view: &View<'_, '_>,
    scale: Scale,
    trail: &mut Trail,
    (margin, ceiling): (f64, f64),
) -> Assessment {
    let (base, head) = match launches(view) {
        Ok(launches) => launches,
        Err(text) => return Assessment::never(Figures::of(view), "no-stored-base", text.clone()),
    };
    let mut figures = Figures::of(view).with_launches(base, head);
    if let Some(assessment) = too_few(view, head.min(base)) {
        return assessment;
    }
    let estimate = trail.estimate(view.scope, || sides(view, scale).estimate());
    let e = match estimate {
        Ok(e) => e,
        // Of finite values: one at or below 0 has no logarithm.
        Err(Degenerate::NotFinite) if scale == Scale::Log => {
            let (rule, text) = no_relative_scale(view.case.check.metric);
            return Assessment::never(figures, rule, text);
        }
        Err(degenerate) => return no_t(figures, degenerate),
    };
    let (m, c) = (margin.ln_1p(), ceiling.ln_1p());
    let direction = view.case.check.metric.direction();
    if view.scope.is_look {
        let loss = loss(&e, direction);
        trail.look(rules, view.scope, loss.p_greater(m), loss.p_less(c));
        trail.foretell(rules, view, &loss, (m, c), head);
    }
    trail.write(&mut figures);
    if view.scope.is_told {
        describe_change(rules, view, scale, &e, m, &mut figures);
        let gain = improvement(&figures, margin, direction);
        figures.notes.extend(gain);
    }
    let advice = noise(rules, view, trail, &figures, ceiling);
    tested(view, advice, figures, (margin, ceiling))
}

/// Launches of base and head that the latest look reads; of base all stored ones, where those stand for it.
fn launches<'s>(view: &View<'s, '_>) -> Result<(usize, usize), &'s String> {
    let base = match view.comparison {
        Comparison::Stored => view.case.stored.as_ref()?.values.n,
        _ => view.of(Arm::Base).looked(),
    };
    Ok((base, view.of(Arm::Head).looked()))
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

fn sides(view: &View<'_, '_>, scale: Scale) -> Sides {
    let on_scale =
        |values: &[f64]| -> Vec<f64> { values.iter().map(|v| scale.forward(*v)).collect() };
    let looked_at = |arm| on_scale(&values(view.of(arm).looked_at()));
    let (head, stored) = (looked_at(Arm::Head), view.case.stored.as_ref().ok());
    match stored.filter(|_| view.comparison == Comparison::Stored) {
        None => Sides {
            base: looked_at(Arm::Base),
            head,
            sessions: None,
        },
        Some(stored) => {
            let sessions = stored.sessions.iter().map(|values| on_scale(values));
            let sessions: Vec<Vec<f64>> = sessions.collect();
            let means = sessions.iter().filter_map(|values| stats::mean(values));
            Sides {
                head,
                sessions: Some(means.collect()),
                base: sessions.concat(),
            }
        }
    }
}

pub fn too_few(view: &View<'_, '_>, n: usize) -> Option<Assessment> {
    if n >= LAUNCHES {
        return None;
    }
    let figures = Figures::of(view);
    if view.is_exhausted() {
        let text = view.scope.say(|| {
            let behind = figures.behind();
            format!("{behind} are all that there will be: a t-test needs {LAUNCHES} an arm")
        });
        return Some(Assessment::never(figures, "too-few-launches", text));
    }
    let wants = view.wants();
    let text = view.scope.say(|| {
        let behind = figures.behind();
        format!("{behind} so far: the next look comes at {wants} blocks")
    });
    Some(Assessment::waiting(figures, text, wants))
}

pub fn no_t(figures: Figures, degenerate: Degenerate) -> Assessment {
    let text = format!("the launches' values carry no test: {degenerate}");
    Assessment::settled(figures, Verdict::Invalid, "no-variance", text)
}

/// Fills base, head, change, the repeated interval and the smallest effect.
fn describe_change(
    rules: &Rules<'_>,
    view: &View<'_, '_>,
    scale: Scale,
    e: &Estimate,
    margin: f64,
    figures: &mut Figures,
) {
    let sides = sides(view, scale);
    let middle = match &sides.sessions {
        Some(means) => stats::mean(means),
        None => stats::mean(&sides.base),
    };
    figures.base = middle.map(|y| scale.back(y));
    figures.head = stats::mean(&sides.head).map(|y| scale.back(y));
    let level = rules.looks().level(INTERVAL_ALPHA / 2.0, view.scope.looked);
    let (low, high) = e.interval(1.0 - 2.0 * level);
    figures.change = Some(e.est.exp_m1());
    figures.interval = Some((low.exp_m1(), high.exp_m1()));
    figures.smallest_effect = smallest_effect(rules, view.scope.looked, (e.se, e.df), margin);
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

/// Whether the noise is to blame for what stays open: by what the launches could find where no more will come,
/// before by the first look's forecast.
fn noise(
    rules: &Rules<'_>,
    view: &View<'_, '_>,
    trail: &Trail,
    figures: &Figures,
    ceiling: f64,
) -> Option<String> {
    let has_ended = rules.record.ending != Ending::Unfinished;
    match figures.smallest_effect {
        Some(effect) if has_ended || view.is_exhausted() => {
            too_noisy(&figures.behind(), effect, ceiling)
        }
        _ => trail.too_noisy().map(str::to_owned),
    }
}

fn tested(
    view: &View<'_, '_>,
    advice: Option<String>,
    figures: Figures,
    (margin, ceiling): (f64, f64),
) -> Assessment {
    let say = |sentence: &dyn Fn() -> String| view.scope.say(sentence);
    let tested = Tested {
        rule: "regression",
        subject: say(&|| subject(view, &figures)),
        beyond: say(&|| format!("beyond the margin of {}", words::percent(margin))),
        within: say(&|| format!("below the ceiling of {}", words::percent(ceiling))),
        behind: say(&|| figures.behind()),
        advice,
        wants: (!view.is_exhausted()).then(|| view.wants()),
    };
    Assessment {
        figures,
        finding: Finding::Tested(tested),
    }
}

fn subject(view: &View<'_, '_>, figures: &Figures) -> String {
    let check = view.case.check;
    let label = name_of(check);
    match (figures.base, figures.head, figures.change, figures.interval) {
        (Some(base), Some(head), Some(change), Some(interval)) => {
            let values = words::change(check.metric, base, head);
            format!(
                "{label} {values}: {}",
                words::signed_percents(change, interval)
            )
        }
        _ => label,
    }
}
