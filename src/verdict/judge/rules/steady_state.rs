//! Rule `not-steady`: values that drift within a launch, since the warm-up is too short.

use super::super::evidence::Reading;
use super::super::view::{Unsteady, View};
use super::finding::{Finding, invalid};
use crate::plan::WorkloadKind;
use crate::record::{Arm, Facts, MetricKind, Reason, RuleId};
use crate::stats;

/// Within-launch drift beyond this, and …
const STEADY_DRIFT: f64 = 0.02;
/// Beyond this in a comparison whose arms get faster alike: both values move by the same.
const ALIKE_DRIFT: f64 = 0.05;
/// … this sure, is no steady state.
const STEADY_P: f64 = 0.001;
/// Arms that drift apart with a smaller p than this do not fail: a failure is not surer than its measurement.
const APART_P: f64 = 0.05;

/// Mean over launches of the shift from a launch's first third to its last, in logarithms, per arm that the check reads and
/// of both. Only for requests of one shape: a conversation's turns are meant to differ. How much launches differ in
/// it is taken from all arms together.
pub fn unsteady(view: &View<'_, '_>) -> Option<Unsteady> {
    let drifts = Drifts::of(view, |reading| reading.drift)?;
    // In a comparison both arms' users begin at once; arms that drift otherwise may not be of the same.
    let drifts = match drifts.apart() {
        Some((apart, _)) if apart.abs() <= STEADY_DRIFT => {
            Drifts::of(view, |reading| reading.later_drift)?
        }
        _ => drifts,
    };
    let are_alike = drifts
        .apart()
        .is_some_and(|(apart, _)| apart.abs() <= STEADY_DRIFT);
    let arms = view.arms().iter().copied().map(Some).chain([None]);
    arms.into_iter().find_map(|arm| {
        let (drift, n) = drifts.mean(arm)?;
        let most = match are_alike && drift < 0.0 {
            true => ALIKE_DRIFT,
            false => STEADY_DRIFT,
        };
        let is_clear = drift.abs() > most && drifts.p(drift, 1.0 / n) < STEADY_P;
        is_clear.then_some(Unsteady { arm, drift })
    })
}

/// Head's drift, where it gets faster within a launch than base does, and by how much: as much of a difference between the
/// arms may be a longer warm-up. A head that gets slower is a slower head.
pub fn drifts_apart(view: &View<'_, '_>) -> Option<(Reason, f64)> {
    let drifts = Drifts::of(view, |reading| reading.drift)?;
    let (head, _) = drifts.mean(Some(Arm::Head))?;
    let (apart, p) = drifts.apart()?;
    let is_so = apart < -STEADY_DRIFT && p < APART_P;
    let facts = Facts::Drift {
        arm: Some(Arm::Head),
        drift: head,
    };
    is_so.then(|| (Reason::new(RuleId::NotSteady, facts), apart.abs()))
}

/// Drifts within the launches that the latest look reads.
struct Drifts {
    /// Base's and head's, of those arms that the check reads.
    arms: Vec<(Arm, Vec<f64>)>,
    variance: f64,
    df: f64,
}

impl Drifts {
    fn of(view: &View<'_, '_>, drift: impl Fn(&Reading<'_>) -> Option<f64> + Copy) -> Option<Self> {
        let case = view.case;
        let timed = case.check.metric.kind() == MetricKind::Latency;
        if !timed || !matches!(case.workload.kind, WorkloadKind::Steady(_)) {
            return None;
        }
        let of = |arm| case.of(arm).looked_at().filter_map(drift).collect();
        let arms: Vec<(Arm, Vec<f64>)> = view.arms().iter().map(|&arm| (arm, of(arm))).collect();
        let squares = arms.iter().filter_map(|(_, drifts)| {
            let df = (drifts.len().max(1) - 1) as f64;
            Some((stats::variance(drifts)? * df, df))
        });
        let (squares, df) = squares.fold((0.0, 0.0), |(s, d), (square, df)| (s + square, d + df));
        Some(Self {
            arms,
            variance: squares / df,
            df,
        })
    }

    /// Mean of an arm's drifts, or of all, and their number.
    fn mean(&self, arm: Option<Arm>) -> Option<(f64, f64)> {
        let mine = self
            .arms
            .iter()
            .filter(|(of, _)| arm.is_none_or(|arm| arm == *of));
        let all: Vec<f64> = mine.flat_map(|(_, drifts)| drifts).copied().collect();
        Some((stats::mean(&all)?, all.len() as f64))
    }

    /// Head's mean less base's, and the two-sided p that it is none; `None` where one arm is not read.
    fn apart(&self) -> Option<(f64, f64)> {
        let (base, m) = self.mean(Some(Arm::Base))?;
        let (head, n) = self.mean(Some(Arm::Head))?;
        let apart = head - base;
        Some((apart, self.p(apart, 1.0 / n + 1.0 / m)))
    }

    /// Two-sided p that a mean is not zero whose variance is so many times a launch's. 1 where nothing tells how much
    /// launches differ.
    fn p(&self, mean: f64, share: f64) -> f64 {
        match self.variance * share {
            square if square > 0.0 => stats::t_p(mean.abs() / square.sqrt(), self.df) * 2.0,
            square if square >= 0.0 && self.df > 0.0 => 0.0,
            _ => 1.0,
        }
    }
}

pub fn not_steady(view: &View<'_, '_>) -> Option<Finding> {
    let Unsteady { arm, drift } = view.case.unsteady?;
    invalid(RuleId::NotSteady, Facts::Drift { arm, drift })
}
