//! Answers of small launches, head's beside base's.

mod chats;
mod conditions;
mod logprobs;

use crate::metrics::testing::{check, launch, streamed};
use crate::metrics::{LaunchMeasure, Requests, Undefined, Why, measure_among, wrong_answers};
use crate::plan::{self, Workload, WorkloadKind};
use crate::record::{Condition, Launch, Metric, Sample, Setting, Statistic, TokenLogprob};

const NATS: f64 = 0.1;

/// The answer of prompt `case` under a condition; its text's digest is the text itself.
fn answer(index: u32, case: &str, condition: Condition, text: &str) -> Sample {
    let mut sample = streamed("w", index, 1.0, 1.0, 10);
    sample.case = Some(case.into());
    sample.setting = Some(Setting::Answer { condition, pass: 0 });
    sample.text = Some(text.into());
    sample.text_sha256 = text.into();
    sample
}

/// Prompts `p0`, `p1`, … alone, then in a batch.
fn pairs(texts: &[(&str, &str)]) -> Vec<Sample> {
    let mut samples = Vec::new();
    for (n, (alone, batch)) in texts.iter().enumerate() {
        let case = format!("p{n}");
        let index = 2 * n as u32;
        samples.push(answer(index, &case, Condition::Alone, alone));
        samples.push(answer(index + 1, &case, Condition::Batch, batch));
    }
    samples
}

fn workload(near_tie_nats: Option<f64>) -> Workload {
    Workload {
        id: "w".into(),
        launches: None,
        kind: WorkloadKind::Answers(plan::Answers {
            prompts: 2,
            prompt_tokens: 8,
            output_tokens: 10,
            batch: 2,
            beside_tokens: 8,
            passes: 1,
            conditions: Vec::new(),
            beyond_tokens: None,
            logprobs: plan::Logprobs {
                top_k: near_tie_nats.map(|_| 2),
                near_tie_nats,
            },
        }),
    }
}

fn of(
    near_tie: Option<f64>,
    head: &Launch,
    base: Option<&Launch>,
) -> Result<LaunchMeasure, Undefined> {
    let (check, workload) = (
        check(Metric::AnswerMismatches, Statistic::Single),
        workload(near_tie),
    );
    let requests = Requests::of(&check, &workload, head).beside(&check, base);
    measure_among(&requests, &check)
}

fn of_launch(head: &Launch, base: &Launch) -> LaunchMeasure {
    of(None, head, Some(base)).unwrap()
}

/// All that differ, and those of them that are wrong for sure.
fn counts(head: Vec<Sample>, base: Option<Vec<Sample>>) -> (f64, f64) {
    let base = base.map(|samples| launch(1, samples));
    let measure = of(None, &launch(0, head), base.as_ref()).unwrap();
    (measure.value, measure.at_least.unwrap())
}

