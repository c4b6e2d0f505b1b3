//! Streams with exact stamps: what the sample must say of each, or by which name it must be void.

use super::read;
use crate::load::exchange::{BodyRead, Ending, Exchange};
use crate::load::planned::{Expect, Label};
use crate::load::wire::Arrival;
use crate::record::{Phase, Sample, VoidRule};

const FORCED_4: Expect = Expect {
    streamed: true,
    forced: Some(4),
    prompt: None,
    echoed: false,
    logprobs: false,
    keep_text: false,
};
const WHOLE: Expect = Expect {
    streamed: false,
    forced: None,
    keep_text: true,
    ..FORCED_4
};

/// An answer whose body came in reads at the given times.
fn exchange(reads: &[(u64, &str)]) -> Exchange {
    let mut exchange = Exchange::begin(Some((1, 2)), 10);
    exchange.headers_ns = Some(20);
    exchange.status = Some(200);
    for (read, (at_ns, text)) in (1..).zip(reads) {
        exchange.body.extend_from_slice(text.as_bytes());
        let arrival = Arrival {
            at_ns: *at_ns,
            kernel: true,
            read,
        };
        exchange.reads.push(BodyRead {
            end: exchange.body.len(),
            arrival,
        });
        exchange.end_ns = Some(*at_ns);
    }
    exchange
}

fn sample(expect: &Expect, exchange: &Exchange) -> Sample {
    let label = Label {
        index: 0,
        phase: Phase::Measured,
        case: None,
        turn: None,
    };
    read("g/w", label, expect, exchange).sample
}

fn rule(sample: &Sample) -> Option<VoidRule> {
    sample.void.as_ref().map(|void| void.rule)
}

/// A stream for four forced tokens: its sample's event stamps, tokens by usage, and void rule.
fn check(reads: &[(u64, &str)], events_ns: &[u64], usage: Option<u32>, void: Option<VoidRule>) {
    let sample = sample(&FORCED_4, &exchange(reads));
    assert_eq!(sample.stamps.events_ns, events_ns, "{sample:#?}");
    assert_eq!(sample.tokens.events as usize, events_ns.len());
    assert_eq!(sample.tokens.completion, usage, "{sample:#?}");
    assert_eq!(rule(&sample), void, "{sample:#?}");
}

const A: &str = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n";
const B: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"b\"}}]}\n\n";
const THINK: &str = "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"r\"}}]}\n\n";
const ROLE: &str =
    "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
const EMPTY: &str = "data: {\"choices\":[{\"delta\":{}}]}\n\n";
const LENGTH: &str = "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n";
const STOP: &str = "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\n";
const USAGE_2: &str = "data: {\"choices\":[],\"usage\":{\"completion_tokens\":2}}\n\n";
const USAGE_4: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4,\
    \"prompt_tokens_details\":{\"cached_tokens\":1}}}\n\n";
const USAGE_14: &str = "data: {\"choices\":[],\"usage\":{\"completion_tokens\":14}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

/// The usual last words of an answer of four tokens.
fn goodbye() -> String {
    [LENGTH, USAGE_4, DONE].concat()
}

#[test]
fn a_plain_stream() {
    let bye = goodbye();
    let reads = [(30, A), (40, A), (50, A), (60, A), (61, bye.as_str())];
    check(&reads, &[30, 40, 50, 60], Some(4), None);
    let sample = sample(&FORCED_4, &exchange(&reads));
    assert_eq!(sample.stamps.intended_ns, 10);
    assert_eq!(sample.stamps.connect_ns, Some((1, 2)));
    assert_eq!(
        (sample.stamps.send_ns, sample.stamps.headers_ns),
        (10, Some(20))
    );
    assert_eq!(
        (sample.stamps.first_byte_ns, sample.stamps.done_ns),
        (Some(30), Some(61))
    );
    assert!(sample.stamps.kernel_stamps);
    assert_eq!(sample.stamps.ambiguous_events, 0);
    assert_eq!(
        (sample.tokens.prompt, sample.tokens.cached),
        (Some(9), Some(1))
    );
    assert_eq!(sample.tokens.requested, Some(4));
    assert_eq!(sample.finish_reason.as_deref(), Some("length"));
    // sha256("aaaa"); the text itself is not kept.
    assert_eq!(
        sample.text_sha256,
        "61be55a8e2f6b4e172338bddf184d6dbee29c98853e0a0485ecee7f27b9af0b4"
    );
    assert_eq!(sample.text, None);
}

