//! Base against head on one check as it stands, with no verdict: for a search that has a question of its own.
//!
//! Main function: [`contrast`]. The rules by which a measurement is broken are those of every verdict; margins,
//! looks and error budgets have no say. Refuses to know: what the numbers are asked for.

use super::assessment::Figures;
use super::rules;
use super::test_kind::{TestKind, test_kind};
use super::view::{View, values};
use super::{Checked, Rules, whole};
use crate::plan::Plan;
use crate::record::{Arm, CheckVerdict, Facts, Reason, RuleId, RunRecord, Verdict};
use crate::stats::{self, Degenerate, Estimate, Scale};

/// What both arms read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contrast {
    /// In the metric's unit: the geometric mean over launches for a time, else their mean.
    pub base: f64,
    pub head: f64,
    /// ln(head / base) with its sign turned so that positive is worse; `None` where each arm's value is exact.
    pub loss: Option<Estimate>,
    /// +1 where a loss is a rise of the metric, −1 where it is a fall.
    pub sign: f64,
}

/// Why there is no contrast.
#[derive(Clone, Debug, PartialEq)]
pub enum Unsound {
    /// Nothing yet that could be compared.
    TooFew,
    /// By the rule of this verdict; [`Verdict::Fail`] where head failed to answer and base did not.
    By(Box<CheckVerdict>),
    /// The launches' values carry no test.
    NoTest(Degenerate),
}

/// The contrast of the check with this id, over all sound launches of the record so far.
///
/// # Errors
/// [`Unsound`]; a check that the plan does not have is too few.
pub fn contrast(plan: &Plan, record: &RunRecord, id: &str) -> Result<Contrast, Unsound> {
    let rules = Rules::new(plan, record);
    let case = Checked::case(&rules, id).ok_or(Unsound::TooFew)?;
    let (case, scope) = whole(&rules, case, &plan.design.looks);
    let by = |verdict, reason| {
        let check = Figures::default().verdict(case.check, verdict, reason);
        Err(Unsound::By(Box::new(check)))
    };
    let view = View::new(&case, &scope, record);
    if let Some(found) = rules::find(&rules, &view) {
        return by(found.verdict, found.reason);
    }
    let arm = |arm| values(case.of(arm).kept.iter());
    let (base, head) = (arm(Arm::Base), arm(Arm::Head));
    if base.is_empty() || head.is_empty() {
        return Err(Unsound::TooFew);
    }
    let worse = case.check.metric.direction().sign();
    // Not the check's own test: a limit may have none that is relative.
    match test_kind(case.check.metric) {
        TestKind::Timed(Scale::Log) if base.iter().chain(&head).any(|&v| v <= 0.0) => {
            let reason = Reason::new(RuleId::NoRelativeScale, Facts::None);
            by(Verdict::Inconclusive, reason)
        }
        TestKind::Timed(scale) => timed(&base, &head, scale, worse),
        TestKind::Exact | TestKind::Share => match (constant(&base), constant(&head)) {
            (Some(base), Some(head)) => Ok(Contrast {
                base,
                head,
                loss: None,
                sign: worse,
            }),
            _ => timed(&base, &head, Scale::Log, worse),
        },
    }
}

fn timed(base: &[f64], head: &[f64], scale: Scale, sign: f64) -> Result<Contrast, Unsound> {
    let on_scale = |values: &[f64]| values.iter().map(|&v| scale.forward(v)).collect::<Vec<_>>();
    let (base, head) = (on_scale(base), on_scale(head));
    if base.len().min(head.len()) < 2 {
        return Err(Unsound::TooFew);
    }
    let loss = stats::welch(&head, &base).map_err(Unsound::NoTest)?;
    let back = |values: &[f64]| stats::mean(values).map_or(f64::NAN, |y| scale.back(y));
    Ok(Contrast {
        base: back(&base),
        head: back(&head),
        loss: Some(Estimate {
            est: sign * loss.est,
            ..loss
        }),
        sign,
    })
}

fn constant(values: &[f64]) -> Option<f64> {
    let first = *values.first()?;
    let same = |v: &f64| v.to_bits() == first.to_bits();
    values.iter().all(same).then_some(first)
}
