//! Metrics that are the same in every launch.

use super::stored::stored;
use super::*;
use fixture::records::*;
use std::time::Duration;
use verdict::record::Phase;

pub(crate) fn counter_plan(metric: Metric, rule: Rule) -> Plan {
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

pub(crate) fn prefilling(base: u32, head: u32) -> RunRecord {
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
            "prefilled tokens max 1000 → 1000 tokens: +0 %, within the margin of 1 % (identical in 4 + 4 launches)",
        ),
        (
            1000,
            1010,
            Verdict::Pass,
            "prefilled tokens max 1000 → 1010 tokens: +1 %, within the margin of 1 % (identical in 4 + 4 launches)",
        ),
        (
            1000,
            1030,
            Verdict::Fail,
            "prefilled tokens max 1000 → 1030 tokens: +3 %, beyond the margin of 1 % (identical in 4 + 4 launches)",
        ),
        (
            1000,
            500,
            Verdict::Pass,
            "prefilled tokens max 1000 → 500 tokens: -50 %, within the margin of 1 % (identical in 4 + 4 launches)",
        ),
    ];
    for (base, head, verdict, text) in table {
        expect(&plan, &prefilling(base, head), verdict, "regression", text);
    }
}

#[test]
fn a_counter_of_zeros_is_vacuous_where_zero_cannot_be() {
    let check = |rule: Rule, base, head, verdict: Verdict, name: &str| {
        let got = judge(
            &counter_plan(Metric::PrefilledTokens, rule),
            &prefilling(base, head),
        );
        assert_eq!(
            (got.verdict, first(&got).reason.rule.name()),
            (verdict, name)
        );
    };
    check(REGRESSION, 0, 0, Verdict::Invalid, "vacuous");
    // A gauge that works in one arm alone.
    check(REGRESSION, 1000, 0, Verdict::Invalid, "vacuous");
    check(REGRESSION, 0, 1000, Verdict::Invalid, "vacuous");
    // What base's gauge reads says nothing of a limit on head's.
    let limit = Rule::Ceiling { limit: 4.0 };
    check(limit, 0, 0, Verdict::Invalid, "vacuous");
    check(limit, 4, 0, Verdict::Invalid, "vacuous");
    check(limit, 0, 4, Verdict::Pass, "ceiling");
}

/// Two turns of a conversation, the second with this excess.
pub(crate) fn conversation(excess: u32) -> Vec<Sample> {
    let turn = |i: u32, prompt, cached| {
        let mut s = timed(i, 1_000_000);
        s.turn = Some(i);
        s.tokens.prompt = Some(prompt);
        s.tokens.cached = Some(cached);
        s
    };
    vec![turn(0, 20, 0), turn(1, 60, 20 - excess)]
}

/// The plan on a conversation's excess, of a workload with a `duration`.
pub(crate) fn limited_plan() -> Plan {
    let mut plan = counter_plan(Metric::PrefillExcess, Rule::Ceiling { limit: 60.0 });
    if let WorkloadKind::Session(session) = &mut plan.gates[0].workloads[0].kind {
        session.duration = Some(Duration::from_secs(60));
    }
    plan
}

/// Base's conversations have two turns, head's so many.
pub(crate) fn shorter(turns: usize) -> RunRecord {
    interleaved(blocks(4, |arm, _| {
        let mut all = conversation(0);
        all.truncate(if arm == Arm::Head { turns } else { 2 });
        all
    }))
}

#[test]
fn a_conversation_that_ends_before_bases_is_no_pass() {
    let check = |plan: &Plan, session: &RunRecord, verdict: Verdict, rule: &str| {
        let got = judge(plan, session);
        let reason = first(&got).reason.rule.name();
        assert_eq!((got.verdict, reason), (verdict, rule));
    };
    let limited = limited_plan();
    check(&limited, &shorter(2), Verdict::Pass, "ceiling");
    check(&limited, &shorter(1), Verdict::Inconclusive, "fewer-turns");
    // Nothing but a `duration` ends a conversation early.
    let whole = counter_plan(Metric::PrefillExcess, Rule::Ceiling { limit: 60.0 });
    check(&whole, &shorter(1), Verdict::Pass, "ceiling");
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
        "prefill excess 0 → 2 tokens: up from nothing, beyond the margin of 1 % (identical in 4 + 4 launches)",
    );
}

