//! Metrics that are the same in every launch.

use super::fixture::*;
use super::*;

fn counter_plan(metric: Metric, rule: Rule) -> Plan {
    let kind = match metric {
        Metric::PrefillExcess => WorkloadKind::Session(Session {
            turns: 2,
            warmup_turns: 0,
            message_words: 3,
            reply_tokens: 2,
            spacing: None,
            duration: None,
        }),
        _ => steady(),
    };
    let statistic = if metric == Metric::PrefillExcess {
        Statistic::Single
    } else {
        Statistic::Max
    };
    plan(
        vec![workload(None, kind)],
        vec![check("count", metric, statistic, rule)],
    )
}

fn prefilling(base: u32, head: u32) -> RunRecord {
    interleaved(blocks(4, |arm, _| {
        vec![prefilled(0, if arm == Arm::Head { head } else { base })]
    }))
}

#[test]
fn constant_counters_are_compared_exactly() {
    let plan = counter_plan(Metric::PrefilledTokens, REGRESSION);
    let table = [
        (
            1000,
            1000,
            Verdict::Pass,
            "prefilled tokens max 1000 → 1000 tokens: +0 %, within the margin of 1 % (the same in all of 4 + 4 launches)",
        ),
        (
            1000,
            1010,
            Verdict::Pass,
            "prefilled tokens max 1000 → 1010 tokens: +1 %, within the margin of 1 % (the same in all of 4 + 4 launches)",
        ),
        (
            1000,
            1030,
            Verdict::Fail,
            "prefilled tokens max 1000 → 1030 tokens: +3 %, beyond the margin of 1 % (the same in all of 4 + 4 launches)",
        ),
        (
            1000,
            500,
            Verdict::Pass,
            "prefilled tokens max 1000 → 500 tokens: -50 %, within the margin of 1 % (the same in all of 4 + 4 launches)",
        ),
    ];
    for (base, head, verdict, text) in table {
        expect(&plan, &prefilling(base, head), verdict, "regression", text);
    }
}

#[test]
fn a_counter_of_zeros_is_vacuous_where_zero_cannot_be() {
    let plan = counter_plan(Metric::PrefilledTokens, REGRESSION);
    let got = judge(&plan, &prefilling(0, 0));
    assert_eq!(
        (got.verdict, first(&got).reason.rule),
        (Verdict::Invalid, "vacuous")
    );
}

/// Two turns of a conversation, the second with this excess.
fn conversation(excess: u32) -> Vec<Sample> {
    let turn = |i: u32, prompt, cached| {
        let mut s = timed(i, 1_000_000);
        s.turn = Some(i);
        s.tokens.prompt = Some(prompt);
        s.tokens.cached = Some(cached);
        s
    };
    vec![turn(0, 20, 0), turn(1, 60, 20 - excess)]
}

#[test]
fn an_excess_of_zero_is_sound_and_any_above_the_limit_fails_at_once() {
    let plan = counter_plan(Metric::PrefillExcess, Rule::Ceiling { limit: 4.0 });
    expect(
        &plan,
        &interleaved(blocks(4, |_, _| conversation(0))),
        Verdict::Pass,
        "ceiling",
        "prefill excess 0 tokens (base 0 tokens), not above the ceiling of 4 tokens (4 launches)",
    );
    let got = expect(
        &plan,
        &interleaved(blocks(1, |arm, _| {
            conversation(if arm == Arm::Head { 15 } else { 0 })
        })),
        Verdict::Fail,
        "ceiling",
        "prefill excess 15 tokens (base 0 tokens), above the ceiling of 4 tokens: turn 1 prefilled 15 tokens more than it added",
    );
    assert_eq!(got.decision, Decision::Stop);
    let rise = counter_plan(Metric::PrefillExcess, REGRESSION);
    let from_nothing = interleaved(blocks(4, |arm, _| {
        conversation(if arm == Arm::Head { 2 } else { 0 })
    }));
    expect(
        &rise,
        &from_nothing,
        Verdict::Fail,
        "regression",
        "prefill excess 0 → 2 tokens: up from nothing, beyond the margin of 1 % (the same in all of 4 + 4 launches)",
    );
}

#[test]
fn a_counter_that_varies_is_tested_or_refused() {
    let varying = |low: u32| {
        interleaved(blocks(4, move |arm, block| {
            let head = if arm == Arm::Head { 200 } else { 0 };
            vec![prefilled(
                0,
                if block == 0 { low } else { 1000 } + head + block,
            )]
        }))
    };
    let plan = counter_plan(Metric::PrefilledTokens, REGRESSION);
    let got = judge(&plan, &varying(1000));
    assert_eq!(got.verdict, Verdict::Fail);
    assert!(first(&got).p_fail.unwrap() < 1e-3);
    let zeros = interleaved(blocks(4, |_, block| conversation(block)));
    let refused = judge(&counter_plan(Metric::PrefillExcess, REGRESSION), &zeros);
    assert_eq!(
        (refused.verdict, first(&refused).reason.rule),
        (Verdict::Inconclusive, "counter-varies")
    );
    assert_eq!(refused.decision, Decision::Stop);
}
