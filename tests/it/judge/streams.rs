//! What the streams say beside their times: events that arrived together, and answers that ended by themselves.

use super::*;
use fixture::records::*;

fn rule_of(plan: &Plan, session: &RunRecord) -> &'static str {
    first(&judge(plan, session)).reason.rule.name()
}

/// Streams of two tokens, `gap` ns apart, `shared` of their events ambiguous.
pub(crate) fn streams(gap: u64, shared: u32) -> RunRecord {
    interleaved(blocks(4, |arm, block| {
        let wobble = (1e4 * noise(arm, block)) as i64;
        let mut samples: Vec<Sample> = (0..30).map(sample).collect();
        for sample in &mut samples {
            let first = (5_000_000 + wobble + i64::from(sample.index % 7) * 1_000) as u64;
            sample.stamps.events_ns = vec![first, first + gap];
            sample.stamps.ambiguous_events = shared;
            sample.stamps.kernel_stamps = true;
        }
        samples
    }))
}

#[test]
fn a_first_token_is_ambiguous_with_the_second_alone() {
    let mut ttft = tpot_plan();
    ttft.gates[0].checks[0].metric = Metric::Ttft;
    // The last token arrived with the stream's end: nothing is wrong with the first.
    assert_eq!(rule_of(&ttft, &streams(1_000_000, 1)), "regression");
    assert_eq!(rule_of(&ttft, &streams(0, 1)), "ambiguous-events");
}

#[test]
fn one_shared_event_a_stream_is_its_end() {
    let mut icl = tpot_plan();
    icl.gates[0].checks[0].metric = Metric::Icl;
    let vary = |mut session: RunRecord| {
        for launch in &mut session.launches {
            let shift = u64::from(launch.position * launch.position % 5) * 1_000;
            for sample in &mut launch.samples {
                sample.stamps.events_ns[1] += shift + u64::from(sample.index % 5) * 100;
            }
        }
        session
    };
    assert_eq!(rule_of(&icl, &vary(streams(1_000_000, 1))), "regression");
    assert_eq!(
        rule_of(&icl, &vary(streams(1_000_000, 2))),
        "ambiguous-events"
    );
}

#[test]
fn a_first_event_of_unknown_tokens_is_told() {
    let check = |metric: Metric, change: fn(&mut Sample), expect: &[&str]| {
        let mut plan = tpot_plan();
        plan.gates[0].checks[0].metric = metric;
        plan.gates[0].checks[0].rule = Rule::Ceiling { limit: 1e3 };
        let session = spoiled(|l| {
            if l.arm == Arm::Head {
                l.samples.iter_mut().for_each(change);
            }
        });
        assert_eq!(notes(first(&judge(&plan, &session))), expect);
    };
    // Three tokens in two events.
    let three = |sample: &mut Sample| sample.tokens.completion = Some(3);
    let told = "answers of head have 1.5 tokens an event, and nothing tells how many the first one had: TPOT \
                takes 1.5 for it, an estimate (return_token_ids = true, if the engine can)";
    check(Metric::Tpot, three, &[told]);
    check(Metric::Tpot, |_| (), &[]);
    check(Metric::E2e, three, &[]);
    let by_ids = |sample: &mut Sample| {
        sample.tokens.completion = Some(3);
        sample.tokens.per_event = vec![2, 1];
    };
    check(Metric::Tpot, by_ids, &[]);
    // Of both arms it is said once.
    let session = spoiled(|l| l.samples.iter_mut().for_each(three));
    let told = told.replace("of head", "of both arms");
    assert_eq!(notes(first(&judge(&tpot_plan(), &session))), [told]);
}

#[test]
fn answers_of_one_token_over_and_over_are_told() {
    let told_of = |base: usize, head: usize| {
        let repeated = spoiled(|l| {
            let count = if l.arm == Arm::Head { head } else { base };
            for sample in l.samples.iter_mut().take(count) {
                sample.tokens.repeats = true;
            }
        });
        let got = judge(&tpot_plan(), &repeated);
        assert_eq!(got.verdict, Verdict::Pass);
        notes(first(&got))
    };
    let told = "20 of 120 answers of head are one token over and over: see whether they should be";
    assert_eq!(told_of(0, 5), [told]);
    // One in thirty, and what base does too, is the model's own manner.
    assert_eq!(told_of(0, 1), [""; 0]);
    assert_eq!(told_of(5, 5), [""; 0]);
    assert_eq!(told_of(5, 0), [""; 0]);
}

#[test]
fn answers_that_end_by_themselves_are_told() {
    let early = |arm: Arm| {
        spoiled(|l| {
            for sample in l.samples.iter_mut().filter(|s| l.arm == arm && s.index < 3) {
                sample.finish_reason = Some("stop".into());
            }
        })
    };
    for arm in Arm::BOTH {
        let got = judge(&tpot_plan(), &early(arm));
        assert_eq!(got.verdict, Verdict::Pass);
        let told = format!(
            "12 of 120 answers of {} ended by themselves, after 2 tokens on average",
            arm.name()
        );
        assert_eq!(notes(first(&got)), [told]);
    }
}
