//! Metrics that vary from launch to launch: Welch's, the paired and the one-sample t, and the change of a share of requests,
//! at looks; main's stored sessions, which advise.

use super::Rules;
use super::assessment::{Assessment, Figures, Finding, Tested, no_t, too_few};
use super::evidence::Reading;
use super::limit;
use super::sequential::{INTERVAL_ALPHA, Look, PastLooks, smallest_effect, too_noisy};
use super::test_kind::TestKind;
use super::view::{Case, View, values};
use crate::metrics::LaunchMeasure;
use crate::plan::Rule;
use crate::record::{
    Advice, Arm, Comparison, Direction, Ending, Facts, Hypothesis, Limit, Metric, Remark, RuleId,
    StoredSessions,
};
use crate::stats::{self, Degenerate, Estimate, PriorVariance, Scale, Trials};

/// Launch values on the scale of the test, block by block.
struct Sides {
    base: Vec<f64>,
    head: Vec<f64>,
    /// The values of both arms are of the same blocks, in order.
    is_in_blocks: bool,
    /// Requests of base's and head's launches, where the values are shares of them.
    requests: Option<(Vec<Trials>, Vec<Trials>)>,
}

impl Sides {
    fn estimate(&self, case: &Case<'_>) -> Result<Estimate, Degenerate> {
        let Self { base, head, .. } = self;
        if let Some((base, head)) = &self.requests {
            return stats::change_of_share(head, base);
        }
        let prior = case.noise.map(|noise| PriorVariance {
            variance: noise.sd.powi(2),
            df: noise.df,
        });
        match (prior, case.is_paired()) {
            (_, true) if !self.is_in_blocks => stats::welch(head, base),
            (Some(prior), true) => stats::moderated_paired(head, base, prior),
            (None, true) => stats::paired(head, base),
            (Some(prior), false) => stats::moderated_welch(head, base, prior),
            (None, false) => stats::welch(head, base),
        }
    }
}

/// Judges a check by t on `scale`.
pub fn assess(
    rules: &Rules<'_>,
    view: &View<'_, '_>,
    scale: Scale,
    trail: &mut PastLooks,
) -> Assessment {
    match view.case.check.rule {
        Rule::Regression { .. } if view.comparison.is_recording() => no_base(view),
        Rule::Regression { .. } if view.comparison == Comparison::Stored => advise(view, scale),
        Rule::Regression { margin, ceiling } => {
            regression(rules, view, scale, trail, (margin, ceiling))
        }
        Rule::Ceiling { limit } => limit::assess(view, scale, trail, Limit::ceiling(limit)),
        Rule::Floor { limit } => limit::assess(view, scale, trail, Limit::floor(limit)),
    }
}

/// A regression check of a session that has no base.
pub fn no_base(view: &View<'_, '_>) -> Assessment {
    let anchored = view.comparison == Comparison::Anchored;
    let facts = Facts::NoBase { anchored };
    Assessment::never(Figures::of(view), RuleId::NoBase, facts)
}

/// A check whose stored base is too small.
pub fn no_stored_base(view: &View<'_, '_>, stored: &StoredSessions) -> Assessment {
    let facts = Facts::NoStoredBase(stored.clone());
    Assessment::never(Figures::of(view), RuleId::NoStoredBase, facts)
}

fn regression(
    rules: &Rules<'_>,
    view: &View<'_, '_>,
    scale: Scale,
    trail: &mut PastLooks,
    (margin, ceiling): (f64, f64),
) -> Assessment {
    let [base, head] = [Arm::Base, Arm::Head].map(|arm| view.of(arm).looked());
    if let Some(assessment) = too_few(view, head.min(base)) {
        return assessment;
    }
    let direction = view.case.check.metric.direction();
    let (m, c) = (direction.loss(margin), direction.loss(ceiling));
    let Look {
        estimate,
        mut figures,
    } = trail.latest(view.scope, || {
        let figures = Figures::of(view).with_launches(base, head);
        look(view, scale, m, figures)
    });
    let e = match estimate {
        Ok(e) => e,
        // Of finite values: one at or below 0 has no logarithm.
        Err(Degenerate::NotFinite) if scale == Scale::Log => {
            return Assessment::never(figures, RuleId::NoRelativeScale, Facts::None);
        }
        Err(degenerate) => return no_t(figures, degenerate),
    };
    let is_worse = is_worse(&figures, margin, direction);
    if view.scope.is_look {
        let loss = loss(&e, direction);
        let (budgets, blocks) = (&view.case.budgets, view.scope.looked);
        let p_fail = budgets.paid_failure(loss.p_greater(m), loss.est, base.min(head), blocks);
        // A change beyond the margin may also be below the ceiling: it does not pass, and waits for a look that can fail it.
        let p_pass = match is_worse {
            true => 1.0,
            false => budgets.pass.paid(loss.p_less(c), blocks),
        };
        if is_worse || loss.est > c {
            trail.withdraw_pass();
        }
        trail.look(view, (p_fail, p_pass), &figures);
        trail.foretell(view, &loss, (m, c), head);
    }
    trail.write(&mut figures);
    if is_better(&figures, margin, direction) {
        figures.remarks.push(Remark::Better { is_exact: false });
    }
    let beyond = is_worse.then(|| beyond(view));
    let tested = Tested {
        rule: RuleId::Regression,
        hypothesis: Hypothesis::Change { margin, ceiling },
        is_smallest: view.case.budgets.is_smallest(
            figures.p_fail.unwrap_or(1.0),
            base.min(head),
            view.scope.looked,
        ),
        advice: beyond.or_else(|| noise(rules, view, trail, &figures, ceiling)),
        wants: (!view.is_exhausted()).then(|| view.wants()),
        passed: trail.passed().map(|mut passed| {
            passed.remarks.clear();
            if is_better(&passed, margin, direction) {
                passed.remarks.push(Remark::Better { is_exact: false });
            }
            passed
        }),
    };
    Assessment::new(figures, Finding::Tested(tested))
}

