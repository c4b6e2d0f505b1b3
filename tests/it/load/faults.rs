//! Servers that break: one bad answer voids one sample, and a dead engine stops the rest.

use super::server::{Server, Step, answer, chunk, end, send, stream, stream_head};
use super::{
    bytes, check_order, endpoint, event, goodbye, nobody, plain, run_on, sixteen, steady, text,
    tokens,
};
use client::{Endpoint, Stopped};
use serde_json::json;
use std::time::Duration;
use verdict::record::VoidRule;

#[tokio::test]
async fn statuses_keep_the_servers_message() {
    for (status, body, message) in [
        (
            "429 Too Many Requests",
            r#"{"error":{"message":"slow down"}}"#,
            "status 429: slow down",
        ),
        ("503 Service Unavailable", "", "status 503: no message"),
        (
            "502 Bad Gateway",
            "<html>\n<h1>Bad</h1></html>",
            "status 502: <html> <h1>Bad</h1></html>",
        ),
    ] {
        let script = answer(status, body);
        for sample in sixteen(script).await {
            let void = sample.void.expect("void");
            assert_eq!(
                (void.rule, void.detail.as_str()),
                (VoidRule::Status, message)
            );
        }
    }
}

#[tokio::test]
async fn one_bad_answer_voids_one_sample() {
    let huge_line = format!("data: {}", "x".repeat(2 << 20));
    let error = event(&json!({"error": {"message": "out of memory"}}));
    let until_close =
        |body: String| vec![send("HTTP/1.1 200 OK\r\n\r\n"), send(&body), Step::Close];
    let whole = [chunk(&plain().concat()), end()].map(bytes).concat();
    let closing = vec![
        send("HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"),
        Step::Send(whole.clone()),
        Step::Close,
    ];
    let with_rubbish = vec![
        stream_head(),
        Step::Send([&whole[..], b"HTTP/1.1 400 What\r\n\r\n"].concat()),
    ];
    let cases: Vec<(Vec<Step>, Option<VoidRule>)> = vec![
        (
            answer("200 OK", "<html>welcome</html>"),
            Some(VoidRule::Malformed),
        ),
        (
            vec![send("HTTP/1.1 200 OK\r\nbroken\r\n\r\n"), Step::Close],
            Some(VoidRule::Malformed),
        ),
        (
            vec![send("SSH-2.0-x\r\n\r\n"), Step::Close],
            Some(VoidRule::Malformed),
        ),
        (
            vec![send("HTTP/1.1 200 OK\r\ncontent-"), Step::Close],
            Some(VoidRule::CutStream),
        ),
        (
            vec![
                send("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nda"),
                Step::Close,
            ],
            Some(VoidRule::CutStream),
        ),
        (
            vec![stream_head(), send("zz\r\n"), Step::Close],
            Some(VoidRule::Malformed),
        ),
        (stream(&[text("a"), huge_line]), Some(VoidRule::Malformed)),
        (
            stream(&[text("a"), "data: {\n\n".into()]),
            Some(VoidRule::Malformed),
        ),
        (
            stream(&[plain().concat(), "data: more\n\n".into()]),
            Some(VoidRule::Malformed),
        ),
        (stream(&[text("a"), error]), Some(VoidRule::Status)),
        (stream(&goodbye()), Some(VoidRule::NoOutput)),
        (stream(&[]), Some(VoidRule::NoOutput)),
        // Ends that are sound: by closing, announced or not, and with bytes after the answer.
        (until_close(plain().concat()), None),
        (closing, None),
        (with_rubbish, None),
        (stream(&plain()), None),
    ];
    let expected: Vec<Option<VoidRule>> =
        cases.iter().flat_map(|(_, rule)| [*rule, None]).collect();
    let server = Server::start(move |number, _| {
        if number % 2 == 0 {
            cases[number / 2].0.clone()
        } else {
            stream(&plain())
        }
    })
    .await;
    let requests = expected.len() as u32;
    let outcome = run_on(&endpoint(server.address), &steady(requests, 0, 1)).await;
    assert_eq!(outcome.stopped, None);
    for (sample, rule) in outcome.samples.iter().zip(&expected) {
        check_order(sample);
        let void = sample.void.as_ref().map(|void| void.rule);
        assert_eq!(void, *rule, "request {}: {:?}", sample.index, sample.void);
    }
    assert_eq!(outcome.samples.len(), expected.len());
}

#[tokio::test]
async fn a_hang_in_the_stream_times_out_and_three_stop_the_workload() {
    let mut script = vec![stream_head()];
    script.extend(tokens(5).iter().map(|text| chunk(text)));
    script.push(Step::Hang);
    let server = Server::start(move |_, _| script.clone()).await;
    let impatient = Endpoint {
        request_timeout: Duration::from_millis(100),
        ..endpoint(server.address)
    };
    let outcome = run_on(&impatient, &steady(16, 0, 1)).await;
    assert!(
        matches!(outcome.stopped, Some(Stopped::Hung(_))),
        "{:?}",
        outcome.stopped
    );
    assert_eq!(outcome.samples.len(), 3);
    for sample in &outcome.samples {
        assert_eq!(sample.void.as_ref().unwrap().rule, VoidRule::Timeout);
        assert!(sample.tokens.events <= 5);
        assert_eq!(sample.stamps.done_ns, None);
    }
}

#[tokio::test]
async fn keep_alive_comments_forever_are_a_hang_too() {
    let mut script = vec![stream_head()];
    for _ in 0..10_000 {
        script.extend([chunk(": still here\n\n"), Step::Pause(1)]);
    }
    let server = Server::start(move |_, _| script.clone()).await;
    let impatient = Endpoint {
        request_timeout: Duration::from_millis(100),
        ..endpoint(server.address)
    };
    let outcome = run_on(&impatient, &steady(1, 0, 1)).await;
    assert_eq!(
        outcome.samples[0].void.as_ref().unwrap().rule,
        VoidRule::Timeout
    );
}

#[tokio::test]
async fn an_engine_that_dies_stops_the_workload() {
    let server = Server::start(|_, _| vec![Step::Close]).await;
    let outcome = run_on(&endpoint(server.address), &steady(16, 0, 4)).await;
    assert!(
        matches!(outcome.stopped, Some(Stopped::Failing(_))),
        "{:?}",
        outcome.stopped
    );
    assert!((3..=16).contains(&outcome.samples.len()));

    let outcome = run_on(&endpoint(nobody().await), &steady(16, 0, 4)).await;
    assert!(
        matches!(outcome.stopped, Some(Stopped::Refused(_))),
        "{:?}",
        outcome.stopped
    );
    assert!(outcome.samples.iter().all(|sample| {
        sample
            .void
            .as_ref()
            .is_some_and(|void| void.rule == VoidRule::CutStream)
    }));
    assert!(!outcome.samples.is_empty());
}
