//! What calibration knows beforehand, and what nobody may conclude without it.

use super::*;
use fixture::random::Random;
use fixture::records::*;
use std::collections::BTreeMap;
use verdict::record::{Certified, Citation, LaunchNoise, Standing};

/// The session on a machine whose certificate says this of the one check.
fn on_calibrated(session: RunRecord, paired: bool, sd: f64) -> RunRecord {
    let noise = LaunchNoise {
        paired,
        sd,
        df: 4.0,
    };
    let certified = Certified {
        created: "2026-11-01T00:00:00Z".into(),
        sessions: 10,
        false_alarms: 0,
        interval: (0.0, 0.3),
        blocks: 16,
        effects: BTreeMap::new(),
        noise: BTreeMap::from([("gate/tpot".into(), noise)]),
    };
    let citation = Citation {
        gate: "gate".into(),
        standing: Standing::Valid(certified),
        learned: None,
    };
    RunRecord {
        calibration: vec![citation],
        ..session
    }
}

fn from_three() -> Plan {
    let mut plan = tpot_plan();
    plan.design.looks = vec![3, 4, 6, 8, 12, 16];
    plan
}

#[test]
fn three_launches_an_arm_decide_where_their_variance_is_known() {
    let check = |change: f64, expect: Verdict| {
        let session = interleaved(tpot_blocks(3, change, 0.003));
        let unknown = judge(&from_three(), &session);
        assert_eq!(first(&unknown).reason.rule.name(), "too-few-launches");
        assert_eq!(unknown.decision, Decision::ContinueTo { blocks: 4 });
        let known = judge(&from_three(), &on_calibrated(session, false, 0.003));
        assert_eq!(known.verdict, expect, "{}", sentence(first(&known)));
        assert_eq!(first(&known).launches, (3, 3));
    };
    check(0.0, Verdict::Pass);
    check(0.06, Verdict::Fail);
}

/// Each block has a time of its own that both launches share: 10 % up and down. Head is 4 % slower.
#[test]
fn launches_are_compared_in_pairs_where_the_certificate_says_so() {
    let session = || {
        interleaved(blocks(4, |arm, block| {
            let shared = [0.9, 1.1, 1.0, 1.05][block as usize];
            let own = 1.0 + 1e-3 * f64::from(block % 3);
            let change = if arm == Arm::Head { 1.04 * own } else { 1.0 };
            around(20.0 * shared * change)
        }))
    };
    let verdict = |session: &RunRecord| judge(&from_three(), session).verdict;
    assert_eq!(verdict(&session()), Verdict::Inconclusive);
    let unpaired = on_calibrated(session(), false, 0.08);
    assert_eq!(verdict(&unpaired), Verdict::Inconclusive);
    assert_eq!(
        verdict(&on_calibrated(session(), true, 0.002)),
        Verdict::Fail
    );
}

/// A certificate of a quieter machine does not make this one quiet.
#[test]
fn a_session_that_varies_more_than_its_certificate_is_judged_by_itself() {
    let session = interleaved(tpot_blocks(4, 0.0, 0.05));
    let by_itself = judge(&tpot_plan(), &session);
    let told = judge(&tpot_plan(), &on_calibrated(session, false, 0.001));
    assert_eq!(told.verdict, Verdict::Inconclusive);
    assert_eq!(first(&told).interval, first(&by_itself).interval);
}

/// Numbers that no launches give, as in a file that was edited.
#[test]
fn a_variance_that_cannot_be_is_not_used() {
    let session = || interleaved(tpot_blocks(4, 0.06, 0.003));
    let by_itself = judge(&tpot_plan(), &session());
    assert_eq!(by_itself.verdict, Verdict::Inconclusive);
    for sd in [0.0, 1e-200, 1e200] {
        let got = judge(&tpot_plan(), &on_calibrated(session(), false, sd));
        let of = |verdict: &RunVerdict| (verdict.verdict, first(verdict).interval);
        assert_eq!(of(&got), of(&by_itself), "{sd}");
    }
}

#[test]
fn few_launches_fail_by_what_is_beyond_any_mode() {
    let check = |change: f64, expect: Verdict, part: &str| {
        let got = judge(&tpot_plan(), &interleaved(tpot_blocks(4, change, 0.003)));
        assert_eq!(got.verdict, expect, "{change}");
        let text = sentence(first(&got));
        assert!(text.contains(part), "{text}");
    };
    let few = "4 + 4 launches are too few to fail, since all may be in one of two modes: 6 + 6 can";
    check(0.3, Verdict::Inconclusive, few);
    check(0.7, Verdict::Fail, "beyond the margin");
}

