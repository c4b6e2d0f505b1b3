//! The promise of the error budget, over machines: a run fails by chance in no more than its budget, however its
//! gates are spread, and merging changes no shard's verdict.

use fixture::random::Random;
use fixture::records::*;
use verdict::judge::judge;
use verdict::plan::{Gate, Plan};
use verdict::record::{
    Arm, Comparison, Ending, Extent, GateVerdict, Launch, MERGED_FORMAT, RunRecord, Shard, Verdict,
};

const MACHINES: usize = 3;
const GATES_EACH: usize = 2;
const CHECKS: u32 = (MACHINES * GATES_EACH) as u32;
const LOOKS: [u32; 3] = [4, 6, 8];

/// Six gates of one check each, on the median TPOT.
fn six() -> Plan {
    let mut plan = tpot_plan();
    plan.design.looks = LOOKS.to_vec();
    let gate = plan.gates[0].clone();
    plan.gates = (0..MACHINES * GATES_EACH)
        .map(|n| renamed(&gate, n))
        .collect();
    plan
}

fn name(n: usize) -> String {
    format!("g{n}")
}

fn renamed(gate: &Gate, n: usize) -> Gate {
    let mut gate = gate.clone();
    gate.name = name(n);
    gate.workloads[0].id = format!("g{n}/work");
    gate.checks[0].id = format!("g{n}/tpot");
    gate.checks[0].workload = format!("g{n}/work");
    gate
}

/// The gates that a machine measures.
fn own(machine: usize) -> Vec<usize> {
    (0..GATES_EACH).map(|i| machine + i * MACHINES).collect()
}

/// What one machine measures where head's TPOT differs by `change` in every gate.
fn shard(random: &mut Random, machine: usize, change: f64) -> RunRecord {
    let gates = own(machine);
    let mut launches = blocks(*LOOKS.last().unwrap(), |_, _| Vec::new());
    for launch in &mut launches {
        launch.fingerprint = format!("machine {machine}");
        let shift = if launch.arm == Arm::Head {
            1.0 + change
        } else {
            1.0
        };
        for gate in &gates {
            let tpot_ms = 20.0 * shift * (0.007 * random.normal()).exp();
            let samples = around(tpot_ms).into_iter().map(|mut sample| {
                sample.workload = format!("g{gate}/work");
                sample
            });
            launch.samples.extend(samples);
        }
    }
    let mut record = record(Comparison::Interleaved, launches);
    record.machine.fingerprint = format!("machine {machine}");
    record.gates = gates.into_iter().map(name).collect();
    record.ending = Ending::LastLook;
    record.extent = Extent::Shard {
        together: (0..CHECKS as usize).map(name).collect(),
        checks: CHECKS,
    };
    record
}

fn merged(shards: &[RunRecord]) -> RunRecord {
    let all = shards.iter().flat_map(|s| s.launches.clone());
    let launches: Vec<Launch> = all.collect();
    let mut whole = record(Comparison::Interleaved, launches);
    whole.format = MERGED_FORMAT.into();
    whole.gates = (0..CHECKS as usize).map(name).collect();
    whole.extent = Extent::Merged {
        shards: shards.iter().map(Shard::of).collect(),
    };
    whole
}

/// The plan of one machine's gates.
fn plan_of(plan: &Plan, record: &RunRecord) -> Plan {
    let mut own = plan.clone();
    own.gates.retain(|gate| record.gates.contains(&gate.name));
    own
}

