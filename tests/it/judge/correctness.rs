//! Goldens, log-probabilities and task accuracy.

use super::*;
use fixture::records::*;
use verdict::plan::{Answers, Logprobs};
use verdict::record::{Condition, Setting};

pub(crate) const WORDS: [&str; 3] = ["one", "two", "three"];

/// No answer of two prompts may differ from that alone or in base.
pub(crate) fn answers_plan() -> Plan {
    let kind = WorkloadKind::Answers(Answers {
        prompts: 2,
        prompt_tokens: 8,
        output_tokens: 10,
        batch: 2,
        beside_tokens: 8,
        passes: 1,
        conditions: Vec::new(),
        beyond_tokens: None,
        logprobs: Logprobs::default(),
    });
    let limit = Rule::Ceiling { limit: 0.0 };
    let same = check("same", Metric::AnswerMismatches, Statistic::Single, limit);
    plan(vec![workload(Some(1), kind)], vec![same])
}

/// Two prompts' answers, each alone and then in a batch.
pub(crate) fn two_answered(alone: [&str; 2], batch: [&str; 2]) -> Vec<Sample> {
    let answer = |index: u32, condition, text: &str| {
        let mut sample = timed(index, 1_000_000);
        sample.case = Some(format!("p{}", index / 2));
        sample.setting = Some(Setting::Answer { condition, pass: 0 });
        sample.text = Some(text.into());
        sample.text_sha256 = text.into();
        sample.tokens.completion = Some(10);
        sample
    };
    vec![
        answer(0, Condition::Alone, alone[0]),
        answer(1, Condition::Batch, batch[0]),
        answer(2, Condition::Alone, alone[1]),
        answer(3, Condition::Batch, batch[1]),
    ]
}

/// A block of five prompts with log-probabilities, head's this far from base's, and the plan of its check.
pub(crate) fn moved_logprobs(nats: f64) -> (Plan, RunRecord) {
    let mut plan = answers_plan();
    if let WorkloadKind::Answers(answers) = &mut plan.gates[0].workloads[0].kind {
        answers.logprobs = Logprobs {
            top_k: Some(2),
            near_tie_nats: Some(0.1),
        };
    }
    let session = interleaved(blocks(1, |arm, _| {
        let mut samples: Vec<Sample> = (0..3)
            .flat_map(|_| two_answered(["one two", "three four"], ["one two", "three four"]))
            .collect();
        for (index, sample) in (0..).zip(&mut samples) {
            sample.index = index;
            sample.case = Some(format!("p{}", index / 2));
            let logprob = if arm == Arm::Head { -1.0 - nats } else { -1.0 };
            sample.logprobs = vec![TokenLogprob {
                token: "one".into(),
                logprob: Some(logprob),
                top: vec![("one".into(), logprob)],
            }];
        }
        samples
    }));
    (plan, session)
}

#[test]
fn log_probabilities_that_moved_are_no_pass() {
    for (nats, verdict, rule) in [
        (0.05, Verdict::Inconclusive, "logprobs-moved"),
        (0.005, Verdict::Pass, "ceiling"),
    ] {
        let (plan, session) = moved_logprobs(nats);
        let got = judge(&plan, &session);
        let found = (got.verdict, first(&got).reason.rule.name());
        assert_eq!(found, (verdict, rule), "{}", sentence(first(&got)));
    }
}

/// Head's answers agree with one another; only base's say that they are wrong.
#[test]
fn answers_that_agree_with_themselves_are_no_pass_where_base_gave_none() {
    let texts = ["three four", "one two"];
    let check = |spoil: &dyn Fn(&mut Launch), last: &str, verdict: Verdict, by: &str| {
        let mut session = interleaved(blocks(1, |arm, _| match arm {
            Arm::Head => two_answered(texts, [texts[0], last]),
            Arm::Base => two_answered(texts, texts),
        }));
        let base = session.launches.iter_mut().find(|l| l.arm == Arm::Base);
        spoil(base.unwrap());
        let got = judge(&answers_plan(), &session);
        let found = (got.verdict, first(&got).reason.rule.name());
        assert_eq!(found, (verdict, by), "{}", sentence(first(&got)));
    };
    let crash = |launch: &mut Launch| launch.exit = crashed();
    let lose = |launch: &mut Launch| {
        for sample in &mut launch.samples {
            sample.void = void(VoidRule::Status);
        }
    };
    check(&|_| (), texts[1], Verdict::Pass, "ceiling");
    check(&crash, texts[1], Verdict::Invalid, "launch-failed");
    check(&lose, texts[1], Verdict::Invalid, "void-samples");
    // What is wrong beside the answer alone is wrong whatever base says.
    check(&crash, " ", Verdict::Fail, "ceiling");
    check(&lose, " ", Verdict::Fail, "ceiling");
}