#[test]
fn what_a_text_alone_tells() {
    let sound = || pairs(&[("one two", "one two"), ("three four", "three four")]);
    assert_eq!(counts(sound(), Some(sound())), (0.0, 0.0));
    assert_eq!(counts(sound(), None), (0.0, 0.0));
    // The answers of two prompts swapped.
    let swapped = || pairs(&[("one two", "three four"), ("three four", "one two")]);
    assert_eq!(counts(swapped(), Some(sound())), (2.0, 2.0));
    // Main has it too.
    assert_eq!(counts(swapped(), Some(swapped())), (2.0, 2.0));
    // A prompt that ends alike, into whose answer a near-tie may lead, and one that ends otherwise.
    let led = |into| {
        pairs(&[
            ("one two", into),
            ("three four", "three four"),
            ("five", "five"),
        ])
    };
    assert_eq!(counts(led("three four"), Some(led("one two"))), (1.0, 0.0));
    assert_eq!(counts(led("five"), Some(led("one two"))), (1.0, 1.0));
    // Three prompts of six that were led so: no near-ties.
    let six = |led: bool| {
        let of = |n: usize| ["a b", "c d", "e f", "g h", "i j", "k l"][n];
        let pair = |n: usize| (of(n), of(if led && n % 2 == 1 { n - 1 } else { n }));
        pairs(&[0, 1, 2, 3, 4, 5].map(pair))
    };
    assert_eq!(counts(six(true), Some(six(false))), (3.0, 3.0));
    // One wrong text for both.
    let shared = pairs(&[("one two", "xyz"), ("three four", "xyz")]);
    assert_eq!(counts(shared, Some(sound())), (2.0, 2.0));
    let blank = pairs(&[("one two", " \n"), ("three four", "three four")]);
    assert_eq!(counts(blank, Some(sound())), (1.0, 1.0));
    // Blank alone and in base: what the model says.
    let blank = || pairs(&[(" ", " "), ("three four", "three four")]);
    assert_eq!(counts(blank(), Some(blank())), (0.0, 0.0));
    // Nothing that a reader sees is blank too.
    let unseen = pairs(&[
        ("one two", "\u{200b}\u{2800}\u{ad}"),
        ("three four", "three four"),
    ]);
    assert_eq!(counts(unseen, Some(sound())), (1.0, 1.0));
    // The answer alone, which fills the cache, is another prompt's as well.
    let filled = || pairs(&[("three four", "three four"), ("three four", "three four")]);
    assert_eq!(counts(filled(), Some(sound())), (2.0, 2.0));
    let blank_filled = pairs(&[(" ", " "), ("three four", "three four")]);
    assert_eq!(counts(blank_filled, Some(sound())), (2.0, 2.0));
    assert_eq!(counts(filled(), Some(filled())), (0.0, 0.0));
    // One difference alone may be a near-tie.
    let one = || pairs(&[("one two", "one six"), ("three four", "three four")]);
    assert_eq!(counts(one(), Some(sound())), (1.0, 0.0));
    // Base differs from itself there too.
    assert_eq!(counts(one(), Some(one())), (0.0, 0.0));
    // Base, which never varies, answers otherwise.
    let other = pairs(&[("one six", "one six"), ("three four", "three four")]);
    assert_eq!(counts(other, Some(sound())), (2.0, 0.0));
}

#[test]
fn a_near_tie_may_lead_into_what_another_prompt_got() {
    let (first, second) = (
        "it seems to be a list of words",
        "it seems to be a list, is it",
    );
    let sound = || pairs(&[(first, first), (second, second)]);
    let led = || pairs(&[(first, second), (second, second)]);
    assert_eq!(counts(led(), Some(sound())), (1.0, 0.0));
    assert_eq!(counts(led(), None), (1.0, 0.0));
    // Not in many answers.
    let third = "it seems to be a list of names";
    let rotated = pairs(&[(first, second), (second, third), (third, first)]);
    let sound = pairs(&[(first, first), (second, second), (third, third)]);
    assert_eq!(counts(rotated, Some(sound)), (3.0, 3.0));
    // Base gives that text to several prompts: the model often says it.
    let usual = "sorry, I cannot help with that";
    let often = |last| pairs(&[(usual, usual), (usual, usual), ("one two three", last)]);
    assert_eq!(
        counts(often(usual), Some(often("one two three"))),
        (1.0, 0.0)
    );
}

