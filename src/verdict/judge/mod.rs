//! The verdict: a pure function of the plan and of everything that was measured.
//!
//! [`judge`] replays the session block by block. Each block is taken in once (`evidence`); after it, what was
//! taken in so far says for every check whether its measurement is sound (`invalid`), then what its numbers
//! mean (`timed` by t and at looks alone, `exact`, `share`); the p-values of all checks are corrected together
//! (`settle`), and the first block after which the run is decided is the last. So a verdict can always be
//! computed again from the record alone, and launches that were added after a decision never change it. One
//! rule reads the whole record from the start: a session in which the machine changed is trusted nowhere.
//! `docs/verdict.md` holds the formulas, the rules and their reasons.
//!
//! While a session runs, call it after every block, best after every launch: an engine that fails or
//! answers wrongly is known before the first look.
//!
//! Refuses to know: files, stores, clocks, terminals. The base's stored sessions are handed in by the
//! record.

mod assessment;
mod client;
mod contrast;
mod early;
mod evidence;
mod exact;
mod first_event;
mod invalid;
mod late;
mod limit;
mod looks;
mod machine;
mod moved;
mod repeated;
mod session;
mod settle;
mod shards;
mod share;
mod sight;
mod stored;
mod suite;
mod tally;
mod timed;
mod trail;
mod treatment;
mod view;
mod voids;
mod waived;
mod words;
mod worst;

pub use client::{AMBIGUOUS_MIDDLE, AMBIGUOUS_TAIL};
pub use contrast::{Contrast, Unsound, contrast};
pub use first_event::first_event_estimate;
pub use looks::Looks;
pub use machine::shared_gpu;
pub use session::is_throttled;
pub use treatment::on_test_scale;

use crate::metrics::{self, LaunchMeasure, Requests, Undefined};
use crate::plan::{Check, Design, Gate, Plan, WorkloadKind};
use crate::record::{
    Arm, CacheState, CheckVerdict, Decision, Extent, Launch, Metric, RunRecord, RunVerdict, Verdict,
};
use assessment::{Assessment, Figures};
use invalid::Finding;
use session::{PerArm, Scope, Session};
use sight::Shelf;
use std::collections::BTreeMap;
use trail::Trail;
use treatment::Treatment;
use view::{Case, View, values};

/// Judges what a session has measured so far, in a time that grows with the number of launches, not with
/// its square. The sessions of a merged record are judged each for itself (`shards`).
///
/// Every check's workload must be one of its gate's, as `plan` guarantees; a check whose workload is
/// not there is invalid.
pub fn judge(plan: &Plan, record: &RunRecord) -> RunVerdict {
    match record.extent {
        Extent::Merged { .. } => shards::judge(plan, record),
        Extent::Whole | Extent::Shard { .. } => judge_session(plan, record),
    }
}

/// Judges what one machine measured.
fn judge_session(plan: &Plan, record: &RunRecord) -> RunVerdict {
    let rules = Rules::new(plan, record);
    let mut checks = Checked::all(&rules);
    let mut scope = Scope::new(&plan.design.looks);
    for block in Session::new(record).blocks() {
        scope.take(&block);
        let cases = checks
            .iter_mut()
            .filter_map(|checked| checked.case.as_mut());
        let mut shelf = Shelf::default();
        cases.for_each(|case| case.take(&rules, &block, &mut shelf, &scope));
        if at(&rules, &scope, &mut checks).decision == Decision::Stop {
            return told(&rules, scope, &mut checks);
        }
    }
    scope.is_look = false;
    scope.is_end = true;
    told(&rules, scope, &mut checks)
}

/// The verdict of this scope with its sentences.
fn told<'a>(rules: &Rules<'a>, mut scope: Scope<'a>, checks: &mut [Checked<'a>]) -> RunVerdict {
    scope.is_told = true;
    at(rules, &scope, checks)
}

/// Blocks so far that hold a clean launch of every arm on a machine that did not throttle: those that
/// count towards a look.
pub fn sound_blocks(record: &RunRecord) -> u32 {
    let session = Session::new(record);
    let sound = session.blocks().filter(|block| block.is_sound).count();
    u32::try_from(sound).unwrap_or(u32::MAX)
}

/// Check id → the arm's values, one a sound launch, in the metric's unit: what a baseline store keeps.
/// A check that has no value in some launch is left out whole.
pub fn launch_values(plan: &Plan, record: &RunRecord, arm: Arm) -> BTreeMap<String, Vec<f64>> {
    let rules = Rules::new(plan, record);
    let mut found = BTreeMap::new();
    for case in Checked::all(&rules).into_iter().filter_map(|c| c.case) {
        let (case, _) = whole(&rules, case, &[]);
        let kept = &case.of(arm).kept;
        let values = values(kept.iter());
        if !kept.is_empty() && values.len() == kept.len() {
            found.insert(case.check.id.clone(), values);
        }
    }
    found
}

