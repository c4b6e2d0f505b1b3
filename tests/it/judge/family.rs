//! Several checks in one run.

use super::*;
use fixture::records::*;

#[test]
fn holm_asks_more_of_each_check_where_there_are_many() {
    // Alone it fails; beside another check p is twice that and does not.
    let session = interleaved(tpot_blocks(6, 0.03, 0.0118));
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
    let text = sentence(first(&got));
    let corrected = format!(
        "(p = {:.4}, corrected for 2 checks, needs ≤ 0.02; ",
        2.0 * p
    );
    assert!(text.contains(&corrected), "{text}");
    assert!(
        text.contains("beyond the margin of 1 % by its interval, so it does not pass; not shown well enough to fail"),
        "{text}"
    );
    assert_eq!(got.gates[0].checks[1].verdict, Verdict::Pass);
    assert_eq!(
        (got.verdict, got.decision),
        (Verdict::Inconclusive, Decision::ContinueTo { blocks: 8 })
    );
}

/// They have no test, so they take nothing of the budget of those that do, wherever they stand among them.
#[test]
fn limits_of_exact_metrics_leave_the_others_their_budget() {
    let session = interleaved(tpot_blocks(6, 0.03, 0.0118));
    let alone = judge(&tpot_plan(), &session);
    let exact = |name: &str, metric| {
        let ceiling = Rule::Ceiling { limit: 0.0 };
        check(name, metric, Statistic::Single, ceiling)
    };
    let mut plan = tpot_plan();
    let checks = &mut plan.gates[0].checks;
    checks.insert(0, exact("answered", Metric::FailedRequests));
    checks.push(exact("same", Metric::AnswerMismatches));
    let got = judge(&plan, &session);
    assert_eq!(got.verdict, Verdict::Fail);
    let tested = &got.gates[0].checks[1];
    assert_eq!(sentence(tested), sentence(first(&alone)));

    // Two that are tested, each with the p that it has without the others.
    let mut two = tpot_plan();
    let ceiling = Rule::Ceiling { limit: 25.0 };
    let below = check("ceiling", Metric::Tpot, Statistic::Median, ceiling);
    two.gates[0].checks.push(below.clone());
    plan.gates[0].checks.push(below);
    let (two, got) = (judge(&two, &session), judge(&plan, &session));
    let ids = ["gate/tpot", "gate/ceiling"];
    let of = |verdict: &RunVerdict| -> Vec<String> {
        let checks = verdict.gates[0].checks.iter();
        let those = checks.filter(|check| ids.contains(&check.id.as_str()));
        those.map(sentence).collect()
    };
    assert_eq!(of(&got), of(&two));
    assert!(of(&got)[0].contains("corrected for 2 checks"));
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
        sentence(open).ends_with("; left open, since gate/ceiling failed and decides the run"),
        "{}",
        sentence(open)
    );
    assert!(
        summary(&got).starts_with("TPOT: 20.12 ms; the limit is 10 ms (gate/ceiling)"),
        "{}",
        summary(&got)
    );
    // A gate of its own can be measured by itself.
    let mut other = two.gates[0].clone();
    other.name = "other".into();
    other.checks = vec![two.gates[0].checks.pop().unwrap()];
    other.checks[0].id = "other/ceiling".into();
    two.gates.push(other);
    let got = judge(&two, &interleaved(tpot_blocks(4, 0.0, 0.02)));
    let open = sentence(first(&got));
    let alone = "since other/ceiling failed and decides the run (`gate check --gate gate` measures gate alone)";
    assert!(open.ends_with(alone), "{open}");
}

/// An invalid check ends no run: the header says what ended it.
#[test]
fn a_run_with_an_invalid_check_goes_on_until_the_others_are_decided() {
    let mut two = tpot_plan();
    let mut nowhere = two.gates[0].checks[0].clone();
    nowhere.id = "gate/nowhere".into();
    nowhere.workload = "gate/nowhere".into();
    two.gates[0].checks.push(nowhere);
    let mut session = interleaved(tpot_blocks(4, 0.0, 0.003));
    session.ending = Ending::Decided;
    let got = judge(&two, &session);
    let verdicts: Vec<Verdict> = got.gates[0].checks.iter().map(|c| c.verdict).collect();
    assert_eq!(verdicts, [Verdict::Pass, Verdict::Invalid]);
    let header = |session: &RunRecord| {
        let text = infergate::report::terminal(session, &got, infergate::report::View::default());
        text.lines().take(8).collect::<Vec<_>>().join(" ")
    };
    let text = header(&session);
    let end = "; stopped: 1 of 2 checks is invalid";
    assert!(text.contains(end), "{text}");
    session.ending = Ending::Interrupted;
    let text = header(&session);
    assert!(text.contains("; interrupted"), "{text}");
}

/// A failure that is found after the budget ended the run did not end it.
#[test]
fn a_failure_of_a_run_that_its_budget_ended_is_not_said_to_have_ended_it() {
    let mut two = tpot_plan();
    let limit = Rule::Ceiling { limit: 10.0 };
    two.gates[0]
        .checks
        .push(check("ceiling", Metric::Tpot, Statistic::Median, limit));
    let mut session = interleaved(tpot_blocks(4, 0.0, 0.02));
    session.ending = Ending::Budget { starting: None };
    let got = judge(&two, &session);
    let open = sentence(first(&got));
    assert!(
        open.ends_with("; left open, since gate/ceiling failed and decides the run"),
        "{open}"
    );
    let text = infergate::report::terminal(&session, &got, infergate::report::View::default());
    assert!(
        text.contains("; stopped: the time budget ran out"),
        "{text}"
    );
    assert!(!text.contains("stopped at the first failure"), "{text}");
}
