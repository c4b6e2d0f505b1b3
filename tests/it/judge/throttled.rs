//! Blocks that a throttling machine spoils: dropped, repeated, and what they hide all the same.

use super::counters::{goodput_plan, within_slo};
use super::invalid::expect_invalid;
use super::surroundings::plan_on;
use super::*;
use fixture::records::*;
use verdict::record::{Void, VoidRule};

#[test]
fn throttled() {
    let all = spoiled(|l| l.throttle_bits = Some(0x20));
    expect_invalid(&all, "throttled", "the GPU throttled in 4 of 4 blocks");
    let capped = spoiled(|l| l.throttle_bits = Some(0x4));
    assert_eq!(
        judge(&tpot_plan(), &capped).verdict,
        Verdict::Pass,
        "a power cap is no throttling"
    );
}

#[test]
fn head_throttles() {
    let session = spoiled(|l| {
        if l.arm == Arm::Head && l.block < 3 {
            l.throttle_bits = Some(0x40);
        }
    });
    expect_invalid(
        &session,
        "head-throttles",
        "the GPU throttled in 3 launches of head and 0 of base",
    );
}

/// Five blocks, of which the machine throttled in one launch of this arm, at another speed.
pub(crate) fn throttled_in(arm: Arm, tpot_ms: f64) -> RunRecord {
    let mut launches = tpot_blocks(5, 0.0, 0.003);
    let mut of_arm = launches.iter_mut().filter(|launch| launch.arm == arm);
    let launch = of_arm.nth(1).unwrap();
    launch.throttle_bits = Some(0x8);
    launch.samples = around(tpot_ms);
    interleaved(launches)
}

#[test]
fn a_throttled_block_is_dropped_and_repeated() {
    let session = throttled_in(Arm::Base, 40.0);
    let short = interleaved(session.launches[..8].to_vec());
    let short = judge(&tpot_plan(), &short);
    assert_eq!(
        (short.blocks, short.decision),
        (3, Decision::ContinueTo { blocks: 4 })
    );
    let got = judge(&tpot_plan(), &session);
    assert_eq!(
        (got.verdict, got.blocks, first(&got).launches),
        (Verdict::Pass, 4, (4, 4))
    );
}

/// What head loses by its own heat is dropped with the block.
#[test]
fn head_does_not_pass_by_the_blocks_that_it_throttled_in() {
    let rule_of = |plan: &Plan, session: &RunRecord| {
        let got = judge(plan, session);
        let check = first(&got);
        (check.verdict, check.reason.rule.name(), sentence(check))
    };
    let (verdict, rule, text) = rule_of(&tpot_plan(), &throttled_in(Arm::Head, 24.0));
    assert_eq!((verdict, rule), (Verdict::Inconclusive, "head-throttles"));
    let part = "(1 launch of head, 0 of base). With them, the change is +3.596 %";
    assert!(text.contains(part), "{text}");
    // As fast as ever.
    let (verdict, rule, text) = rule_of(&tpot_plan(), &throttled_in(Arm::Head, 20.05));
    assert_eq!((verdict, rule), (Verdict::Pass, "regression"), "{text}");
    // A rate, of which less is worse.
    let rate = plan_on(Metric::Throughput, Statistic::Single);
    let (verdict, rule, text) = rule_of(&rate, &throttled_in(Arm::Head, 24.0));
    assert_eq!(
        (verdict, rule),
        (Verdict::Inconclusive, "head-throttles"),
        "{text}"
    );
    let (verdict, _, text) = rule_of(&rate, &throttled_in(Arm::Head, 16.0));
    assert_eq!(verdict, Verdict::Pass, "{text}");
}

#[test]
fn requests_that_head_loses_in_a_dropped_block_are_lost() {
    let check = |throttled: Arm, rule: VoidRule, expect: (Verdict, &str)| {
        let mut session = throttled_in(throttled, 20.0);
        let of_block = |launch: &&mut Launch| launch.block == 1 && launch.arm == Arm::Head;
        let mut launches = session.launches.iter_mut();
        for sample in &mut launches.find(of_block).unwrap().samples[..3] {
            sample.void = Some(Void {
                rule,
                detail: String::new(),
            });
        }
        let got = judge(&tpot_plan(), &session);
        let check = first(&got);
        let found = (check.verdict, check.reason.rule.name());
        assert_eq!(found, expect, "{}", sentence(check));
    };
    for arm in Arm::BOTH {
        check(arm, VoidRule::Status, (Verdict::Fail, "reliability"));
        // A slow machine may be the cause.
        check(arm, VoidRule::Timeout, (Verdict::Pass, "regression"));
    }
}

/// A block that was dropped was launched all the same.
#[test]
fn a_head_that_fails_after_a_dropped_first_block_is_to_blame() {
    let mut session = interleaved(tpot_blocks(2, 0.0, 0.003));
    for launch in &mut session.launches {
        if launch.block == 0 {
            launch.throttle_bits = Some(0x20);
        }
    }
    let of_head = |launch: &&mut Launch| launch.block == 1 && launch.arm == Arm::Head;
    session.launches.iter_mut().find(of_head).unwrap().exit = crashed();
    session
        .launches
        .truncate(3 + usize::from(session.launches[2].arm == Arm::Base));
    let got = judge(&tpot_plan(), &session);
    let found = (got.verdict, first(&got).reason.rule.name());
    let text = sentence(first(&got));
    assert_eq!(found, (Verdict::Fail, "reliability"), "{text}");
}

#[test]
fn equal_shares_in_dropped_blocks_are_no_doubt() {
    let mut session = within_slo(20, 20);
    let mut heads = session.launches.iter_mut().filter(|l| l.arm == Arm::Head);
    heads.nth(1).unwrap().throttle_bits = Some(0x20);
    let got = judge(&goodput_plan(REGRESSION), &session);
    assert_eq!(got.verdict, Verdict::Pass, "{}", sentence(first(&got)));
}

/// A workload of few launches runs again for those that were dropped.
#[test]
fn a_workload_with_launches_of_its_own_is_judged_after_a_dropped_block() {
    let mut plan = tpot_plan();
    plan.gates[0].workloads[0].launches = Some(4);
    let session = throttled_in(Arm::Base, 40.0);
    let got = judge(&plan, &session);
    assert_eq!(
        (got.verdict, first(&got).launches),
        (Verdict::Pass, (4, 4)),
        "{}",
        sentence(first(&got))
    );
}