/// By chance all of head's launches are in the fast mode and all of base's in the slow one, 4 % apart. They vary far less
/// than the certificate says, and show nothing about a head that is slower by the ceiling.
#[test]
fn launches_of_one_mode_are_not_trusted() {
    let session = interleaved(blocks(4, |arm, block| {
        let own = 1.0 + [0.003, -0.003, 0.002, -0.002][block as usize];
        around(20.0 * own * if arm == Arm::Head { 1.03 } else { 1.04 })
    }));
    let got = judge(&from_three(), &on_calibrated(session, false, 0.02));
    assert_eq!(
        got.verdict,
        Verdict::Inconclusive,
        "{}",
        sentence(first(&got))
    );
}

/// Head is slower by the ceiling, on launches that come in two modes 4 % apart, as their certificate knows.
#[test]
fn launches_in_two_modes_hide_no_slowdown() {
    const SESSIONS: u32 = 2_000;
    let mut plan = from_three();
    plan.design.looks = vec![3, 4, 5, 6, 8, 10, 12, 16];
    plan.design.beta = 0.015;
    plan.design.spending = Spending::Pocock;
    plan.gates[0].checks[0].min_samples = 1;
    let Rule::Regression { ceiling, .. } = plan.gates[0].checks[0].rule else {
        panic!("a regression check");
    };
    let mut passed = 0_u32;
    for seed in 0..SESSIONS {
        let mut random = Random(0x2_0da1 + u64::from(seed));
        let launches = blocks(16, |arm, _| {
            let slow = if random.uniform() < 0.5 { 1.04 } else { 1.0 };
            let change = if arm == Arm::Head { 1.0 + ceiling } else { 1.0 };
            let tpot_ms = 20.0 * slow * change * (0.003 * random.normal()).exp();
            vec![timed(0, (tpot_ms * 1e6).round() as i64)]
        });
        let mut session = on_calibrated(interleaved(launches), false, 0.02);
        session.ending = Ending::LastLook;
        passed += u32::from(judge(&plan, &session).verdict == Verdict::Pass);
    }
    println!("passed of {SESSIONS} sessions in two modes, head slower by the ceiling: {passed}");
    assert!(f64::from(passed) <= 0.015 * f64::from(SESSIONS), "{passed}");
}

/// Thirty checks, each on launches that come in two modes 4 % apart, and nothing changed: four launches of head in the one
/// and four of base in the other have almost no variance, and a p of 1e-8.
#[test]
fn launches_in_two_modes_make_no_run_red() {
    const CHECKS: usize = 30;
    const SESSIONS: u32 = 1_000;
    let mut plan = tpot_plan();
    plan.design.looks = vec![4, 5, 6, 7, 8, 10, 12, 16];
    let gate = plan.gates[0].clone();
    plan.gates = (0..CHECKS)
        .map(|n| {
            let mut gate = gate.clone();
            gate.name = format!("g{n}");
            gate.workloads[0].id = format!("g{n}/work");
            gate.checks[0].id = format!("g{n}/tpot");
            gate.checks[0].workload = format!("g{n}/work");
            gate.checks[0].min_samples = 1;
            gate
        })
        .collect();
    let mut red = 0_u32;
    for seed in 0..SESSIONS {
        let mut random = Random(0xb1_0da1 + u64::from(seed));
        let launches = blocks(16, |_, _| {
            let one = |n| {
                let slow = if random.uniform() < 0.5 { 1.04 } else { 1.0 };
                let tpot_ms: f64 = 20.0 * slow * (0.003 * random.normal()).exp();
                let mut sample = timed(0, (tpot_ms * 1e6).round() as i64);
                sample.workload = format!("g{n}/work");
                sample
            };
            (0..CHECKS).map(one).collect()
        });
        let mut session = interleaved(launches);
        session.ending = Ending::LastLook;
        red += u32::from(judge(&plan, &session).verdict == Verdict::Fail);
    }
    println!("red of {SESSIONS} sessions of {CHECKS} checks in two modes: {red}");
    assert!(red <= SESSIONS / 50, "{red}");
}
