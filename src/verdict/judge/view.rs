//! The launches that one check reads, block by block, and the session as seen from there.

use super::Rules;
use super::error_budget::{self, Budgets};
use super::evidence::{Evidence, Reading, Values};
use super::launch_view::{LaunchCache, LaunchView};
use super::rules::finding::LaunchRule;
use super::session::{Block, PerArm, Scope};
use super::stored;
use super::test_kind::{TestKind, test_kind_of};
use crate::plan::{Check, Gate, Rule, Workload, WorkloadKind};
use crate::record::{
    Arm, CacheState, Comparison, Ending, Interleave, Launch, LaunchNoise, Metric, Reason,
    RunRecord, StoredSessions,
};

/// A check with all that its launches have shown so far.
pub struct Case<'a> {
    pub gate: &'a Gate,
    pub check: &'a Check,
    pub workload: &'a Workload,
    pub test_kind: TestKind,
    /// What calibration says of the launches that are compared.
    pub noise: Option<LaunchNoise>,
    pub budgets: Budgets,
    /// Main's usable stored sessions, or what is missing.
    pub stored: Result<Stored, StoredSessions>,
    /// Answers are as long as their prompts make them, and blocks have different prompts.
    varies_by_block: bool,
    evidence: PerArm<Evidence<'a>>,
    /// Where the latest look saw that launches are no steady state.
    pub unsteady: Option<Unsteady>,
    /// … and that head's drift otherwise than base's, by so much on the scale of logarithms.
    pub drifts_apart: Option<(Reason, f64)>,
}

/// A mean drift within launches, and where it was seen.
#[derive(Clone, Copy)]
pub struct Unsteady {
    /// `None`: both.
    pub arm: Option<Arm>,
    pub drift: f64,
}

/// Main's launch values, one list a session, and all of them folded.
pub struct Stored {
    pub sessions: Vec<Vec<f64>>,
    pub values: Values,
}

impl<'a> Case<'a> {
    pub fn new(
        rules: &Rules<'a>,
        gate: &'a Gate,
        check: &'a Check,
        workload: &'a Workload,
    ) -> Self {
        let max_age_days = rules.plan.baseline.max_age_days;
        let stored = stored::sessions(rules.record, &check.id, max_age_days);
        let noise = error_budget::noise(rules.record, gate, check);
        Self {
            budgets: Budgets::of(rules, check, workload, noise.is_some()),
            noise,
            varies_by_block: !rules.plan.engine.forces_length
                && matches!(check.metric, Metric::E2e | Metric::Throughput),
            gate,
            check,
            workload,
            test_kind: test_kind_of(check),
            stored: stored.map(|sessions| Stored {
                values: sessions.iter().flatten().copied().collect(),
                sessions,
            }),
            evidence: PerArm::default(),
            unsteady: None,
            drifts_apart: None,
        }
    }

    /// Takes in the block that the scope has just taken in, whose answers are on the shelf.
    pub fn take(
        &mut self,
        rules: &Rules<'a>,
        block: &Block<'_, 'a>,
        shelf: &mut LaunchCache<'a>,
        scope: &Scope<'_>,
        of_a_launch: &[LaunchRule],
    ) {
        let is_dropped = block.is_throttled && self.check.metric.is_by_clock();
        for &launch in block.launches {
            if !self.is_run_by(launch, self.evidence.of(launch.arm).ran) {
                continue;
            }
            if self.awaits_base(rules.record, block, launch) {
                continue;
            }
            let (check, workload) = (self.check, self.workload);
            let base = block.base_of(launch);
            let evidence = self.evidence.of_mut(launch.arm);
            evidence.launched += 1;
            // One that is dropped runs again.
            evidence.ran += u32::from(!is_dropped);
            if !launch.exit.is_clean() {
                evidence.failed.get_or_insert(launch);
                continue;
            }
            let answers = shelf.answers(check, workload, launch, base);
            let launch_view = LaunchView::new(check, answers);
            match is_dropped {
                true => evidence.keep_losses(launch_view),
                false => evidence.keep(rules, of_a_launch, launch_view, block.is_sound),
            }
        }
        if scope.is_look {
            Arm::BOTH
                .iter()
                .for_each(|&arm| self.evidence.of_mut(arm).look());
        }
    }

    /// Whether a launch, of whose arm so many ran before, runs the workload: its engine was started as the
    /// gate asks, and the workload's own number of launches is not used up.
    pub fn is_run_by(&self, launch: &Launch, ran: u32) -> bool {
        self.gate.is_run_by(launch) && self.workload.launches.is_none_or(|limit| ran < limit)
    }

