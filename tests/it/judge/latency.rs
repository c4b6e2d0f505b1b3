//! Verdicts of a latency, and of the session around it.

use super::surroundings::plan_on;
use super::*;
use fixture::records::*;
use verdict::record::Reading;

#[test]
fn no_change_passes_at_the_first_look_with_the_smallest_effect() {
    let got = expect(
        &tpot_plan(),
        &interleaved(tpot_blocks(4, 0.0, 0.003)),
        Verdict::Pass,
        "regression",
        "TPOT 20 → 20.02 ms: +0.1 % [-0.5, +0.7], below the ceiling of 3 % (p = 7e-6; 4 + 4 launches)",
    );
    assert_eq!(
        (got.verdict, got.blocks, got.decision),
        (Verdict::Pass, 4, Decision::Stop)
    );
    let check = first(&got);
    assert_eq!(check.launches, (4, 4));
    let effect = check.smallest_effect.unwrap();
    assert!(effect > 0.01 && effect < 0.03, "{effect}");
    assert_eq!(
        summary(&got),
        "1 check of 1 gate passed; gate/tpot worse by 2 % would have failed, in 95 of 100 such runs"
    );
}

#[test]
fn a_regression_fails_with_its_numbers() {
    let got = expect(
        &tpot_plan(),
        &interleaved(tpot_blocks(6, 0.06, 0.003)),
        Verdict::Fail,
        "regression",
        "TPOT 20 → 21.2 ms: +6.0 % [+5.5, +6.5], beyond the margin of 1 % (p = 0.0048, the least that 6 + 6 launches can show)",
    );
    assert_eq!(got.decision, Decision::Stop);
    assert_eq!(
        summary(&got),
        "Decoding is 6.0 % [5.5, 6.5] slower; up to 1 % is allowed (gate/tpot)"
    );
}

/// Below the ceiling it is too: the launches that could pass it are fewer than those that can fail it.
#[test]
fn what_lies_beyond_the_margin_does_not_pass_before_it_can_fail() {
    let (plan, launches) = (tpot_plan(), tpot_blocks(6, 0.02, 0.001));
    let four = expect(
        &plan,
        &interleaved(launches[..8].to_vec()),
        Verdict::Inconclusive,
        "undecided",
        "TPOT 20 → 20.41 ms: +2.04 % [+1.82, +2.25], beyond the margin of 1 % by its interval, so it does not pass; 4 + 4 \
         launches are too few to fail, since all may be in one of two modes: 6 + 6 can, and fewer after `gate calibrate`",
    );
    assert_eq!(four.decision, Decision::ContinueTo { blocks: 6 });
    assert_eq!(
        summary(&four),
        "Decoding is 2.04 % [1.82, 2.25] slower, but 4 + 4 launches are too few to fail (gate/tpot)"
    );
    let six = interleaved(launches.clone());
    let failed = judge(&plan, &six);
    assert_eq!(first(&failed).verdict, Verdict::Fail);
}

/// The first check after four and after eight blocks, with `rule`; head is slower by `first` in four blocks, by `then` in four
/// more. Twenty-nine checks by `others` stay open, so that the session goes on, and so that the first one seldom fails.
fn after_four_and_eight(rule: Rule, others: Rule, first: f64, then: f64) -> [(Verdict, String); 2] {
    let mut plan = tpot_plan();
    for i in 1..30 {
        let mut other = plan.gates[0].checks[0].clone();
        other.id = format!("gate/other-{i}");
        other.rule = others;
        plan.gates[0].checks.push(other);
    }
    plan.gates[0].checks[0].rule = rule;
    let launches = blocks(8, |arm, block| {
        let change = if block < 4 { first } else { then };
        let shift = if arm == Arm::Head { 1.0 + change } else { 1.0 };
        around(20.0 * shift * (1.0 + 0.001 * noise(arm, block)))
    });
    [4, 8].map(|n: usize| {
        let got = judge(&plan, &interleaved(launches[..2 * n].to_vec()));
        let check = first_of(&got, "gate/tpot");
        (check.verdict, sentence(check))
    })
}

fn first_of<'a>(got: &'a RunVerdict, id: &str) -> &'a CheckVerdict {
    let checks = got.gates.iter().flat_map(|gate| &gate.checks);
    checks.into_iter().find(|check| check.id == id).unwrap()
}