/// Every launch that was to run the workload of the check with this id, in order of execution, with the check's
/// value in it. Empty where the plan has no such check.
pub fn launch_measures<'a>(
    plan: &'a Plan,
    record: &'a RunRecord,
    id: &str,
) -> Vec<(&'a Launch, Result<LaunchMeasure, Undefined>)> {
    let rules = Rules::new(plan, record);
    let Some(case) = Checked::case(&rules, id) else {
        return Vec::new();
    };
    let mut ran = PerArm::<u32>::default();
    let session = Session::new(record);
    let runs = session.launches().filter(|launch| {
        let ran = ran.of_mut(launch.arm);
        let runs = case.is_run_by(launch, *ran);
        *ran += u32::from(runs);
        runs
    });
    let all: Vec<&Launch> = session.launches().collect();
    let measure = |launch: &'a Launch| {
        let base = session::base_of(&all, launch);
        let requests = Requests::of(case.check, case.workload, launch).beside(case.check, base);
        (launch, metrics::measure_among(&requests, case.check))
    };
    runs.map(measure).collect()
}

/// The check after the whole session.
fn whole<'a>(rules: &Rules<'a>, mut case: Case<'a>, looks: &'a [u32]) -> (Case<'a>, Scope<'a>) {
    let mut scope = Scope::new(looks);
    for block in Session::new(rules.record).blocks() {
        scope.take(&block);
        case.take(rules, &block, &mut Shelf::default(), &scope);
    }
    (case, scope)
}

/// What every part of the judge may ask.
struct Rules<'a> {
    plan: &'a Plan,
    record: &'a RunRecord,
    design: &'a Design,
    /// Why nothing of the session is a measurement.
    session: Option<Finding>,
}

impl<'a> Rules<'a> {
    fn new(plan: &'a Plan, record: &'a RunRecord) -> Self {
        Self {
            plan,
            record,
            design: &plan.design,
            session: invalid::fingerprint_changed(record)
                .or_else(|| invalid::altered(record))
                .or_else(|| invalid::one_artifact(record)),
        }
    }

    /// How many checks share the error budget: those of this session, or of the whole run that it is a shard of.
    fn family(&self, own: usize) -> usize {
        match self.record.extent {
            Extent::Shard { checks, .. } => own.max(checks as usize),
            Extent::Whole | Extent::Merged { .. } => own,
        }
    }

    fn looks(&self) -> Looks<'a> {
        Looks::of(self.design)
    }
}

/// A check of the plan with what it has seen; without a case where its workload is not in the plan.
struct Checked<'a> {
    gate: &'a Gate,
    check: &'a Check,
    case: Option<Case<'a>>,
    trail: Trail,
}

impl<'a> Checked<'a> {
    fn all(rules: &Rules<'a>) -> Vec<Self> {
        let gates = rules.plan.gates.iter();
        let checks = gates.flat_map(|gate| gate.checks.iter().map(move |check| (gate, check)));
        checks
            .map(|(gate, check)| {
                let workload = gate.workloads.iter().find(|w| w.id == check.workload);
                Self {
                    gate,
                    check,
                    case: workload.map(|workload| Case::new(rules, gate, check, workload)),
                    trail: Trail::default(),
                }
            })
            .collect()
    }

    /// The case of the check with this id, which has seen nothing yet.
    fn case(rules: &Rules<'a>, id: &str) -> Option<Case<'a>> {
        let all = Self::all(rules).into_iter();
        all.filter(|checked| checked.check.id == id)
            .find_map(|checked| checked.case)
    }
}

fn at<'a>(rules: &Rules<'a>, scope: &Scope<'a>, checks: &mut [Checked<'a>]) -> RunVerdict {
    let judged = checks.iter_mut().map(|checked| {
        let assessment = match &checked.case {
            Some(case) => {
                let view = View::new(case, scope, rules.record);
                assess(rules, &view, &mut checked.trail)
            }
            None => unknown_workload(checked.check),
        };
        (checked.gate, checked.check, assessment)
    });
    settle::settle(rules, scope, judged.collect())
}

/// True if what head does can be held against base's launches alone: its tests, and answers where no prompt is sent
/// twice.
fn needs_base(case: &Case<'_>) -> bool {
    let repeats = match &case.workload.kind {
        WorkloadKind::Answers(_) => true,
        WorkloadKind::Matrix(matrix) => matrix.caches.contains(&CacheState::Hot),
        _ => false,
    };
    match case.check.metric {
        Metric::AnswerMismatches => !repeats,
        Metric::KlFromBase | Metric::BrokenTests => true,
        _ => false,
    }
}

fn unknown_workload(check: &Check) -> Assessment {
    let text = format!("the plan has no workload {}", check.workload);
    Assessment::settled(
        Figures::default(),
        Verdict::Invalid,
        "unknown-workload",
        text,
    )
}

fn assess(rules: &Rules<'_>, view: &View<'_, '_>, trail: &mut Trail) -> Assessment {
    if view.comparison.is_recording() && needs_base(view.case) {
        return timed::no_base(view);
    }
    if let Some(found) = invalid::find(rules, view) {
        return Assessment::settled(Figures::of(view), found.verdict, found.rule, found.text);
    }
    let mut assessment = match view.case.treatment {
        Treatment::Timed(scale) => timed::assess(rules, view, scale, trail),
        Treatment::Exact => exact::assess(rules, view, trail),
        Treatment::Share => share::assess(rules, view),
    };
    if view.scope.is_told {
        worst::describe(view, &mut assessment);
        let notes = &mut assessment.figures.notes;
        notes.extend(early::remarks(view));
        notes.extend(first_event::remarks(view));
        notes.extend(repeated::remark(view));
        notes.extend(moved::remark(view));
        notes.extend(suite::remark(view));
    }
    assessment
}
