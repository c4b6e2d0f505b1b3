//! The verdict: a pure function of the plan and of everything that was measured.
//!
//! [`judge`] replays the session block by block. Each block is taken in once (`evidence`); after it, what was
//! taken in so far says for every check whether its measurement is sound (`rules`), then what its numbers
//! mean (`continuous` by t and at looks alone, `exact`, `proportion`); the p-values of all checks are corrected together
//! (`decide`), and the first block after which the run is decided is the last. So a verdict can always be
//! computed again from the record alone, and launches that were added after a decision never change it. One
//! rule reads the whole record from the start: a session in which the machine changed is trusted nowhere.
//! `docs/verdict.md` holds the formulas, the rules and their reasons.
//!
//! While a session runs, call it after every block, best after every launch: an engine that fails or
//! answers wrongly is known before the first look.
//!
//! Refuses to know: files, stores, clocks, terminals. The base's stored sessions are handed in by the
//! record.

pub mod answer_counts;
mod assessment;
pub mod continuous;
mod contrast;
pub mod decide;
pub mod error_budget;
mod evidence;
mod exact;
pub mod launch_view;
mod limit;
pub mod proportion;
mod remarks;
mod rules;
pub mod sequential;
mod session;
mod shards;
mod stored;
pub mod test_kind;
mod view;
mod waived;

pub use contrast::{Contrast, Unsound, contrast};
pub use error_budget::{Budgets, ErrorBudget};
pub use remarks::{first_event_estimate, middle_of_untold, untold_first};
pub use rules::{AMBIGUOUS_MIDDLE, AMBIGUOUS_TAIL, shared_gpu};
pub use test_kind::{family, has_test, on_test_scale};

use crate::metrics::{self, LaunchMeasure, Requests, Undefined};
use crate::plan::{Check, Gate, Plan};
use crate::record::{
    Arm, CheckVerdict, Decision, Extent, Facts, Launch, Reason, RuleId, RunRecord, RunVerdict,
    Verdict,
};
use assessment::{Assessment, Figures};
use launch_view::LaunchCache;
use rules::finding::{Finding, Rules};
use sequential::PastLooks;
use session::{Block, PerArm, Scope, Session};
use std::collections::BTreeMap;
use test_kind::TestKind;
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
        let mut shelf = LaunchCache::default();
        cases.for_each(|case| take(case, &rules, &block, &mut shelf, &scope));
        let verdict = at(&rules, &scope, &mut checks);
        if verdict.decision == Decision::Stop {
            return remarked(&rules, &scope, &checks, verdict);
        }
    }
    scope.is_look = false;
    scope.is_end = true;
    let verdict = at(&rules, &scope, &mut checks);
    remarked(&rules, &scope, &checks, verdict)
}

/// The verdict with what is remarked on its checks, but for those that are no measurement.
fn remarked(
    rules: &Rules<'_>,
    scope: &Scope<'_>,
    checks: &[Checked<'_>],
    mut verdict: RunVerdict,
) -> RunVerdict {
    let verdicts = verdict.gates.iter_mut().flat_map(|gate| &mut gate.checks);
    for (checked, verdict) in checks.iter().zip(verdicts) {
        let view = checked.case.as_ref();
        let view = view.map(|case| View::new(case, scope, rules.record));
        let cores = rules.record.machine.cores;
        let noise = view
            .as_ref()
            .and_then(|view| remarks::noise(view, cores, verdict));
        let modes = view.as_ref().and_then(|view| remarks::modes(view, verdict));
        verdict.remarks.extend(noise.into_iter().chain(modes));
        if let Some(view) = view.filter(|view| unmeasured(rules, view).is_none()) {
            remarks::add(&view, verdict);
        }
    }
    verdict
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
        take(
            &mut case,
            rules,
            &block,
            &mut LaunchCache::default(),
            &scope,
        );
    }
    (case, scope)
}

/// Shows the check a block that the scope has just taken in.
fn take<'a>(
    case: &mut Case<'a>,
    rules: &Rules<'a>,
    block: &Block<'_, 'a>,
    shelf: &mut LaunchCache<'a>,
    scope: &Scope<'a>,
) {
    case.take(rules, block, shelf, scope, &rules::OF_A_LAUNCH);
    if scope.is_look {
        let view = View::new(case, scope, rules.record);
        let (unsteady, apart) = (rules::unsteady(&view), rules::drifts_apart(&view));
        (case.unsteady, case.drifts_apart) = (unsteady, apart);
    }
}

impl<'a> Rules<'a> {
    fn new(plan: &'a Plan, record: &'a RunRecord) -> Self {
        Self {
            plan,
            record,
            design: &plan.design,
            session: rules::of_session(record),
        }
    }
}

/// A check of the plan with what it has seen; without a case where its workload is not in the plan.
struct Checked<'a> {
    gate: &'a Gate,
    check: &'a Check,
    case: Option<Case<'a>>,
    trail: PastLooks,
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
                    trail: PastLooks::default(),
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
    decide::settle(rules, scope, judged.collect())
}

fn unknown_workload(check: &Check) -> Assessment {
    let facts = Facts::Said(check.workload.clone());
    let reason = Reason::new(RuleId::UnknownWorkload, facts);
    Assessment::settled(Figures::default(), Verdict::Invalid, reason)
}

/// The assessment of a check that is no measurement, or has nothing to be held against.
fn unmeasured(rules: &Rules<'_>, view: &View<'_, '_>) -> Option<Assessment> {
    if view.comparison.is_recording() && view.case.needs_base() {
        return Some(continuous::no_base(view));
    }
    let Finding { verdict, reason } = rules::find(rules, view)?;
    Some(Assessment::settled(Figures::of(view), verdict, reason))
}

fn assess(rules: &Rules<'_>, view: &View<'_, '_>, trail: &mut PastLooks) -> Assessment {
    let mut assessment = unmeasured(rules, view).unwrap_or_else(|| match view.case.test_kind {
        TestKind::Timed(scale) => continuous::assess(rules, view, scale, trail),
        TestKind::Exact => exact::assess(rules, view, trail),
        TestKind::Share => proportion::assess(rules, view),
    });
    // It reads all launches, which after each block would be work by their square.
    if assessment.may_pass(rules.design.beta) {
        assessment.doubt = rules::doubt(view);
    }
    let change = assessment.figures.change;
    assessment.doubt_of_failure = rules::doubt_of_failure(view, change);
    assessment
}
