//! Stop texts and stop ids: where the text is cut, what is told, what is counted.
//!
//! Each test asks the embedded model for its own answer first, and stops at a part of that.

use super::answers::{CHAT, COMPLETIONS, joined, text, with};
use fixture::process::Server;
use serde_json::{Value, json};

fn body() -> Value {
    json!({"messages": [{"role": "user", "content": "What is 12+34?"}], "max_tokens": 24,
        "ignore_eos": true, "return_token_ids": true})
}

/// The server, its whole answer's text, and the answer.
fn free() -> (Server, String, Value) {
    let server = Server::start(&[]);
    let answer = server.ok(CHAT, body()).json();
    let text = text(&answer).to_owned();
    assert!(text.chars().count() >= 4, "too short to be cut: {text:?}");
    (server, text, answer)
}

/// A part of the text, by characters.
fn part(text: &str, from: usize, count: usize) -> String {
    text.chars().skip(from).take(count).collect()
}

/// Asks whole and as a stream; both must have the same text and end by `reason`.
fn check(server: &Server, more: Value, text_expected: &str, reason: Value) -> Value {
    let body = with(body(), more);
    let whole = server.ok(CHAT, body.clone()).json();
    assert_eq!(text(&whole), text_expected, "{body}");
    let choice = &whole["choices"][0];
    assert_eq!(choice["finish_reason"], "stop");
    assert_eq!(choice["stop_reason"], reason);
    let events = server.stream(CHAT, body);
    assert_eq!(joined(&events), text_expected);
    let last = &events.last().unwrap()["choices"][0];
    assert_eq!(
        (&last["finish_reason"], &last["stop_reason"]),
        (&json!("stop"), &reason)
    );
    whole
}

#[test]
fn a_stop_text_is_cut_and_told() {
    let (server, text, _) = free();
    for (from, count) in [(0, 1), (1, 1), (1, 2), (2, 2)] {
        let stop = part(&text, from, count);
        let at = text.find(&stop).unwrap();
        check(&server, json!({"stop": stop}), &text[..at], json!(stop));
        let stops = json!(["never said", stop]);
        check(&server, json!({"stop": stops}), &text[..at], json!(stop));
        let shown = json!({"stop": stop, "include_stop_str_in_output": true});
        check(&server, shown, &text[..at + stop.len()], json!(stop));
    }
}

#[test]
fn the_token_that_completes_a_stop_text_counts_and_is_scored() {
    let (server, text, _) = free();
    let stop = part(&text, 1, 2);
    let at = text.find(&stop).unwrap();
    let more = json!({"stop": stop, "logprobs": true});
    let answer = check(&server, more, &text[..at], json!(stop));
    let ids = answer["choices"][0]["token_ids"].as_array().unwrap().len();
    assert_eq!(answer["usage"]["completion_tokens"], ids);
    assert!(ids < 24, "the answer went on: {answer}");
    let scored = answer["choices"][0]["logprobs"]["content"]
        .as_array()
        .unwrap();
    assert_eq!(scored.len(), ids);
    // Its own text, though none of it is shown.
    let last = scored[ids - 1]["token"].as_str().unwrap();
    assert!(stop.ends_with(last), "{last:?} does not end {stop:?}");
}

#[test]
fn a_stop_text_before_the_least_number_of_tokens_is_text() {
    let (server, text, _) = free();
    let stop = part(&text, 0, 1);
    let answer = server
        .ok(CHAT, with(body(), json!({"stop": stop, "min_tokens": 24})))
        .json();
    assert_eq!(answer["usage"]["completion_tokens"], 24);
    assert!(super::answers::text(&answer).starts_with(&stop));
}

#[test]
fn a_stop_id_ends_the_answer_and_its_text_is_not_shown() {
    let (server, _, answer) = free();
    let ids = answer["choices"][0]["token_ids"].as_array().unwrap();
    // The text before the first token alone, and with it.
    let alone = with(body(), json!({"max_tokens": 1}));
    let first = server.ok(CHAT, alone).json();
    let stop = json!({"stop_token_ids": [ids[0]]});
    let stopped = check(&server, stop.clone(), "", ids[0].clone());
    assert_eq!(stopped["usage"]["completion_tokens"], 1);
    assert_eq!(stopped["choices"][0]["token_ids"], json!([ids[0]]));
    let shown = with(stop, json!({"include_stop_str_in_output": true}));
    check(&server, shown, text(&first), ids[0].clone());
}

#[test]
fn an_answer_that_meets_no_stop_is_whole() {
    let (server, text, answer) = free();
    // Its end begins the stop text and never goes on.
    let last = part(&text, text.chars().count() - 1, 1);
    let more = json!({"stop": [format!("{last}\u{1F980}"), "never said"]});
    let stopped = server.ok(CHAT, with(body(), more.clone())).json();
    assert_eq!(stopped["choices"], answer["choices"]);
    assert_eq!(stopped["choices"][0]["stop_reason"], Value::Null);
    assert_eq!(joined(&server.stream(CHAT, with(body(), more))), text);
}

#[test]
fn each_choice_stops_by_itself() {
    let server = Server::start(&[]);
    let ask = |more: Value| {
        let body = json!({"prompt": ["12+34=", "5+6="], "max_tokens": 24, "ignore_eos": true});
        server.ok(COMPLETIONS, with(body, more)).json()
    };
    let free = ask(json!({}));
    let texts: Vec<&str> = [0, 1]
        .map(|index| free["choices"][index]["text"].as_str().unwrap())
        .to_vec();
    let stop = part(texts[1], 1, 3);
    let stopped = ask(json!({"stop": stop, "n": 2}));
    for index in 0..4 {
        let choice = &stopped["choices"][index];
        let whole = texts[index / 2];
        let expect = whole.find(&stop).map_or(whole, |at| &whole[..at]);
        assert_eq!(choice["text"], expect);
        let ended = expect.len() < whole.len();
        assert_eq!(
            choice["finish_reason"],
            if ended { "stop" } else { "length" }
        );
    }
    assert!(texts[1].contains(&stop));
}
