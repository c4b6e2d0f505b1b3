//! Every rule that makes a measurement invalid, and reliability.

use super::surroundings::plan_on;
use super::*;
use fixture::records::*;
use std::time::Duration;
use verdict::plan::{Arrivals, Suite};
use verdict::record::{SuiteEnding, SuiteRun, UNKNOWN_MACHINE};

pub(super) fn expect_invalid(session: &RunRecord, rule: &str, part: &str) {
    let got = judge(&tpot_plan(), session);
    let check = first(&got);
    assert_eq!(
        (check.verdict, check.reason.rule.name()),
        (Verdict::Invalid, rule),
        "{}",
        sentence(check)
    );
    assert!(sentence(check).contains(part), "{}", sentence(check));
    assert_eq!(
        (got.verdict, got.decision),
        (Verdict::Invalid, Decision::Stop)
    );
}

#[test]
fn fingerprint_changed() {
    let session = spoiled(|l| {
        if l.position == 5 {
            l.fingerprint = "other".into();
        }
    });
    expect_invalid(
        &session,
        "fingerprint-changed",
        "\"machine\" at launch 0, \"other\" at launch 5",
    );
}

#[test]
fn not_interleaved() {
    let mut launches = tpot_blocks(4, 0.0, 0.003);
    for (launch, arm) in launches.iter_mut().zip([Arm::Base, Arm::Base, Arm::Base]) {
        launch.arm = arm;
    }
    expect_invalid(
        &interleaved(launches),
        "not-interleaved",
        "4 launches of base in a row from launch 0",
    );
}

/// One arm may have files for more launches than the other.
#[test]
fn the_order_of_imported_launches_is_not_known() {
    let mut launches = tpot_blocks(8, 0.0, 0.003);
    launches.retain(|launch| launch.block >= 4 || launch.arm == Arm::Base);
    let mut session = interleaved(launches);
    expect_invalid(&session, "not-interleaved", "launches of base in a row");
    session.machine.fingerprint = UNKNOWN_MACHINE.into();
    assert_eq!(judge(&tpot_plan(), &session).verdict, Verdict::Pass);
}

#[test]
fn two_of_one_arm_in_a_row_are_a_block_border() {
    let arms: Vec<Arm> = tpot_blocks(4, 0.0, 0.003).iter().map(|l| l.arm).collect();
    assert_eq!(arms[1], arms[2]);
    assert_eq!(
        judge(&tpot_plan(), &interleaved(tpot_blocks(4, 0.0, 0.003))).verdict,
        Verdict::Pass
    );
}

#[test]
fn a_crash_of_head_alone_fails_at_once() {
    let mut launches = tpot_blocks(1, 0.0, 0.003);
    launches[1].exit = crashed();
    let got = expect(
        &tpot_plan(),
        &interleaved(launches),
        Verdict::Fail,
        "reliability",
        "launch 1 (head) crashed: signal 11; base ran without errors (1 launch)",
    );
    assert_eq!(got.decision, Decision::Stop);
}

#[test]
fn a_head_that_fails_before_base_was_launched_is_blamed_for_nothing() {
    let mut head = tpot_blocks(1, 0.0, 0.003).remove(1);
    head.exit = Exit::NeverReady {
        detail: "no token in 60 s: status 404".into(),
        log_tail: String::new(),
    };
    for comparison in [Comparison::SameBuild, Comparison::Interleaved] {
        let mut session = record(comparison, vec![head.clone()]);
        session.ending = Ending::Budget { starting: None };
        expect_invalid(
            &session,
            "launch-failed",
            "launch 1 (head) did not start: no token in 60 s: status 404, and base was not launched",
        );
    }
}