#[test]
fn a_pass_is_taken_back_where_a_later_look_says_the_opposite() {
    let regression = |margin, ceiling| Rule::Regression { margin, ceiling };
    let (own, open) = (regression(0.01, 0.03), regression(1e-6, 1e-5));
    let check = |[four, eight]: [(Verdict, String); 2], says: &str| {
        assert_eq!(four.0, Verdict::Pass, "{}", four.1);
        assert_eq!(eight.0, Verdict::Inconclusive, "{}", eight.1);
        assert!(eight.1.contains(says), "{}", eight.1);
    };
    // The interval lies beyond the margin.
    let beyond = after_four_and_eight(own, regression(0.0105, 0.0106), 0.011, 0.012);
    check(
        beyond,
        ", beyond the margin of 1 % by its interval, so it does not pass; not shown well enough to fail",
    );
    // Half of head's launches are slow: the estimate is above the ceiling, and the interval holds the margin.
    check(after_four_and_eight(own, open, 0.0, 0.1), "+4.9");
    // Head's mean is above a limit.
    let limit = Rule::Ceiling { limit: 20.1 };
    check(after_four_and_eight(limit, open, 0.0, 0.015), "20.1");
}

#[test]
fn between_margin_and_ceiling_it_goes_on_to_the_cap() {
    let (plan, launches) = (tpot_plan(), tpot_blocks(16, 0.02, 0.02));
    let mut seen = vec![];
    for n in 1..=16 {
        let so_far = interleaved(launches[..2 * n].to_vec());
        seen.push(judge(&plan, &so_far).decision);
    }
    let to = |blocks| Decision::ContinueTo { blocks };
    let steps = [
        (to(4), 3),
        (to(6), 2),
        (to(8), 2),
        (to(12), 4),
        (to(16), 4),
        (Decision::Stop, 1),
    ];
    let wanted: Vec<Decision> = steps.iter().flat_map(|&(d, n)| vec![d; n]).collect();
    assert_eq!(seen, wanted);
    let got = judge(&plan, &interleaved(launches));
    let check = first(&got);
    assert_eq!(
        (check.verdict, check.reason.rule.name()),
        (Verdict::Inconclusive, "cap-reached")
    );
    assert!(
        sentence(check).contains("shown neither to be beyond the margin of 1 % (p = "),
        "{}",
        sentence(check)
    );
}

#[test]
fn a_runner_too_noisy_for_its_gate_is_told_at_the_first_look() {
    let got = judge(&tpot_plan(), &interleaved(tpot_blocks(4, 0.0, 0.05)));
    let check = first(&got);
    assert_eq!(check.reason.rule.name(), "undecided");
    let advice = "too noisy: 16 launches an arm find ";
    assert!(sentence(check).contains(advice), "{}", sentence(check));
    // Once: not as a note beside its own sentence.
    assert_eq!(notes(check), [""; 0]);
    assert_eq!(got.decision, Decision::ContinueTo { blocks: 6 });
}

#[test]
fn at_the_end_a_noisy_runner_is_told_what_it_found_and_not_what_was_foretold() {
    let check = |blocks, ending| {
        let mut session = interleaved(tpot_blocks(blocks, 0.0, 0.05));
        session.ending = ending;
        let got = judge(&tpot_plan(), &session);
        first(&got).clone()
    };
    for (blocks, ending) in [
        (16, Ending::LastLook),
        (4, Ending::Budget { starting: None }),
    ] {
        let check = check(blocks, ending);
        let effect = check.smallest_effect.unwrap();
        let expect = format!(
            "by {blocks} + {blocks} launches; too noisy: {blocks} + {blocks} launches find {} % at best, the ceiling \
             is 3 %",
            (effect * 1e3).round() / 10.0
        );
        assert!(sentence(&check).contains(&expect), "{}", sentence(&check));
    }
}

#[test]
fn a_gain_passes_with_a_remark() {
    let got = judge(&tpot_plan(), &interleaved(tpot_blocks(4, -0.05, 0.003)));
    assert_eq!(got.verdict, Verdict::Pass);
    assert!(
        notes(first(&got))[0].starts_with("better by more than the margin: -4.9 % [-5.5, -4.3]")
    );
}

