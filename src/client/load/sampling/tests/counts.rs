//! Tokens: per event, by the client's own tokenizer, and of engines that lack what is usual.

use super::*;
use crate::load::Tokenizer;
use std::path::Path;
use std::sync::Arc;

fn with_tokenizer() -> Endpoint {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = manifest.join("../../gates/models/tiny-qwen3/tokenizer.json");
    Endpoint {
        tokenizer: Some(Arc::new(Tokenizer::open(&path).unwrap())),
        ..endpoint()
    }
}

fn read_at(endpoint: &Endpoint, expect: &Expect, text: &str) -> Sample {
    let label = Label::of(0, Phase::Measured);
    sample_at(endpoint, label, expect, &exchange(&[(30, text)]))
}

fn ids(text: &str, ids: &str) -> String {
    format!("data: {{\"choices\":[{{\"text\":\"{text}\",\"token_ids\":[{ids}]}}]}}\n\n")
}

#[test]
fn tokens_per_event_are_kept_where_the_stream_tells() {
    let told = [ids("a", "1,2"), ids("", "3"), ids("b", "4"), goodbye()];
    let sample = read_at(&endpoint(), &FORCED_4, &told.concat());
    assert_eq!(sample.tokens.per_event, [2, 1, 1]);
    let untold = [A, A, A, A, &goodbye()].concat();
    let sample = read_at(&endpoint(), &FORCED_4, &untold);
    assert_eq!(sample.tokens.per_event, [0_u32; 0]);
}

#[test]
fn usage_beyond_what_the_text_can_hold_is_void() {
    let usage = |tokens: u32| {
        format!("data: {{\"choices\":[],\"usage\":{{\"completion_tokens\":{tokens}}}}}\n\n")
    };
    let free = Expect {
        forced: None,
        ..FORCED_4
    };
    // Four letters, four tokens: 1.5 × 4 + 8 = 14 is borne.
    for (tokens, void) in [(4, None), (14, None), (15, Some(VoidRule::TokenCounts))] {
        let stream = [A, A, A, A, LENGTH, &usage(tokens), DONE].concat();
        let sample = read_at(&with_tokenizer(), &free, &stream);
        assert_eq!(sample.tokens.by_tokenizer, Some(4));
        assert_eq!(rule(&sample), void, "{tokens}");
        assert_eq!(rule(&read_at(&endpoint(), &free, &stream)), None);
    }
    // Ids count what has no text.
    let silent = [
        &ids("a", "1"),
        &ids("", "2,2,2,2,2,2,2,2,2,2,2,2,2,2"),
        LENGTH,
    ];
    let stream = [silent.concat(), usage(15), DONE.to_owned()].concat();
    assert_eq!(rule(&read_at(&with_tokenizer(), &free, &stream)), None);
}

#[test]
fn usage_below_what_the_text_holds_is_void() {
    let check = |text: &str, usage: u32, void: Option<VoidRule>| {
        let free = Expect {
            forced: None,
            ..FORCED_4
        };
        let event = format!("data: {{\"choices\":[{{\"text\":\"{text}\"}}]}}\n\n");
        let told =
            format!("data: {{\"choices\":[],\"usage\":{{\"completion_tokens\":{usage}}}}}\n\n");
        let stream = [&event, LENGTH, &told, DONE].concat();
        let sample = read_at(&with_tokenizer(), &free, &stream);
        assert_eq!(rule(&sample), void, "{:?}", sample.void);
        assert!(sample.tokens.by_tokenizer > Some(1), "{:?}", sample.tokens);
    };
    // Digits are a token each here.
    let digits = "0123456789".repeat(2);
    check(&digits, 20, None);
    check(&digits, 8, None);
    check(&digits, 7, Some(VoidRule::TokenCounts));
    // Bytes that are no character: nobody can tell of how many tokens.
    check(&"\u{fffd}".repeat(20), 7, None);
}