#[test]
fn an_engine_that_never_answers_fails_like_a_crash() {
    for exit in [
        Exit::NeverReady {
            detail: "no token in 60 s".into(),
            log_tail: String::new(),
        },
        Exit::Hung {
            detail: "silent for 30 s".into(),
            log_tail: String::new(),
        },
    ] {
        let mut launches = tpot_blocks(1, 0.0, 0.003);
        launches[1].exit = exit;
        let got = judge(&tpot_plan(), &interleaved(launches.clone()));
        assert_eq!(
            (got.verdict, first(&got).reason.rule.name()),
            (Verdict::Fail, "reliability")
        );
        let both = sentence(first(&got));
        assert!(
            both.ends_with("; base ran without errors (1 launch)"),
            "{both}"
        );
        let alone = record(Comparison::Alone, launches[1..].to_vec());
        let alone = judge(&tpot_plan(), &alone);
        assert_eq!(alone.verdict, Verdict::Fail);
        assert!(!sentence(first(&alone)).contains("base"));
    }
}

#[test]
fn crashes_of_both_arms_or_of_base_are_invalid() {
    let both = spoiled(|l| l.exit = crashed());
    expect_invalid(
        &both,
        "launch-failed",
        "both arms failed: launch 0 (base) and launch 1 (head) crashed: signal 11",
    );
    let base = spoiled(|l| {
        if l.position == 0 {
            l.exit = crashed();
        }
    });
    expect_invalid(
        &base,
        "launch-failed",
        "launch 0 (base) crashed: signal 11; there is nothing to compare with",
    );
}

#[test]
fn requests_that_head_left_before_base_was_launched_blame_nobody() {
    let mut head = tpot_blocks(1, 0.0, 0.003).remove(1);
    head.samples[3].void = void(VoidRule::Status);
    expect_invalid(
        &interleaved(vec![head]),
        "void-samples",
        "head failed to answer: why (request 3 of gate/work in launch 1 of head; in all 1 × status), and base was not launched",
    );
}

#[test]
fn void_samples_by_who_is_to_blame() {
    let voided = |arms: &'static [Arm], rule| {
        spoiled(move |l| {
            if arms.contains(&l.arm) {
                l.samples[3].void = void(rule);
            }
        })
    };
    let head = voided(&[Arm::Head], VoidRule::CutStream);
    let got = expect(
        &tpot_plan(),
        &head,
        Verdict::Fail,
        "reliability",
        "head failed to answer: why (request 3 of gate/work in launch 1 of head; in all 1 × cut-stream); base answered all requests in 1 launch",
    );
    assert_eq!(got.decision, Decision::Stop);
    expect_invalid(
        &voided(&Arm::BOTH, VoidRule::Status),
        "void-samples",
        "both arms failed to answer: why (request 3 of gate/work in launch 0 of base; in all 2 × status)",
    );
    expect_invalid(
        &voided(&[Arm::Base], VoidRule::Status),
        "void-samples",
        "base failed to answer",
    );
    expect_invalid(
        &voided(&[Arm::Head], VoidRule::TokenCounts),
        "void-samples",
        "request 3 of gate/work in launch 1 of head; in all 1 × token-counts",
    );
}

/// A model may end its answer at once, in both arms alike: few such requests are left out.
#[test]
fn answers_that_the_model_ends_at_once_are_left_out() {
    let session = |of_base: &'static [usize], of_head: &'static [usize], reason: &'static str| {
        spoiled(move |launch| {
            let empty = if launch.arm == Arm::Base {
                of_base
            } else {
                of_head
            };
            for index in empty {
                let sample = &mut launch.samples[*index];
                sample.void = void(VoidRule::NoOutput);
                sample.finish_reason = Some(reason.to_owned());
                (sample.tokens.requested, sample.tokens.completion) = (None, Some(1));
            }
        })
    };
    let both = session(&[3, 5], &[3, 5], "stop");
    let got = judge(&tpot_plan(), &both);
    let remarks = report::terminal(&both, &got, View::default());
    let told = "8 of 120 requests are not compared: in both arms the model ended its answer before the first token";
    assert_eq!(first(&got).verdict, Verdict::Pass, "{remarks}");
    assert!(fixture::unwrapped(&remarks).contains(told), "{remarks}");
    for (base, head, reason, rule) in [
        (&[][..], &[3][..], "stop", "reliability"),
        (
            &[3],
            &[3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14],
            "stop",
            "reliability",
        ),
        // Two more may be near-ties.
        (&[3], &[3, 5, 6], "stop", "void-samples"),
        (&[3], &[5], "stop", "void-samples"),
        (&[3], &[3], "length", "void-samples"),
        // Over a tenth.
        (&[1, 2, 3, 4], &[1, 2, 3, 4], "stop", "void-samples"),
    ] {
        let got = judge(&tpot_plan(), &session(base, head, reason));
        assert_eq!(
            first(&got).reason.rule.name(),
            rule,
            "{base:?} {head:?} {reason}"
        );
    }
}

