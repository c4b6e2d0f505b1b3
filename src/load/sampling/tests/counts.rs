//! Tokens: per event, by the client's own tokenizer, and of engines that lack what is usual.

use super::*;
use crate::load::Tokenizer;
use std::path::Path;
use std::sync::Arc;

fn with_tokenizer() -> Endpoint {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = manifest.join("gates/models/tiny-qwen3/tokenizer.json");
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
