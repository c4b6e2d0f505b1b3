//! One test a row of the table of quirks.

use super::moments;
use super::{REQUESTS, Seen, TOKENS};
use fixture::truth::{Quirk, Truth};
use verdict::record::{Sample, VoidRule};

/// Every sample is sound and tells the truth: counts exactly, moments within the server's own. `first`:
/// the tokens of the first event that TPOT leaves out.
async fn check_true(quirk: Quirk, first: u32) -> Seen {
    let seen = Seen::run(quirk).await;
    assert_eq!(seen.outcome.stopped, None);
    assert_eq!(seen.outcome.samples.len(), REQUESTS as usize);
    for (sample, truth) in seen.pairs() {
        assert_eq!(sample.void, None, "{sample:?}");
        assert_eq!(truth.tokens(), TOKENS);
        assert_eq!(sample.tokens.completion, Some(TOKENS));
        assert_eq!(sample.tokens.prompt, Some(8));
    }
    moments::check(&seen, first);
    seen
}

/// Every sample is void by this name.
async fn check_void(quirk: Quirk, rule: VoidRule) -> Vec<Sample> {
    let samples = Seen::run(quirk).await.outcome.samples;
    assert!(!samples.is_empty());
    for sample in &samples {
        let void = sample.void.as_ref().map(|void| void.rule);
        assert_eq!(void, Some(rule), "{:?}", sample.void);
    }
    samples
}

fn events(seen: &Seen) -> Vec<u32> {
    let pairs = seen.pairs();
    let both = |(sample, truth): (&Sample, &Truth)| {
        assert_eq!(sample.tokens.events as usize, truth.writes.len());
        sample.tokens.events
    };
    pairs.into_iter().map(both).collect()
}

#[tokio::test]
async fn a_plain_stream() {
    check_true(Quirk::None, 1).await;
}

#[tokio::test]
async fn a_role_long_before_the_first_token() {
    let seen = check_true(Quirk::RoleFirst, 1).await;
    for sample in &seen.outcome.samples {
        // The role came in another read, if the client read at all before the first token.
        let (first_byte, first) = (sample.stamps.first_byte_ns, sample.stamps.events_ns[0]);
        assert!(first_byte.unwrap() <= first);
    }
}

#[tokio::test]
async fn four_tokens_in_an_event() {
    // Nothing in the stream tells that the first event had four: its share of the text does.
    let seen = check_true(Quirk::FourTokens, 4).await;
    assert_eq!(events(&seen), [TOKENS / 4; REQUESTS as usize]);
}

#[tokio::test]
async fn four_tokens_in_an_event_that_counts_them() {
    let seen = check_true(Quirk::FourCounted, 4).await;
    assert_eq!(events(&seen), [TOKENS / 4; REQUESTS as usize]);
}

#[tokio::test]
async fn four_tokens_in_an_event_that_names_their_ids() {
    let seen = check_true(Quirk::FourIds, 4).await;
    for sample in &seen.outcome.samples {
        assert_eq!(sample.tokens.at_first_event, None);
        assert_eq!(sample.tokens.per_event, [4; TOKENS as usize / 4]);
    }
}

#[tokio::test]
async fn no_usage_at_all() {
    check_void(Quirk::NoUsage, VoidRule::TokenCounts).await;
}

#[tokio::test]
async fn usage_of_zero_until_the_end() {
    check_true(Quirk::ZeroUsage, 1).await;
}

#[tokio::test]
async fn end_of_sequence_at_half_the_forced_length() {
    check_void(Quirk::EarlyEnd, VoidRule::FinishReason).await;
}

#[tokio::test]
async fn empty_deltas_between_tokens() {
    check_true(Quirk::EmptyDeltas, 1).await;
}

#[tokio::test]
async fn reasoning_first() {
    check_true(Quirk::ReasoningContent, 1).await;
    check_true(Quirk::Reasoning, 1).await;
}

#[tokio::test]
async fn a_late_goodbye() {
    let seen = check_true(Quirk::LateGoodbye, 1).await;
    for (sample, truth) in seen.pairs() {
        let tail = sample.stamps.done_ns.unwrap() - sample.stamps.events_ns[TOKENS as usize - 1];
        let last = truth.writes[TOKENS as usize - 1];
        let true_tail = truth.end.unwrap().from_ns - last.until_ns;
        // One session clock, so only a stamp that knows no better than an upper bound is too late.
        let exact = sample.stamps.kernel_stamps && sample.stamps.ambiguous_events == 0;
        assert!(
            !exact || tail + 1_000_000 >= true_tail,
            "{tail} {true_tail}"
        );
    }
}

#[tokio::test]
async fn comment_lines() {
    check_true(Quirk::Comments, 1).await;
}

#[tokio::test]
async fn crlf() {
    check_true(Quirk::Crlf, 1).await;
}

#[tokio::test]
async fn a_stream_cut_at_token_32() {
    for sample in check_void(Quirk::Cut, VoidRule::CutStream).await {
        assert_eq!(sample.tokens.events, TOKENS / 2);
        assert_eq!(sample.stamps.done_ns, None);
    }
}

#[tokio::test]
async fn usage_ten_too_high() {
    check_void(Quirk::UsageHigh, VoidRule::TokenCounts).await;
}

#[tokio::test]
async fn events_and_characters_split_across_packets() {
    check_true(Quirk::Split, 1).await;
}

#[tokio::test]
async fn refusals_keep_their_status() {
    for (quirk, status) in [
        (Quirk::TooMany, "status 429: come back later"),
        (Quirk::Unavailable, "status 503: come back later"),
        (Quirk::RetryAfter, "status 503: come back later"),
    ] {
        let samples = check_void(quirk, VoidRule::Status).await;
        // A refusal is an answer: it neither ends the workload nor is it asked again.
        assert_eq!(samples.len(), REQUESTS as usize);
        for sample in samples {
            assert_eq!(sample.void.unwrap().detail, status);
        }
    }
}

#[tokio::test]
async fn an_event_after_done() {
    check_void(Quirk::AfterDone, VoidRule::Malformed).await;
}

#[tokio::test]
async fn bytes_after_the_body_that_nobody_asked_for() {
    check_true(Quirk::AfterBody, 1).await;
}