#[test]
fn a_counter_that_varies_is_tested_or_refused() {
    let varying = |low: u32| {
        interleaved(blocks(4, move |arm, block| {
            let head = if arm == Arm::Head { 700 } else { 0 };
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
        (refused.verdict, first(&refused).reason.rule.name()),
        (Verdict::Inconclusive, "counter-varies")
    );
    assert_eq!(refused.decision, Decision::Stop);
}

/// Eight blocks of 200 requests, so many in 20 of each arm within their 10 ms.
pub(crate) fn within_slo(base: u32, head: u32) -> RunRecord {
    interleaved(blocks(8, |arm, _| {
        let good = if arm == Arm::Head { head } else { base };
        let ms = |i: u32| if i % 20 < good { 5 } else { 50 };
        (0..200).map(|i| timed(i, ms(i) * 1_000_000)).collect()
    }))
}

pub(crate) fn goodput_plan(rule: Rule) -> Plan {
    let mut plan = counter_plan(Metric::Goodput, rule);
    let check = &mut plan.gates[0].checks[0];
    check.statistic = Statistic::Single;
    check.part.slo = Some(
        Slo {
            e2e_ms: Some(10.0),
            ..Slo::default()
        }
        .into(),
    );
    plan
}

/// What counts failed requests counts the measured ones.
#[test]
fn a_request_of_the_warm_up_that_fails_is_no_pass() {
    let mut session = within_slo(20, 20);
    let mut heads = session.launches.iter_mut().filter(|l| l.arm == Arm::Head);
    let first_request = &mut heads.next().unwrap().samples[0];
    first_request.phase = Phase::Warmup;
    first_request.void = Some(Void {
        rule: VoidRule::Status,
        detail: "503".into(),
    });
    for plan in [
        goodput_plan(REGRESSION),
        counter_plan(Metric::FailedRequests, Rule::Ceiling { limit: 0.0 }),
        counter_plan(Metric::FailedCells, Rule::Ceiling { limit: 0.0 }),
    ] {
        let got = judge(&plan, &session);
        let reason = first(&got).reason.rule.name();
        assert_eq!((got.verdict, reason), (Verdict::Fail, "reliability"));
    }
}

/// Of 40 requests so many fail in each arm.
#[test]
fn requests_that_all_fail_in_both_arms_show_nothing() {
    let plan = counter_plan(Metric::FailedRequests, REGRESSION);
    let check = |base: u32, head: u32, verdict: Verdict, rule: &str| {
        let session = interleaved(blocks(4, |arm, _| {
            let failed = if arm == Arm::Head { head } else { base };
            let mut samples: Vec<Sample> = (0..40).map(|i| timed(i, 1_000_000)).collect();
            for sample in &mut samples[..failed as usize] {
                sample.void = void(VoidRule::Status);
            }
            samples
        }));
        let got = judge(&plan, &session);
        let told = sentence(first(&got));
        let found = (got.verdict, first(&got).reason.rule.name());
        assert_eq!(found, (verdict, rule), "{told}");
        told
    };
    let told = check(40, 40, Verdict::Invalid, "vacuous");
    let begin =
        "no request succeeded in 2 launches of both arms (40 × status, first request 0: why)";
    assert!(told.starts_with(begin), "{told}");
    check(39, 39, Verdict::Pass, "regression");
    check(0, 40, Verdict::Fail, "regression");
}

#[test]
fn a_share_of_good_requests_is_the_better_the_higher() {
    let check = |base: u32, head: u32, verdict: Verdict, rule: &str, part: &str| {
        let got = judge(&goodput_plan(REGRESSION), &within_slo(base, head));
        let check = first(&got);
        let told = [vec![sentence(check)], notes(check)].concat();
        let told = told.join("; ");
        assert_eq!(
            (check.verdict, check.reason.rule.name()),
            (verdict, rule),
            "{told}"
        );
        assert!(told.contains(part), "{told}");
    };
    check(20, 20, Verdict::Pass, "regression", "100 % → 100 %: +0");
    check(20, 19, Verdict::Fail, "regression", "100 % → 95 %: -5");
    check(20, 0, Verdict::Fail, "regression", "100 % → 0 %: -");
    check(
        19,
        20,
        Verdict::Pass,
        "regression",
        "better by more than the margin",
    );
    check(
        0,
        20,
        Verdict::Pass,
        "regression",
        "better by more than the margin",
    );
    check(
        0,
        0,
        Verdict::Invalid,
        "vacuous",
        "within the SLO, none can be lost",
    );
}

/// By a clock too: a slower machine loses requests that were in time before.
#[test]
fn a_share_of_good_requests_beside_stored_sessions_is_advice() {
    let rule = Rule::Regression {
        margin: 0.01,
        ceiling: 0.5,
    };
    for main_share in [1.0, 0.9] {
        let mut session = within_slo(20, 16);
        session.comparison = Comparison::Stored;
        session.launches.retain(|launch| launch.arm == Arm::Head);
        session.stored = stored(8, 1, "machine");
        for (i, main) in (0..).zip(&mut session.stored) {
            let share = main_share - 0.01 * f64::from(i % 2) * (1.0 - main_share);
            main.values = [("gate/count".to_owned(), vec![share])].into();
        }
        let got = judge(&goodput_plan(rule), &session);
        let reason = &first(&got).reason;
        assert_eq!(got.verdict, Verdict::Inconclusive, "{main_share}");
        assert_eq!(reason.rule.name(), "stored-base");
    }
}

#[test]
fn a_counter_that_varies_between_two_looks_is_as_the_last_look_left_it() {
    let mut plan = counter_plan(Metric::PrefilledTokens, REGRESSION);
    // A check that stays open, so that the session goes on.
    let tpot = check("tpot", Metric::Tpot, Statistic::Median, REGRESSION);
    plan.gates[0].checks.push(tpot);
    let session = |count: u32| {
        let mut launches = tpot_blocks(count, 0.02, 0.02);
        for launch in &mut launches {
            let more = u32::from(launch.block == 4 && launch.arm == Arm::Base);
            for sample in &mut launch.samples {
                sample.tokens.prompt = Some(1_000 + more);
                sample.tokens.cached = Some(0);
            }
        }
        let mut session = interleaved(launches);
        session.ending = Ending::Budget { starting: None };
        session
    };
    let told = |count| {
        let got = judge(&plan, &session(count));
        let check = first(&got);
        (check.verdict, sentence(check))
    };
    let as_at_four = told(4);
    assert_eq!(as_at_four.0, Verdict::Pass, "{}", as_at_four.1);
    assert_eq!(told(5), as_at_four);
    // The next look reads the launch that differs, and compares by t.
    let at_six = told(6);
    assert_eq!(at_six.0, Verdict::Pass, "{}", at_six.1);
    assert!(at_six.1.contains("6 + 6 launches"), "{}", at_six.1);
}
