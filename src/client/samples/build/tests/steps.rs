//! Events without text: which of them are tokens.

use super::*;

const NONE: &str = "data: {\"choices\":[{\"text\":\"\"}]}\n\n";
const THOUGHT: &str = "data: {\"choices\":[{\"delta\":{\"thinking\":\"x\"}}]}\n\n";

/// Moments of the events that count, of four forced tokens.
fn counted(reads: &[(u64, &str)]) -> Vec<u64> {
    let sample = sample(&FORCED_4, &exchange(reads));
    assert_eq!(rule(&sample), None, "{sample:#?}");
    sample.stamps.events_ns
}

#[test]
fn tokens_without_text_count_where_usage_does() {
    let bye = goodbye();
    let rest = [USAGE_4, DONE].concat();
    // Special tokens at the end; the last one has an event of its own, or the finish reason's.
    let own = [(30, A), (40, A), (50, NONE), (60, NONE), (61, &*bye)];
    assert_eq!(counted(&own), [30, 40, 50, 60]);
    let shared = [(30, A), (40, A), (50, NONE), (60, LENGTH), (61, &*rest)];
    assert_eq!(counted(&shared), [30, 40, 50, 60]);
    let bytes = [(30, A), (40, NONE), (50, NONE), (60, A), (61, &*bye)];
    assert_eq!(counted(&bytes), [30, 40, 50, 60]);
    // Reasoning by a further name.
    let thought = [(30, THOUGHT), (40, THOUGHT), (50, B), (60, B), (61, &*bye)];
    assert_eq!(counted(&thought), [30, 40, 50, 60]);
}

#[test]
fn what_is_not_at_the_pace_of_tokens_is_none() {
    let bye = goodbye();
    // Two tokens shared an event, and a sign of life or the finish reason makes the number right by chance.
    let early = [(30, NONE), (900, A), (910, A), (920, A), (921, &*bye)];
    assert_eq!(counted(&early), [900, 910, 920]);
    let behind = [(30, A), (40, A), (50, A), (51, &*bye)];
    assert_eq!(counted(&behind), [30, 40, 50]);
}

/// It ends the answer by itself, and its event is the finish reason's.
#[test]
fn an_end_of_sequence_token_that_usage_counts() {
    let free = Expect {
        forced: None,
        ..FORCED_4
    };
    let rest = [USAGE_4, DONE].concat();
    let reads = [(30, A), (40, A), (50, A), (60, STOP), (61, &*rest)];
    let sample = sample(&free, &exchange(&reads));
    assert_eq!((rule(&sample), sample.stamps.events_ns.len()), (None, 4));
}

#[test]
fn the_final_usage_in_each_event_tells_nothing_of_the_first() {
    let token = "data: {\"choices\":[{\"text\":\"a\"}],\"usage\":{\"completion_tokens\":4}}\n\n";
    let bye = goodbye();
    let reads = [
        (30, token),
        (40, token),
        (50, token),
        (60, token),
        (61, &*bye),
    ];
    let sample = sample(&FORCED_4, &exchange(&reads));
    assert_eq!((rule(&sample), sample.tokens.at_first_event), (None, None));
}
