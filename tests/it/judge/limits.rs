//! Absolute rules on metrics that vary.

use super::*;
use fixture::records::*;
use verdict::plan::{Logprobs, Matrix};
use verdict::record::{CacheState, Setting};

#[test]
fn a_ceiling_on_a_latency() {
    let ceiling = |limit| {
        let c = check(
            "ceiling",
            Metric::Tpot,
            Statistic::Median,
            Rule::Ceiling { limit },
        );
        plan(vec![workload(None, steady())], vec![c])
    };
    let session = interleaved(tpot_blocks(4, 0.0, 0.003));
    expect(
        &ceiling(21.0),
        &session,
        Verdict::Pass,
        "ceiling",
        "TPOT 20.02 ms [19.88, 20.15] (base 20 ms), below the ceiling of 21 ms (p = 8e-5; 4 launches)",
    );
    expect(
        &ceiling(19.0),
        &session,
        Verdict::Fail,
        "ceiling",
        "TPOT 20.02 ms [19.88, 20.15] (base 20 ms), above the ceiling of 19 ms (p = 6e-5; 4 launches)",
    );
    let open = judge(&ceiling(20.01), &session);
    assert_eq!(first(&open).reason.rule.name(), "undecided");
    let floor = check(
        "floor",
        Metric::Tpot,
        Statistic::Median,
        Rule::Floor { limit: 21.0 },
    );
    let below = judge(&plan(vec![workload(None, steady())], vec![floor]), &session);
    assert_eq!(
        (below.verdict, first(&below).reason.rule.name()),
        (Verdict::Fail, "floor")
    );
}

#[test]
fn an_absolute_rule_needs_no_base() {
    let limit = Rule::Ceiling { limit: 21.0 };
    let c = check("ceiling", Metric::Tpot, Statistic::Median, limit);
    let absolute = plan(vec![workload(None, steady())], vec![c]);
    let broken_base = spoiled(|l| {
        if l.arm == Arm::Base {
            l.samples[7].tokens.completion = None;
        }
    });
    assert_eq!(judge(&absolute, &broken_base).verdict, Verdict::Pass);
    let head = tpot_blocks(4, 0.0, 0.003)
        .into_iter()
        .filter(|l| l.arm == Arm::Head);
    let alone = record(Comparison::Alone, head.collect());
    assert_eq!(judge(&absolute, &alone).verdict, Verdict::Pass);
    let got = judge(&tpot_plan(), &alone);
    assert_eq!(
        (got.verdict, first(&got).reason.rule.name()),
        (Verdict::Inconclusive, "no-base")
    );
    assert_eq!(got.decision, Decision::Stop);
}

#[test]
fn a_drift_is_held_against_its_limit() {
    let turns = |growth: f64, wobble: f64| -> Vec<Sample> {
        (0..10_u32)
            .map(|k| {
                let ms = 20.0 * (growth * f64::from(k) / 9.0 + wobble * f64::from(k % 2)).exp();
                let mut s = timed(k, 1_000_000);
                s.turn = Some(k);
                s.stamps.events_ns = vec![(ms * 1e6) as u64, (ms * 1e6) as u64 + 1_000_000];
                s.tokens.prompt = Some(20 * (k + 1));
                s
            })
            .collect()
    };
    let c = check(
        "drift",
        Metric::PrefillDrift,
        Statistic::Single,
        Rule::Ceiling { limit: 0.1 },
    );
    let kind = WorkloadKind::Session(Session {
        turns: 10,
        warmup_turns: 0,
        message_words: 3,
        reply_tokens: 2,
        spacing: None,
        duration: None,
    });
    let drift_plan = plan(vec![workload(None, kind)], vec![c]);
    let session = |growth: f64| {
        interleaved(blocks(4, move |arm, block| {
            turns(growth + 0.004 * noise(arm, block), 0.001)
        }))
    };
    for (growth, verdict) in [(0.0, Verdict::Pass), (0.3, Verdict::Fail)] {
        let got = judge(&drift_plan, &session(growth));
        assert_eq!(got.verdict, verdict, "{}", summary(&got));
    }
}

#[test]
fn a_base_that_is_not_steady_leaves_heads_limit_alone() {
    let limit = Rule::Ceiling { limit: 25.0 };
    let c = check("ceiling", Metric::Tpot, Statistic::Median, limit);
    let absolute = plan(vec![workload(None, steady())], vec![c]);
    let drifting = |arm: Arm| {
        spoiled(move |launch| {
            if launch.arm != arm {
                return;
            }
            for (i, sample) in (0_u64..).zip(&mut launch.samples) {
                let gap = &mut sample.stamps.events_ns[1];
                *gap += *gap * i / 400;
            }
        })
    };
    let rule = |plan: &Plan, arm| first(&judge(plan, &drifting(arm))).reason.rule.name();
    assert_eq!(rule(&absolute, Arm::Base), "ceiling");
    assert_eq!(rule(&absolute, Arm::Head), "not-steady");
    assert_eq!(rule(&tpot_plan(), Arm::Base), "not-steady");
}

/// Four blocks of a matrix over two contexts, the longer one's tokens so much slower in each of head's launches.
fn over_contexts(slower_us: [i64; 4]) -> RunRecord {
    interleaved(blocks(4, |arm, block| {
        let slower_us = match arm {
            Arm::Head => slower_us[block as usize],
            Arm::Base => 1_000 + i64::from(block),
        };
        let cell = |(index, context): (u32, u32)| {
            let tpot_us = 20_000 + i64::from(block) + if context > 100 { slower_us } else { 0 };
            let mut sample = timed(index, tpot_us * 1_000);
            sample.setting = Some(Setting::Cell {
                batch: 1,
                cache: CacheState::Cold,
                context,
                pass: 0,
            });
            sample
        };
        (0..).zip([100, 1_100]).map(cell).collect()
    }))
}