#[test]
fn launches_after_the_decision_change_nothing() {
    let (plan, mut launches) = (tpot_plan(), tpot_blocks(4, 0.0, 0.003));
    let decided = judge(&plan, &interleaved(launches.clone()));
    let mut worse = tpot_blocks(16, 0.2, 0.003);
    launches.extend(worse.drain(8..));
    assert_eq!(judge(&plan, &interleaved(launches)), decided);
}

#[test]
fn an_a_a_run_says_so() {
    let got = judge(
        &tpot_plan(),
        &record(Comparison::SameBuild, tpot_blocks(4, 0.0, 0.003)),
    );
    assert_eq!(got.verdict, Verdict::Pass);
    assert_eq!(notes(first(&got)), ["both arms are one build: an A/A run"]);
}

#[test]
fn how_the_session_ended_is_said_of_what_stayed_open() {
    let table = [
        (
            Ending::Unfinished,
            Verdict::Inconclusive,
            "too-few-launches",
            "",
        ),
        (
            Ending::Budget { starting: None },
            Verdict::Inconclusive,
            "budget",
            "; the time budget ran out after 3 of at most 16 blocks: raise `budget` of the profile in gates/gate.toml",
        ),
        (
            Ending::Budget {
                starting: Some("launch 6 (head) had generated no token yet: status 404".into()),
            },
            Verdict::Inconclusive,
            "budget",
            "; the time budget ran out after 3 of at most 16 blocks, while launch 6 (head) had generated no token \
             yet: status 404",
        ),
        (
            Ending::Interrupted,
            Verdict::Inconclusive,
            "interrupted",
            "; the session was interrupted after 3 of at most 16 blocks",
        ),
        (
            Ending::EngineFailed {
                detail: "no free port".into(),
            },
            Verdict::Invalid,
            "engine-failed",
            "; the session ended: no free port",
        ),
    ];
    for (ending, verdict, rule, end) in table {
        let mut session = interleaved(tpot_blocks(3, 0.0, 0.003));
        session.ending = ending.clone();
        let text = format!("3 + 3 launches; next tested after 4 blocks{end}");
        let got = expect(&tpot_plan(), &session, verdict, rule, &text);
        let stops = matches!(ending, Ending::EngineFailed { .. });
        assert_eq!(got.decision == Decision::Stop, stops);
    }
}

#[test]
fn nothing_measured_is_not_green() {
    let got = judge(&tpot_plan(), &interleaved(vec![]));
    assert_eq!(
        (got.verdict, got.decision),
        (Verdict::Inconclusive, Decision::ContinueTo { blocks: 4 })
    );
    assert_eq!(
        judge(&plan(vec![], vec![]), &interleaved(vec![])).verdict,
        Verdict::Inconclusive
    );
}

/// The worked example of docs/verdict.md: vector V2, whole through the judge.
#[test]
fn the_worked_example_of_the_docs() {
    let base = [20.1, 20.25, 19.98, 20.17, 20.05, 20.21];
    let head = [20.75, 20.62, 20.91, 20.7, 20.58, 20.85];
    let mut plan = tpot_plan();
    plan.design.looks = vec![6, 8, 10, 12, 16];
    let session = interleaved(blocks(6, |arm, block| {
        let medians = if arm == Arm::Head { head } else { base };
        around(medians[block as usize])
    }));
    let got = expect(
        &plan,
        &session,
        Verdict::Fail,
        "regression",
        "TPOT 20.13 → 20.73 ms: +3.0 % [+2.0, +4.1], beyond the margin of 1 % (p = 0.006, the least that 6 + 6 launches can show)",
    );
    let check = first(&got);
    let near = |got: Option<f64>, expect: f64| {
        let got = got.unwrap();
        assert!((got / expect - 1.0).abs() < 1e-6, "{got} for {expect}");
    };
    near(check.change, 0.029_772_199_775_980_557_f64.exp_m1());
    // Not 5 × 7.1e-5, which is below what 6 + 6 launches show by their order alone.
    near(check.p_fail, 5.0 / 924.0 / 0.9);
    near(check.p_pass, 1.0);
    near(check.smallest_effect, 0.027_367_740_699_763_908);
    near(check.interval.map(|i| i.0), 0.019_508_209_524_872_464);
    near(check.interval.map(|i| i.1), 0.041_043_979_450_198_39);
}

