//! All checks together: Holm's correction, verdicts of gates and of the run, and what to do next.

use super::Rules;
use super::assessment::{Assessment, Finding, Tested};
use super::session::Scope;
use super::test_kind::has_test;
use super::waived;
use crate::plan::{self, Check, Gate};
use crate::record::{
    self, CheckVerdict, Decision, Ended, Ending, Facts, GateVerdict, Launch, Reason, RuleId,
    RunVerdict, Verdict,
};
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
    let tested = assessed.iter().filter(|(_, check, _)| has_test(check));
    let mut p: Vec<f64> = tested.map(|(_, _, a)| p_of_failing(a)).collect();
    // What other machines measure is not known here: Holm's correction can only gain by it.
    let family = rules.family();
    p.resize(family, 1.0);
    let mut corrected = stats::holm(&p).into_iter();
    let mut by_gate: Vec<(&Gate, Vec<Ruled>)> = Vec::new();
    for (gate, check, assessment) in assessed {
        let holm = has_test(check).then(|| corrected.next()).flatten();
        let holm = holm.unwrap_or(1.0);
        let ruled = rule(rules, check, assessment, Corrected { holm, family });
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
    for ruled in open.filter(|ruled| ruled.wants.is_some()) {
        explain_open(rules, scope, failed.as_deref(), &mut ruled.verdict);
    }
    let gates = by_gate
        .into_iter()
        .map(|(gate, checks)| gate_verdict(gate, checks))
        .collect();
    run_verdict(rules, gates, scope, decision)
}

/// The p-value that a check adds to Holm's family: 0 where a rule without a test fails it, 1 where it has no values yet.
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

struct Corrected {
    holm: f64,
    family: usize,
}

fn rule(rules: &Rules<'_>, check: &Check, assessment: Assessment, corrected: Corrected) -> Ruled {
    let Assessment {
        mut figures,
        finding,
        doubt,
        doubt_of_failure,
    } = assessment;
    let mut later = None;
    let (mut verdict, mut reason, mut wants) = match finding {
        Finding::Settled { verdict, reason } => (verdict, reason, None),
        Finding::Never { reason } => (Verdict::Inconclusive, reason, None),
        Finding::Waiting { reason, wants } => (Verdict::Inconclusive, reason, Some(wants)),
        Finding::Tested(mut tested) => {
            let next = tested.wants;
            later = next;
            let passed = tested.passed.take();
            let weighed = weigh(rules, tested, figures.p_pass.unwrap_or(1.0), corrected);
            match (weighed, doubt_of_failure) {
                ((Verdict::Fail, ..), Some(doubt)) => (Verdict::Inconclusive, doubt, next),
                (weighed, _) => {
                    // What was measured for other checks' sake is no evidence for or against this one.
                    if let (Verdict::Pass, Some(passed)) = (weighed.0, passed) {
                        figures.take_numbers(passed);
                    }
                    weighed
                }
            }
        }
    };
    if let (Verdict::Pass, Some(doubt)) = (verdict, doubt) {
        if doubt.rule == RuleId::HeadThrottles {
            // More blocks may show that it was by chance.
            wants = later;
        }
        (verdict, reason) = (Verdict::Inconclusive, doubt);
    }
    let mut ruled = Ruled {
        verdict: figures.verdict(check, verdict, reason),
        wants,
    };
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
    tested: Tested,
    p_pass: f64,
    Corrected { holm, family }: Corrected,
) -> (Verdict, Reason, Option<u32>) {
    let (outcome, rule, wants) = if holm <= rules.design.alpha {
        (Verdict::Fail, tested.rule, None)
    } else if p_pass <= rules.design.beta {
        (Verdict::Pass, tested.rule, None)
    } else if tested.wants.is_some() {
        (Verdict::Inconclusive, RuleId::Undecided, tested.wants)
    } else {
        (Verdict::Inconclusive, RuleId::CapReached, None)
    };
    let facts = Facts::Tested(record::Tested {
        hypothesis: tested.hypothesis,
        outcome,
        holm,
        family,
        alpha: rules.design.alpha,
        beta: rules.design.beta,
        is_smallest: tested.is_smallest,
        advice: tested.advice,
    });
    (outcome, Reason::new(rule, facts), wants)
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

/// Adds to the reason of a check that could still have been decided how the run ended.
fn explain_open(
    rules: &Rules<'_>,
    scope: &Scope<'_>,
    failed: Option<&str>,
    check: &mut CheckVerdict,
) {
    let (blocks, cap) = (scope.sound, rules.plan.most_blocks());
    let (rule, ended) = match (failed, &rules.record.ending) {
        (Some(id), _) => {
            let check = id.to_owned();
            (RuleId::Stopped, Ended::Failed { check })
        }
        _ if !scope.is_end => return,
        (None, Ending::EngineFailed { detail }) => {
            check.verdict = Verdict::Invalid;
            let detail = detail.clone();
            (RuleId::EngineFailed, Ended::EngineFailed { detail })
        }
        (None, Ending::Budget { starting }) => {
            let starting = starting.clone();
            let ended = Ended::Budget {
                blocks,
                cap,
                starting,
            };
            (RuleId::Budget, ended)
        }
        (None, Ending::Interrupted) => (RuleId::Interrupted, Ended::Interrupted { blocks, cap }),
        (None, Ending::Decided | Ending::LastLook | Ending::Unfinished) => return,
    };
    let before = std::mem::replace(&mut check.reason, Reason::new(rule, Facts::None));
    let before = Box::new(before);
    check.reason.facts = Facts::Open { before, ended };
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
        gates,
        blocks: scope.sound,
        launches: scope.launches,
        saved_s: saved_s(rules, scope),
        decision,
        not_run: match verdict {
            Verdict::Pass => plan::gates_not_run(rules.record),
            _ => Vec::new(),
        },
    }
}

/// The time that the remaining blocks would have taken, at the pace of those that ran. A workload with `launches` runs in the
/// first ones only.
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
    let most = plan.most_blocks();
    let blocks = scope.blocks.max(1) as f64;
    let (mut limited_s, mut of_all_s) = (0.0, 0.0);
    let workloads = plan.gates.iter().flat_map(|gate| &gate.workloads);
    for (workload, limit) in workloads.filter_map(|w| Some((w, w.launches?))) {
        let spans: Vec<f64> = record
            .launches
            .iter()
            .filter_map(|launch| span_s(launch, &workload.id))
            .collect();
        let spent_s: f64 = spans.iter().sum();
        let launches = f64::from(limit.min(most)) * record.comparison.arms().len() as f64;
        limited_s += spent_s;
        of_all_s += spent_s / spans.len().max(1) as f64 * launches.max(spans.len() as f64);
    }
    let each_s = (record.elapsed_s - limited_s).max(0.0) / blocks;
    let all_s = of_all_s + each_s * f64::from(most);
    (all_s.min(design.budget.as_secs_f64()) - record.elapsed_s).max(0.0)
}

/// From a workload's first request to its last answer within a launch; `None` where it was not run there.
fn span_s(launch: &Launch, workload: &str) -> Option<f64> {
    let samples = launch.samples.iter().filter(|s| s.workload == workload);
    let moments = samples.map(|sample| {
        let send = sample.stamps.send_ns;
        (send, sample.stamps.ended_ns().unwrap_or(send))
    });
    let (begin, end) =
        moments.reduce(|(begin, end), (send, done)| (begin.min(send), end.max(done)))?;
    Some(end.saturating_sub(begin) as f64 / 1e9)
}
