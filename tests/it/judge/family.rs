//! Several checks in one run.

use super::*;
use fixture::records::*;

#[test]
fn holm_asks_more_of_each_check_where_there_are_many() {
    // Alone, p = 0.0157 fails; beside another check it is 0.0314 and does not.
    let session = interleaved(tpot_blocks(4, 0.03, 0.01));
    let alone = judge(&tpot_plan(), &session);
    let p = first(&alone).p_fail.unwrap();
    assert!(p > 0.01 && p <= 0.02, "{p}");
    assert_eq!(alone.verdict, Verdict::Fail);
    let mut two = tpot_plan();
    let mut e2e = two.gates[0].checks[0].clone();
    e2e.id = "gate/ceiling".into();
    e2e.rule = Rule::Ceiling { limit: 25.0 };
    two.gates[0].checks.push(e2e);
    let got = judge(&two, &session);
    assert_eq!(first(&got).verdict, Verdict::Inconclusive);
    assert_eq!(got.gates[0].checks[1].verdict, Verdict::Pass);
    assert_eq!(
        (got.verdict, got.decision),
        (Verdict::Inconclusive, Decision::ContinueTo { blocks: 6 })
    );
}

#[test]
fn a_failure_ends_the_run_and_the_open_checks_say_so() {
    let mut two = tpot_plan();
    let limit = Rule::Ceiling { limit: 10.0 };
    two.gates[0]
        .checks
        .push(check("ceiling", Metric::Tpot, Statistic::Median, limit));
    let got = judge(&two, &interleaved(tpot_blocks(4, 0.0, 0.02)));
    assert_eq!((got.verdict, got.decision), (Verdict::Fail, Decision::Stop));
    let open = first(&got);
    assert_eq!(
        (open.verdict, open.reason.rule.name()),
        (Verdict::Inconclusive, "stopped")
    );
    assert!(
        sentence(open).ends_with("; the run ended when gate/ceiling failed"),
        "{}",
        sentence(open)
    );
    assert!(
        summary(&got).starts_with("gate gate, check gate/ceiling: TPOT"),
        "{}",
        summary(&got)
    );
}