/// At the first look more of the budget is spent than an equal part, so that some changes pass there that would
/// otherwise need another look; no other budget is spent than the plan's.
#[test]
fn the_looks_share_the_budget_as_the_plan_says() {
    let verdict = |spending: Spending, change: f64| {
        let mut plan = tpot_plan();
        plan.design.spending = spending;
        let got = judge(&plan, &interleaved(tpot_blocks(4, change, 0.006)));
        (got.verdict, first(&got).p_pass.unwrap())
    };
    let mut found = [0; 3];
    for change in (0..40).map(|i| 0.01 + 0.0005 * f64::from(i)) {
        let all = Spending::ALL.map(|spending| verdict(spending, change));
        let [(equal, p), (early, early_p), (late, late_p)] = all;
        if p < 0.1 {
            assert!(early_p < p && p < late_p, "{change}: {all:?}");
            // The first look is at a quarter of the launches: p / ln(1 + (e − 1) / 4), in place of p × 5.
            assert!(
                (early_p / p * 5.0 * 0.357_374 - 1.0).abs() < 1e-4,
                "{all:?}"
            );
        }
        for (i, verdict) in [equal, early, late].into_iter().enumerate() {
            found[i] += usize::from(verdict == Verdict::Pass);
        }
    }
    assert!(found[2] < found[0] && found[0] < found[1], "{found:?}");
}

/// A check that passed at a look keeps that look's numbers: launches for another check's sake, on a machine that other work
/// disturbs by then, say nothing about it.
#[test]
fn a_pass_shows_the_numbers_that_decided_it() {
    let mut plan = super::waivers::two_checks();
    // Undecided to the last look.
    plan.gates[0].checks[1].rule = Rule::Ceiling { limit: 20.4 };
    let of = |n| {
        interleaved(blocks(n, |arm, block| {
            let sd = if block < 4 { 0.002 } else { 0.1 };
            around(20.0 * (1.0 + sd * noise(arm, block)))
        }))
    };
    let decided = judge(&plan, &of(4)).gates[0].checks[0].clone();
    let later = judge(&plan, &of(8)).gates[0].checks[0].clone();
    assert_eq!(decided.verdict, Verdict::Pass);
    let numbers = |c: &CheckVerdict| (c.verdict, c.change, c.interval, c.launches, c.base, c.head);
    assert_eq!(numbers(&later), numbers(&decided));
    assert!(
        later.interval.is_some_and(|(_, high)| high < 0.03),
        "{later:?}"
    );
}

/// So is its memory.
#[test]
fn a_pass_tells_that_head_takes_more_memory_where_no_check_judges_that() {
    let said = |of_head: [u64; 4]| {
        let mut session = interleaved(tpot_blocks(4, 0.0, 0.003));
        for launch in &mut session.launches {
            let mib = match launch.arm {
                Arm::Head => of_head,
                Arm::Base => [700; 4],
            };
            let telemetry = launch.telemetry.get_or_insert_default();
            telemetry.readings.extend(mib.map(|mib| Reading {
                rss_bytes: Some(mib << 20),
                ..Reading::default()
            }));
        }
        let verdict = judge(&tpot_plan(), &session);
        fixture::unwrapped(&report::terminal(&session, &verdict, View::default()))
    };
    let told = "not judged head's memory reaches 2048 MiB, base's 700 MiB";
    assert!(said([2048; 4]).contains(told), "{}", said([2048; 4]));
    assert!(!said([860; 4]).contains("head's memory"));
    // It need not be more in all: a leak begins small.
    let told = "head's memory grows by 20 MiB in the second half of a launch, base's by 0 MiB (`rss_growth` judges it";
    let grows = said([700, 700, 720, 740]);
    assert!(grows.contains(told), "{grows}");
    assert!(!said([700, 730, 738, 740]).contains("head's memory"));
}

/// A head that SIGTERM does not end holds up every restart of a service.
#[test]
fn a_pass_tells_that_sigterm_does_not_end_head() {
    let said = |killed: fn(&Launch) -> bool| {
        let mut session = interleaved(tpot_blocks(4, 0.0, 0.003));
        for launch in &mut session.launches {
            launch.killed = killed(launch);
        }
        let verdict = judge(&tpot_plan(), &session);
        fixture::unwrapped(&report::terminal(&session, &verdict, View::default()))
    };
    let told = "not judged SIGTERM ends base, not head, which was killed (4 of 4 launches)";
    let of_head = said(|launch| launch.arm == Arm::Head);
    assert!(of_head.contains(told), "{of_head}");
    assert!(!said(|_| true).contains("SIGTERM"));
    assert!(!said(|launch| launch.position == 0).contains("SIGTERM"));
}