/// Head answers otherwise where base's first `voids` of 30 requests are void.
#[test]
fn answers_that_base_did_not_give_are_not_compared() {
    let limit = Rule::Ceiling { limit: 0.0 };
    let same = check("same", Metric::AnswerMismatches, Statistic::Single, limit);
    let plan = plan(vec![workload(None, steady())], vec![same]);
    let check = |voids: u32, rule: VoidRule, last: &str, verdict: Verdict, by: &str| {
        let session = interleaved(blocks(4, |arm, _| {
            let answer = |i: u32| {
                let is_head = arm == Arm::Head;
                let text = match i {
                    29 if is_head => last.to_owned(),
                    i if is_head && i < voids => format!("mu {i}"),
                    i => format!("to {i}"),
                };
                Sample {
                    text_sha256: text.clone(),
                    text: Some(text),
                    void: void(rule).filter(|_| !is_head && i < voids),
                    ..timed(i, 1_000_000)
                }
            };
            (0..30).map(answer).collect()
        }));
        let got = judge(&plan, &session);
        let found = (got.verdict, first(&got).reason.rule.name());
        assert_eq!(found, (verdict, by), "{}", sentence(first(&got)));
    };
    use VoidRule::{Status, TokenCounts};
    check(3, Status, "to 29", Verdict::Pass, "ceiling");
    for rule in [Status, TokenCounts] {
        check(4, rule, "to 29", Verdict::Invalid, "void-samples");
        check(4, rule, " ", Verdict::Fail, "ceiling");
    }
}

#[test]
fn missing_value() {
    let session = spoiled(|l| l.samples[7].tokens.completion = None);
    expect_invalid(
        &session,
        "missing-value",
        "launch 0, request 7 of gate/work: the answer has no usage count",
    );
}

#[test]
fn not_positive() {
    let session = spoiled(|l| l.samples[7] = timed(7, -5000));
    expect_invalid(
        &session,
        "not-positive",
        "launch 0: tpot is -0.005, which is impossible",
    );
}

#[test]
fn too_few_samples() {
    let session = spoiled(|l| l.samples.truncate(26));
    expect_invalid(
        &session,
        "too-few-samples",
        "launch 0 (base): 26 valid requests of gate/work; 27 are needed",
    );
    // A median bears that a tenth has no value.
    let session = spoiled(|l| l.samples.truncate(27));
    assert_eq!(judge(&tpot_plan(), &session).verdict, Verdict::Pass);
}

#[test]
fn constant_latency() {
    let session = spoiled(|l| {
        if l.arm == Arm::Head {
            l.samples = (0..30).map(|i| timed(i, 20_000_000)).collect();
        }
    });
    expect_invalid(
        &session,
        "constant-latency",
        "30 values of tpot have fewer than 3 distinct values",
    );
}

