//! `gate compare --at-most`: the first engine is held against each of the others by the judge of every session.
//!
//! The engines' launches were made in turn, so two engines' sessions are one session of two arms: the first engine is
//! its head and the other its base. A limit is a regression check whose margin and ceiling are one: it fails where head
//! is shown to be above the limit, passes where it is shown to be below, and is inconclusive else. The profile's looks
//! and error budgets hold, and all limits against all engines share them.
//!
//! Main type: [`Limit`], the check of an [`AtMost`]. Refuses to know: how engines are launched.

use super::columns::{choose, reading};
use super::contest::{AtMost, Contest, Lane};
use crate::figures::Held;
use crate::report;
use crate::session::Error;
use verdict::judge::judge;
use verdict::plan::{self, Check, Gate, LAUNCHES, Part, Plan, Rule, Workload, WorkloadKind};
use verdict::record::{
    Arm, Build, Comparison, Decision, Ending, Extent, Interleave, Launch, Metric, RunRecord,
    RunVerdict, Statistic, Verdict,
};

/// Rounds where nothing is to be decided.
const ROUNDS: u32 = 3;

/// A limit with the plan that judges it: one gate, one check.
pub struct Limit {
    at_most: AtMost,
    plan: Plan,
}

impl Limit {
    /// # Errors
    /// A metric that the gates' workloads do not have, and rounds of which no look is made.
    pub fn new(at_most: &AtMost, plan: &Plan, contest: &Contest) -> Result<Self, Error> {
        let refused = |cause: String| {
            let (name, times) = (at_most.metric.name(), at_most.times);
            Error::Usage(format!("--at-most {name}={times}: {cause}"))
        };
        if contest.engines.len() < 2 {
            return Err(refused(
                "it holds the first engine against the others; name two or more in --engines"
                    .into(),
            ));
        }
        let workload = workload(at_most.metric, plan, contest.workload.as_deref())?;
        let workload = workload.ok_or_else(|| {
            refused("no workload of the gates gives it; choose gates that do with --gate".into())
        })?;
        let check = check(at_most, workload);
        if let Some(lack) = plan::lack(check.metric, &check.part, &workload.kind) {
            return Err(refused(format!("workload {}: {lack}", workload.id)));
        }
        let least = plan
            .design
            .looks
            .iter()
            .copied()
            .find(|look| *look >= LAUNCHES)
            .unwrap_or(LAUNCHES);
        if let Some(rounds) = contest.rounds.filter(|rounds| *rounds < least) {
            return Err(refused(format!(
                "{rounds} rounds decide nothing: results are tested after {least} rounds first; say --rounds {least} \
                 or more, or leave it out"
            )));
        }
        let is_its = |gate: &&Gate| gate.workloads.iter().any(|own| own.id == workload.id);
        let gates = plan.gates.iter().filter(is_its).take(1);
        let gates = gates.map(|gate| Gate {
            workloads: vec![workload.clone()],
            checks: vec![check.clone()],
            ..gate.clone()
        });
        Ok(Self {
            at_most: *at_most,
            plan: Plan {
                gates: gates.collect(),
                waivers: Vec::new(),
                ..plan.clone()
            },
        })
    }

    /// What the judge makes of the first engine's launches so far against another's. `checks`: of all limits against
    /// all engines.
    fn judge(&self, lanes: &[Lane], other: usize, checks: u32) -> RunVerdict {
        let (first, base) = (&lanes[0].record, &lanes[other].record);
        let own = &self.plan.gates[0];
        let shares = |launch: &&Launch| own.is_run_by(launch);
        let arm = |record: &RunRecord, arm: Arm, lane: usize| -> Vec<(u32, usize, Launch)> {
            let launches = record.launches.iter().filter(shares);
            let turned = launches.map(|launch| {
                // Engines of a contest run one at a time, whatever the profile says of arms.
                let launch = Launch {
                    arm,
                    interleave: Interleave::Launches,
                    ..launch.clone()
                };
                (launch.block, turn(lane, launch.block, lanes.len()), launch)
            });
            turned.collect()
        };
        let mut launches = arm(first, Arm::Head, 0);
        launches.extend(arm(base, Arm::Base, other));
        launches.sort_by_key(|(round, turn, _)| (*round, *turn));
        let launches = (0..).zip(launches);
        let launches = launches.map(|(position, (_, _, launch))| Launch { position, ..launch });
        let build = |record: &RunRecord, arm: Arm| {
            let build = record.builds.first()?.clone();
            Some(Build { arm, ..build })
        };
        let builds = [build(base, Arm::Base), build(first, Arm::Head)];
        let session = RunRecord {
            comparison: Comparison::Interleaved,
            builds: builds.into_iter().flatten().collect(),
            gates: vec![own.name.clone()],
            launches: launches.collect(),
            ending: match first.ending {
                Ending::Unfinished => Ending::Unfinished,
                _ => Ending::LastLook,
            },
            extent: Extent::Shard {
                together: vec![own.name.clone()],
                checks,
            },
            ..first.clone()
        };
        let mut plan = self.plan.clone();
        plan.engine = lanes[0].contender.engine.clone();
        plan.gates[0].interleave = Interleave::Launches;
        let floor = &mut plan.engine.plausible.tpot_floor_ms;
        *floor = floor.or(lanes[other].contender.engine.plausible.tpot_floor_ms);
        judge(&plan, &session)
    }
}

