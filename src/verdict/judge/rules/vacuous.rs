//! Rule `vacuous`: a count that is zero in every launch, or requests that all fail, show nothing.

use super::super::evidence::{Evidence, Reading, Values};
use super::super::view::View;
use super::finding::{Finding, invalid};
use crate::judge::test_kind::{is_never_zero, zero_is_vacuous};
use crate::record::{Arm, Facts, Metric, RuleId};

pub fn vacuous(view: &View<'_, '_>) -> Option<Finding> {
    if view.case.check.metric == Metric::FailedRequests {
        return all_failed(view);
    }
    if !zero_is_vacuous(view.case.check.metric, view.is_regression()) {
        return None;
    }
    // A limit is head's alone: that base's gauge lives bounds nothing in head.
    let seen = || view.arms().iter().map(|&arm| &view.of(arm).values);
    let launches: usize = seen().map(|values| values.n).sum();
    if launches > 0 && seen().all(Values::are_zero) {
        let arm = None;
        return invalid(RuleId::Vacuous, Facts::Zeros { arm, launches });
    }
    if !is_never_zero(view.case.check.metric) {
        return None;
    }
    let arms = view.arms().iter().copied();
    let mut dead = arms.map(|arm| (arm, &view.of(arm).values));
    let (arm, values) = dead.find(|(_, values)| values.n > 0 && values.are_zero())?;
    let (arm, launches) = (Some(arm), values.n);
    invalid(RuleId::Vacuous, Facts::Zeros { arm, launches })
}

/// A comparison of arms in which no request succeeds.
fn all_failed(view: &View<'_, '_>) -> Option<Finding> {
    let fails = |evidence: &Evidence<'_>| {
        let mut kept = evidence.kept.iter();
        !evidence.kept.is_empty() && kept.all(|reading| fails_whole(view, reading))
    };
    let compares = view.is_regression() && view.arms().contains(&Arm::Base);
    if !compares || !view.arms().iter().all(|&arm| fails(view.of(arm))) {
        return None;
    }
    let of_head = view.of(Arm::Head).kept.first()?.measure.as_ref().ok()?;
    let facts = Facts::AllFailed {
        launches: view.arms().iter().map(|&arm| view.of(arm).kept.len()).sum(),
        head: of_head.remarks.join("; "),
    };
    invalid(RuleId::Vacuous, facts)
}

/// True if every request of the launch failed. One that was answered when it was sent again did not.
fn fails_whole(view: &View<'_, '_>, reading: &Reading<'_>) -> bool {
    let client = reading.launch.client(&view.case.workload.id);
    let resent = client.map_or(0.0, |client| f64::from(client.resent));
    let measure = reading.measure.as_ref();
    measure.is_ok_and(|m| m.value - resent >= f64::from(m.samples))
}
