//! Answers of the sampler, up to a stop string, and after a client left.

use super::{NATS, answer, counts, of, of_launch, pairs, scored};
use crate::metrics::testing::launch;
use crate::record::{Condition, Phase, Sample};

/// Prompt `p0` alone and up to a stop string, each a text and its finish reason.
fn stopped(alone: (&str, &str), stopped: (&str, &str)) -> Vec<Sample> {
    let of = |index, condition, (text, finish): (&str, &str)| Sample {
        finish_reason: Some(finish.into()),
        ..answer(index, "p0", condition, text)
    };
    vec![
        of(0, Condition::Alone, alone),
        of(1, Condition::Stopped, stopped),
        // Something else that is compared.
        of(2, Condition::Cached, alone),
    ]
}

#[test]
fn a_stop_string_ends_an_answer_before_it() {
    let whole = ("one two, three", "length");
    let right = || stopped(whole, ("on", "stop"));
    let check = |text: &str, finish: &str, expect: (f64, f64)| {
        let head = stopped(whole, (text, finish));
        assert_eq!(counts(head, Some(right())), expect, "{text:?} {finish}");
    };
    check("on", "stop", (0.0, 0.0));
    // The string leaks, in whole or in part, or the answer goes on: no near-tie leads there.
    for text in ["one ", "one", "one two, three"] {
        check(text, "stop", (1.0, 1.0));
    }
    // It ends too soon, perhaps by a near-tie, or for another reason.
    for text in ["o", ""] {
        check(text, "stop", (1.0, 0.0));
    }
    check("on", "length", (1.0, 1.0));
    // Another text: without log-probabilities nobody knows.
    check("or", "stop", (1.0, 0.0));
    // An engine that gives the string back does so in base too.
    let with = || stopped(whole, ("one ", "stop"));
    assert_eq!(counts(with(), Some(with())), (0.0, 0.0));
    assert_eq!(counts(right(), Some(with())), (0.0, 0.0));
    assert_eq!(
        counts(stopped(whole, ("o", "stop")), Some(with())),
        (1.0, 0.0)
    );
    // Another text is no way to end one.
    assert_eq!(
        counts(stopped(whole, ("xyz", "stop")), Some(with())),
        (1.0, 0.0)
    );
    // Without base nothing is sure.
    assert_eq!(counts(with(), None), (1.0, 0.0));
    // No string in it: the whole answer.
    let none = ("six", "length");
    assert_eq!(
        counts(stopped(none, none), Some(stopped(none, none))),
        (0.0, 0.0)
    );
    let cut = stopped(none, ("si", "stop"));
    assert_eq!(counts(cut, Some(stopped(none, none))), (1.0, 0.0));
    // Another name for the reason.
    let named = || stopped(whole, ("on", "eos_token"));
    assert_eq!(counts(named(), Some(named())), (0.0, 0.0));
    assert_eq!(counts(named(), Some(right())), (1.0, 1.0));
}

#[test]
fn another_text_before_the_stop_string_is_wrong_but_for_a_near_tie() {
    let listed = |gap: f64| {
        let mut samples = stopped(("one two", "length"), ("or", "stop"));
        for at in [0, 2] {
            samples[at] = scored(
                samples[at].clone(),
                &[("on", gap), ("e ", 3.0), ("two", 3.0)],
            );
        }
        samples
    };
    let base = launch(1, stopped(("one two", "length"), ("on", "stop")));
    let count = |gap| {
        let measure = of(Some(NATS), &launch(0, listed(gap)), Some(&base)).unwrap();
        (measure.value, measure.at_least.unwrap())
    };
    assert_eq!(count(0.05), (0.0, 0.0));
    assert_eq!(count(3.0), (1.0, 1.0));
    // Base's list of the same answer decides.
    let sure = launch(1, {
        let mut samples = listed(3.0);
        (samples[1].text, samples[1].text_sha256) = (Some("on".into()), "on".into());
        samples
    });
    let measure = of(Some(NATS), &launch(0, listed(0.05)), Some(&sure)).unwrap();
    assert_eq!(measure.at_least.map(f64::to_bits), Some(1_f64.to_bits()));
    // Into a stop string, so that less is left of the answer.
    let short = |gap| {
        let mut samples = listed(gap);
        samples[1].text = Some("o".into());
        let measure = of(Some(NATS), &launch(0, samples), Some(&base)).unwrap();
        (measure.value, measure.at_least.unwrap())
    };
    assert_eq!(short(0.05), (0.0, 0.0));
    // It may have ended by itself.
    assert_eq!(short(3.0), (1.0, 0.0));
}