#[test]
fn only_events_with_output_count() {
    let bye = goodbye();
    // A role long before the first token; empty deltas and comments between tokens.
    check(
        &[(21, ROLE), (30, A), (40, A), (50, A), (60, A), (60, &bye)],
        &[30, 40, 50, 60],
        Some(4),
        None,
    );
    check(
        &[
            (30, A),
            (35, EMPTY),
            (40, A),
            (45, EMPTY),
            (50, A),
            (60, A),
            (60, &bye),
        ],
        &[30, 40, 50, 60],
        Some(4),
        None,
    );
    check(
        &[
            (25, ": keep-alive\n\n"),
            (30, A),
            (35, ":\n\n"),
            (40, A),
            (50, A),
            (60, A),
            (60, &bye),
        ],
        &[30, 40, 50, 60],
        Some(4),
        None,
    );
    // Reasoning is output.
    check(
        &[(30, THINK), (40, THINK), (50, B), (60, B), (60, &bye)],
        &[30, 40, 50, 60],
        Some(4),
        None,
    );
}

#[test]
fn several_tokens_may_share_an_event() {
    let bye = goodbye();
    check(&[(30, A), (70, &bye)], &[30], Some(4), None);
}

#[test]
fn a_read_with_several_events_leaves_the_last_ones_time_exact() {
    let bye = goodbye();
    let three = [A, A, A].concat();
    let reads = [(30, A), (60, three.as_str()), (61, bye.as_str())];
    check(&reads, &[30, 60, 60, 60], Some(4), None);
    assert_eq!(
        sample(&FORCED_4, &exchange(&reads)).stamps.ambiguous_events,
        2
    );
}

#[test]
fn an_event_arrives_with_its_last_byte() {
    let bye = goodbye();
    let (head, tail) = B.split_at(20);
    check(
        &[
            (30, head),
            (35, tail),
            (40, A),
            (50, A),
            (60, A),
            (60, &bye),
        ],
        &[35, 40, 50, 60],
        Some(4),
        None,
    );
    let crab = A
        .replace("\"a\"", "\"🦀\"")
        .replace("\n\n", "\r\n\r\n")
        .into_bytes();
    let mut whole = exchange(&[(40, A), (50, A), (60, A), (61, &bye)]);
    // One character in four reads.
    let at = crab.iter().position(|byte| *byte == 0xf0).unwrap();
    for (before, cut) in [at + 1, at + 2, at + 3].into_iter().enumerate() {
        let arrival = Arrival {
            at_ns: 30 + before as u64,
            kernel: true,
            read: 10 + before as u64,
        };
        whole.reads.insert(before, BodyRead { end: cut, arrival });
    }
    for read in &mut whole.reads[3..] {
        read.end += crab.len();
    }
    whole.body.splice(0..0, crab.iter().copied());
    let sample = sample(
        &Expect {
            keep_text: true,
            ..FORCED_4
        },
        &whole,
    );
    // The crab's end came in the read at 40 together with the next event.
    assert_eq!(sample.stamps.events_ns, [40, 40, 50, 60]);
    assert_eq!(sample.stamps.ambiguous_events, 1);
    assert_eq!(sample.text.as_deref(), Some("🦀aaa"));
    assert_eq!(rule(&sample), None);
}

#[test]
fn the_late_goodbye_is_not_decoding() {
    let bye = goodbye();
    let reads = [
        (30, A),
        (40, A),
        (50, A),
        (60, A),
        (200_000_060, bye.as_str()),
    ];
    check(&reads, &[30, 40, 50, 60], Some(4), None);
    assert_eq!(
        sample(&FORCED_4, &exchange(&reads)).stamps.done_ns,
        Some(200_000_060)
    );
}

