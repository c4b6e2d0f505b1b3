//! A run that several machines measured: each shard is judged as the session that it was, with the error budget
//! shared over the checks of the whole run, and the verdicts are put side by side.
//!
//! A shard's checks are corrected by Holm's procedure with all others of the run at p = 1 (`decide`). Corrected
//! values only rise with that, so whatever a shard fails, Holm's procedure over all checks at once fails too,
//! and the budget that it keeps is kept here. Nothing that a shard said alone is changed: docs/verdict.md.
//!
//! Refuses to know: which machine is better.

use super::decide::{gravest, gravity};
use super::{CheckVerdict, family, judge_session};
use crate::plan::{self, Gate, Plan};
use crate::record::{Decision, Ending, Extent, GateVerdict, RunRecord, RunVerdict, Verdict};

pub fn judge(plan: &Plan, record: &RunRecord) -> RunVerdict {
    let sessions = record.shard_sessions(family(plan));
    let mut parts: Vec<RunVerdict> = sessions
        .iter()
        .map(|session| {
            judge_session(
                &part(plan, |gate| session.gates.contains(&gate.name)),
                session,
            )
        })
        .collect();
    let is_measured = |gate: &Gate| sessions.iter().any(|s| s.gates.contains(&gate.name));
    let missing = part(plan, |gate| !is_measured(gate));
    if !missing.gates.is_empty() {
        parts.push(judge_session(&missing, &nothing(record)));
    }
    let not_run = plan::gates_not_run(record);
    joined(plan, &parts, not_run)
}

/// The plan of some of its gates.
fn part(plan: &Plan, is_in: impl Fn(&Gate) -> bool) -> Plan {
    let mut part = plan.clone();
    part.gates.retain(is_in);
    let of_part = |check: &str| {
        let mut gates = part.gates.iter();
        gates.any(|gate| gate.checks.iter().any(|c| c.id == *check))
    };
    let waivers = plan.waivers.iter();
    part.waivers = waivers.filter(|w| of_part(&w.check)).cloned().collect();
    part
}

/// A session in which nothing was measured: what becomes of gates that no shard has.
fn nothing(record: &RunRecord) -> RunRecord {
    RunRecord {
        extent: Extent::Whole,
        launches: Vec::new(),
        ending: Ending::Unfinished,
        ..record.clone()
    }
}

fn joined(
    plan: &Plan,
    parts: &[RunVerdict],
    mut not_run: Vec<(String, Vec<String>)>,
) -> RunVerdict {
    let all = || parts.iter().flat_map(|part| &part.gates);
    // The gravest, should a gate have been measured twice.
    let of = |gate: &Gate| {
        let own = all().filter(|verdict| verdict.gate == gate.name);
        own.max_by_key(|verdict| gravity(verdict.verdict)).cloned()
    };
    let gates: Vec<GateVerdict> = plan.gates.iter().filter_map(of).collect();
    let mut verdict = gravest(gates.iter().map(|gate| gate.verdict));
    let mut checks = gates.iter().flat_map(|gate| &gate.checks);
    if checks.all(CheckVerdict::is_waived) {
        verdict = Verdict::Inconclusive;
    }
    if verdict != Verdict::Pass {
        not_run.clear();
    }
    RunVerdict {
        verdict,
        gates,
        blocks: parts.iter().map(|part| part.blocks).sum(),
        launches: parts.iter().map(|part| part.launches).sum(),
        saved_s: parts.iter().map(|part| part.saved_s).sum(),
        // Every machine has ended.
        decision: Decision::Stop,
        not_run,
    }
}