#[test]
fn an_answer_from_the_sampler_is_the_greedy_one_if_the_engine_knows_top_p() {
    let launch_of = |sampled: [&str; 4]| {
        let texts = ["a b", "c d", "e f", "g h"];
        let mut samples = Vec::new();
        for (n, (alone, sampled)) in (0..).zip(texts.into_iter().zip(sampled)) {
            let case = format!("p{}", 2 * n);
            samples.push(answer(3 * n, &case, Condition::Alone, alone));
            samples.push(answer(3 * n + 1, &case, Condition::Sampled, sampled));
            samples.push(answer(3 * n + 2, &case, Condition::Batch, alone));
        }
        samples
    };
    let right = || launch_of(["a b", "c d", "e f", "g h"]);
    let head = launch_of(["a b", "c x", "e f", "g h"]);
    assert_eq!(counts(head, Some(right())), (1.0, 0.0));
    let head = launch_of(["b", "c x", "e x", "g x"]);
    let (all, _) = counts(head, Some(right()));
    assert!(all > 3.0, "{all}");
    // Base samples freely: nothing can be told.
    let free = |texts| {
        counts(
            launch_of(texts),
            Some(launch_of(["a 1", "c 2", "e 3", "g h"])),
        )
    };
    assert_eq!(free(["a 5", "c d", "e 7", "g 8"]), (0.0, 0.0));
    // One seed gives every prompt one text: no prompt is given another's answer.
    let one = || launch_of(["from one seed comes one text, of nine"; 4]);
    assert_eq!(counts(one(), Some(one())), (0.0, 0.0));
}

/// Prompts that are answered `a b c …` and drawn as this says: its number, and whether it is the second draw.
fn drawn(prompts: u32, said: impl Fn(u32, bool) -> String) -> Vec<Sample> {
    let of = |n: u32| {
        let case = format!("p{}", 2 * n);
        let greedy = format!("{n} greedy and long enough");
        let one = |index, condition, text: &str| answer(5 * n + index, &case, condition, text);
        [
            one(0, Condition::Alone, &greedy),
            one(1, Condition::Batch, &greedy),
            one(2, Condition::Drawn, &said(n, false)),
            one(3, Condition::Drawn, &said(n, true)),
        ]
    };
    (0..prompts).flat_map(of).collect()
}

#[test]
fn an_answer_is_drawn_at_its_temperature_and_with_its_seed() {
    let right = |n: u32, _: bool| format!("drawn {n} and as long");
    let cold = |n: u32, _: bool| format!("{n} greedy and long enough");
    let unseeded = |n: u32, second: bool| format!("{second} {n} and as long");
    let other = |n: u32, _: bool| format!("hotter {n} and as long");
    let late = |n: u32, _: bool| format!("drawn {n} and as long but another end");
    let of = |head: fn(u32, bool) -> String, prompts| {
        counts(drawn(prompts, head), Some(drawn(prompts, right)))
    };
    assert_eq!(of(right, 16), (0.0, 0.0));
    // In streams alone.
    let streams = |fault: fn(u32, bool) -> String| {
        let said = move |n: u32, second| {
            if n < 8 {
                fault(n, second)
            } else {
                right(n, second)
            }
        };
        let of_modes = |mut samples: Vec<Sample>| {
            samples.iter_mut().for_each(|s| s.streamed = s.index < 40);
            samples
        };
        counts(of_modes(drawn(16, said)), Some(of_modes(drawn(16, right))))
    };
    assert_eq!(streams(cold), (8.0, 0.0));
    assert_eq!(streams(unseeded), (8.0, 0.0));
    // Temperature or seed ignored: sure of sixteen prompts, unproven of six.
    for fault in [cold, unseeded] {
        assert_eq!(of(fault, 16), (16.0, 16.0));
        assert_eq!(of(fault, 6), (6.0, 0.0));
    }
    // Other probabilities, or random numbers drawn otherwise.
    assert_eq!(of(other, 16), (16.0, 0.0));
    // In chats alone.
    let chats = |fault: fn(u32, bool) -> String| {
        let of = |said: fn(u32, bool) -> String| {
            let mut samples = drawn(16, right);
            for n in 8..12 {
                let story = |index, condition, text: String| {
                    answer(index, &format!("chat {n}"), condition, &text)
                };
                let whole = format!("{n} greedy and long enough");
                samples.push(Sample {
                    streamed: false,
                    ..story(80 + 3 * n, Condition::Ended, whole)
                });
                samples.push(story(81 + 3 * n, Condition::Drawn, said(n, false)));
                samples.push(story(82 + 3 * n, Condition::Drawn, said(n, true)));
            }
            samples
        };
        counts(of(fault), Some(of(right)))
    };
    assert_eq!(chats(right), (0.0, 0.0));
    for fault in [cold, unseeded, other] {
        assert_eq!(chats(fault), (4.0, 0.0));
    }
    // Head refuses what base draws.
    let mut refused = drawn(16, right);
    refused[2].status = Some(500);
    assert_eq!(counts(refused, Some(drawn(16, right))), (1.0, 1.0));
    // A near-tie of the draw.
    assert_eq!(of(late, 16), (0.0, 0.0));
    // Base has the fault too, or it alone.
    for fault in [cold, unseeded] {
        assert_eq!(counts(drawn(16, fault), Some(drawn(16, fault))), (0.0, 0.0));
    }
    assert_eq!(
        counts(drawn(16, right), Some(drawn(16, unseeded))),
        (0.0, 0.0)
    );
    let measure = of_launch(
        &launch(0, drawn(16, right)),
        &launch(1, drawn(16, unseeded)),
    );
    assert!(measure.remarks[0].contains("with one seed are seldom alike"));
}