#[test]
fn not_steady() {
    let drifting = |base: f64, head: f64| {
        interleaved(blocks(4, |arm, block| {
            let by = if arm == Arm::Head { head } else { base };
            let wobble = |i: u32| f64::from((i + block) % 3) * 1e-3 + 1e-3 * noise(arm, block);
            (0..30)
                .map(|i| timed(i, (20e6 * (1.0 - by * f64::from(i) + wobble(i))) as i64))
                .collect()
        }))
    };
    expect_invalid(
        &drifting(0.003, 0.003),
        "not-steady",
        "tpot moves by -6.1 % within a launch (base, last third against first): the warm-up is too short; raise `warmup` \
         in gates/gate.toml",
    );
    // Less, and in one arm alone; as much in both moves both values alike.
    expect_invalid(&drifting(0.0015, 0.0), "not-steady", "tpot moves by -3.1 %");
    let alike = judge(&tpot_plan(), &drifting(0.0015, 0.0015));
    assert_ne!(first(&alike).reason.rule.name(), "not-steady");
    // The first twelve requests of four users wait for one another; then they are spread.
    let spreading = |base: u32, head: u32| {
        interleaved(blocks(4, |arm, block| {
            let from = if arm == Arm::Head { head } else { base };
            let wobble = |i: u32| f64::from((i + block) % 3) * 1e-3;
            let slow = |i: u32| if i < from { 0.3 } else { 0.0 };
            (0..30)
                .map(|i| timed(i, (20e6 * (1.0 + slow(i) + wobble(i))) as i64))
                .collect()
        }))
    };
    let of_users = |users: u32, session: &RunRecord| {
        let mut plan = tpot_plan();
        if let WorkloadKind::Steady(steady) = &mut plan.gates[0].workloads[0].kind {
            steady.arrivals = Arrivals::Closed { concurrency: users };
        }
        first(&judge(&plan, session)).reason.rule.name() == "not-steady"
    };
    assert!(!of_users(4, &spreading(12, 12)));
    // One user waits for nobody; and later ones are a longer warm-up.
    assert!(of_users(1, &spreading(12, 12)));
    assert!(of_users(4, &spreading(20, 20)));
    // Of one arm alone they may hide a slower one.
    assert!(of_users(4, &spreading(12, 0)));
    assert!(of_users(4, &spreading(0, 12)));
}

#[test]
fn no_variance() {
    // Sound launches, all with the same median in each arm.
    let session = interleaved(blocks(4, |_, _| around(20.0)));
    expect_invalid(
        &session,
        "no-variance",
        "no test is possible: no variance at all",
    );
}

#[test]
fn unknown_workload() {
    let mut plan = tpot_plan();
    plan.gates[0].checks[0].workload = "gate/none".into();
    let got = judge(&plan, &interleaved(vec![]));
    assert_eq!(
        (got.verdict, first(&got).reason.rule.name()),
        (Verdict::Invalid, "unknown-workload")
    );
}

#[test]
fn wrong_answers_that_a_statistic_cannot_bear() {
    let check = |metric: Metric, statistic: Statistic, wrong: usize, is_borne: bool| {
        let session = spoiled(|launch| {
            let is_head = launch.arm == Arm::Head;
            for (i, sample) in launch.samples.iter_mut().enumerate() {
                let is_wrong = is_head && i < wrong;
                let text = if is_wrong {
                    "\u{200b}"
                } else {
                    "one two three"
                };
                sample.text = Some(text.into());
                sample.text_sha256 = text.into();
            }
        });
        let got = judge(&plan_on(metric, statistic), &session);
        let is_found = first(&got).reason.rule.name() == "wrong-answers";
        assert_eq!(is_found, !is_borne, "{wrong}: {}", sentence(first(&got)));
    };
    // Of 30.
    check(Metric::Tpot, Statistic::Median, 3, true);
    check(Metric::Tpot, Statistic::Median, 4, false);
    for statistic in [Statistic::Mean, Statistic::P95] {
        check(Metric::E2e, statistic, 2, true);
        check(Metric::E2e, statistic, 3, false);
    }
    check(Metric::Throughput, Statistic::Single, 3, false);
}

/// The first words of head's answers to the first `other` of 30 requests are not base's.
pub(super) fn parting_at_once(
    other: usize,
    turn: fn(u32) -> Option<u32>,
    change: f64,
) -> RunRecord {
    let mut session = interleaved(tpot_blocks(4, change, 0.003));
    for launch in &mut session.launches {
        let is_head = launch.arm == Arm::Head;
        for (i, sample) in launch.samples.iter_mut().enumerate() {
            let begin = if is_head && i < other { "mu" } else { "to" };
            let text = format!("{begin} {i}, and so on");
            sample.turn = turn(sample.index);
            sample.text_sha256.clone_from(&text);
            sample.text = Some(text);
        }
    }
    session
}

