//! Absolute rules on metrics that vary: head's launch values against a limit, by the one-sample t.

use super::assessment::{Assessment, Figures, Finding, Tested, no_t, too_few};
use super::error_budget::Budgets;
use super::sequential::{INTERVAL_ALPHA, Look, PastLooks};
use super::view::{View, values};
use crate::record::{Arm, Hypothesis, Limit, Side};
use crate::stats::{self, Scale};

/// One-sample t of head's launch values against a limit.
pub fn assess(
    view: &View<'_, '_>,
    scale: Scale,
    trail: &mut PastLooks,
    limit: Limit,
) -> Assessment {
    if let Some(assessment) = too_few(view, view.of(Arm::Head).looked()) {
        return assessment;
    }
    let Look {
        estimate,
        mut figures,
    } = trail.latest(view.scope, || look(view, scale));
    let e = match estimate {
        Ok(e) => e,
        Err(degenerate) => return no_t(figures, degenerate),
    };
    if view.scope.is_look {
        let at = scale.forward(limit.value);
        let (p_fail, p_pass) = match limit.side {
            Side::Ceiling => (e.p_greater(at), e.p_less(at)),
            Side::Floor => (e.p_less(at), e.p_greater(at)),
        };
        // An earlier look's pass no longer holds.
        if p_fail < 0.5 {
            trail.withdraw_pass();
        }
        let Budgets { fail, pass, .. } = &view.case.budgets;
        let blocks = view.scope.looked;
        let paid = (fail.paid(p_fail, blocks), pass.paid(p_pass, blocks));
        trail.look(view, paid, &figures);
    }
    trail.write(&mut figures);
    let tested = Tested {
        rule: limit.rule(),
        hypothesis: Hypothesis::Limit(limit),
        is_smallest: false,
        advice: None,
        wants: (!view.is_exhausted()).then(|| view.wants()),
        passed: trail.passed().map(|mut passed| {
            passed.remarks.clear();
            passed
        }),
    };
    Assessment::new(figures, Finding::Tested(tested))
}

/// Head's mean with its repeated interval, and base's mean beside it.
fn look(view: &View<'_, '_>, scale: Scale) -> Look {
    let on_scale = |arm| -> Vec<f64> {
        let values = values(view.of(arm).looked_at()).into_iter();
        values.map(|v| scale.forward(v)).collect()
    };
    let (base, head) = (on_scale(Arm::Base), on_scale(Arm::Head));
    let mut figures = Figures::of(view).with_launches(base.len(), head.len());
    let middle = |values: &[f64]| stats::mean(values).map(|y| scale.back(y));
    (figures.base, figures.head) = (middle(&base), middle(&head));
    let estimate = stats::one_sample(&head);
    if let Ok(e) = &estimate {
        let budget = &view.case.budgets.pass;
        let level = budget.level(INTERVAL_ALPHA / 2.0, view.scope.looked);
        let (low, high) = e.interval(1.0 - 2.0 * level);
        figures.interval = Some((scale.back(low), scale.back(high)));
    }
    Look { estimate, figures }
}