/// llama.cpp with a small model: a near-tie of two digits leads to one that both prompts repeat to the end.
#[test]
fn a_text_that_repeats_itself_to_the_end_is_no_prompts_own() {
    let (ones, zeros) = (
        " 1".to_owned() + &"1".repeat(30),
        " 1".to_owned() + &"0".repeat(30),
    );
    let answers = |first: &str| {
        let mut samples = pairs(&[(first, first), (&zeros, &zeros)]);
        for sample in &mut samples {
            sample.tokens.completion = Some(32);
            let text = sample.text.clone().unwrap_or_default();
            sample.text_sha256 = crate::digest::of_parts([text.as_bytes()]);
        }
        samples
    };
    assert_eq!(counts(answers(&zeros), Some(answers(&ones))), (2.0, 0.0));
    // Words that become another prompt's loop are no near-tie.
    let words = answers("one two three four five six seven");
    assert_eq!(counts(answers(&zeros), Some(words)), (2.0, 2.0));
    // One token over and over is wrong, but not where base loops over a few.
    let (token, few) = ("-tech".repeat(32), "lampen".repeat(15) + "lamp");
    let said = |text: &str| {
        let mut samples = answers(text);
        samples[0].tokens.repeats = text == token;
        samples[1].tokens.repeats = text == token;
        samples
    };
    assert_eq!(counts(said(&token), Some(said(&few))), (2.0, 0.0));
    let words = || said("one two three four five six seven");
    assert_eq!(counts(said(&token), Some(words())), (2.0, 1.0));
    // Head's own loop excuses nothing.
    let mut mixed = said(&token);
    mixed[0] = answers(&few).swap_remove(0);
    assert_eq!(counts(mixed, Some(words())).1.to_bits(), 1_f64.to_bits());
    // Nor are two loops that were swapped.
    let swapped = || {
        let mut samples = answers(&ones);
        let (first, second) = samples.split_at_mut(2);
        for (a, b) in first.iter_mut().zip(second) {
            (a.text, b.text) = (b.text.take(), a.text.take());
            std::mem::swap(&mut a.text_sha256, &mut b.text_sha256);
        }
        samples
    };
    assert_eq!(counts(swapped(), Some(answers(&ones))), (4.0, 4.0));
    assert_eq!(super::repetition(zeros.as_bytes()), Some((1, 30)));
    assert_eq!(
        super::repetition(b"one two three four five six seven"),
        None
    );
}

#[test]
fn many_differences_are_no_near_ties_where_base_has_none() {
    let launch_of = |n: usize, differing: usize| {
        let texts: Vec<(String, String)> = (0..n)
            .map(|i| {
                let batch = if i < differing { "else" } else { "same" };
                (format!("same {i}"), format!("{batch} {i}"))
            })
            .collect();
        let texts: Vec<(&str, &str)> = texts
            .iter()
            .map(|(a, b)| (a.as_str(), b.as_str()))
            .collect();
        pairs(&texts)
    };
    assert_eq!(
        counts(launch_of(20, 10), Some(launch_of(20, 0))),
        (10.0, 10.0)
    );
    assert_eq!(counts(launch_of(20, 9), Some(launch_of(20, 0))), (9.0, 0.0));
    assert_eq!(
        counts(launch_of(20, 10), Some(launch_of(20, 10))),
        (0.0, 0.0)
    );
    // Base does the same, and near-ties are not that many.
    assert_eq!(
        counts(launch_of(20, 11), Some(launch_of(20, 11))),
        (11.0, 0.0)
    );
    // Base is not there to tell what is usual.
    assert_eq!(counts(launch_of(20, 20), None), (20.0, 0.0));
}

/// Of `all` prompts the first `parting` get another text from the word at `place` on than `text` has, alone and in a batch.
fn parting(all: usize, parting: usize, place: usize) -> Vec<Sample> {
    let texts: Vec<String> = (0..all)
        .map(|prompt| {
            let word = |at: usize| match prompt < parting && at >= place {
                true => format!("x{prompt}{at}"),
                false => format!("w{prompt}{at}"),
            };
            (0..40).map(word).collect::<Vec<_>>().join(" ")
        })
        .collect();
    let texts: Vec<(&str, &str)> = texts.iter().map(|it| (it.as_str(), it.as_str())).collect();
    pairs(&texts)
}