/// One block of the same answers, in which some of one arm's or both are changed.
#[track_caller]
fn changed(spoil: impl Fn(Arm, &mut [Sample]), verdict: Verdict, by: &str, part: &str) {
    let texts = ["three four", "one two"];
    let session = interleaved(blocks(1, |arm, _| {
        let mut samples = two_answered(texts, texts);
        spoil(arm, &mut samples);
        samples
    }));
    let got = judge(&answers_plan(), &session);
    let text = sentence(first(&got));
    let found = (got.verdict, first(&got).reason.rule.name());
    assert_eq!(found, (verdict, by), "{text}");
    assert!(text.contains(part), "{text}");
}

/// An engine without a prefix cache, or with prompts that all begin alike, answers all the same.
#[test]
fn answers_whose_prompts_the_cache_did_not_know_are_compared_where_base_is_alike() {
    let cache_state = |samples: &mut [Sample]| samples[3].void = void(VoidRule::CacheState);
    let (pass, invalid) = (Verdict::Pass, Verdict::Invalid);
    changed(|_, samples| cache_state(samples), pass, "ceiling", "");
    let in_head = |arm, samples: &mut [Sample]| {
        if arm == Arm::Head {
            cache_state(samples);
        }
    };
    changed(in_head, invalid, "void-samples", "cache-state");
    let other = |arm, samples: &mut [Sample]| {
        cache_state(samples);
        if arm == Arm::Head {
            samples[3].text = Some(" ".into());
            samples[3].text_sha256 = " ".into();
        }
    };
    changed(other, Verdict::Fail, "ceiling", "in a batch");
}

#[test]
fn an_answer_that_ends_for_another_reason_is_wrong() {
    let end = |reason: &'static str, tokens: u32| {
        move |arm, samples: &mut [Sample]| {
            for sample in samples {
                sample.finish_reason = Some("length".into());
                if arm == Arm::Head && sample.index == 3 {
                    sample.finish_reason = Some(reason.into());
                    sample.tokens.completion = Some(tokens);
                }
            }
        }
    };
    let part = "finish reason \"stop\" instead of \"length\" in base";
    changed(end("stop", 10), Verdict::Fail, "ceiling", part);
    // The end of a text that another token has, which spells nothing.
    changed(end("stop", 9), Verdict::Pass, "ceiling", "");
    changed(end("length", 10), Verdict::Pass, "ceiling", "");
}

pub(crate) fn golden_plan(metric: Metric, limit: f64) -> Plan {
    let token = |(id, text): (u32, &str)| GoldenToken {
        id,
        text: text.into(),
        logprob: -0.1,
        top: vec![(id, -0.1), (id + 10, -2.0)],
    };
    let goldens = Goldens {
        cases: vec![GoldenCase {
            id: "count".into(),
            prompt_ids: vec![7],
            tokens: (1..).zip(WORDS).map(token).collect(),
            text: "one two three".into(),
            finish: "stop".into(),
            ..GoldenCase::default()
        }],
        near_tie_nats: 0.05,
        top_k: Some(2),
        texts: [(11, "eleven".to_owned())].into(),
        ..Goldens::default()
    };
    let golden = workload(Some(1), WorkloadKind::Goldens(goldens));
    plan(
        vec![golden],
        vec![check(
            "golden",
            metric,
            Statistic::Single,
            Rule::Ceiling { limit },
        )],
    )
}