#[test]
fn what_usage_cannot_back_is_void() {
    let four = [A, A, A, A].concat();
    let stream = |tail: &[&str]| format!("{four}{}", tail.concat());
    let lie = Some(VoidRule::TokenCounts);
    check(
        &[(30, &stream(&[LENGTH, USAGE_14, DONE]))],
        &[30; 4],
        Some(14),
        lie,
    );
    check(&[(30, &stream(&[LENGTH, DONE]))], &[30; 4], None, lie);
    let five = stream(&[A, LENGTH, USAGE_4, DONE]);
    check(&[(30, &five)], &[30; 5], Some(4), lie);
    let falling = stream(&[USAGE_14, LENGTH, USAGE_4, DONE]);
    check(&[(30, &falling)], &[30; 4], Some(4), lie);
    let ids = "data: {\"choices\":[{\"text\":\"a\",\"token_ids\":[1]}]}\n\n".repeat(2);
    check(
        &[(30, &[&ids, LENGTH, USAGE_4, DONE].concat())],
        &[30, 30],
        Some(4),
        lie,
    );
    let pairs = "data: {\"choices\":[{\"text\":\"a\",\"token_ids\":[1,2]}]}\n\n".repeat(2);
    check(
        &[(30, &[&pairs, LENGTH, USAGE_4, DONE].concat())],
        &[30, 30],
        Some(4),
        None,
    );
}

#[test]
fn an_early_end_is_void_by_its_reason() {
    let early = [A, A, STOP, USAGE_2, DONE].concat();
    check(
        &[(30, &early)],
        &[30, 30],
        Some(2),
        Some(VoidRule::FinishReason),
    );
    let silent_about_it = [A, A, LENGTH, USAGE_2, DONE].concat();
    check(
        &[(30, &silent_about_it)],
        &[30, 30],
        Some(2),
        Some(VoidRule::TokenCounts),
    );
    let no_reason = [A, A, A, A, USAGE_4, DONE].concat();
    check(
        &[(30, &no_reason)],
        &[30; 4],
        Some(4),
        Some(VoidRule::FinishReason),
    );
}

#[test]
fn streams_that_do_not_end_are_cut() {
    let cut = Some(VoidRule::CutStream);
    check(&[(30, A), (40, A)], &[30, 40], None, cut);
    check(&[(30, A), (40, "data: {\"choi")], &[30], None, cut);
    let within = [A, A, A, A, LENGTH, "data: {\"usage\""].concat();
    check(&[(30, &within)], &[30; 4], None, cut);

    let mut broken = exchange(&[(30, A), (40, A)]);
    broken.ending = Ending::Cut("connection reset".into());
    assert_eq!(rule(&sample(&FORCED_4, &broken)), cut);
    broken.ending = Ending::Silent("nothing came for 1s".into());
    assert_eq!(rule(&sample(&FORCED_4, &broken)), Some(VoidRule::Timeout));
    broken.ending = Ending::Garbled("bad chunk".into());
    assert_eq!(rule(&sample(&FORCED_4, &broken)), Some(VoidRule::Malformed));
}

#[test]
fn after_done_the_connection_no_longer_matters() {
    let bye = goodbye();
    let mut broken = exchange(&[(30, A), (40, A), (50, A), (60, A), (61, &bye)]);
    broken.ending = Ending::Silent("nothing came for 1s".into());
    broken.end_ns = None;
    let sample = sample(&FORCED_4, &broken);
    assert_eq!(rule(&sample), None);
    assert_eq!(sample.stamps.done_ns, Some(61));
}

#[test]
fn done_may_lack_its_blank_line_and_be_missing_after_a_finish_reason() {
    let no_blank = [A, A, A, A, LENGTH, USAGE_4, "data: [DONE]"].concat();
    check(&[(30, &no_blank)], &[30; 4], Some(4), None);
    let no_done = [A, A, A, A, LENGTH, USAGE_4].concat();
    check(&[(30, &no_done)], &[30; 4], Some(4), None);
    assert_eq!(
        sample(&FORCED_4, &exchange(&[(30, &no_done)]))
            .stamps
            .done_ns,
        Some(30)
    );
}

#[test]
fn what_is_no_protocol_is_malformed() {
    let malformed = Some(VoidRule::Malformed);
    check(
        &[(30, A), (40, "data: {broken\n\n")],
        &[30],
        None,
        malformed,
    );
    check(
        &[(30, "<html><body>hello</body></html>")],
        &[],
        None,
        malformed,
    );
    check(
        &[(30, "{\"choices\":[{\"text\":\"aaaa\"}]}")],
        &[],
        None,
        malformed,
    );
    let after = [A, A, A, A, &goodbye(), A].concat();
    check(&[(30, &after)], &[30; 4], Some(4), malformed);
    let rubbish = [A, A, A, A, &goodbye(), "data: rubbish"].concat();
    check(&[(30, &rubbish)], &[30; 4], Some(4), malformed);
    let two = "data: {\"choices\":[{\"text\":\"a\"},{\"text\":\"b\"}]}\n\n";
    check(&[(30, two)], &[], None, malformed);
    let huge = format!("data: {}", "x".repeat(2 << 20));
    check(&[(30, A), (40, &huge)], &[30], None, malformed);
}