/// The estimate with its sign turned so that more is worse.
fn loss(change: &Estimate, direction: Direction) -> Estimate {
    match direction {
        Direction::LowerIsBetter => *change,
        Direction::HigherIsBetter => Estimate {
            est: -change.est,
            ..*change
        },
    }
}

fn sides(case: &Case<'_>, scale: Scale, base: &[&Reading<'_>], head: &[&Reading<'_>]) -> Sides {
    let blocks = |of: &[&Reading<'_>]| -> Vec<u32> {
        of.iter().map(|reading| reading.launch.block).collect()
    };
    let of = |of: &[&Reading<'_>]| on_scale(&values(of.iter().copied()), scale);
    let is_share = case.check.metric == Metric::Goodput;
    Sides {
        base: of(base),
        head: of(head),
        is_in_blocks: blocks(base) == blocks(head),
        requests: is_share.then(|| (requests(base), requests(head))),
    }
}

/// By how much head is worse over all launches, those of dropped blocks too, as the check's own test sees it.
pub fn loss_with_dropped(view: &View<'_, '_>) -> Result<Estimate, Degenerate> {
    let scale = match view.case.test_kind {
        TestKind::Timed(scale) => scale,
        TestKind::Exact | TestKind::Share => Scale::Log,
    };
    let of = |arm| -> Vec<&Reading<'_>> {
        let evidence = view.of(arm);
        let mut all: Vec<&Reading<'_>> = evidence.looked_at().chain(&evidence.dropped).collect();
        all.retain(|reading| reading.measure.is_ok());
        all.sort_by_key(|reading| reading.launch.position);
        all
    };
    let (base, head) = (of(Arm::Base), of(Arm::Head));
    let change = sides(view.case, scale, &base, &head).estimate(view.case)?;
    Ok(loss(&change, view.case.check.metric.direction()))
}

fn looked_at(view: &View<'_, '_>, scale: Scale, arm: Arm) -> Vec<f64> {
    on_scale(&values(view.of(arm).looked_at()), scale)
}

fn on_scale(values: &[f64], scale: Scale) -> Vec<f64> {
    values.iter().map(|v| scale.forward(*v)).collect()
}

/// What main's stored sessions let one expect of head, which neither passes nor fails: a step of the machine since then
/// looks like a change of the engine, and hides one. One look: more launches of head see no other day.
fn advise(view: &View<'_, '_>, scale: Scale) -> Assessment {
    let stored = match &view.case.stored {
        Ok(stored) => stored,
        Err(stored) => return no_stored_base(view, stored),
    };
    let launches = view.of(Arm::Head).looked();
    if let Some(assessment) = too_few(view, launches) {
        return assessment;
    }
    let sessions = stored.sessions.iter();
    let means: Vec<f64> = sessions
        .filter_map(|values| stats::mean(&on_scale(values, scale)))
        .collect();
    let head = stats::mean(&looked_at(view, scale, Arm::Head)).unwrap_or(f64::NAN);
    let mut figures = Figures::of(view).with_launches(stored.values.n, launches);
    let sessions = means.len();
    let advice =
        |figures| Assessment::never(figures, RuleId::StoredBase, Facts::StoredBase { sessions });
    figures.base = stats::mean(&means).map(|y| scale.back(y));
    figures.head = Some(scale.back(head));
    let e = match stats::prediction(head, &means) {
        Ok(e) => e,
        // Sessions that never varied give no interval.
        Err(Degenerate::NoVariance) => return advice(figures),
        Err(Degenerate::NotFinite) if scale == Scale::Log => {
            return Assessment::never(figures, RuleId::NoRelativeScale, Facts::None);
        }
        Err(degenerate) => return no_t(figures, degenerate),
    };
    let (low, high) = e.interval(1.0 - INTERVAL_ALPHA);
    figures.change = Some(e.est.exp_m1());
    figures.interval = Some((low.exp_m1(), high.exp_m1()));
    advice(figures)
}