/// The greedy and the teacher-forced answer, the engine's log-probabilities off by `error`.
pub(crate) fn golden_answers(words: [&str; 3], error: f64) -> Vec<Sample> {
    let entry = |text: &str, logprob: Option<f64>| TokenLogprob {
        token: text.into(),
        logprob,
        top: vec![(text.to_owned(), -0.1)],
    };
    let mut greedy = sample(0);
    greedy.case = Some("count".into());
    greedy.logprobs = words.iter().map(|w| entry(w, Some(-0.1))).collect();
    let mut forced = sample(1);
    forced.case = Some("count#forced".into());
    forced.logprobs = vec![entry("p", None)];
    forced
        .logprobs
        .extend(WORDS.iter().map(|w| entry(w, Some(-0.1 - error))));
    vec![greedy, forced]
}

#[test]
fn a_wrong_token_fails_after_one_launch() {
    let plan = golden_plan(Metric::GoldenMismatches, 0.0);
    let answers = |words| {
        interleaved(blocks(1, move |arm, _| {
            golden_answers(if arm == Arm::Head { words } else { WORDS }, 0.0)
        }))
    };
    let got = expect(
        &plan,
        &answers(["one", "twelve", "three"]),
        Verdict::Fail,
        "ceiling",
        "golden mismatches 1 case (base 0 cases), above the ceiling of 0 cases: case count, token 1: \"twelve\" instead of \"two\"",
    );
    assert_eq!(got.decision, Decision::Stop);
    let sound = judge(&plan, &answers(WORDS));
    assert_eq!(
        (sound.verdict, sound.decision),
        (Verdict::Pass, Decision::Stop)
    );
    let half = interleaved(blocks(1, |_, _| golden_answers(WORDS, 0.0))[..1].to_vec());
    assert_eq!(
        judge(&plan, &half).decision,
        Decision::ContinueTo { blocks: 1 }
    );
}

#[test]
fn log_probabilities_are_compared_exactly() {
    let plan = golden_plan(Metric::LogprobError, 0.01);
    for (error, verdict) in [(0.002, Verdict::Pass), (0.05, Verdict::Fail)] {
        let got = judge(
            &plan,
            &interleaved(blocks(1, |_, _| golden_answers(WORDS, error))),
        );
        assert_eq!(got.verdict, verdict, "{}", summary(&got));
    }
}

#[test]
fn a_value_that_is_no_number_is_invalid() {
    let plan = golden_plan(Metric::LogprobError, 0.01);
    let got = judge(
        &plan,
        &interleaved(blocks(1, |_, _| golden_answers(WORDS, f64::NAN))),
    );
    assert_eq!(
        (got.verdict, first(&got).reason.rule.name()),
        (Verdict::Invalid, "not-finite")
    );
}

pub(crate) fn tasks_plan(cases: usize, rule: Rule) -> Plan {
    let task = |i: usize| TaskCase {
        id: format!("case-{i}"),
        task: "copy".into(),
        messages: vec![],
        expect: "right".into(),
        max_tokens: 4,
    };
    let tasks = Tasks {
        cases: (0..cases).map(task).collect(),
    };
    plan(
        vec![workload(Some(1), WorkloadKind::Tasks(tasks))],
        vec![check("accuracy", Metric::Accuracy, Statistic::Single, rule)],
    )
}

/// Answers of both arms to `cases` cases, the first so many wrong.
pub(crate) fn answers(cases: u32, wrong_base: u32, wrong_head: u32) -> RunRecord {
    interleaved(blocks(1, |arm, _| {
        let wrong = if arm == Arm::Head {
            wrong_head
        } else {
            wrong_base
        };
        (0..cases).map(|i| answer(i, i < wrong)).collect()
    }))
}

pub(crate) fn answer(case: u32, wrong: bool) -> Sample {
    Sample {
        case: Some(format!("case-{case}")),
        text: Some(if wrong { "wrong" } else { "right" }.into()),
        ..sample(case)
    }
}

