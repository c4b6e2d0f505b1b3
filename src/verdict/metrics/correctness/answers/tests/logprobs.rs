//! Log-probabilities that move, and differences beyond near-ties in an engine that has them by itself.

use super::*;
use crate::metrics::correctness::near_tie::movement;
use crate::metrics::{Moved, moved};

/// Six prompts of four tokens, each alone and then in a batch, with log-probabilities of -1 less these.
fn listed(alone: f64, batch: f64) -> Vec<Sample> {
    let mut samples = pairs(&[("a b c d", "a b c d"); 6]);
    for sample in &mut samples {
        let less = match sample.condition() {
            Some(Condition::Alone) => alone,
            _ => batch,
        };
        let entry = |token: &str| TokenLogprob {
            token: token.into(),
            logprob: Some(-1.0 - less),
            top: vec![],
        };
        sample.logprobs = ["a", " b", " c", " d"].map(entry).to_vec();
    }
    samples
}

fn moved_from(base: Vec<Sample>, head: Vec<Sample>) -> Option<Moved> {
    let (base, head) = (launch(1, base), launch(0, head));
    let (check, workload) = (
        check(Metric::AnswerMismatches, Statistic::Single),
        workload(Some(NATS)),
    );
    moved(&Requests::of(&check, &workload, &head).beside(&check, Some(&base)))
}

#[test]
fn moved_log_probabilities_are_seen_beside_how_far_base_moves_by_itself() {
    let found = moved_from(listed(0.0, 0.0), listed(0.02, 0.02)).unwrap();
    assert!((found.head_nats - 0.02).abs() < 1e-9, "{found:?}");
    assert!(found.base_nats < 1e-9, "{found:?}");
    // No more than a logit that is rounded otherwise.
    assert_eq!(moved_from(listed(0.0, 0.0), listed(0.009, 0.009)), None);
    // Base is as far from itself in a batch.
    assert_eq!(moved_from(listed(0.0, 0.02), listed(0.02, 0.0)), None);
    // An answer that parts is compared up to there.
    let mut parting = listed(0.0, 0.0);
    for sample in &mut parting {
        sample.logprobs[2].token = " x".into();
        sample.logprobs[3].logprob = Some(-9.0);
    }
    assert_eq!(moved_from(listed(0.0, 0.0), parting), None);
    // Of few prompts nothing is said.
    let few = |less| listed(less, less)[..8].to_vec();
    assert_eq!(moved_from(few(0.0), few(0.02)), None);
    // A token without probability is listed as -9999, or without one: in base nothing can be told.
    for none in [Some(-9_999.0), None] {
        let without = || {
            let mut samples = listed(0.0, 0.0);
            samples
                .iter_mut()
                .for_each(|s| s.logprobs[1].logprob = none);
            samples
        };
        assert_eq!(moved_from(without(), listed(0.0, 0.0)), None);
        assert_eq!(moved_from(without(), without()), None);
        let found = moved_from(listed(0.0, 0.0), without()).unwrap();
        assert!((found.head_nats - 25.0).abs() < 1e-9, "{found:?}");
    }
}

#[test]
fn a_near_tie_that_base_does_not_see_at_that_place_excuses_nothing() {
    let of_two = |second: (&str, f64), gap: f64| {
        let one = |index, condition, (last, gap)| {
            let sample = answer(index, "p0", condition, "");
            scored(sample, &[("a ", 3.0), (last, gap)])
        };
        vec![
            one(0, Condition::Alone, ("b", gap)),
            one(1, Condition::Batch, second),
        ]
    };
    let count = |gap_of_base: f64| {
        let near = NATS / 2.0;
        let head = launch(0, of_two(("a", near), near));
        let base = launch(1, of_two(("b", gap_of_base), gap_of_base));
        let measure = of(Some(NATS), &head, Some(&base)).unwrap();
        (measure.value, measure.at_least.unwrap())
    };
    assert_eq!(count(NATS / 2.0), (0.0, 0.0));
    assert_eq!(count(3.0), (1.0, 0.0));
}

#[test]
fn differences_beyond_near_ties_are_weighed_where_base_has_them_too() {
    let firm = 3.0;
    let answers = |differing: &[usize]| {
        let one = |n: usize, is_beside: bool| {
            let (condition, index) = match is_beside {
                true => (Condition::Batch, 2 * n + 1),
                false => (Condition::Alone, 2 * n),
            };
            let last = match is_beside && differing.contains(&n) {
                true => "b",
                false => "a",
            };
            let first = format!("{n} ");
            let sample = answer(index as u32, &format!("p{n}"), condition, "");
            scored(sample, &[(&first, firm), (last, firm)])
        };
        let both = (0..30).flat_map(|n| [one(n, false), one(n, true)]);
        both.collect::<Vec<_>>()
    };
    let counts = |head: &[usize], base: &[usize]| {
        let base = launch(1, answers(base));
        let measure = of(Some(NATS), &launch(0, answers(head)), Some(&base)).unwrap();
        (measure.value, measure.at_least.unwrap())
    };
    // Base never parts from itself: one is enough.
    assert_eq!(counts(&[4], &[]), (1.0, 1.0));
    // It does once, elsewhere: that may be chance.
    assert_eq!(counts(&[4], &[5]), (2.0, 0.0));
    // It does once, and so does head.
    assert_eq!(counts(&[5], &[5]), (0.0, 0.0));
    assert_eq!(counts(&[4, 5], &[5]), (1.0, 0.0));
    // It does as often, elsewhere.
    assert_eq!(counts(&[4, 6, 8], &[5, 7, 9]), (0.0, 0.0));
    // Head does a little more often, and far more often.
    assert_eq!(counts(&[4, 6, 8, 10], &[5, 7, 9]), (4.0, 0.0));
    let (all, sure) = counts(&(3..27).collect::<Vec<_>>(), &[0, 1, 2]);
    assert_eq!((all, sure), (24.0, 24.0));
    // Base's one excuses none of head's without a list.
    let mut unlisted = answers(&[4]);
    unlisted[9].logprobs.clear();
    let base = launch(1, answers(&[5]));
    let measure = of(Some(NATS), &launch(0, unlisted), Some(&base)).unwrap();
    assert_eq!(measure.value.to_bits(), 2_f64.to_bits());
}

