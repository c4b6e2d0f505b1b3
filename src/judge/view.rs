//! What one check reads: its launches, measured once, and those of them that a scope lets in.

use super::session::Scope;
use super::treatment::{Treatment, treatment};
use crate::metrics::{self, LaunchMeasure, Undefined, is_in_part};
use crate::plan::{Check, Gate, Rule, Workload};
use crate::record::{Arm, Comparison, Launch, Metric, Phase, RunRecord, Sample};
use std::collections::BTreeMap;

/// A check with the value that every clean launch gives it.
pub(super) struct Case<'a> {
    pub(super) check: &'a Check,
    pub(super) workload: &'a Workload,
    pub(super) treatment: Treatment,
    /// The launches that run the workload, by position.
    readings: BTreeMap<u32, Reading<'a>>,
}

pub(super) struct Reading<'a> {
    pub(super) launch: &'a Launch,
    pub(super) measure: Result<LaunchMeasure, Undefined>,
}

impl<'a> Case<'a> {
    pub(super) fn new(
        gate: &'a Gate,
        check: &'a Check,
        workload: &'a Workload,
        record: &'a RunRecord,
    ) -> Self {
        let same_engine =
            |l: &&Launch| l.engine_args == gate.engine_args && l.page_cache == gate.page_cache;
        let mut launches: Vec<&Launch> = record.launches.iter().filter(same_engine).collect();
        launches.sort_by_key(|l| l.position);
        let mut ranks: BTreeMap<Arm, u32> = BTreeMap::new();
        let mut readings = BTreeMap::new();
        for launch in launches {
            let rank = ranks.entry(launch.arm).or_default();
            *rank += 1;
            if workload.launches.is_none_or(|limit| *rank <= limit) {
                let measure = metrics::measure(check, workload, launch);
                readings.insert(launch.position, Reading { launch, measure });
            }
        }
        Self {
            check,
            workload,
            treatment: treatment(check.metric),
            readings,
        }
    }
}

impl Case<'_> {
    /// Whether a clock has a say in the value, so that what disturbs clocks disturbs it.
    pub(super) fn is_by_clock(&self) -> bool {
        self.treatment.is_timed() || self.check.metric == Metric::Goodput
    }
}

/// A check's launches within a scope.
pub(super) struct View<'s, 'a> {
    pub(super) case: &'s Case<'a>,
    pub(super) scope: &'s Scope<'a>,
    pub(super) record: &'a RunRecord,
    pub(super) comparison: Comparison,
    ran: Vec<&'s Reading<'a>>,
}

impl<'s, 'a> View<'s, 'a> {
    pub(super) fn new(case: &'s Case<'a>, scope: &'s Scope<'a>, record: &'a RunRecord) -> Self {
        let in_scope = scope.launches.iter();
        let ran = in_scope
            .filter_map(|l| case.readings.get(&l.position))
            .collect();
        let comparison = record.comparison;
        Self {
            case,
            scope,
            record,
            comparison,
            ran,
        }
    }

    pub(super) fn is_regression(&self) -> bool {
        matches!(self.case.check.rule, Rule::Regression { .. })
    }

    /// The launched arms that the check cannot do without: an absolute rule reads the head alone.
    pub(super) fn arms(&self) -> &'static [Arm] {
        if self.is_regression() {
            self.comparison.arms()
        } else {
            &[Arm::Head]
        }
    }

    /// Every launch of an arm that was to run the workload.
    pub(super) fn ran(&self, arm: Arm) -> impl Iterator<Item = &'s Reading<'a>> {
        self.ran
            .iter()
            .copied()
            .filter(move |r| r.launch.arm == arm)
    }

    /// Those that count: clean ones, and for a metric by the clock outside dropped blocks.
    pub(super) fn kept(&self, arm: Arm) -> impl Iterator<Item = &'s Reading<'a>> {
        let by_clock = self.case.is_by_clock();
        let throttled = &self.scope.throttled;
        self.ran(arm).filter(move |r| {
            r.launch.exit.is_clean() && !(by_clock && throttled.contains(&r.launch.block))
        })
    }

    /// Those that the latest look reads, for a timed metric.
    pub(super) fn looked_at(&self, arm: Arm) -> impl Iterator<Item = &'s Reading<'a>> {
        let blocks = &self.scope.looked_at;
        self.kept(arm)
            .filter(move |r| blocks.contains(&r.launch.block))
    }

    /// The requests that a launch's value may stand on: measured and sound ones of the check's part.
    pub(super) fn samples(&self, launch: &'a Launch) -> Vec<&'a Sample> {
        let (workload, part) = (&self.case.workload.id, &self.case.check.part);
        let mine = launch.samples.iter().filter(|s| {
            s.workload == *workload
                && s.phase == Phase::Measured
                && s.void.is_none()
                && is_in_part(part, s)
        });
        mine.collect()
    }

    /// Whether the workload will run no more: its launches are used up, or the last look was reached.
    pub(super) fn is_exhausted(&self) -> bool {
        let used_up = self.case.workload.launches.is_some_and(|limit| {
            let arms = self.comparison.arms();
            arms.iter()
                .all(|&arm| self.ran(arm).count() >= limit as usize)
        });
        used_up || self.scope.next.is_none()
    }

    /// Whether what does not depend on chance may be judged: the workload's own number of launches
    /// ran, or the first look was reached.
    pub(super) fn is_complete(&self) -> bool {
        self.is_exhausted() || self.scope.looked > 0
    }

    /// Blocks after which this check can be looked at again.
    pub(super) fn wants(&self) -> u32 {
        let next = self.scope.next.unwrap_or(self.scope.looked);
        match self.case.workload.launches {
            Some(limit) if limit > self.scope.sound => limit.min(next),
            _ => next,
        }
    }
}

/// The measured values, those without one left out (the invalid rules have named them before).
pub(super) fn values<'r, 'a: 'r>(readings: impl Iterator<Item = &'r Reading<'a>>) -> Vec<f64> {
    let measured = readings.filter_map(|r| r.measure.as_ref().ok());
    measured.map(|m| m.value).collect()
}