/// The first token is base's, and nothing after it. A model whose near-ties lead elsewhere does so here and there.
#[test]
fn answers_that_part_from_bases_early_are_no_pass() {
    let check = |others: usize, place: usize, verdict: Verdict| {
        let mut session = interleaved(tpot_blocks(4, 0.0, 0.003));
        for launch in &mut session.launches {
            let is_head = launch.arm == Arm::Head;
            for (i, sample) in launch.samples.iter_mut().enumerate() {
                let mut words: Vec<String> = (0..64).map(|word| format!("{i}-{word}")).collect();
                if is_head && i < others {
                    words[place..].fill("mu".into());
                }
                let text = words.join(" ");
                sample.tokens.completion = Some(64);
                sample.text_sha256.clone_from(&text);
                sample.text = Some(text);
            }
        }
        let got = judge(&tpot_plan(), &session);
        let got = first(&got);
        assert_eq!(got.verdict, verdict, "{others} {place}: {}", sentence(got));
    };
    check(30, 1, Verdict::Inconclusive);
    check(27, 6, Verdict::Inconclusive);
    check(26, 6, Verdict::Pass);
    check(30, 10, Verdict::Pass);
}

#[test]
fn answers_that_part_from_bases_at_once_are_no_pass() {
    let check = |session: &RunRecord, verdict: Verdict, rule: &str| {
        let got = judge(&tpot_plan(), session);
        let got = first(&got);
        let found = (got.verdict, got.reason.rule.name());
        assert_eq!(found, (verdict, rule), "{}", sentence(got));
    };
    let doubted = parting_at_once(16, |_| None, 0.0);
    check(&doubted, Verdict::Inconclusive, "answers-differ");
    let text = sentence(first(&judge(&tpot_plan(), &doubted)));
    let parts = [
        "64 of 120 answers of head differ",
        "(launch 1, request 0: \"mu 0",
    ];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    check(
        &parting_at_once(15, |_| None, 0.0),
        Verdict::Pass,
        "regression",
    );
    // Other answers excuse no loss of speed.
    check(
        &parting_at_once(30, |_| None, 0.6),
        Verdict::Fail,
        "regression",
    );
    // One answer a launch, in all launches together.
    let doubted = parting_at_once(1, Some, 0.0);
    check(&doubted, Verdict::Inconclusive, "answers-differ");
    // A later turn is asked with the answers before it.
    check(
        &parting_at_once(30, |_| Some(1), 0.0),
        Verdict::Pass,
        "regression",
    );
}

/// Head's launch of a suite; base's was cut off, so that nothing is known of its tests.
#[test]
fn a_launch_of_base_that_was_cut_off_leaves_the_check_open() {
    let suite = Suite {
        command: vec!["true".into()],
        env: vec![],
        junit: None,
        timeout: Duration::from_secs(1),
    };
    let tests = check(
        "tests",
        Metric::BrokenTests,
        Statistic::Single,
        Rule::Ceiling { limit: 0.0 },
    );
    let plan = plan(
        vec![workload(Some(1), WorkloadKind::Suite(suite))],
        vec![tests],
    );
    let mut head = blocks(1, |_, _| vec![]).remove(1);
    assert_eq!(head.arm, Arm::Head);
    head.suites.push(SuiteRun {
        workload: WORKLOAD.into(),
        begun_ns: 0,
        ended_ns: 1,
        ending: SuiteEnding::Succeeded,
        log: String::new(),
        log_tail: String::new(),
        tests: vec![],
        unread: None,
    });
    let mut session = interleaved(vec![head]);
    session.ending = Ending::Budget { starting: None };
    let so_far = "not measured; the";
    let remedy = "raise `budget` of the profile in gates/gate.toml";
    let text = format!("{so_far} time budget ran out after 0 of at most 1 block: {remedy}");
    expect(&plan, &session, Verdict::Inconclusive, "budget", &text);
    session.ending = Ending::Interrupted;
    let text = format!("{so_far} session was interrupted after 0 of at most 1 block");
    expect(&plan, &session, Verdict::Inconclusive, "interrupted", &text);
    // Of a session that ended by itself, base's launch is missing for good.
    session.ending = Ending::LastLook;
    let got = judge(&plan, &session);
    let check = first(&got);
    assert_eq!(
        (check.verdict, check.reason.rule.name()),
        (Verdict::Invalid, "missing-value")
    );
}