/// Two cells, of contexts 100 and 1,100.
pub(crate) fn two_cells() -> Matrix {
    Matrix {
        batches: vec![1],
        caches: vec![CacheState::Cold],
        streamed: vec![true],
        contexts: vec![100, 1_100],
        output_tokens: 2,
        passes: 1,
        rounds: 1,
        warmup: 0,
        logprobs: Logprobs::default(),
    }
}

/// A check of its two cells.
fn on(metric: Metric, rule: Rule) -> Plan {
    plan(
        vec![workload(None, WorkloadKind::Matrix(two_cells()))],
        vec![check("line", metric, Statistic::Single, rule)],
    )
}

/// A check of one cell would pass, whatever became of the other, which no check reads.
#[test]
fn a_request_that_head_alone_does_not_answer_fails_also_in_a_cell_that_no_check_reads() {
    let mut short = check(
        "short",
        Metric::Tpot,
        Statistic::Median,
        Rule::Ceiling { limit: 1_000.0 },
    );
    short.part.context = Some(100);
    let plan = plan(
        vec![workload(None, WorkloadKind::Matrix(two_cells()))],
        vec![short],
    );
    let check = |lost: &[Arm], rule: VoidRule, verdict: Verdict, by: &str| {
        let mut session = over_contexts([0; 4]);
        for launch in &mut session.launches {
            if lost.contains(&launch.arm) {
                launch.samples[1].void = void(rule);
            }
        }
        let got = judge(&plan, &session);
        let found = (got.verdict, first(&got).reason.rule.name());
        assert_eq!(found, (verdict, by), "{}", sentence(first(&got)));
    };
    use VoidRule::{Status, TokenCounts};
    check(&[Arm::Head], Status, Verdict::Fail, "reliability");
    // The engine cannot be asked so, or was not at fault.
    check(&[Arm::Base, Arm::Head], Status, Verdict::Pass, "ceiling");
    check(&[Arm::Base], Status, Verdict::Pass, "ceiling");
    check(&[Arm::Head], TokenCounts, Verdict::Pass, "ceiling");
    // Base loses one of them too, once.
    let mut session = over_contexts([0; 4]);
    let is_lost = |launch: &&mut Launch| launch.arm == Arm::Head || launch.block == 0;
    for launch in session.launches.iter_mut().filter(is_lost) {
        launch.samples[1].void = void(Status);
    }
    let got = judge(&plan, &session);
    let found = (got.verdict, first(&got).reason.rule.name());
    let expect = (Verdict::Invalid, "void-samples");
    assert_eq!(found, expect, "{}", sentence(first(&got)));
}

/// Usage that miscounts is no wrong answer, and no proof of a right one.
#[test]
fn cells_whose_tokens_head_alone_miscounts_are_no_pass() {
    use VoidRule::{Status, TokenCounts};
    let plan = on(Metric::FailedCells, Rule::Ceiling { limit: 0.0 });
    let check = |base: &[VoidRule], head: &[VoidRule], verdict: Verdict, rule: &str| {
        let mut session = over_contexts([0; 4]);
        for launch in &mut session.launches {
            let rules = if launch.arm == Arm::Head { head } else { base };
            for (sample, rule) in launch.samples.iter_mut().zip(rules) {
                sample.void = void(*rule);
            }
        }
        let got = judge(&plan, &session);
        let told = sentence(first(&got));
        let found = (got.verdict, first(&got).reason.rule.name());
        assert_eq!(found, (verdict, rule), "{told}");
    };
    let all = [TokenCounts, TokenCounts];
    check(&[], &all, Verdict::Invalid, "void-samples");
    check(&all, &all, Verdict::Pass, "ceiling");
    check(&[TokenCounts], &all, Verdict::Invalid, "void-samples");
    check(&[], &[TokenCounts, Status], Verdict::Fail, "ceiling");
}

#[test]
fn a_line_that_noise_tilts_has_a_limit_and_no_change() {
    let flat = over_contexts([-40, 30, -10, 0]);
    let slope = |limit| on(Metric::TpotSlope, Rule::Ceiling { limit });
    expect(
        &slope(5.0),
        &flat,
        Verdict::Pass,
        "ceiling",
        "tpot slope -0.005 µs/token [-0.08931, 0.07931] (base 1.002 µs/token), below the ceiling of 5 µs/token (p = 1e-7; 4 launches)",
    );
    let steep = over_contexts([9_000, 9_040, 8_990, 9_010]);
    assert_eq!(judge(&slope(5.0), &steep).verdict, Verdict::Fail);
    let got = expect(
        &on(Metric::TpotSlope, REGRESSION),
        &flat,
        Verdict::Inconclusive,
        "no-relative-scale",
        "tpot_slope is 0 or below in some launch, and no change is a share of that: ask for longer contexts, or give it a ceiling",
    );
    assert_eq!(got.decision, Decision::Stop);
    let change = judge(&on(Metric::TpotSlope, REGRESSION), &steep);
    assert_eq!(
        (change.verdict, first(&change).reason.rule.name()),
        (Verdict::Fail, "regression")
    );
    assert_eq!(
        first(&judge(&on(Metric::TpotBase, REGRESSION), &flat)).verdict,
        Verdict::Pass
    );
}
