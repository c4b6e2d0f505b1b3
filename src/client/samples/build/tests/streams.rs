//! Sound streams: which events count, when they came, what is ambiguous.

use super::*;

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
fn what_stands_behind_an_event_makes_its_time_an_upper_bound() {
    let check = |behind: &str, ambiguous: u32| {
        let last = [A, behind].concat();
        let bye = goodbye();
        let reads = exchange(&[(30, A), (60, &last), (70, A), (80, A), (81, &bye)]);
        let sample = sample(&FORCED_4, &reads);
        assert_eq!(sample.stamps.ambiguous_events, ambiguous, "{behind:?}");
    };
    check("", 0);
    check("\n\n", 0);
    check(": a comment\n\n", 0);
    check("event: x\n", 1);
}

/// A server writes its comments with its events, or each by itself. In the latter case the kernel has joined one to the
/// event before it.
#[test]
fn a_comment_behind_an_event_is_later_than_it_where_others_come_alone() {
    const COMMENT: &str = ": a comment\n\n";
    let check = |alone: &str, ambiguous: u32| {
        let last = [A, COMMENT].concat();
        let bye = goodbye();
        let reads = [
            (30, A),
            (40, alone),
            (60, &*last),
            (70, A),
            (80, A),
            (81, &*bye),
        ];
        let sample = sample(&FORCED_4, &exchange(&reads));
        assert_eq!(sample.stamps.ambiguous_events, ambiguous, "{alone:?}");
    };
    check("\n", 0);
    check(COMMENT, 1);
    check("data: {\"choices\":[]}\n\n: a comment\n\n", 0);
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
            number: 10 + before as u64,
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
fn after_done_the_connection_may_break_but_not_stay() {
    let bye = goodbye();
    let mut broken = exchange(&[(30, A), (40, A), (50, A), (60, A), (61, &bye)]);
    broken.end_ns = None;
    broken.ending = Ending::Cut("connection reset".into());
    let reset = sample(&FORCED_4, &broken);
    assert_eq!((rule(&reset), reset.stamps.done_ns), (None, Some(61)));
    assert_eq!(reset.stamps.end_ns, None);
    // An end of its own is kept: a client waits for it.
    let late = Exchange {
        end_ns: Some(2_000_061),
        ..exchange(&[(30, A), (40, A), (50, A), (60, A), (61, &bye)])
    };
    let late = sample(&FORCED_4, &late);
    assert_eq!(
        (rule(&late), late.stamps.done_ns, late.stamps.end_ns),
        (None, Some(61), Some(2_000_061))
    );
    broken.ending = Ending::Silent("the stream did not end after [DONE]".into());
    assert_eq!(rule(&sample(&FORCED_4, &broken)), Some(VoidRule::Timeout));
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
fn a_single_stamp_of_our_own_is_said() {
    let bye = goodbye();
    let mut mixed = exchange(&[(30, A), (40, A), (50, A), (60, A), (61, &bye)]);
    mixed.reads[2].arrival.kernel = false;
    assert!(!sample(&FORCED_4, &mixed).stamps.kernel_stamps);
}
