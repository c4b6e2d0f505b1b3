//! The verdict: a pure function of the plan and of everything that was measured.
//!
//! [`judge`] replays the session block by block. After each block it reads the session up to there, finds
//! for every check whether its measurement is sound (`invalid`), then what its numbers say (`timed` by t
//! and at looks alone, `exact`, `share`), corrects the p-values of all checks together (`settle`), and
//! stops at the first block after which the run is decided. So a verdict can always be computed again from the record alone,
//! and launches that were added after a decision never change it. One rule reads the whole record from
//! the start: a session in which the machine changed is trusted nowhere. `docs/verdict.md` holds the formulas,
//! the rules and their reasons.
//!
//! While a session runs, call it after every block, best after every launch: an engine that fails or
//! answers wrongly is known before the first look.
//!
//! Refuses to know: files, stores, clocks, terminals. The base's stored sessions are handed in by the
//! record.

mod assessment;
mod client;
mod early;
mod exact;
mod first_event;
mod invalid;
mod late;
mod limit;
mod machine;
mod repeated;
mod session;
mod settle;
mod share;
mod stored;
mod timed;
mod trail;
mod treatment;
mod view;
mod voids;
mod words;

pub use machine::shared_gpu;
pub use session::is_throttled;

use crate::plan::{Check, Design, Gate, Plan};
use crate::record::{Arm, Decision, RunRecord, RunVerdict, Verdict};
use assessment::{Assessment, Figures};
use session::{Scope, Session};
use std::collections::BTreeMap;
use trail::Trail;
use treatment::Treatment;
use view::{Case, View, values};

/// Judges what a session has measured so far.
///
/// Every check's workload must be one of its gate's, as `plan` guarantees; a check whose workload is
/// not there is invalid.
pub fn judge(plan: &Plan, record: &RunRecord) -> RunVerdict {
    let rules = Rules {
        plan,
        record,
        design: &plan.design,
    };
    let cases = cases(plan, record);
    let mut trails = vec![Trail::default(); cases.len()];
    let (after_blocks, as_it_stands) = Session::new(record).scopes(&plan.design.looks);
    for scope in &after_blocks {
        let verdict = at(&rules, scope, &cases, &mut trails);
        if verdict.decision == Decision::Stop {
            return verdict;
        }
    }
    at(&rules, &as_it_stands, &cases, &mut trails)
}

/// Blocks so far that hold a clean launch of every arm on a machine that did not throttle: those that
/// count towards a look.
pub fn sound_blocks(record: &RunRecord) -> u32 {
    let (_, scope) = Session::new(record).scopes(&[]);
    scope.sound
}

/// Check id → the arm's values, one a sound launch, in the metric's unit: what a baseline store keeps.
/// A check that has no value in some launch is left out whole.
pub fn launch_values(plan: &Plan, record: &RunRecord, arm: Arm) -> BTreeMap<String, Vec<f64>> {
    let (_, scope) = Session::new(record).scopes(&[]);
    let mut found = BTreeMap::new();
    for (_, check, case) in cases(plan, record) {
        let Some(case) = case else { continue };
        let view = View::new(&case, &scope, record);
        let n = view.kept(arm).count();
        let values = values(view.kept(arm));
        if n > 0 && values.len() == n {
            found.insert(check.id.clone(), values);
        }
    }
    found
}

/// What every part of the judge may ask.
struct Rules<'a> {
    plan: &'a Plan,
    record: &'a RunRecord,
    design: &'a Design,
}

impl Rules<'_> {
    /// L: the number of looks that share the error budgets.
    fn looks(&self) -> f64 {
        self.design.looks.len().max(1) as f64
    }

    /// Launch values of main's usable stored sessions, or what is missing.
    fn stored(&self, check: &str) -> Result<Vec<Vec<f64>>, String> {
        stored::sessions(self.record, check, self.plan.baseline.max_age_days)
    }
}

/// Every check of the plan; without a case where its workload is not in the plan.
type Checks<'a> = Vec<(&'a Gate, &'a Check, Option<Case<'a>>)>;

fn cases<'a>(plan: &'a Plan, record: &'a RunRecord) -> Checks<'a> {
    let checks = plan
        .gates
        .iter()
        .flat_map(|g| g.checks.iter().map(move |c| (g, c)));
    checks
        .map(|(gate, check)| {
            let workload = gate.workloads.iter().find(|w| w.id == check.workload);
            (
                gate,
                check,
                workload.map(|w| Case::new(gate, check, w, record)),
            )
        })
        .collect()
}

fn at<'a>(
    rules: &Rules<'a>,
    scope: &Scope<'a>,
    cases: &Checks<'a>,
    trails: &mut [Trail],
) -> RunVerdict {
    let judged = cases
        .iter()
        .zip(trails)
        .map(|((gate, check, case), trail)| {
            let assessment = match case {
                Some(case) => assess(rules, &View::new(case, scope, rules.record), trail),
                None => unknown_workload(check),
            };
            (*gate, *check, assessment)
        });
    settle::settle(rules, scope, judged.collect())
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
    if let Some(found) = invalid::find(rules, view) {
        return Assessment::settled(Figures::of(view), found.verdict, found.rule, found.text);
    }
    let mut assessment = match view.case.treatment {
        Treatment::Timed(scale) => timed::assess(rules, view, scale, trail),
        Treatment::Exact => exact::assess(rules, view, trail),
        Treatment::Share => share::assess(rules, view),
    };
    assessment.figures.notes.extend(early::remarks(view));
    assessment.figures.notes.extend(first_event::remarks(view));
    assessment.figures.notes.extend(repeated::remark(view));
    assessment
}
