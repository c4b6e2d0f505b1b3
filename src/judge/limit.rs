//! Absolute rules on metrics that vary: head's launch values against a limit, by the one-sample t.

use super::Rules;
use super::assessment::{Assessment, Figures, Finding, Tested};
use super::timed::{INTERVAL_ALPHA, no_t, too_few};
use super::trail::Trail;
use super::treatment::Scale;
use super::view::{View, values};
use super::words::{self, label};
use crate::record::Arm;
use crate::stats;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Ceiling,
    Floor,
}

impl Side {
    /// Name of the rule, and words for breaking and for keeping it.
    pub(super) fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Ceiling => ("ceiling", "above", "below"),
            Self::Floor => ("floor", "below", "above"),
        }
    }
}

/// One-sample t of head's launch values against a limit.
pub(super) fn assess(
    rules: &Rules<'_>,
    view: &View<'_, '_>,
    scale: Scale,
    trail: &mut Trail,
    side: Side,
    limit: f64,
) -> Assessment {
    let on_scale = |arm| -> Vec<f64> {
        values(view.looked_at(arm))
            .into_iter()
            .map(|v| scale.forward(v))
            .collect()
    };
    let (base, head) = (on_scale(Arm::Base), on_scale(Arm::Head));
    let mut figures = Figures::of(view).with_launches(base.len(), head.len());
    let middle = |values: &[f64]| stats::mean(values).map(|y| scale.back(y));
    (figures.base, figures.head) = (middle(&base), middle(&head));
    if let Some(assessment) = too_few(view, head.len()) {
        return assessment;
    }
    let e = match stats::one_sample(&head) {
        Ok(e) => e,
        Err(degenerate) => return no_t(figures, degenerate),
    };
    let (low, high) = e.interval(1.0 - INTERVAL_ALPHA / rules.looks());
    figures.interval = Some((scale.back(low), scale.back(high)));
    let at = scale.forward(limit);
    match side {
        Side::Ceiling => trail.look(rules, view, e.p_greater(at), e.p_less(at)),
        Side::Floor => trail.look(rules, view, e.p_less(at), e.p_greater(at)),
    }
    trail.write(&mut figures);
    let tested = absolute_words(view, &figures, side, limit);
    Assessment {
        figures,
        finding: Finding::Tested(tested),
    }
}

fn absolute_words(view: &View<'_, '_>, figures: &Figures, side: Side, limit: f64) -> Tested {
    let check = view.case.check;
    let (rule, broken, kept) = side.words();
    let (low, high) = figures.interval.unwrap_or((f64::NAN, f64::NAN));
    let subject = format!(
        "{} {} [{}, {}]{}",
        label(check.metric, check.statistic),
        words::value(check.metric, figures.head.unwrap_or(f64::NAN)),
        words::bare(check.metric, low),
        words::bare(check.metric, high),
        figures.base.map_or(String::new(), |b| format!(
            " (base {})",
            words::value(check.metric, b)
        ))
    );
    let limit = words::value(check.metric, limit);
    Tested {
        rule,
        subject,
        beyond: format!("{broken} the {rule} of {limit}"),
        within: format!("{kept} the {rule} of {limit}"),
        behind: words::count(figures.launches.1 as usize, "launch"),
        advice: None,
        wants: (!view.is_exhausted()).then(|| view.wants()),
    }
}