/// The start of each launch is known, whether a gate judges it or not.
#[test]
fn a_pass_tells_that_head_starts_later_where_no_check_judges_that() {
    let said = |head_ms: u64, launches: u32, plan: &Plan| {
        let mut session = interleaved(tpot_blocks(launches, 0.0, 0.003));
        for launch in &mut session.launches {
            let ms = if launch.arm == Arm::Head { head_ms } else { 70 };
            launch.startup.ready_ns = Some(launch.startup.spawn_ns + 1_000_000 * ms);
        }
        session.inputs = vec![Input {
            path: "gates/gate.toml".into(),
            text: "[profile.full]\ngates = [\"cold-start\"]".into(),
        }];
        let verdict = judge(plan, &session);
        fixture::unwrapped(&report::terminal(&session, &verdict, View::default()))
    };
    let told = "not judged head starts in 2070 ms, base in 70 ms (gate check --gate cold-start)";
    let slow = said(2_070, 4, &tpot_plan());
    assert!(slow.contains(told), "{slow}");
    for same in [70, 300] {
        let same = said(same, 4, &tpot_plan());
        assert!(!same.contains("head starts in"), "{same}");
    }
    let mut judged = tpot_plan();
    let ceiling = Rule::Ceiling { limit: 60_000.0 };
    let ready = check("ready", Metric::Ready, Statistic::Median, ceiling);
    judged.gates[0].checks.push(ready);
    let judged = said(2_070, 4, &judged);
    assert!(!judged.contains("head starts in"), "{judged}");
}

#[test]
fn a_pass_names_the_gates_of_profiles_that_did_not_run() {
    let said = |profiles: &str| {
        let mut session = interleaved(tpot_blocks(4, 0.0, 0.003));
        let text = format!("[profile.quick]\n{profiles}");
        session.gates = vec!["gate".into()];
        session.inputs = vec![Input {
            path: "gates/gate.toml".into(),
            text,
        }];
        let verdict = judge(&tpot_plan(), &session);
        report::terminal(&session, &verdict, View::default())
    };
    let passed = "1 check of 1 gate passed; gate/tpot worse by 2 % would have failed, in 95 of 100 such runs";
    for (profiles, more) in [
        ("looks = [4]", ""),
        ("gates = [\"gate\"]", ""),
        (
            "gates = [\"gate\"]\n[profile.full]\ngates = [\"users\", \"gate\", \"e2e\"]",
            "\nnot run       e2e, users (gate check --profile full)",
        ),
        (
            "gates = [\"x\"]\n[profile.b]\ngates = [\"y\"]",
            "\nnot run       x, y",
        ),
        // No name of a gate.
        ("gates = [\"x](http://h)\"]", ""),
        ("no TOML", ""),
    ] {
        let text = fixture::unwrapped(&said(profiles));
        let expect = fixture::unwrapped(&format!("{passed}{more}"));
        assert!(text.ends_with(&expect), "{profiles}\n{text}");
    }
}

/// Prompts make some blocks' answers longer than others', in both arms alike.
#[test]
fn answers_of_no_forced_length_are_compared_in_pairs() {
    let longer = [0.7, 1.3, 0.9, 1.5];
    let session = |slower: f64| {
        interleaved(blocks(4, |arm, block| {
            let slower = if arm == Arm::Head { slower } else { 1.0 };
            let noise = 1.0 + 0.003 * noise(arm, block);
            around(20.0 * longer[block as usize] * slower * noise)
        }))
    };
    let verdict = |metric, forces_length, slower| {
        let mut plan = plan_on(metric, Statistic::Median);
        plan.engine.forces_length = forces_length;
        judge(&plan, &session(slower)).verdict
    };
    assert_eq!(verdict(Metric::E2e, false, 1.0), Verdict::Pass);
    assert_ne!(verdict(Metric::E2e, false, 1.05), Verdict::Pass);
    assert_eq!(verdict(Metric::E2e, true, 1.0), Verdict::Inconclusive);
    // Its unit is the token.
    assert_eq!(verdict(Metric::Tpot, false, 1.0), Verdict::Inconclusive);
}