/// Every change is exactly the margin: the most that is no regression, where false alarms are likeliest.
#[test]
fn a_run_over_three_machines_fails_by_chance_within_its_budget() {
    const RUNS: u32 = 500;
    let plan = six();
    let (mut together, mut each_for_itself) = (0_u32, 0_u32);
    for seed in 0..RUNS {
        let mut random = Random(0x5eed_0000 + u64::from(seed));
        let margin = 0.01;
        let shards: Vec<RunRecord> = (0..MACHINES)
            .map(|m| shard(&mut random, m, margin))
            .collect();
        let verdict = judge(&plan, &merged(&shards));
        together += u32::from(verdict.verdict == Verdict::Fail);
        let alone = shards.iter().any(|shard| {
            let mut own = shard.clone();
            own.extent = Extent::Whole;
            judge(&plan_of(&plan, shard), &own).verdict == Verdict::Fail
        });
        each_for_itself += u32::from(alone);
    }
    assert!(
        f64::from(together) <= plan.design.alpha * f64::from(RUNS),
        "{together} of {RUNS}"
    );
    // Each with a budget of its own, the machines would spend it several times over.
    assert!(
        each_for_itself > together,
        "{each_for_itself} against {together}"
    );
    println!(
        "false alarms at the margin: {together} of {RUNS}; with a budget each {each_for_itself}"
    );
}

#[test]
fn a_regression_is_found_over_machines_too() {
    let plan = six();
    let mut found = 0_u32;
    for seed in 0..50 {
        let mut random = Random(0xf00d + seed);
        let shards: Vec<RunRecord> = (0..MACHINES)
            .map(|m| shard(&mut random, m, if m == 1 { 0.04 } else { 0.0 }))
            .collect();
        found += u32::from(judge(&plan, &merged(&shards)).verdict == Verdict::Fail);
    }
    assert!(found >= 48, "{found} of 50");
}

/// Whatever a shard said on its own machine stands in the merged verdict, word for word; and the run fails if and
/// only if the smallest p does over all checks.
#[test]
fn merging_changes_no_verdict() {
    let plan = six();
    for seed in 0..60 {
        let mut random = Random(0xabc + seed);
        let change = [0.0, 0.015, 0.025, 0.04][usize::try_from(seed % 4).unwrap()];
        let shards: Vec<RunRecord> = (0..MACHINES)
            .map(|m| shard(&mut random, m, change))
            .collect();
        let whole = judge(&plan, &merged(&shards));
        let mut alone: Vec<GateVerdict> = shards
            .iter()
            .flat_map(|shard| judge(&plan_of(&plan, shard), shard).gates)
            .collect();
        alone.sort_by(|a, b| a.gate.cmp(&b.gate));
        assert_eq!(whole.gates, alone);
        let checks = whole.gates.iter().flat_map(|gate| &gate.checks);
        let least = checks.filter_map(|check| check.p_fail).fold(1.0, f64::min);
        let fails = least * f64::from(CHECKS) <= plan.design.alpha;
        assert_eq!(whole.verdict == Verdict::Fail, fails, "{least}");
    }
}

/// The worked case of docs/verdict.md.
#[test]
fn a_p_that_is_small_enough_for_two_checks_is_not_for_six() {
    let (plan, mut seen) = (six(), 0);
    for seed in 0..400 {
        let mut random = Random(seed);
        let session = shard(&mut random, 0, 0.02);
        let mut own = session.clone();
        own.extent = Extent::Whole;
        let two = judge(&plan_of(&plan, &own), &own);
        let six = judge(&plan_of(&plan, &session), &session);
        if two.verdict == Verdict::Fail && two.blocks == 6 && six.blocks > 6 {
            let p = two
                .gates
                .iter()
                .flat_map(|g| &g.checks)
                .filter_map(|c| c.p_fail)
                .fold(1.0, f64::min);
            assert!(p * 2.0 <= 0.02 && p * 6.0 > 0.02, "{p}");
            seen += 1;
        }
    }
    // A shard that knew of itself alone would have ended there, for nothing.
    assert!(seen > 0);
}

#[test]
fn a_gate_that_no_machine_measured_is_never_a_pass() {
    let plan = six();
    let mut random = Random(7);
    let shards: Vec<RunRecord> = (0..2).map(|m| shard(&mut random, m, 0.0)).collect();
    let verdict = judge(&plan, &merged(&shards));
    assert_eq!(verdict.verdict, Verdict::Inconclusive);
    let open: Vec<&str> = verdict
        .gates
        .iter()
        .filter(|gate| gate.verdict != Verdict::Pass)
        .map(|gate| gate.gate.as_str())
        .collect();
    assert_eq!(open, ["g2", "g5"]);
}