/// llama.cpp with a model of 4-bit weights: two tokens of its own answers to one prompt move by 0.6 nats.
#[test]
fn what_is_no_farther_than_base_moves_by_itself_is_not_proven() {
    let gap = 2.0 * NATS;
    // Four prompts, of which `other` are answered otherwise; `moving` of them move in a batch.
    let answers = |other: u32, moving: u32, moves: f64| {
        let one = |n: u32, is_batch: bool| {
            let (condition, moves) = match is_batch {
                true => (Condition::Batch, if n < moving { moves } else { 0.0 }),
                false => (Condition::Alone, 0.0),
            };
            let sample = answer(2 * n + u32::from(is_batch), &format!("p{n}"), condition, "");
            let (first, last) = (format!("c{n} "), if n < other { "b" } else { "a" });
            scored(sample, &[(&first, NATS / 2.0 + moves), (last, gap)])
        };
        let both = (0..4).flat_map(|n| [one(n, false), one(n, true)]);
        both.collect::<Vec<_>>()
    };
    let count = |other: u32, moving: u32, moves: f64| {
        let (head, base) = (answers(other, 0, 0.0), answers(0, moving, moves));
        let measure = of(Some(NATS), &launch(0, head), Some(&launch(1, base))).unwrap();
        let says_so = measure
            .remarks
            .iter()
            .any(|it| it.contains("of these differ by two tokens"));
        (measure.value, measure.at_least.unwrap(), says_so)
    };
    assert_eq!(count(1, 4, 0.0), (2.0, 2.0, false));
    assert_eq!(count(1, 4, 1.5 * NATS), (2.0, 2.0, false));
    assert_eq!(count(1, 4, 3.0 * NATS), (2.0, 0.0, true));
    assert_eq!(count(2, 4, 3.0 * NATS), (4.0, 0.0, true));
    // Most prompts are more than few; and what moves in one prompt may be a fault.
    assert_eq!(count(3, 4, 3.0 * NATS), (6.0, 6.0, false));
    assert_eq!(count(1, 1, 3.0 * NATS), (2.0, 2.0, false));
    // What lies far from the best token may move as it likes.
    assert_eq!(count(1, 4, 100.0 * NATS), (2.0, 2.0, false));
}

/// Parts of characters print alike: which is which is not known.
#[test]
fn tokens_that_print_alike_do_not_move() {
    let mut sample = scored(answer(0, "p0", Condition::Alone, ""), &[("a", 0.1)]);
    for logprob in [-0.6, -0.8] {
        let top = &mut sample.logprobs[0].top;
        top.push(("\u{fffd}".to_owned(), logprob));
    }
    assert!(movement(&sample, &sample, 1.0).abs() < f64::EPSILON);
    let mut other = sample.clone();
    other.logprobs[0].top[1].1 = -0.9;
    assert!((movement(&sample, &other, 1.0) - 0.3).abs() < 1e-9);
}

/// Head lists one token of a character, and base lists them all.
#[test]
fn lists_that_are_shorter_than_bases_are_open() {
    let counts = |listed: u32, prompts: u32| {
        let answers = |listed: u32| {
            let one = |n: u32| {
                let mut sample = answer(n, &format!("p{n}"), Condition::Alone, "日本");
                sample.tokens.completion = Some(4);
                sample.tokens.by_logprobs = Some(listed);
                sample
            };
            (0..prompts).map(one).collect::<Vec<_>>()
        };
        let base = launch(1, answers(4));
        let measure = of(Some(NATS), &launch(0, answers(listed)), Some(&base)).unwrap();
        (measure.value, measure.at_least.unwrap())
    };
    assert_eq!(counts(4, 3), (0.0, 0.0));
    assert_eq!(counts(2, 3), (3.0, 0.0));
    assert_eq!(counts(2, 2), (0.0, 0.0));
}

/// Head counts as many tokens as base, and no list of its can be read.
#[test]
fn lists_that_head_alone_spoils_are_open() {
    let answers = |is_kept: bool| {
        let one = |n: u32| {
            let sample = answer(n, &format!("p{n}"), Condition::Alone, "");
            let mut sample = scored(sample, &[("é", 3.0), ("a", 3.0)]);
            sample.tokens.completion = Some(3);
            sample.tokens.by_logprobs = Some(2);
            if !is_kept {
                sample.logprobs.clear();
            }
            sample
        };
        (0..3).map(one).collect::<Vec<_>>()
    };
    let base = launch(1, answers(true));
    let value = |head| of(Some(NATS), &launch(0, head), Some(&base)).unwrap().value;
    assert!((value(answers(false)) - 3.0).abs() < f64::EPSILON);
    assert!(value(answers(true)).abs() < f64::EPSILON);
}
