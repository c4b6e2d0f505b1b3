//! Absolute rules on metrics that vary: head's launch values against a limit, by the one-sample t.

use super::Rules;
use super::assessment::{Assessment, Figures, Finding, Tested};
use super::timed::{INTERVAL_ALPHA, no_t, too_few};
use super::trail::Trail;
use super::view::{View, values};
use super::words::{self, name_of};
use crate::plural::count;
use crate::record::Arm;
use crate::stats::{self, Scale};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Ceiling,
    Floor,
}

impl Side {
    /// Name of the rule, and words for breaking and for keeping it.
    pub fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Ceiling => ("ceiling", "above", "below"),
            Self::Floor => ("floor", "below", "above"),
        }
    }
}

/// One-sample t of head's launch values against a limit.
pub fn assess(
    rules: &Rules<'_>,
    view: &View<'_, '_>,
    scale: Scale,
    trail: &mut Trail,
    side: Side,
    limit: f64,
) -> Assessment {
    let on_scale = |arm| -> Vec<f64> {
        let values = values(view.of(arm).looked_at()).into_iter();
        values.map(|v| scale.forward(v)).collect()
    };
    if let Some(assessment) = too_few(view, view.of(Arm::Head).looked()) {
        return assessment;
    }
    let estimate = trail.estimate(view.scope, || stats::one_sample(&on_scale(Arm::Head)));
    let mut figures = Figures::of(view);
    if view.scope.is_told {
        let (base, head) = (on_scale(Arm::Base), on_scale(Arm::Head));
        figures = figures.with_launches(base.len(), head.len());
        let middle = |values: &[f64]| stats::mean(values).map(|y| scale.back(y));
        (figures.base, figures.head) = (middle(&base), middle(&head));
    }
    let e = match estimate {
        Ok(e) => e,
        Err(degenerate) => return no_t(figures, degenerate),
    };
    if view.scope.is_told {
        let level = rules.looks().level(INTERVAL_ALPHA / 2.0, view.scope.looked);
        let (low, high) = e.interval(1.0 - 2.0 * level);
        figures.interval = Some((scale.back(low), scale.back(high)));
    }
    if view.scope.is_look {
        let at = scale.forward(limit);
        match side {
            Side::Ceiling => trail.look(rules, view.scope, e.p_greater(at), e.p_less(at)),
            Side::Floor => trail.look(rules, view.scope, e.p_less(at), e.p_greater(at)),
        }
    }
    trail.write(&mut figures);
    let tested = absolute_words(view, &figures, side, limit);
    Assessment {
        figures,
        finding: Finding::Tested(tested),
    }
}

fn absolute_words(view: &View<'_, '_>, figures: &Figures, side: Side, limit: f64) -> Tested {
    let metric = view.case.check.metric;
    let (rule, broken, kept) = side.words();
    let say = |sentence: &dyn Fn() -> String| view.scope.say(sentence);
    Tested {
        rule,
        subject: say(&|| subject(view, figures)),
        beyond: say(&|| format!("{broken} the {rule} of {}", words::value(metric, limit))),
        within: say(&|| format!("{kept} the {rule} of {}", words::value(metric, limit))),
        behind: say(&|| count(figures.launches.1, "launch")),
        advice: None,
        wants: (!view.is_exhausted()).then(|| view.wants()),
    }
}

fn subject(view: &View<'_, '_>, figures: &Figures) -> String {
    let check = view.case.check;
    let (low, high) = figures.interval.unwrap_or((f64::NAN, f64::NAN));
    format!(
        "{} {} [{}, {}]{}",
        name_of(check),
        words::value(check.metric, figures.head.unwrap_or(f64::NAN)),
        words::bare(check.metric, low),
        words::bare(check.metric, high),
        figures.base.map_or(String::new(), |b| format!(
            " (base {})",
            words::value(check.metric, b)
        ))
    )
}
