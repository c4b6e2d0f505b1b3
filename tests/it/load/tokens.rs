//! Streams whose counts tell little, and connections that end at the wrong moment.

use super::command::{ended, json, load};
use super::server::{Server, Step, chunk, end, send, stream, stream_head};
use super::{TOKENS, check_sound, check_void, done, endpoint, event, goodbye, last, plain};
use super::{run_on, steady, text, tokens, usage};
use serde_json::{Value, json};
use verdict::record::VoidRule;

/// Each event 2 ms after the one before.
fn paced(events: &[String]) -> Vec<Step> {
    let events = events.iter().flat_map(|text| [Step::Pause(2), chunk(text)]);
    let begin = [stream_head()].into_iter();
    begin.chain(events).chain([end()]).collect()
}

#[tokio::test]
async fn two_answers_in_turns_are_no_answer() {
    let of = |index: usize| event(&json!({"choices": [{"index": index, "text": "a"}]}));
    let turns = (0..TOKENS).map(|place| of(place % 2)).collect();
    check_void(stream(&[turns, goodbye()].concat()), VoidRule::Malformed).await;
}

/// The report of `gate load`, eight requests one at a time.
async fn report(script: impl Fn(usize) -> Vec<Step> + Send + Sync + 'static) -> Value {
    report_of(&[], script).await
}

/// The same with further arguments.
async fn report_of(
    further: &[&str],
    script: impl Fn(usize) -> Vec<Step> + Send + Sync + 'static,
) -> Value {
    let server = Server::start(move |number, _| script(number)).await;
    let shape = [
        "--concurrency",
        "1",
        "--requests",
        "8",
        "--output-tokens",
        "64",
    ];
    let mut command = load(server.address, &shape);
    command.args(["--format", "json"]).args(further);
    json(&ended(command).await)
}

#[tokio::test]
async fn events_without_text_before_the_first_token_are_told_where_usage_lacks_as_many() {
    let notes = async |silent: usize, spoken: usize| {
        let choice = json!({"text": " z", "finish_reason": "length"});
        let end = vec![event(&json!({"choices": [choice]})), usage(TOKENS), done()];
        let events = [vec![text(""); silent], tokens(spoken - 1), end].concat();
        report(move |_| stream(&events)).await["notes"].to_string()
    };
    let begin = "8 of 8 answers begin with events without text";
    assert!(notes(1, TOKENS - 1).await.contains(begin));
    // A sign of life, and two tokens in an event elsewhere.
    assert!(!notes(2, TOKENS - 1).await.contains(begin));
    assert!(!notes(1, TOKENS).await.contains(begin));
}

#[tokio::test]
async fn reasoning_in_a_field_of_an_unknown_name_is_void_by_that_name() {
    let delta = |field: &str| event(&json!({"choices": [{"delta": {field: "a"}}]}));
    let of = async |unknown: usize, known: usize| {
        let events = [
            vec![delta("thoughts"); unknown],
            vec![delta("content"); known],
            goodbye(),
        ];
        let events = events.concat();
        report_of(&["--chat"], move |_| stream(&events)).await["requests"].clone()
    };
    let told = of(10, TOKENS - 10).await;
    assert_eq!(told["void"]["token-counts"], 8, "{told}");
    let detail = told["details"]["token-counts"].as_str().unwrap();
    assert!(detail.contains("in the field `thoughts`"), "{detail}");
    let alone = of(TOKENS, 0).await;
    let detail = alone["details"]["no-output"].as_str().unwrap();
    assert!(detail.contains("in the field `thoughts`"), "{detail}");
    // Each token has its event: the other text is none.
    assert_eq!(of(3, TOKENS).await["ok"], 8);
}

#[tokio::test]
async fn a_usage_that_says_too_much_is_told_by_the_bounds_of_tpot() {
    let events = [tokens(60), vec![last("stop"), usage(TOKENS), done()]].concat();
    let report = report_of(&["--no-ignore-eos"], move |_| paced(&events)).await;
    assert_eq!(report["requests"]["ok"], 8, "{report:#}");
    let notes = report["notes"].to_string();
    assert!(notes.contains("or whether usage is right"), "{notes}");
    // Too little is void.
    let events = [tokens(60), vec![last("stop"), usage(59), done()]].concat();
    let report = report_of(&["--no-ignore-eos"], move |_| stream(&events)).await;
    assert_eq!(report["requests"]["void"]["token-counts"], 8, "{report:#}");
}