/// The launches' requests, and how many of them count in the share that is the launch's value.
fn requests(readings: &[&Reading<'_>]) -> Vec<Trials> {
    let measured = readings.iter().filter_map(|r| r.measure.as_ref().ok());
    let of = |measure: &LaunchMeasure| {
        let n = f64::from(measure.samples);
        let successes = (measure.value * n).round();
        Trials { successes, n }
    };
    measured.map(of).collect()
}

/// Successes out of all trials.
fn share(trials: &[Trials]) -> Option<f64> {
    let n: f64 = trials.iter().map(|t| t.n).sum();
    (n > 0.0).then(|| trials.iter().map(|t| t.successes).sum::<f64>() / n)
}

/// The estimate, and into the figures base, head, change, the repeated interval and the smallest effect.
fn look(view: &View<'_, '_>, scale: Scale, margin: f64, mut figures: Figures) -> Look {
    let of = |arm| -> Vec<&Reading<'_>> { view.of(arm).looked_at().collect() };
    let sides = sides(view.case, scale, &of(Arm::Base), &of(Arm::Head));
    let estimate = sides.estimate(view.case);
    let Ok(e) = &estimate else {
        return Look { estimate, figures };
    };
    figures.base = stats::mean(&sides.base).map(|y| scale.back(y));
    figures.head = stats::mean(&sides.head).map(|y| scale.back(y));
    if let Some((base, head)) = &sides.requests {
        (figures.base, figures.head) = (share(base), share(head));
    }
    let budgets = &view.case.budgets;
    let level = budgets.pass.level(INTERVAL_ALPHA / 2.0, view.scope.looked);
    let (low, high) = e.interval(1.0 - 2.0 * level);
    figures.change = Some(e.est.exp_m1());
    figures.interval = Some((low.exp_m1(), high.exp_m1()));
    figures.smallest_effect = smallest_effect(
        budgets,
        view.scope.looked,
        (e.se, e.df),
        (margin, view.case.check.metric.direction()),
    );
    if view.comparison == Comparison::SameBuild {
        figures.remarks.push(Remark::SameBuild);
    }
    Look { estimate, figures }
}

/// A gain beyond the margin is as much of a surprise as a loss.
fn is_better(figures: &Figures, margin: f64, direction: Direction) -> bool {
    figures.interval.is_some_and(|(low, high)| match direction {
        Direction::LowerIsBetter => high < -margin,
        Direction::HigherIsBetter => low > margin,
    })
}

/// True if the repeated interval lies beyond the margin.
fn is_worse(figures: &Figures, margin: f64, direction: Direction) -> bool {
    figures.interval.is_some_and(|(low, high)| match direction {
        Direction::LowerIsBetter => low > margin,
        Direction::HigherIsBetter => high < -margin,
    })
}

/// Why a change beyond the margin has not failed.
fn beyond(view: &View<'_, '_>) -> Advice {
    let blocks = view.case.budgets.fail.first();
    match blocks.is_none_or(|first| view.scope.looked < first) {
        true => Advice::FewLaunches { blocks },
        false => Advice::NotShown,
    }
}

/// Whether the noise is to blame for what stays open: by what the launches could find where no more will come,
/// before by the first look's forecast.
fn noise(
    rules: &Rules<'_>,
    view: &View<'_, '_>,
    trail: &PastLooks,
    figures: &Figures,
    ceiling: f64,
) -> Option<Advice> {
    let has_ended = rules.record.ending != Ending::Unfinished;
    match figures.smallest_effect {
        Some(effect) if has_ended || view.is_exhausted() => too_noisy(None, effect, ceiling),
        _ => trail.too_noisy(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Direction, Figures, is_worse};

    #[test]
    fn a_rate_is_beyond_the_margin_where_it_falls_by_more() {
        let of = |direction, interval| {
            let figures = Figures {
                interval: Some(interval),
                ..Figures::default()
            };
            is_worse(&figures, 0.2, direction)
        };
        assert!(of(Direction::HigherIsBetter, (-0.22, -0.21)));
        assert!(!of(Direction::HigherIsBetter, (-0.22, -0.19)));
        assert!(of(Direction::LowerIsBetter, (0.21, 0.22)));
        assert!(!of(Direction::LowerIsBetter, (0.19, 0.22)));
    }
}
