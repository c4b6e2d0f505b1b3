//! Shares of which the launches of one build do not agree.

use super::correctness::{answer, tasks_plan};
use super::*;
use fixture::random::Random;
use fixture::records::*;

const CASES: usize = 200;

/// Blocks in which a launch answers those cases wrong for which this is so.
fn answering(blocks_of: u32, mut is_wrong: impl FnMut(Arm, u32) -> Vec<bool>) -> RunRecord {
    interleaved(blocks(blocks_of, |arm, block| {
        let wrong = is_wrong(arm, block);
        (0..)
            .zip(wrong)
            .map(|(i, wrong)| answer(i, wrong))
            .collect()
    }))
}

/// So many wrong in head's launches, one number a launch, and none in base's.
pub(crate) fn wrong_in_head(wrong: &[usize]) -> RunRecord {
    answering(wrong.len() as u32, |arm, block| {
        let wrong = match arm {
            Arm::Head => wrong[block as usize],
            Arm::Base => 0,
        };
        (0..CASES).map(|i| i < wrong).collect()
    })
}

pub(crate) fn plan_of(launches: u32, rule: Rule) -> Plan {
    let mut plan = tasks_plan(CASES, rule);
    plan.gates[0].workloads[0].launches = Some(launches);
    plan
}

pub(crate) const LOSS: Rule = Rule::Regression {
    margin: 0.01,
    ceiling: 0.1,
};

#[test]
fn a_verdict_must_hold_by_every_launch() {
    let check = |rule: Rule, wrong: &[usize], verdict: Verdict, part: &str| {
        let got = judge(&plan_of(wrong.len() as u32, rule), &wrong_in_head(wrong));
        let check = first(&got);
        assert_eq!(check.verdict, verdict, "{wrong:?}: {}", sentence(check));
        assert!(sentence(check).contains(part), "{}", sentence(check));
        notes(check)
    };
    let floor = Rule::Floor { limit: 0.9 };
    let notes = check(
        floor,
        &[0, 60],
        Verdict::Inconclusive,
        "in each of 2 launches",
    );
    let told = "launches of head answer differently, 70 % to 100 % right: a verdict must hold by each of them";
    assert_eq!(notes[0], told);
    assert!(
        notes[1].starts_with("launch 2, the worst of 2 launches: case "),
        "{notes:?}"
    );
    check(
        floor,
        &[60, 0],
        Verdict::Inconclusive,
        "in each of 2 launches",
    );
    check(floor, &[60, 50], Verdict::Fail, "below the floor");
    check(floor, &[2, 3], Verdict::Pass, "above the floor");
    let alike = check(floor, &[3, 3], Verdict::Pass, "200 cases)");
    assert!(
        alike.iter().all(|note| !note.contains("differently")),
        "{alike:?}"
    );
    check(
        LOSS,
        &[0, 60],
        Verdict::Inconclusive,
        "in each of 2 launches",
    );
    check(
        LOSS,
        &[60, 0],
        Verdict::Inconclusive,
        "in each of 2 launches",
    );
    check(LOSS, &[50, 60], Verdict::Fail, "beyond the margin");
    check(LOSS, &[2, 3], Verdict::Pass, "below the ceiling");
    // All answers is a claim in which chance has no part: one launch refutes it.
    let all = Rule::Floor { limit: 1.0 };
    check(
        all,
        &[0, 1],
        Verdict::Fail,
        "199 of 200 cases, below the floor",
    );
    check(all, &[0, 0], Verdict::Pass, "not beyond the floor");
}

/// Counts failed sessions; base and head are one build.
fn false_alarms(launches: u32, mut is_wrong: impl FnMut(&mut Random) -> Vec<bool>) -> u32 {
    let plan = plan_of(launches, LOSS);
    let mut random = Random(0x000f_11b5);
    let sessions = (0..sessions()).map(|_| answering(launches, |_, _| is_wrong(&mut random)));
    let fails = sessions.filter(|session| judge(&plan, session).verdict == Verdict::Fail);
    fails.count() as u32
}

/// By day a third of them.
fn sessions() -> u32 {
    if fixture::is_nightly() { 2_000 } else { 600 }
}

#[test]
fn launches_that_answer_by_chance_fail_within_the_budget() {
    // 20 of the cases flip a coin.
    let flips = |random: &mut Random| {
        (0..CASES)
            .map(|i| i < 20 && random.uniform() < 0.5)
            .collect()
    };
    // Each second launch answers 20 of them wrong.
    let lots = |random: &mut Random| {
        let wrong = if random.uniform() < 0.5 { 20 } else { 0 };
        (0..CASES).map(|i| i < wrong).collect()
    };
    let all = sessions();
    let budget = (tasks_plan(1, LOSS).design.alpha * f64::from(all)) as u32;
    for launches in [1, 2, 4] {
        let fails = false_alarms(launches, flips);
        println!("flips, {launches} launches an arm: {fails} of {all} fail");
        assert!(fails <= budget, "{fails} of {all}");
    }
    for launches in [1, 2, 4] {
        let fails = false_alarms(launches, lots);
        println!("lots, {launches} launches an arm: {fails} of {all} fail");
        assert!(launches < 4 || fails <= budget, "{fails} of {all}");
    }
}
