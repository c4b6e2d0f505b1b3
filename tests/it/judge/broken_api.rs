//! Answers of head alone that break the API.

use super::invalid::expect_invalid;
use super::*;
use fixture::records::*;

/// Most answers of head alone break the API: its engine is broken, and not the measurement.
#[test]
fn an_api_that_head_alone_breaks_fails() {
    let broken = |arms: &'static [Arm], every: usize, rule| {
        spoiled(move |l| {
            if arms.contains(&l.arm) {
                for sample in l.samples.iter_mut().step_by(every) {
                    sample.void = void(rule);
                    sample.tokens.requested = Some(7);
                }
            }
        })
    };
    let head = &[Arm::Head][..];
    for rule in [VoidRule::TokenCounts, VoidRule::FinishReason] {
        let session = broken(head, 1, rule);
        let text = format!(
            "head's answers break the API, and base's to the same requests do not: why (request 0 of gate/work in launch 1 \
             of head; in all 30 × {})",
            rule.name()
        );
        expect(&tpot_plan(), &session, Verdict::Fail, "reliability", &text);
        // In half of them it may be chance, and in both arms the client is at fault.
        expect_invalid(
            &broken(head, 2, rule),
            "void-samples",
            "invalid requests of head",
        );
        expect_invalid(
            &broken(&Arm::BOTH, 1, rule),
            "void-samples",
            "invalid requests",
        );
    }
    expect_invalid(
        &broken(head, 1, VoidRule::Implausible),
        "void-samples",
        "of head",
    );
}

#[test]
fn streams_without_done_fail_where_base_has_it() {
    let ended = |arms: &'static [Arm], every: usize| {
        spoiled(move |l| {
            if arms.contains(&l.arm) {
                for sample in l.samples.iter_mut().step_by(every) {
                    sample.stamps.no_done = true;
                }
            }
        })
    };
    let head = &[Arm::Head][..];
    let text = "30 of 30 streams of head ended without `data: [DONE]`, and all of base's with it: clients that wait for it hang";
    expect(
        &tpot_plan(),
        &ended(head, 1),
        Verdict::Fail,
        "reliability",
        text,
    );
    // After some answers alone, twelve of 120: no chance either.
    let some = judge(&tpot_plan(), &ended(head, 10));
    assert_eq!(first(&some).verdict, Verdict::Fail);
    for session in [
        ended(head, 20),
        ended(&Arm::BOTH, 1),
        ended(&[Arm::Base], 1),
    ] {
        let verdict = judge(&tpot_plan(), &session);
        assert_eq!(first(&verdict).verdict, Verdict::Pass);
    }
}