#[tokio::test]
async fn a_duration_that_outlasts_the_requests_is_told() {
    let notes = async |further: &[&str]| {
        let report = report_of(further, |_| stream(&plain())).await;
        report["notes"].to_string()
    };
    let said = notes(&["--duration", "600"]).await;
    assert!(
        said.contains("all 8 requests, warm-up included, were sent within"),
        "{said}"
    );
    assert!(!notes(&[]).await.contains("--duration"));
}

/// As other tools name them.
#[test]
fn an_option_of_another_tool_is_refused_with_its_name_here() {
    let nobody = "127.0.0.1:9".parse().unwrap();
    for (other, ours) in [
        ("--request-rate", "'--rate'"),
        ("--num-prompts", "'--requests'"),
        ("--max-concurrency", "'--concurrency'"),
        ("--speed", "`timestamp`"),
    ] {
        for line in [&[other, "3"][..], &["--trace", "t", other, "3"]] {
            let output = load(nobody, line).output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(said.contains(ours), "{said}");
        }
    }
}

#[tokio::test]
async fn bounds_of_tpot_are_told_once_they_differ_by_a_hundredth() {
    let notes = async |first: usize| {
        let begin = vec![text(&"a ".repeat(first))];
        let events = [begin, tokens(TOKENS - first), goodbye()].concat();
        report(move |_| paced(&events)).await["notes"].clone()
    };
    let begin = "usage counts more tokens than there are events";
    assert!(!notes(1).await.to_string().contains(begin));
    // 64 tokens in 62 events.
    let notes = notes(3).await;
    let notes = notes.as_array().unwrap().iter().filter_map(Value::as_str);
    let said = notes.into_iter().find(|note| note.contains(begin)).unwrap();
    let bounds = said.split("between ").nth(1).unwrap();
    let (least, greatest) = bounds.split_once(" and ").unwrap();
    let greatest = greatest.split(' ').next().unwrap();
    let ratio = greatest.parse::<f64>().unwrap() / least.parse::<f64>().unwrap();
    assert!((ratio / (63.0 / 61.0) - 1.0).abs() < 0.01, "{said}");
}

#[tokio::test]
async fn a_connection_that_breaks_after_the_stream_was_done_stops_nothing() {
    // The chunk of length 0 never comes.
    let mut script = vec![stream_head()];
    script.extend(plain().iter().map(|text| chunk(text)));
    script.push(Step::Close);
    let report = report(move |_| script.clone()).await;
    assert_eq!(report["requests"]["ok"], 8, "{report:#}");
}

/// The server closes the connection while the next request is on its way.
#[tokio::test]
async fn a_kept_connection_that_closes_is_opened_again_and_told() {
    // Each second request finds it closed.
    let report = report(|number| match number % 3 {
        1 => vec![Step::Close],
        _ => stream(&plain()),
    })
    .await;
    assert_eq!(report["requests"]["ok"], 8, "{report:#}");
    let resent = report["client"]["resent"].as_u64().unwrap();
    let said = report["notes"].to_string();
    assert!(
        resent >= 3 && said.contains(&format!("{resent} requests were sent again")),
        "{said}"
    );
    assert!(said.contains("--no-keep-alive"), "{said}");
}

/// A server that drops each request is no server that closes kept connections.
#[tokio::test]
async fn a_request_is_sent_again_once() {
    let server = Server::start(|number, _| match number {
        0 => stream(&plain()),
        _ => vec![Step::Close],
    })
    .await;
    let outcome = run_on(&endpoint(server.address), &steady(4, 0, 1)).await;
    let cut = outcome
        .samples
        .iter()
        .filter(|sample| sample.void.is_some());
    assert_eq!((cut.count(), outcome.client.resent), (3, 1));
    assert!(outcome.stopped.is_some());
}

#[tokio::test]
async fn heads_of_gateways_are_read() {
    let head = |headers: usize, length: usize| {
        let value = "x".repeat(length);
        let lines = (0..headers).map(|n| format!("x-trace-{n}: {value}\r\n"));
        let lines: String = lines.collect();
        let begin = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n";
        let mut script = vec![send(&format!("{begin}{lines}\r\n"))];
        script.extend(plain().iter().map(|text| chunk(text)));
        script.push(end());
        script
    };
    check_sound(head(200, 8), TOKENS).await;
    check_sound(head(64, 1024), TOKENS).await;
}