#[test]
fn a_floor_on_accuracy_by_wilson() {
    let floor = tasks_plan(100, Rule::Floor { limit: 0.9 });
    expect(
        &floor,
        &answers(100, 0, 0),
        Verdict::Pass,
        "floor",
        "accuracy 100 % [96.3, 100], 100 of 100 cases, above the floor of 90 % (p = 4e-4; 100 cases)",
    );
    let failed = judge(&floor, &answers(100, 0, 20));
    assert_eq!(
        (failed.verdict, first(&failed).reason.rule.name()),
        (Verdict::Fail, "floor")
    );
    assert!(
        sentence(first(&failed))
            .contains("for example case case-0: \"wrong\" instead of \"right\"")
    );
    let unsure = judge(&floor, &answers(100, 0, 8));
    assert_eq!(
        (unsure.verdict, unsure.decision),
        (Verdict::Inconclusive, Decision::Stop)
    );
    let few = judge(
        &tasks_plan(10, Rule::Floor { limit: 0.9 }),
        &answers(10, 0, 0),
    );
    assert!(
        sentence(first(&few))
            .ends_with("10 cases cannot show it even if all are right: 25 are needed"),
        "{}",
        summary(&few)
    );
    for (wrong, verdict) in [(0, Verdict::Pass), (1, Verdict::Fail)] {
        assert_eq!(
            judge(
                &tasks_plan(10, Rule::Floor { limit: 1.0 }),
                &answers(10, 0, wrong)
            )
            .verdict,
            verdict
        );
    }
}

#[test]
fn lost_cases_are_paired() {
    let rule = Rule::Regression {
        margin: 0.02,
        ceiling: 0.05,
    };
    let paired = tasks_plan(100, rule);
    expect(
        &paired,
        &answers(100, 0, 0),
        Verdict::Pass,
        "regression",
        "accuracy 100 % → 100 %: 0 of 100 cases lost, 0 gained, below the ceiling of 5 % (p = 0.0109; 100 cases)",
    );
    expect(
        &paired,
        &answers(100, 1, 12),
        Verdict::Fail,
        "regression",
        "accuracy 99 % → 88 %: 11 of 100 cases lost, 0 gained, beyond the margin of 2 % (p = 5e-4; 100 cases)",
    );
    assert_eq!(
        judge(&paired, &answers(100, 0, 3)).verdict,
        Verdict::Inconclusive
    );
    let none_right = judge(&paired, &answers(100, 100, 100));
    assert_eq!(
        (none_right.verdict, first(&none_right).reason.rule.name()),
        (Verdict::Invalid, "vacuous")
    );
}

#[test]
fn a_workload_of_few_launches_carries_no_t_test() {
    let mut few = tpot_plan();
    few.gates[0].workloads[0].launches = Some(2);
    let got = judge(&few, &interleaved(tpot_blocks(4, 0.0, 0.003)));
    assert_eq!(
        (got.verdict, first(&got).reason.rule.name()),
        (Verdict::Inconclusive, "too-few-launches")
    );
    assert_eq!(got.decision, Decision::Stop);
}

#[test]
fn nothing_is_saved_where_no_workload_would_have_run_again() {
    let saved_s = |launches| {
        let mut plan = tpot_plan();
        plan.gates[0].workloads[0].launches = launches;
        let mut record = interleaved(tpot_blocks(4, 0.0, 0.003));
        record.ending = Ending::Decided;
        judge(&plan, &record).saved_s
    };
    // Four of sixteen blocks in a second.
    assert!((saved_s(None) - 3.0).abs() < 1e-9, "{}", saved_s(None));
    for launches in [1, 4] {
        let saved_s = saved_s(Some(launches));
        assert!(saved_s.abs() < 1e-9, "{saved_s} s by {launches} launches");
    }
    assert!((saved_s(Some(8)) - 1.0).abs() < 1e-9);
}

#[test]
fn what_runs_in_the_first_block_alone_is_not_saved_again_in_later_ones() {
    let mut plan = tpot_plan();
    let mut once = plan.gates[0].workloads[0].clone();
    (once.id, once.launches) = ("once".into(), Some(1));
    plan.gates[0].workloads.push(once);
    let mut record = interleaved(tpot_blocks(4, 0.0, 0.003));
    record.ending = Ending::Decided;
    for launch in record.launches.iter_mut().filter(|l| l.block == 0) {
        let mut sample = launch.samples[0].clone();
        sample.workload = "once".into();
        sample.stamps.send_ns = 0;
        sample.stamps.done_ns = Some(400_000_000);
        launch.samples.push(sample);
    }
    // 0.8 s of the second: twelve blocks of the rest, 0.05 s each.
    let saved_s = judge(&plan, &record).saved_s;
    assert!((saved_s - 0.6).abs() < 1e-9, "{saved_s}");
}
