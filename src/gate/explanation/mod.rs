//! A check taken apart: the part of the work that a change sits in, the first bad launch, what was read beside it.
//!
//! Main function: [`explain`]. Main type: [`Explanation`], which is also a JSON format. What it holds is looked at in
//! hindsight: intervals of 95 % each, over all sound launches, with no error budget and no verdict of their own.

mod bad;
mod case;
mod model;
mod modes;
mod parts;
mod stalls;

pub use model::{
    AnswerRow, EXPLANATION_FORMAT, Explanation, FacetRow, FirstBad, Limit, Mode, ModeSplit, Point,
    ReadingRow, RequestSpread, Stalls,
};

use self::case::Case;
use verdict::judge;
use verdict::plan::Plan;
use verdict::record::{CheckVerdict, RuleId, RunRecord, RunVerdict, Verdict};

/// Explains a check of a judged run; `reason` is its verdict's, in words, and examples. `None`: the plan has no such check.
pub fn explain(
    plan: &Plan,
    record: &RunRecord,
    verdict: &RunVerdict,
    judged: &CheckVerdict,
    reason: (String, Vec<String>),
) -> Option<Explanation> {
    let mut found = plan.gates.iter().filter_map(|gate| {
        let check = gate.checks.iter().find(|check| check.id == judged.id)?;
        let workload = gate.workloads.iter().find(|w| w.id == check.workload)?;
        Some((check, workload))
    });
    let (check, workload) = found.next()?;
    let shard = shard_of(plan, record, &judged.id);
    let case = Case::new(plan, shard.as_ref().unwrap_or(record), check, workload);
    Some(case.explain(verdict, judged, reason))
}

/// The session of the machine that measured the check's gate; `None` where one machine measured all.
fn shard_of(plan: &Plan, record: &RunRecord, check: &str) -> Option<RunRecord> {
    let mut sessions = record.shard_sessions(judge::family(plan)).into_iter();
    let gate = check.split('/').next().unwrap_or_default();
    sessions.find(|session| session.gates.iter().any(|name| name == gate))
}

/// The check that keeps the run from passing: a failed one before an invalid and an open one; of failed ones an engine that died,
/// else the greatest change beyond its margin; of the others the least p. `None` where all passed or are waived.
pub fn gravest(verdict: &RunVerdict) -> Option<&CheckVerdict> {
    let rank = |check: &CheckVerdict| match check.verdict {
        Verdict::Fail => Some(0),
        Verdict::Invalid => Some(1),
        Verdict::Inconclusive => Some(2),
        Verdict::Pass => None,
    };
    let p = |check: &CheckVerdict| match (check.reason.rule, check.verdict) {
        (RuleId::Reliability | RuleId::TokenParity, _) => f64::NEG_INFINITY,
        (_, Verdict::Fail) => -check.excess().min(f64::MAX),
        _ => check.p_fail.unwrap_or(0.0),
    };
    let red = checks(verdict).filter(|check| !check.is_waived());
    let red = red.filter_map(|check| Some((rank(check)?, p(check), check)));
    let gravest = red.min_by(|(a, p, _), (b, q, _)| a.cmp(b).then(p.total_cmp(q)));
    gravest.map(|(.., check)| check)
}

/// Every check of a run, in the order of the gates.
pub fn checks(verdict: &RunVerdict) -> impl Iterator<Item = &CheckVerdict> {
    verdict.gates.iter().flat_map(|gate| &gate.checks)
}