#[test]
fn most_prompts_answered_otherwise_than_in_base_are_no_near_ties() {
    let wrong = |head: Vec<Sample>| counts(head, Some(parting(8, 0, 0)));
    // Two answers a prompt.
    assert_eq!(wrong(parting(8, 8, 0)), (16.0, 16.0));
    assert_eq!(wrong(parting(8, 5, 0)), (10.0, 10.0));
    assert_eq!(wrong(parting(8, 4, 0)), (8.0, 0.0));
    assert_eq!(wrong(parting(8, 8, 5)), (16.0, 16.0));
    assert_eq!(wrong(parting(8, 7, 5)), (14.0, 0.0));
    // Of 64, sixteen are more than one in ten.
    let of_64 = |n| counts(parting(64, n, 0), Some(parting(64, 0, 0)));
    assert_eq!((of_64(15), of_64(16)), ((30.0, 0.0), (32.0, 32.0)));
    // Late enough for near-ties.
    assert_eq!(wrong(parting(8, 8, 24)), (16.0, 0.0));
    // Five part at once, and three so late that near-ties may explain these.
    let mut mixed = parting(8, 8, 0);
    mixed.splice(10.., parting(8, 8, 24).drain(10..));
    assert_eq!(wrong(mixed), (16.0, 10.0));
    // Head mends what base leaves blank, or repeats.
    let broken = |break_it: fn(&mut Sample)| {
        let mut base = parting(8, 0, 0);
        for (index, sample) in base.iter_mut().enumerate() {
            sample.text_sha256 = format!("broken {}", index / 2);
            break_it(sample);
        }
        counts(parting(8, 8, 0), Some(base))
    };
    let blank = broken(|sample| sample.text = Some(" \n".into()));
    let repeats = broken(|sample| {
        sample.text = Some("a a a".into());
        sample.tokens.repeats = true;
    });
    assert_eq!((blank, repeats), ((16.0, 0.0), (16.0, 0.0)));
    // Too few prompts to tell.
    let two = counts(parting(2, 2, 0), Some(parting(2, 0, 0)));
    assert_eq!(two, (4.0, 0.0));
    // Base answers four of the five prompts in several ways.
    let mut base = parting(5, 0, 0);
    for (index, sample) in base.iter_mut().enumerate().take(8) {
        if index % 2 == 1 {
            sample.text = Some("else".into());
            sample.text_sha256 = format!("else {index}");
        }
    }
    let varied = counts(parting(5, 5, 0), Some(base));
    assert_eq!(varied, (2.0, 0.0));
}

/// Tokens with their probability and that of the token `b` or `a` beside them.
fn scored(mut sample: Sample, tokens: &[(&str, f64)]) -> Sample {
    let entry = |(token, gap): &(&str, f64)| TokenLogprob {
        token: (*token).to_owned(),
        logprob: Some(-0.5),
        top: vec![
            ((*token).to_owned(), -0.5),
            (if *token == "a" { "b" } else { "a" }.to_owned(), -0.5 - gap),
        ],
    };
    sample.logprobs = tokens.iter().map(entry).collect();
    let text: String = tokens.iter().map(|(token, _)| *token).collect();
    (sample.text, sample.text_sha256) = (Some(text.clone()), text);
    sample
}

#[test]
fn log_probabilities_tell_a_near_tie_from_a_mix_up() {
    let of_two = |alone: &[(&str, f64)], batch: &[(&str, f64)]| {
        let samples = vec![
            scored(answer(0, "p0", Condition::Alone, ""), alone),
            scored(answer(1, "p0", Condition::Batch, ""), batch),
        ];
        let measure = of(Some(NATS), &launch(0, samples), None).unwrap();
        (measure.value, measure.at_least.unwrap())
    };
    let tie = 0.05;
    let firm = 3.0;
    assert_eq!(
        of_two(&[("a", firm), ("a", tie)], &[("a", firm), ("b", tie)]),
        (0.0, 0.0)
    );
    assert_eq!(
        of_two(&[("a", firm), ("a", firm)], &[("a", firm), ("b", tie)]),
        (1.0, 1.0)
    );
    // Undecided alone, and sure of the other token in the batch: something else was computed.
    assert_eq!(of_two(&[("a", tie)], &[("b", firm)]), (1.0, 1.0));
    assert_eq!(of_two(&[("a", tie)], &[("c", tie)]), (1.0, 1.0));
}

