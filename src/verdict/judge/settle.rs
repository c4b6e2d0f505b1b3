//! All checks together: Holm's correction, verdicts of gates and of the run, and what to do next.

use super::Rules;
use super::assessment::{Assessment, Finding, Tested};
use super::session::Scope;
use super::{waived, words};
use crate::plan::{Check, Gate};
use crate::plural::count;
use crate::record::{CheckVerdict, Decision, Ending, GateVerdict, Reason, RunVerdict, Verdict};
use crate::stats;

/// A check's verdict, and when there is more to see of it.
struct Ruled {
    verdict: CheckVerdict,
    wants: Option<u32>,
}

/// The run's verdict at one scope.
pub fn settle(
    rules: &Rules<'_>,
    scope: &Scope<'_>,
    assessed: Vec<(&Gate, &Check, Assessment)>,
) -> RunVerdict {
    let mut p: Vec<f64> = assessed.iter().map(|(_, _, a)| p_of_failing(a)).collect();
    // What other machines measure is not known here: Holm's correction can only gain by it.
    p.resize(rules.family(p.len()), 1.0);
    let corrected = stats::holm(&p);
    let family = corrected.len();
    let mut by_gate: Vec<(&Gate, Vec<Ruled>)> = Vec::new();
    for ((gate, check, assessment), holm) in assessed.into_iter().zip(corrected) {
        let ruled = rule(rules, scope, check, assessment, Corrected { holm, family });
        match by_gate.last_mut() {
            Some((last, checks)) if last.name == gate.name => checks.push(ruled),
            _ => by_gate.push((gate, vec![ruled])),
        }
    }
    let all: Vec<&Ruled> = by_gate.iter().flat_map(|(_, checks)| checks).collect();
    let decision = decide(rules, scope, &all);
    let failed = all
        .iter()
        .find(|r| counted(&r.verdict) == Verdict::Fail)
        .map(|r| r.verdict.id.clone());
    let open = by_gate.iter_mut().flat_map(|(_, checks)| checks);
    for ruled in open.filter(|_| scope.is_told) {
        if ruled.wants.is_some() {
            explain_open(rules, scope, failed.as_deref(), &mut ruled.verdict);
        }
    }
    let gates = by_gate
        .into_iter()
        .map(|(gate, checks)| gate_verdict(gate, checks))
        .collect();
    run_verdict(rules, gates, scope, decision)
}

/// What a check brings to Holm's family: an exact failure is certain, what has no test cannot fail.
fn p_of_failing(assessment: &Assessment) -> f64 {
    match &assessment.finding {
        Finding::Settled {
            verdict: Verdict::Fail,
            ..
        } => 0.0,
        Finding::Tested(_) => assessment.figures.p_fail.unwrap_or(1.0),
        _ => 1.0,
    }
}

/// No change has no direction: a loss of nothing, negated, would be told as `-0.0 %` and written as `-0.0`.
fn positive_zero(change: f64) -> f64 {
    // IEEE 754: −0 + 0 is +0, and any other number stays itself.
    change + 0.0
}

struct Corrected {
    holm: f64,
    family: usize,
}

fn rule(
    rules: &Rules<'_>,
    scope: &Scope<'_>,
    check: &Check,
    assessment: Assessment,
    corrected: Corrected,
) -> Ruled {
    let Assessment { figures, finding } = assessment;
    let (verdict, reason, wants) = match finding {
        Finding::Settled { verdict, reason } => (verdict, reason, None),
        Finding::Never { reason } => (Verdict::Inconclusive, reason, None),
        Finding::Waiting { reason, wants } => (Verdict::Inconclusive, reason, Some(wants)),
        Finding::Tested(tested) => {
            let p_fail = figures.p_fail.unwrap_or(1.0);
            let p_pass = figures.p_pass.unwrap_or(1.0);
            weigh(rules, scope, &tested, (p_fail, p_pass), corrected)
        }
    };
    let verdict = CheckVerdict {
        id: check.id.clone(),
        metric: check.metric,
        statistic: check.statistic,
        verdict,
        reason,
        base: figures.base,
        head: figures.head,
        change: figures.change.map(positive_zero),
        interval: figures.interval,
        p_fail: figures.p_fail.map(|p| p.min(1.0)),
        p_pass: figures.p_pass.map(|p| p.min(1.0)),
        launches: figures.launches,
        smallest_effect: figures.smallest_effect,
        notes: figures.notes,
        cells: figures.cells,
        waiver: None,
    };
    let mut ruled = Ruled { verdict, wants };
    waived::mark(rules, &mut ruled.verdict);
    if ruled.verdict.waiver.is_some() {
        // Nothing is measured for its sake.
        ruled.wants = None;
    }
    ruled
}