#[test]
fn errors_in_the_stream_keep_the_servers_message() {
    let status = Some(VoidRule::Status);
    let error = "data: {\"error\":{\"message\":\"out of memory\"}}\n\n";
    check(&[(30, A), (40, error), (40, DONE)], &[30], None, status);
    check(
        &[(30, A), (40, "event: error\ndata: gone\n\n")],
        &[30],
        None,
        status,
    );
    check(
        &[(30, "{\"error\":{\"message\":\"x\"}}")],
        &[],
        None,
        status,
    );
    let sample = sample(&FORCED_4, &exchange(&[(30, A), (40, error)]));
    assert!(sample.void.unwrap().detail.contains("out of memory"));
}

#[test]
fn an_answer_without_output_is_none() {
    let none = Some(VoidRule::NoOutput);
    check(&[(30, &goodbye())], &[], Some(4), none);
    check(&[(30, ROLE), (40, EMPTY), (50, DONE)], &[], None, none);
    check(&[(30, ": ping\n\n: ping\n\n")], &[], None, none);
    check(&[], &[], None, none);
}

#[test]
fn a_status_keeps_its_message_whatever_the_body() {
    let mut refused = exchange(&[(30, "{\"error\":{\"message\":\"slow down\"}}")]);
    refused.status = Some(429);
    let void = sample(&FORCED_4, &refused).void.unwrap();
    assert_eq!(
        (void.rule, void.detail.as_str()),
        (VoidRule::Status, "status 429: slow down")
    );
    refused.ending = Ending::Cut("reset".into());
    assert_eq!(rule(&sample(&WHOLE, &refused)), Some(VoidRule::Status));
}

#[test]
fn running_usage_tells_the_first_events_tokens() {
    let first = "data: {\"choices\":[{\"text\":\"aa\"}],\"usage\":{\"completion_tokens\":2}}\n\n";
    let second = "data: {\"choices\":[{\"text\":\"aa\"}],\"usage\":{\"completion_tokens\":4}}\n\n";
    let bye = goodbye();
    let reads = [(25, ROLE), (30, first), (40, second), (41, bye.as_str())];
    check(&reads, &[30, 40], Some(4), None);
    assert_eq!(
        sample(&FORCED_4, &exchange(&reads)).tokens.at_first_event,
        Some(2)
    );
}

#[test]
fn stamps_out_of_order_are_a_negative_phase() {
    let bye = goodbye();
    let backwards = Some(VoidRule::NegativePhase);
    check(
        &[(30, A), (40, A), (35, A), (60, A), (61, &bye)],
        &[30, 40, 35, 60],
        Some(4),
        backwards,
    );
    check(
        &[(15, A), (40, A), (50, A), (60, A), (61, &bye)],
        &[15, 40, 50, 60],
        Some(4),
        backwards,
    );
    check(
        &[(30, A), (40, A), (50, A), (60, A), (59, &bye)],
        &[30, 40, 50, 60],
        Some(4),
        backwards,
    );
}

#[test]
fn a_single_stamp_of_our_own_is_said() {
    let bye = goodbye();
    let mut mixed = exchange(&[(30, A), (40, A), (50, A), (60, A), (61, &bye)]);
    mixed.reads[2].arrival.kernel = false;
    assert!(!sample(&FORCED_4, &mixed).stamps.kernel_stamps);
}

#[test]
fn whole_answers() {
    let answer = r#"{"choices":[{"message":{"role":"assistant","content":" 42\n","reasoning_content":"6*7"},
        "finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":3},
        "timings":{"prompt_n":5,"prompt_ms":2.0,"predicted_n":3,"predicted_ms":4.5}}"#;
    let sound = sample(
        &WHOLE,
        &exchange(&[(30, &answer[..40]), (40, &answer[40..])]),
    );
    assert_eq!(rule(&sound), None);
    assert_eq!(sound.text.as_deref(), Some(" 42\n"));
    assert_eq!(sound.stamps.events_ns, [0_u64; 0]);
    assert_eq!(
        (sound.stamps.first_byte_ns, sound.stamps.done_ns),
        (Some(30), Some(40))
    );
    assert_eq!(sound.timings.unwrap().predicted_n, 3);
}

