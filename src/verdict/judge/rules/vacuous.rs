//! Rule `vacuous`: a count that is zero in every launch shows nothing.

use super::super::evidence::Values;
use super::super::view::View;
use super::finding::{Finding, invalid};
use crate::judge::test_kind::zero_is_vacuous;
use crate::record::{Facts, RuleId};

pub fn vacuous(view: &View<'_, '_>) -> Option<Finding> {
    if !zero_is_vacuous(view.case.check.metric, view.is_regression()) {
        return None;
    }
    // A limit is head's alone: that base's gauge lives bounds nothing in head.
    let seen = || view.arms().iter().map(|&arm| &view.of(arm).values);
    let launches: usize = seen().map(|values| values.n).sum();
    if launches == 0 || !seen().all(Values::are_zero) {
        return None;
    }
    invalid(RuleId::Vacuous, Facts::Zeros { launches })
}
