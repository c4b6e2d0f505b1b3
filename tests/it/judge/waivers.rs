//! Checks that a waiver names.

use super::*;
use fixture::records::*;
use infergate::session::{Form, rendered};
use verdict::plan::Waiver;
use verdict::record::{Void, VoidRule};

/// The fixture's sessions begin on 2025-01-20.
pub(crate) fn waived(until: &str, check: &str) -> Waiver {
    Waiver {
        check: check.into(),
        reason: "a slower sampler, agreed".into(),
        owner: "@ada".into(),
        issue: "#12".into(),
        expires: until.into(),
    }
}

/// `tpot` against base, and below 10 ms, which no launch keeps.
pub(crate) fn two_checks() -> Plan {
    let mut two = tpot_plan();
    let limit = Rule::Ceiling { limit: 10.0 };
    let ceiling = check("ceiling", Metric::Tpot, Statistic::Median, limit);
    two.gates[0].checks.push(ceiling);
    two
}

#[test]
fn a_waived_failure_neither_fails_nor_ends_the_run() {
    let session = interleaved(tpot_blocks(8, 0.0, 0.002));
    let mut plan = two_checks();
    assert_eq!(judge(&plan, &session).verdict, Verdict::Fail);
    // The last day still holds.
    plan.waivers = vec![waived("2025-01-20", "gate/ceiling")];
    let got = judge(&plan, &session);
    assert_eq!(
        (got.verdict, got.gates[0].verdict),
        (Verdict::Pass, Verdict::Pass)
    );
    assert_eq!(
        summary(&got).split(';').next(),
        Some("1 check of 1 gate passed, waived: gate/ceiling")
    );
    let ceiling = &got.gates[0].checks[1];
    assert_eq!(
        (ceiling.verdict, ceiling.is_waived(), ceiling.word()),
        (Verdict::Fail, true, "waived")
    );
    assert_eq!(
        notes(ceiling),
        ["fail, waived until 2025-01-20 by @ada: a slower sampler, agreed (#12)"]
    );
}

#[test]
fn no_waiver_covers_an_engine_that_does_not_answer_or_a_check_that_was_not_measured() {
    let session = interleaved(tpot_blocks(8, 0.0, 0.002));
    let mut plan = two_checks();
    plan.gates[0].checks[1].rule = Rule::Ceiling { limit: 100.0 };
    let spoilt = |rule| {
        let mut session = session.clone();
        let mut heads = session.launches.iter_mut();
        let head = heads.find(|launch| launch.arm == Arm::Head).unwrap();
        let detail = "one request".into();
        head.samples[3].void = Some(Void { rule, detail });
        session
    };
    let id = plan.gates[0].checks[0].id.clone();
    plan.waivers = vec![waived("2025-02-01", &id)];
    for (rule, verdict) in [
        (VoidRule::Status, Verdict::Fail),
        (VoidRule::TokenCounts, Verdict::Invalid),
    ] {
        let session = spoilt(rule);
        let got = judge(&plan, &session);
        let check = first(&got);
        assert_eq!((got.verdict, check.is_waived()), (verdict, false));
        let told = notes(check).pop();
        let expect = "its waiver (until 2025-02-01, @ada, #12) does not cover this";
        assert_eq!(told.as_deref(), Some(expect));
        let comment = rendered(&session, &got, Form::Comment).unwrap();
        assert!(!comment.to_lowercase().contains("waived"), "{comment}");
    }
}

#[test]
fn nothing_is_launched_for_an_undecided_check_that_is_waived() {
    // Too noisy to be decided at the first look.
    let session = interleaved(tpot_blocks(4, 0.02, 0.03));
    let mut plan = two_checks();
    plan.gates[0].checks[1].rule = Rule::Ceiling { limit: 100.0 };
    assert_eq!(
        judge(&plan, &session).decision,
        Decision::ContinueTo { blocks: 6 }
    );
    plan.waivers = vec![waived("2025-02-01", "gate/replay")];
    plan.waivers[0].check = plan.gates[0].checks[0].id.clone();
    let got = judge(&plan, &session);
    assert_eq!((got.verdict, got.decision), (Verdict::Pass, Decision::Stop));
    assert_eq!(first(&got).verdict, Verdict::Inconclusive);
}

#[test]
fn an_expired_waiver_fails_before_anything_is_measured() {
    let mut plan = two_checks();
    plan.gates[0].checks[1].rule = Rule::Ceiling { limit: 100.0 };
    plan.waivers = vec![waived("2025-01-19", "gate/ceiling")];
    for blocks in [0, 8] {
        let got = judge(&plan, &interleaved(tpot_blocks(blocks, 0.0, 0.002)));
        assert_eq!(
            (got.verdict, got.decision),
            (Verdict::Fail, Decision::Stop),
            "{blocks}"
        );
        let ceiling = &got.gates[0].checks[1];
        assert_eq!(
            (ceiling.reason.rule.name(), ceiling.is_waived()),
            ("waiver-expired", false)
        );
        let says = &sentence(ceiling);
        assert!(
            says.starts_with("its waiver expired on 2025-01-19 (@ada, #12: "),
            "{says}"
        );
    }
}

#[test]
fn a_waiver_that_is_not_needed_is_told_and_all_waived_is_no_pass() {
    let session = interleaved(tpot_blocks(8, 0.0, 0.002));
    let mut plan = two_checks();
    plan.gates[0].checks[1].rule = Rule::Ceiling { limit: 100.0 };
    plan.waivers = vec![waived("2025-03-01", "gate/ceiling")];
    let got = judge(&plan, &session);
    let ceiling = &got.gates[0].checks[1];
    assert_eq!((got.verdict, ceiling.word()), (Verdict::Pass, "pass"));
    let notes = notes(ceiling);
    assert!(
        notes
            .iter()
            .any(|note| note.ends_with("is not needed: delete it")),
        "{notes:?}"
    );

    plan.gates[0].checks.remove(0);
    let alone = judge(&plan, &session);
    assert_eq!(alone.verdict, Verdict::Inconclusive);
    assert_eq!(summary(&alone), "every check is waived: nothing was judged");
}