fn check_whole(expect: &Expect, answer: &str, void: Option<VoidRule>) {
    let sample = sample(expect, &exchange(&[(30, answer)]));
    assert_eq!(rule(&sample), void, "{answer}: {:?}", sample.void);
}

#[test]
fn whole_answers_are_void_by_the_same_names() {
    let end_of_sequence_at_once = r#"{"choices":[{"message":{"content":""},"finish_reason":"stop"}],"usage":{"completion_tokens":1}}"#;
    check_whole(&WHOLE, end_of_sequence_at_once, None);
    check_whole(
        &WHOLE,
        r#"{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}"#,
        None,
    );
    check_whole(
        &WHOLE,
        r#"{"choices":[{"message":{"content":""}}]}"#,
        Some(VoidRule::NoOutput),
    );
    check_whole(
        &WHOLE,
        r#"{"choices":[],"usage":{"completion_tokens":0}}"#,
        Some(VoidRule::NoOutput),
    );
    check_whole(
        &WHOLE,
        r#"{"choices":[{"text":"x","finish_reason":"abort"}]}"#,
        Some(VoidRule::FinishReason),
    );
    check_whole(&WHOLE, r#"{"error":"no"}"#, Some(VoidRule::Status));
    check_whole(&WHOLE, "<html>", Some(VoidRule::Malformed));
    check_whole(&WHOLE, "", Some(VoidRule::Malformed));
}

/// An answer with `n` scored tokens, `usage` completion tokens and this finish reason.
fn scored(n: usize, usage: &str, finish: &str) -> String {
    let tokens = vec!["\"x\""; n].join(",");
    let logprobs = vec!["-1"; n].join(",");
    format!(
        "{{\"choices\":[{{\"text\":\"x\",\"finish_reason\":\"{finish}\",\"logprobs\":\
         {{\"tokens\":[{tokens}],\"token_logprobs\":[{logprobs}]}}}}],\"usage\":{usage}}}"
    )
}

#[test]
fn scored_tokens_must_agree_with_usage_and_length() {
    let lie = Some(VoidRule::TokenCounts);
    let free = Expect {
        logprobs: true,
        ..WHOLE
    };
    let forced = Expect {
        forced: Some(3),
        ..free
    };
    check_whole(
        &forced,
        &scored(3, "{\"completion_tokens\":3}", "length"),
        None,
    );
    check_whole(&forced, &scored(3, "null", "length"), None);
    check_whole(&forced, &scored(2, "null", "length"), lie);
    check_whole(
        &forced,
        &scored(2, "{\"completion_tokens\":3}", "length"),
        lie,
    );
    check_whole(
        &forced,
        &scored(2, "{\"completion_tokens\":2}", "length"),
        lie,
    );
    // An end-of-sequence token may be counted and not scored, but only where the answer stopped.
    check_whole(&free, &scored(2, "{\"completion_tokens\":3}", "stop"), None);
    check_whole(
        &free,
        &scored(2, "{\"completion_tokens\":3}", "length"),
        lie,
    );
    check_whole(&free, &scored(3, "{\"completion_tokens\":2}", "stop"), lie);
    check_whole(
        &free,
        r#"{"choices":[{"text":"x","finish_reason":"stop"}]}"#,
        Some(VoidRule::Malformed),
    );
}

#[test]
fn an_echoed_prompt_is_scored_whole() {
    let lie = Some(VoidRule::TokenCounts);
    let echoed = Expect {
        echoed: true,
        logprobs: true,
        prompt: Some(5),
        ..WHOLE
    };
    let usage = "{\"prompt_tokens\":5,\"completion_tokens\":0}";
    check_whole(&echoed, &scored(5, usage, "length"), None);
    check_whole(&echoed, &scored(4, usage, "length"), lie);
    check_whole(
        &echoed,
        &scored(6, "{\"prompt_tokens\":5,\"completion_tokens\":1}", "length"),
        None,
    );
    check_whole(
        &echoed,
        &scored(6, "{\"prompt_tokens\":6,\"completion_tokens\":0}", "length"),
        lie,
    );
}