/// Fail by Holm over the run's checks, else pass by the check's own p, else inconclusive.
fn weigh(
    rules: &Rules<'_>,
    scope: &Scope<'_>,
    tested: &Tested,
    (p_fail, p_pass): (f64, f64),
    corrected: Corrected,
) -> (Verdict, Reason, Option<u32>) {
    let Tested {
        subject,
        beyond,
        within,
        behind,
        ..
    } = tested;
    if corrected.holm <= rules.design.alpha {
        let text = scope.say(|| {
            let over = match corrected.family {
                1 => String::new(),
                n => format!(", {} over {n} checks", words::p(corrected.holm)),
            };
            let p = words::p(p_fail);
            format!("{subject}, {beyond} (p = {p}{over}; {behind})")
        });
        return (
            Verdict::Fail,
            Reason {
                rule: tested.rule,
                text,
            },
            None,
        );
    }
    if p_pass <= rules.design.beta {
        let text = scope.say(|| {
            let p = words::p(p_pass);
            format!("{subject}, {within} (p = {p}; {behind})")
        });
        return (
            Verdict::Pass,
            Reason {
                rule: tested.rule,
                text,
            },
            None,
        );
    }
    let text = scope.say(|| {
        let advice = tested.advice.as_ref();
        let advice = advice.map_or(String::new(), |a| format!("; {a}"));
        let (fail, pass) = (words::p(p_fail.min(1.0)), words::p(p_pass.min(1.0)));
        format!(
            "{subject}: not shown to be {beyond} (p = {fail}) nor {within} (p = {pass}) by {behind}{advice}"
        )
    });
    let name = if tested.wants.is_some() {
        "undecided"
    } else {
        "cap-reached"
    };
    (
        Verdict::Inconclusive,
        Reason { rule: name, text },
        tested.wants,
    )
}

/// A failure ends the run: no later look can take it back (p-values are the least over the looks, and
/// Holm's correction only shrinks), so further launches would buy detail about other checks alone.
fn decide(rules: &Rules<'_>, scope: &Scope<'_>, all: &[&Ruled]) -> Decision {
    let failed = all.iter().any(|r| counted(&r.verdict) == Verdict::Fail);
    let engine_failed = scope.is_end && matches!(rules.record.ending, Ending::EngineFailed { .. });
    let wants = all.iter().filter_map(|r| r.wants).min();
    match wants {
        Some(blocks) if !failed && !engine_failed => Decision::ContinueTo { blocks },
        _ => Decision::Stop,
    }
}

/// Says why a check that could still have been decided was not.
fn explain_open(
    rules: &Rules<'_>,
    scope: &Scope<'_>,
    failed: Option<&str>,
    check: &mut CheckVerdict,
) {
    let (sound, cap) = (scope.sound, rules.plan.most_blocks());
    let (rule, why) = match (failed, &rules.record.ending) {
        (Some(id), _) => ("stopped", format!("the run ended when {id} failed")),
        _ if !scope.is_end => return,
        (None, Ending::EngineFailed { detail }) => {
            check.verdict = Verdict::Invalid;
            ("engine-failed", format!("the session ended: {detail}"))
        }
        (None, Ending::Budget { starting }) => {
            let starting = starting.as_ref().map(|it| format!(", while {it}"));
            let starting = starting.unwrap_or_default();
            (
                "budget",
                format!(
                    "the time budget was spent after {sound} of at most {cap} blocks{starting}"
                ),
            )
        }
        (None, Ending::Interrupted) => (
            "interrupted",
            format!("the session was interrupted after {sound} of at most {cap} blocks"),
        ),
        (None, Ending::Decided | Ending::LastLook | Ending::Unfinished) => return,
    };
    check.reason = Reason {
        rule,
        text: format!("{}; {why}", check.reason.text),
    };
}