/// Tokens that do not spell the answer excuse no difference: their near-tie is not the text's.
#[test]
fn a_near_tie_of_tokens_that_are_not_the_texts_excuses_nothing() {
    let tie = 0.05;
    let base = || {
        scored(
            answer(0, "p0", Condition::Alone, ""),
            &[("a", 3.0), ("a", tie)],
        )
    };
    let head = |tokens: &[(&str, f64)], text: &str| {
        let mut head = scored(answer(0, "p0", Condition::Alone, ""), tokens);
        (head.text, head.text_sha256) = (Some(text.into()), text.into());
        let base = launch(1, vec![base()]);
        let measure = of(Some(NATS), &launch(0, vec![head]), Some(&base)).unwrap();
        (measure.value, measure.at_least.unwrap())
    };
    let tied: &[(&str, f64)] = &[("a", 3.0), ("b", tie)];
    assert_eq!(head(tied, "ab"), (0.0, 0.0));
    // More text than tokens are listed for.
    assert_eq!(head(tied, "ab and more"), (0.0, 0.0));
    assert_eq!(head(tied, "xy"), (1.0, 0.0));
    assert_eq!(head(tied, "ax"), (1.0, 0.0));
    assert_eq!(head(&[("a", 3.0), ("b", 3.0)], "ax"), (1.0, 1.0));
    // The same tokens as base's, and another text: no near-tie explains it.
    assert_eq!(head(&[("a", 3.0), ("a", tie)], "ax"), (1.0, 1.0));
    // An end of sequence is a token and no text; part of a character is no text yet.
    let ended = |token| {
        let mut base = base();
        base.logprobs[1].top[1].0 = String::from(token);
        let mut head = scored(
            answer(0, "p0", Condition::Alone, ""),
            &[("a", 3.0), (token, tie)],
        );
        (head.text, head.text_sha256) = (Some("a".into()), "a".into());
        let base = launch(1, vec![base]);
        let measure = of(Some(NATS), &launch(0, vec![head]), Some(&base)).unwrap();
        (measure.value, measure.at_least.unwrap())
    };
    assert_eq!(ended("<|im_end|>"), (0.0, 0.0));
    assert_eq!(ended("\u{fffd}"), (0.0, 0.0));
}

#[test]
fn a_difference_shows_condition_place_and_both_texts() {
    let head = pairs(&[
        ("the cat sat on a mat", "the cat sat on a dog"),
        ("three", "three"),
    ]);
    let measure = of(None, &launch(0, head), None).unwrap();
    assert_eq!(
        measure.remarks,
        [
            "in a batch, streamed, prompt p0: from character 17 on \"…at on a dog\" instead of \"…at on a mat\" alone"
        ]
    );
}

#[test]
fn many_differences_are_counted_by_situation() {
    let prompts: Vec<String> = (0..6).map(|n| n.to_string()).collect();
    let mut samples = Vec::new();
    for (n, case) in (0..).zip(&prompts) {
        let batch = if n < 5 { "other" } else { "one" };
        samples.push(answer(3 * n, case, Condition::Alone, "one"));
        samples.push(answer(3 * n + 1, case, Condition::Batch, batch));
        samples.push(answer(3 * n + 2, case, Condition::Cached, "one"));
    }
    let measure = of(None, &launch(0, samples), None).unwrap();
    assert_eq!(
        measure.remarks.last().unwrap(),
        "and 2 more of 12 compared; by situation: in a batch, streamed 5 of 6; elsewhere none"
    );
}

#[test]
fn nothing_is_compared_where_each_prompt_is_sent_once() {
    let mut sample = answer(0, "p0", Condition::Batch, "one");
    (sample.case, sample.setting) = (None, None);
    let head = launch(0, vec![sample.clone()]);
    assert_eq!(of(None, &head, None).unwrap_err().why, Why::NothingCompared);
    assert!(of(None, &head, Some(&launch(1, vec![sample]))).is_ok());
}

#[test]
fn blank_answers_are_wrong_without_base_where_most_are() {
    let of_six = |blank: usize| {
        let texts = (0..6).map(|i| if i < blank { "\u{200b}\n" } else { "one" });
        let samples = texts.enumerate().map(|(i, text)| {
            let mut sample = answer(i as u32, "p", Condition::Batch, text);
            (sample.case, sample.setting) = (None, None);
            sample
        });
        let check = check(Metric::Tpot, Statistic::Median);
        let (workload, head) = (workload(None), launch(0, samples.collect()));
        let found = wrong_answers(&Requests::of(&check, &workload, &head));
        found.map(|found| (found.wrong, found.all))
    };
    assert_eq!(of_six(3), None);
    assert_eq!(of_six(4), Some((4, 6)));
    assert_eq!(of_six(6), Some((6, 6)));
}