#[test]
fn more_tokens_than_were_asked_for_are_void() {
    let four = Expect {
        forced: None,
        most: Some(4),
        ..FORCED_4
    };
    let check = |endpoint: &Endpoint, stream: &str, void: Option<VoidRule>| {
        let sample = read_at(endpoint, &four, stream);
        assert_eq!(rule(&sample), void, "{:?}", sample.void);
    };
    let wrong = Some(VoidRule::TokenCounts);
    check(&endpoint(), &[A, A, STOP, USAGE_2, DONE].concat(), None);
    check(&endpoint(), &[A, A, LENGTH, USAGE_4, DONE].concat(), None);
    check(&endpoint(), &[A, A, LENGTH, USAGE_14, DONE].concat(), wrong);
    let silent = Endpoint {
        stream_usage: false,
        ..endpoint()
    };
    for (last, void) in [("4", None), ("4,5", wrong)] {
        let stream = [&ids("a", "1,2,3"), &ids("b", last), LENGTH, DONE].concat();
        check(&silent, &stream, void);
    }
}

#[test]
fn without_usage_something_else_must_count() {
    let silent = |endpoint: Endpoint| Endpoint {
        stream_usage: false,
        ..endpoint
    };
    let bare = [A, A, A, A, LENGTH, DONE].concat();
    let sample = read_at(&silent(endpoint()), &FORCED_4, &bare);
    let void = sample.void.unwrap();
    assert_eq!(void.rule, VoidRule::TokenCounts);
    assert!(void.detail.contains("return_token_ids"), "{}", void.detail);

    let sample = read_at(&silent(with_tokenizer()), &FORCED_4, &bare);
    assert_eq!((sample.tokens.completion, rule(&sample)), (Some(4), None));

    for (last, void) in [("4", None), ("4,5", Some(VoidRule::TokenCounts))] {
        let stream = [&ids("a", "1,2,3"), &ids("b", last), LENGTH, DONE].concat();
        let sample = read_at(&silent(endpoint()), &FORCED_4, &stream);
        assert_eq!(rule(&sample), void, "{last}");
    }
    // What comes unasked is believed as everywhere.
    let lie = [A, A, A, A, LENGTH, USAGE_14, DONE].concat();
    let sample = read_at(&silent(endpoint()), &FORCED_4, &lie);
    assert_eq!(rule(&sample), Some(VoidRule::TokenCounts));
}

#[test]
fn one_token_over_and_over_is_noted_and_sound() {
    let check = |texts: &str, echoed: bool, expect: bool| {
        let long = Expect {
            forced: None,
            echoed,
            ..WHOLE
        };
        let answer = format!(
            "{{\"choices\":[{{\"text\":\"{texts}\"}}],\"usage\":{{\"completion_tokens\":20}}}}"
        );
        let sample = read_at(&endpoint(), &long, &answer);
        assert_eq!(
            (sample.tokens.repeats, rule(&sample)),
            (expect, None),
            "{texts}"
        );
    };
    check(&"!".repeat(20), false, true);
    check(&"ab".repeat(20), false, true);
    check("a text of twenty tokens or so", false, false);
    // What was echoed is the prompt.
    check(&"!".repeat(20), true, false);
}

#[test]
fn a_text_that_does_not_fit_is_said() {
    let expect = Expect {
        unfit: Some((1, 2)),
        ..FORCED_4
    };
    let sample = read_at(&endpoint(), &expect, &[A, A, A, A, &goodbye()].concat());
    let void = sample.void.unwrap();
    assert_eq!(void.rule, VoidRule::TokenCounts);
    assert!(
        void.detail.contains("a text of 1 tokens"),
        "{}",
        void.detail
    );
}

#[test]
fn an_early_end_is_sound_where_no_length_can_be_forced() {
    let free = Expect {
        forced: None,
        ..FORCED_4
    };
    let sample = read_at(&endpoint(), &free, &[A, A, STOP, USAGE_2, DONE].concat());
    assert_eq!((sample.tokens.completion, rule(&sample)), (Some(2), None));
}
