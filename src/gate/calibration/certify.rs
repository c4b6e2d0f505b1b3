//! From measured and drawn sessions to one certificate a gate.

use super::history::{self, PastSession};
use super::noise::{Observed, blocks, launch_noise, launch_seconds, noise, observe};
use super::{
    CALIBRATION_FORMAT, Certificate, CheckCertificate, Drawn, Effect, Sessions, Tally, outcome,
    test_of,
};
use crate::baseline::Key;
use std::collections::BTreeMap;
use verdict::judge;
use verdict::plan::{Check, Design, Gate, Plan, Rule};
use verdict::record::{Arm, Build, RuleId, RunRecord, RunVerdict, Verdict};
use verdict::stats;

/// Power at which the smallest effect is given.
const POWER: f64 = 0.95;

/// What is kept of one measured A/A session.
#[derive(Clone, Debug)]
pub struct MeasuredSession {
    /// As [`outcome`] has it.
    verdict: Option<Verdict>,
    /// Check id → its verdict and rule.
    verdicts: BTreeMap<String, (Verdict, RuleId)>,
    /// Check id → what each launch gave it.
    observed: BTreeMap<String, Vec<Observed>>,
    /// Gate → seconds of each launch.
    launch_s: BTreeMap<String, Vec<f64>>,
    launches: usize,
    elapsed_s: f64,
}

impl MeasuredSession {
    pub fn of(plan: &Plan, record: &RunRecord, verdict: &RunVerdict) -> Self {
        let judged = verdict.gates.iter().flat_map(|gate| &gate.checks);
        let verdicts: BTreeMap<_, _> = judged
            .map(|check| (check.id.clone(), (check.verdict, check.reason.rule)))
            .collect();
        let is_sound = |check: &Check| {
            let verdict = verdicts.get(&check.id);
            verdict.is_some_and(|(verdict, _)| *verdict != Verdict::Invalid)
        };
        let mut observed = BTreeMap::new();
        for gate in &plan.gates {
            for check in gate.checks.iter().filter(|check| is_sound(check)) {
                observed.insert(check.id.clone(), observe(record, gate, check));
            }
        }
        Self {
            verdict: outcome(plan, verdict),
            observed,
            launch_s: plan
                .gates
                .iter()
                .map(|gate| (gate.name.clone(), launch_seconds(record, gate)))
                .collect(),
            verdicts,
            launches: record.launches.len(),
            elapsed_s: record.elapsed_s,
        }
    }

    pub fn verdict(&self) -> Option<Verdict> {
        self.verdict
    }
}

/// Everything that certificates stand on.
pub struct Evidence<'a> {
    pub plan: &'a Plan,
    /// The newest measured session's record: machine, builds, date, tool.
    pub record: &'a RunRecord,
    pub measured: &'a [MeasuredSession],
    /// Gate → its stored and kept sessions, oldest first.
    pub past: &'a BTreeMap<String, Vec<PastSession>>,
    /// Of the random arms of drawn sessions.
    pub seed: u64,
    /// RFC 3339, UTC.
    pub created: String,
}

/// One gate's certificate under `key`.
pub fn certify(evidence: &Evidence<'_>, gate: &Gate, key: Key) -> Certificate {
    let Evidence { plan, record, .. } = evidence;
    let Design {
        profile,
        looks,
        alpha,
        beta,
        spending,
        ..
    } = &plan.design;
    let build = Build::of(&record.builds, Arm::Head);
    let past = evidence.past.get(&gate.name).map_or(&[][..], Vec::as_slice);
    let count = |is_stored: bool| count(past.iter().filter(|p| p.is_stored == is_stored).count());
    let seconds: Vec<f64> = of_gate(evidence, gate).flatten().copied().collect();
    let launch_s = stats::mean(&seconds).unwrap_or_default();
    let family = judge::family(plan);
    Certificate {
        format: CALIBRATION_FORMAT.to_owned(),
        tool: record.tool.clone(),
        created: evidence.created.clone(),
        commit: build.and_then(|build| build.commit.clone()),
        dirty: build.is_some_and(|build| build.dirty),
        profile: profile.clone(),
        key,
        looks: looks.clone(),
        alpha: *alpha,
        beta: *beta,
        spending: *spending,
        gates: record.gates.clone(),
        checks_together: family,
        sessions: sessions(evidence.measured),
        drawn: Drawn {
            seed: evidence.seed,
            stored: count(true),
            kept: count(false),
        },
        launch_s,
        checks: gate
            .checks
            .iter()
            .map(|check| certify_check(evidence, past, check, launch_s, family))
            .collect(),
    }
}

fn of_gate<'a>(evidence: &Evidence<'a>, gate: &'a Gate) -> impl Iterator<Item = &'a Vec<f64>> {
    let measured = evidence.measured.iter();
    measured.filter_map(|session| session.launch_s.get(&gate.name))
}

fn sessions(measured: &[MeasuredSession]) -> Sessions {
    let mut sessions = Sessions::default();
    let mut elapsed_s = 0.0;
    for session in measured {
        match session.verdict {
            Some(verdict) => sessions.verdicts.add(verdict),
            None => sessions.broken_limits += 1,
        }
        sessions.launches += count(session.launches);
        elapsed_s += session.elapsed_s;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a sum of times above 0; the cast saturates after 136 years"
    )]
    let elapsed_s = f64::round(elapsed_s) as u32;
    Sessions {
        elapsed_s,
        ..sessions
    }
}

fn certify_check(
    evidence: &Evidence<'_>,
    past: &[PastSession],
    check: &Check,
    launch_s: f64,
    family: u32,
) -> CheckCertificate {
    let (mut measured, mut invalid) = (Tally::default(), BTreeMap::new());
    for session in evidence.measured {
        let Some((verdict, rule)) = session.verdicts.get(&check.id) else {
            continue;
        };
        measured.add(*verdict);
        if *verdict == Verdict::Invalid {
            *invalid.entry(rule.name().to_owned()).or_default() += 1;
        }
    }
    let observed: Vec<Vec<Observed>> = evidence
        .measured
        .iter()
        .filter_map(|session| session.observed.get(&check.id).cloned())
        .collect();
    let design = &evidence.plan.design;
    let is_compared = matches!(check.rule, Rule::Regression { .. });
    let in_blocks: Vec<_> = observed.iter().map(|session| blocks(session)).collect();
    let launch_noise = launch_noise(&in_blocks).filter(|_| is_compared);
    let mut certified = CheckCertificate {
        id: check.id.clone(),
        measured,
        drawn: history::draw(check, design, past, evidence.seed),
        invalid,
        noise: noise(&observed, launch_s),
        launch_noise,
        effects: Vec::new(),
        ceiling: None,
        blocks_for_ceiling: None,
    };
    let Some(test) = test_of(check, design, family, launch_noise.is_some()) else {
        return certified;
    };
    certified.ceiling = Some(test.ceiling);
    if let Some(spread) = certified.spread() {
        let effects = test.looks.iter().filter_map(|look| {
            Some(Effect {
                blocks: look.blocks,
                minutes: f64::from(2 * look.blocks) * launch_s / 60.0,
                effect: test.smallest_effect(spread, look, POWER)?,
            })
        });
        certified.effects = effects.collect();
        certified.blocks_for_ceiling = test.blocks_to_find(spread, test.ceiling, POWER).blocks();
    }
    certified
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