#[test]
fn an_answer_that_is_left_is_compared_with_nothing() {
    let of = |left: &str| {
        let mut samples = pairs(&[("one two", "one two")]);
        let mut sample = answer(9, "x", Condition::Left, left);
        sample.case = None;
        sample.phase = Phase::Warmup;
        samples.push(sample);
        samples
    };
    assert_eq!(counts(of("on"), Some(of("one two"))), (0.0, 0.0));
}

/// Without log-probabilities; what the cache kept hangs on when the client left.
#[test]
fn few_answers_after_a_client_left_may_be_near_ties() {
    let of = |texts: [&str; 4], is_early: bool| {
        let mut samples = pairs(&[("one two", "one two")]);
        for (n, text) in (10..).step_by(2).zip(texts) {
            let mut left = answer(n, "", Condition::Left, "");
            left.case = None;
            left.phase = Phase::Warmup;
            left.stamps.first_byte_ns = (!is_early).then_some(1);
            samples.push(left);
            samples.push(answer(n + 1, &format!("left-{n}"), Condition::Alone, text));
        }
        samples
    };
    let base = |is_early| of(["a b c", "d e f", "g h i", "j k l"], is_early);
    let two = |is_early| of(["a b c", "d e x", "y", "j k l"], is_early);
    let three = of(["a b x", "d e x", "g h x", "j k l"], true);
    assert_eq!(counts(two(true), Some(base(true))), (0.0, 0.0));
    assert_eq!(counts(two(true), Some(base(false))), (0.0, 0.0));
    assert_eq!(counts(three, Some(base(true))), (3.0, 0.0));
    // The whole prompt was computed in both.
    assert_eq!(counts(two(false), Some(base(false))), (2.0, 0.0));
}

#[test]
fn what_base_refuses_head_refuses() {
    let twice = |statuses: [u16; 2]| {
        let bad = (8..).zip(statuses).map(|(index, status)| Sample {
            phase: Phase::Warmup,
            status: Some(status),
            ..answer(index, "n = -1", Condition::Refused, "")
        });
        let mut samples = pairs(&[("one two", "one two")]);
        samples.extend(bad);
        samples
    };
    let refused = |status| twice([status, status]);
    for (base, head, found) in [
        (400, 400, (0.0, 0.0)),
        (400, 422, (0.0, 0.0)),
        // It may be meant.
        (400, 200, (2.0, 0.0)),
        (400, 500, (2.0, 2.0)),
        (200, 503, (2.0, 2.0)),
        // Main accepts it, or fails at it too.
        (200, 400, (0.0, 0.0)),
        (200, 200, (0.0, 0.0)),
        (500, 500, (0.0, 0.0)),
        (500, 400, (0.0, 0.0)),
        // The connection is dropped.
        (400, 0, (2.0, 2.0)),
        (200, 0, (2.0, 2.0)),
        (0, 0, (0.0, 0.0)),
        (500, 0, (0.0, 0.0)),
        (0, 400, (0.0, 0.0)),
        // A queue is full.
        (429, 200, (0.0, 0.0)),
    ] {
        let counted = counts(refused(head), Some(refused(base)));
        assert_eq!(counted, found, "{base} {head}");
    }
    // One of two may be chance.
    for status in [0, 503] {
        let head = twice([400, status]);
        assert_eq!(counts(head, Some(refused(400))), (1.0, 0.0), "{status}");
    }
}