fn gate_verdict(gate: &Gate, checks: Vec<Ruled>) -> GateVerdict {
    let checks: Vec<CheckVerdict> = checks.into_iter().map(|r| r.verdict).collect();
    GateVerdict {
        gate: gate.name.clone(),
        title: gate.title.clone(),
        verdict: gravest(checks.iter().map(counted)),
        checks,
    }
}

/// As what a check counts: a waived one stands in nobody's way.
fn counted(check: &CheckVerdict) -> Verdict {
    if check.is_waived() {
        Verdict::Pass
    } else {
        check.verdict
    }
}

/// Fail before invalid before inconclusive before pass. Nothing judged is inconclusive, never pass.
pub fn gravest(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
    verdicts
        .max_by_key(|&v| gravity(v))
        .unwrap_or(Verdict::Inconclusive)
}

pub fn gravity(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Pass => 0,
        Verdict::Inconclusive => 1,
        Verdict::Invalid => 2,
        Verdict::Fail => 3,
    }
}

fn run_verdict(
    rules: &Rules<'_>,
    gates: Vec<GateVerdict>,
    scope: &Scope<'_>,
    decision: Decision,
) -> RunVerdict {
    let mut verdict = gravest(gates.iter().map(|g| g.verdict));
    let mut checks = gates.iter().flat_map(|g| &g.checks);
    if checks.all(CheckVerdict::is_waived) {
        verdict = Verdict::Inconclusive;
    }
    RunVerdict {
        verdict,
        summary: scope.say(|| summary(verdict, &gates)),
        gates,
        blocks: scope.sound,
        launches: scope.launches,
        saved_s: saved_s(rules, scope),
        decision,
    }
}

/// What the blocks up to the last one that could tell anything would have taken more, at the pace of those that ran.
fn saved_s(rules: &Rules<'_>, scope: &Scope<'_>) -> f64 {
    let Rules {
        plan,
        record,
        design,
        ..
    } = rules;
    if record.ending != Ending::Decided || record.comparison.is_recording() {
        return 0.0;
    }
    let all_s = record.elapsed_s * f64::from(plan.most_blocks()) / scope.blocks.max(1) as f64;
    (all_s.min(design.budget.as_secs_f64()) - record.elapsed_s).max(0.0)
}

/// What decided the run, by its first check with the run's verdict.
pub fn summary(verdict: Verdict, gates: &[GateVerdict]) -> String {
    let checks = gates
        .iter()
        .flat_map(|g| g.checks.iter().map(move |c| (g, c)));
    let decisive: Vec<_> = checks
        .filter(|(_, c)| c.verdict == verdict && !c.is_waived())
        .collect();
    let Some((gate, check)) = decisive.first() else {
        return "nothing was judged that is not waived".to_owned();
    };
    if verdict == Verdict::Pass {
        return passed(gates, &decisive);
    }
    let more = match decisive.len() - 1 {
        0 => String::new(),
        n => format!(" (and {})", count(n, "more check")),
    };
    format!(
        "gate {}, check {}: {}{more}",
        gate.gate, check.id, check.reason.text
    )
}

fn passed(gates: &[GateVerdict], checks: &[(&GateVerdict, &CheckVerdict)]) -> String {
    let all = gates.iter().flat_map(|g| &g.checks);
    let waived: Vec<&str> = all
        .filter(|c| c.is_waived())
        .map(|c| c.id.as_str())
        .collect();
    let waived = match waived.as_slice() {
        [] => String::new(),
        ids => format!(", waived: {}", ids.join(", ")),
    };
    let n = format!(
        "{} of {} {}{waived}",
        count(checks.len(), "check"),
        count(gates.len(), "gate"),
        if checks.len() == 1 { "holds" } else { "hold" }
    );
    let effects = checks
        .iter()
        .filter_map(|(_, c)| Some((c.smallest_effect?, &c.id)));
    match effects.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((effect, id)) => format!(
            "{n}; the least sensitive, {id}, could have found a change of {}",
            words::percent((effect * 1e3).round() / 1e3)
        ),
        None => n,
    }
}

#[cfg(test)]
mod tests {
    use super::positive_zero;

    #[test]
    fn no_change_is_told_without_a_minus() {
        for (change, expect) in [(-0.0, "+0.0"), (0.0, "+0.0"), (-0.5, "-0.5"), (0.5, "+0.5")] {
            assert_eq!(format!("{:+.1}", positive_zero(change)), expect);
        }
    }
}