    /// True if what head does can be held against base's launches alone: its tests, and answers where no prompt is sent
    /// twice.
    pub fn needs_base(&self) -> bool {
        let repeats = match &self.workload.kind {
            WorkloadKind::Answers(_) => true,
            WorkloadKind::Matrix(matrix) => matrix.caches.contains(&CacheState::Hot),
            _ => false,
        };
        match self.check.metric {
            Metric::AnswerMismatches => !repeats,
            Metric::KlFromBase | Metric::BrokenTests => true,
            _ => false,
        }
    }

    /// Whether head is held against base's launches, alone or beside head's own answers.
    pub fn reads_base(&self) -> bool {
        self.needs_base() || self.check.metric == Metric::AnswerMismatches
    }

    /// True for a launch of head that is nothing without base's, where the session was cut off before base's was over:
    /// what is missing is no fault of the measurement.
    fn awaits_base(&self, record: &RunRecord, block: &Block<'_, '_>, launch: &Launch) -> bool {
        use Ending::{Budget, Interrupted, Unfinished};
        let is_cut = matches!(record.ending, Budget { .. } | Interrupted | Unfinished);
        let has_base = record.comparison.arms().contains(&Arm::Base);
        let is_earlier = |other: &Launch| other.block <= launch.block;
        let is_twin = |other: &&Launch| other.arm == Arm::Base && other.is_alike(launch);
        let of_head = launch.arm == Arm::Head && launch.exit.is_clean() && self.needs_base();
        let may_await = of_head && is_cut && has_base && !block.launches.iter().any(is_twin);
        may_await && record.launches.iter().all(is_earlier)
    }

    /// True if the test pairs head's and base's launches of a block. The certificate decides; without one, launches are paired
    /// if they took turns, or if the block's prompts determine the length of its answers.
    pub fn is_paired(&self) -> bool {
        let took_turns = self.gate.interleave == Interleave::Requests;
        let shares = took_turns || self.varies_by_block;
        self.noise.map_or(shares, |noise| noise.paired)
    }

    pub fn of(&self, arm: Arm) -> &Evidence<'a> {
        self.evidence.of(arm)
    }
}

/// A check within a scope.
pub struct View<'s, 'a> {
    pub case: &'s Case<'a>,
    pub scope: &'s Scope<'a>,
    pub comparison: Comparison,
}

impl<'s, 'a> View<'s, 'a> {
    pub fn new(case: &'s Case<'a>, scope: &'s Scope<'a>, record: &RunRecord) -> Self {
        Self {
            case,
            scope,
            comparison: record.comparison,
        }
    }

    pub fn is_regression(&self) -> bool {
        matches!(self.case.check.rule, Rule::Regression { .. })
    }

    /// The launched arms that the check cannot do without: an absolute rule reads the head alone.
    pub fn arms(&self) -> &'static [Arm] {
        if self.is_regression() {
            self.comparison.arms()
        } else {
            &[Arm::Head]
        }
    }

    pub fn of(&self, arm: Arm) -> &'s Evidence<'a> {
        self.case.of(arm)
    }

    /// Whether base, which the session has, was not launched yet: then nobody knows whether it fails as head does.
    pub fn lacks_base(&self) -> bool {
        self.comparison.arms().contains(&Arm::Base) && self.of(Arm::Base).launched == 0
    }

    /// Whether the workload will run no more: its launches are used up, or the last look was reached.
    pub fn is_exhausted(&self) -> bool {
        let used_up = self.case.workload.launches.is_some_and(|limit| {
            let arms = self.comparison.arms();
            arms.iter().all(|&arm| self.of(arm).ran >= limit)
        });
        used_up || self.scope.next.is_none()
    }

    /// Whether what does not depend on chance may be judged: the workload's own number of launches
    /// ran, or the first look was reached.
    pub fn is_complete(&self) -> bool {
        self.is_exhausted() || self.scope.looked > 0
    }

    /// Blocks after which this check can be looked at again.
    pub fn wants(&self) -> u32 {
        let next = self.scope.next.unwrap_or(self.scope.looked);
        match self.case.workload.launches {
            Some(limit) if limit > self.scope.sound => limit.min(next),
            _ => next,
        }
    }
}

/// The measured values, those without one left out (the invalid rules have named them before).
pub fn values<'r, 'a: 'r>(readings: impl Iterator<Item = &'r Reading<'a>>) -> Vec<f64> {
    let measured = readings.filter_map(|r| r.measure.as_ref().ok());
    measured.map(|m| m.value).collect()
}