/// The place of a lane in a round: the order rotates.
fn turn(lane: usize, round: u32, lanes: usize) -> usize {
    (lane + lanes - round as usize % lanes) % lanes
}

/// Rounds that can decide every limit; of none, those that give a spread.
pub fn most_rounds(limits: &[Limit]) -> u32 {
    let rounds = limits.iter().map(|limit| limit.plan.most_blocks());
    rounds.max().unwrap_or(ROUNDS)
}

/// Whether no further round can change the verdict on any limit; false where there is none.
pub fn are_decided(limits: &[Limit], lanes: &[Lane]) -> bool {
    let mut verdicts = verdicts(limits, lanes).peekable();
    verdicts.peek().is_some() && verdicts.all(|(_, _, verdict)| verdict.decision == Decision::Stop)
}

/// The verdict on each limit against each other engine.
pub fn held(limits: &[Limit], lanes: &[Lane]) -> Vec<Held> {
    let held = verdicts(limits, lanes).map(|(limit, other, verdict)| {
        let check = verdict.gates.first().and_then(|gate| gate.checks.first());
        Held {
            name: lanes[0].contender.name.clone(),
            against: lanes[other].contender.name.clone(),
            metric: limit.at_most.metric,
            at_most: limit.at_most.times,
            verdict: check.map_or(Verdict::Invalid, |check| check.verdict),
            rule: check.map_or("unknown-workload", |check| check.reason.rule.name()),
            text: report::redact(
                &check.map_or_else(|| report::summary(&verdict), report::sentence),
            )
            .into_owned(),
        }
    });
    held.collect()
}

fn verdicts<'a>(
    limits: &'a [Limit],
    lanes: &'a [Lane],
) -> impl Iterator<Item = (&'a Limit, usize, RunVerdict)> {
    let checks = limits.len() * (lanes.len() - 1);
    let checks = u32::try_from(checks).unwrap_or(u32::MAX);
    limits.iter().flat_map(move |limit| {
        (1..lanes.len()).map(move |other| (limit, other, limit.judge(lanes, other, checks)))
    })
}

/// The workload whose launches have the metric: of a start the first request's, else that of the warm half.
fn workload<'a>(
    metric: Metric,
    plan: &'a Plan,
    asked: Option<&str>,
) -> Result<Option<&'a Workload>, Error> {
    let mut all = plan.gates.iter().flat_map(|gate| &gate.workloads);
    let first = all.find(|workload| matches!(workload.kind, WorkloadKind::FirstRequest(_)));
    match metric {
        Metric::FirstToken | Metric::FirstResponse => Ok(first),
        Metric::Ready | Metric::PortOpen if first.is_some() => Ok(first),
        _ => choose("the gates", plan, asked),
    }
}

fn check(at_most: &AtMost, workload: &Workload) -> Check {
    let statistic = if at_most.metric.is_single() {
        Statistic::Single
    } else {
        Statistic::Median
    };
    let margin = at_most.times - 1.0;
    Check {
        id: format!("at-most/{}", at_most.metric.name()),
        part: Part::default(),
        rule: Rule::Regression {
            margin,
            ceiling: margin,
        },
        ..reading(workload, at_most.metric, statistic)
    }
}

#[cfg(test)]
mod tests {
    use super::turn;

    #[test]
    fn the_order_of_a_round_rotates() {
        let order = |round, lanes: usize| {
            let mut order: Vec<usize> = (0..lanes).collect();
            order.sort_by_key(|lane| turn(*lane, round, lanes));
            order
        };
        assert_eq!(
            [order(0, 2), order(1, 2), order(2, 2)],
            [[0, 1], [1, 0], [0, 1]]
        );
        assert_eq!([order(1, 3), order(2, 3)], [[1, 2, 0], [2, 0, 1]]);
    }
}
