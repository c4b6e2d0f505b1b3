//! Streams that are no measurement, and by which name.

use super::*;

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
fn a_bad_request_that_is_refused_is_no_fault() {
    let bad = Expect {
        refused: true,
        forced: None,
        ..FORCED_4
    };
    let optional = Expect {
        may_refuse: true,
        ..WHOLE
    };
    let error = r#"{"error":{"message":"no"}}"#;
    let event = format!("data: {error}\n\n");
    let with = |status: Option<u16>, body: &str, ending: Ending| {
        let mut exchange = exchange(&[(30, body)]);
        (exchange.status, exchange.ending) = (status, ending);
        exchange
    };
    let cut = || Ending::Cut("reset".into());
    let silent = || Ending::Silent("nothing came".into());
    let timeout = Some(VoidRule::Timeout);
    for (expect, exchange, found) in [
        (
            bad,
            with(Some(400), error, Ending::Whole),
            (None, Some(400)),
        ),
        (
            bad,
            with(Some(500), error, Ending::Whole),
            (None, Some(500)),
        ),
        (bad, with(Some(413), "", cut()), (None, Some(413))),
        (bad, with(Some(200), A, cut()), (None, Some(0))),
        (bad, with(Some(400), "", silent()), (timeout, Some(400))),
        (bad, with(None, "", cut()), (None, Some(0))),
        (bad, with(Some(200), A, Ending::Left), (None, Some(200))),
        (
            bad,
            with(Some(200), &event, Ending::Left),
            (None, Some(400)),
        ),
        // It hangs.
        (bad, with(None, "", silent()), (timeout, None)),
        // A route that is not there.
        (
            optional,
            with(Some(404), error, Ending::Whole),
            (None, Some(404)),
        ),
        (
            optional,
            with(Some(200), error, Ending::Whole),
            (None, Some(400)),
        ),
        (
            optional,
            with(Some(700), error, Ending::Whole),
            (None, Some(700)),
        ),
        (
            Expect {
                streamed: true,
                ..optional
            },
            with(Some(200), &event, silent()),
            (timeout, Some(400)),
        ),
        (
            optional,
            with(Some(404), "", silent()),
            (timeout, Some(404)),
        ),
        (
            optional,
            with(Some(500), error, Ending::Whole),
            (None, Some(500)),
        ),
    ] {
        let sample = sample(&expect, &exchange);
        assert_eq!((rule(&sample), sample.status), found, "{exchange:?}");
    }
}
