//! What an answer holds, whole and streamed, on both routes.

use fixture::process::Server;
use serde_json::{Value, json};

pub(crate) const COMPLETIONS: &str = "/v1/completions";
pub(crate) const CHAT: &str = "/v1/chat/completions";

fn prompt() -> Value {
    json!({"prompt": "12+34=", "max_tokens": 12, "ignore_eos": true})
}

fn messages() -> Value {
    json!({"messages": [{"role": "user", "content": "What is 12+34?"}], "max_tokens": 12, "ignore_eos": true})
}

/// A request with members added.
pub(crate) fn with(mut body: Value, more: Value) -> Value {
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// Both routes' requests, with members added.
fn both(more: Value) -> [(&'static str, Value); 2] {
    [
        (COMPLETIONS, with(prompt(), more.clone())),
        (CHAT, with(messages(), more)),
    ]
}

/// The text of a whole answer.
pub(crate) fn text(answer: &Value) -> &str {
    let choice = &answer["choices"][0];
    choice["text"]
        .as_str()
        .or(choice["message"]["content"].as_str())
        .unwrap()
}

/// The joined text of a stream.
pub(crate) fn joined(events: &[Value]) -> String {
    let choices = events.iter().map(|event| &event["choices"][0]);
    let text = |choice: &Value| {
        let text = choice["text"]
            .as_str()
            .or(choice["delta"]["content"].as_str());
        text.unwrap_or_default().to_owned()
    };
    choices.map(text).collect()
}

fn numbers(value: &Value) -> Vec<u64> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|id| id.as_u64().unwrap())
        .collect()
}

#[test]
fn a_whole_answer_has_text_counts_and_timings() {
    let server = Server::start(&[]);
    for (path, body) in both(json!({})) {
        let answer = server.ok(path, body).json();
        let choice = &answer["choices"][0];
        let (object, role) = match path {
            CHAT => ("chat.completion", json!("assistant")),
            _ => ("text_completion", Value::Null),
        };
        assert_eq!(answer["object"], object);
        assert_eq!(choice["message"]["role"], role);
        assert_eq!(choice["finish_reason"], "length");
        assert_eq!(choice["index"], 0);
        // The model is trained on chats: what it makes of a bare prompt may be special tokens alone.
        assert!(path == COMPLETIONS || !text(&answer).is_empty());
        let usage = &answer["usage"];
        assert_eq!(usage["completion_tokens"], 12);
        let prompt_tokens = usage["prompt_tokens"].as_u64().unwrap();
        assert_eq!(usage["total_tokens"], prompt_tokens + 12);
        let timings = &answer["timings"];
        assert_eq!(timings["predicted_n"], 12);
        let computed = timings["prompt_n"].as_u64().unwrap();
        assert_eq!(
            computed + timings["cache_n"].as_u64().unwrap(),
            prompt_tokens
        );
        for name in [
            "prompt_ms",
            "predicted_ms",
            "predicted_per_token_ms",
            "predicted_per_second",
        ] {
            assert!(timings[name].as_f64().unwrap() > 0.0, "{name}");
        }
        assert!(answer["id"].as_str().unwrap().contains("cmpl-"));
        assert_eq!(answer["model"], "tiny-qwen3");
    }
}

#[test]
fn a_stream_has_the_text_of_the_whole_answer() {
    let server = Server::start(&[]);
    for (path, body) in both(json!({})) {
        let whole = server.ok(path, body.clone()).json();
        let events = server.stream(path, body);
        assert_eq!(joined(&events), text(&whole));
        let last = events.last().unwrap();
        assert_eq!(last["choices"][0]["finish_reason"], "length");
        assert_eq!(last["timings"]["predicted_n"], 12);
        assert!(events.iter().all(|event| event.get("usage").is_none()));
        let (_, tokens) = events.split_last().unwrap();
        let role_events = usize::from(path == CHAT);
        assert!(
            tokens
                .iter()
                .skip(role_events)
                .all(|event| !joined(std::slice::from_ref(event)).is_empty())
        );
        let reasons = events
            .iter()
            .filter(|event| !event["choices"][0]["finish_reason"].is_null());
        assert_eq!(reasons.count(), 1);
    }
}

#[test]
fn a_chat_stream_opens_with_the_role() {
    let server = Server::start(&[]);
    let events = server.stream(CHAT, messages());
    let mut objects = events.iter().map(|event| &event["object"]);
    assert!(objects.all(|object| object == "chat.completion.chunk"));
    let first = &events[0]["choices"][0];
    assert_eq!(first["delta"], json!({"role": "assistant", "content": ""}));
    let deltas = events.iter().map(|event| &event["choices"][0]["delta"]);
    let later: Vec<_> = deltas.skip(1).collect();
    assert!(later.iter().all(|delta| delta.get("role").is_none()));
    assert_eq!(later.last(), Some(&&json!({})));
}

#[test]
fn usage_comes_last_and_is_null_before() {
    let server = Server::start(&[]);
    for (path, body) in both(json!({"stream_options": {"include_usage": true}})) {
        let events = server.stream(path, body);
        let (last, before) = events.split_last().unwrap();
        assert_eq!(last["choices"], json!([]));
        assert_eq!(last["usage"]["completion_tokens"], 12);
        assert_eq!(last["timings"]["predicted_n"], 12);
        assert!(
            before
                .iter()
                .all(|event| event.get("usage") == Some(&Value::Null))
        );
        assert!(before.iter().all(|event| event.get("timings").is_none()));
    }
}

#[test]
fn continuous_usage_counts_up() {
    let server = Server::start(&[]);
    let options = json!({"include_usage": true, "continuous_usage_stats": true});
    for (path, body) in both(json!({"stream_options": options, "return_token_ids": true})) {
        let events = server.stream(path, body);
        let counts: Vec<u64> = events
            .iter()
            .map(|event| event["usage"]["completion_tokens"].as_u64().unwrap())
            .collect();
        let role_event = u64::from(path == CHAT);
        let tokens: Vec<u64> = (1 - role_event..=12).collect();
        // The finish chunk and the usage chunk repeat the final count.
        assert_eq!(counts, [tokens, vec![12, 12]].concat());
    }
}

#[test]
fn with_ids_every_token_is_an_event_of_its_own() {
    let server = Server::start(&[]);
    for (path, body) in both(json!({"return_token_ids": true})) {
        let whole = server.ok(path, body.clone()).json();
        let ids = numbers(&whole["choices"][0]["token_ids"]);
        assert_eq!(ids.len(), 12);
        let prompt = match path {
            COMPLETIONS => &whole["choices"][0]["prompt_token_ids"],
            _ => &whole["prompt_token_ids"],
        };
        assert_eq!(
            numbers(prompt).len() as u64,
            whole["usage"]["prompt_tokens"].as_u64().unwrap()
        );

        let events = server.stream(path, body);
        let streamed: Vec<Vec<u64>> = events
            .iter()
            .map(|event| numbers(&event["choices"][0]["token_ids"]))
            .collect();
        assert_eq!(streamed.concat(), ids);
        assert!(streamed.iter().all(|ids| ids.len() <= 1));
    }
}

#[test]
fn a_prompt_of_ids_is_the_same_as_its_text() {
    let server = Server::start(&[]);
    let mut body = prompt();
    body["return_token_ids"] = json!(true);
    let by_text = server.complete(body.clone());
    body["prompt"] = by_text["choices"][0]["prompt_token_ids"].clone();
    let by_ids = server.complete(body);
    assert_eq!(text(&by_text), text(&by_ids));
    assert_eq!(
        by_text["choices"][0]["token_ids"],
        by_ids["choices"][0]["token_ids"]
    );
}

#[test]
fn content_parts_are_the_same_as_a_string() {
    let server = Server::start(&[]);
    let whole = server.ok(CHAT, messages()).json();
    let mut body = messages();
    body["messages"][0]["content"] =
        json!([{"type": "text", "text": "What is 12"}, {"type": "text", "text": "+34?"}]);
    let parts = server.ok(CHAT, body).json();
    assert_eq!(text(&whole), text(&parts));
    assert_eq!(
        whole["usage"]["prompt_tokens"],
        parts["usage"]["prompt_tokens"]
    );
}

#[test]
fn the_end_token_is_counted_and_can_be_put_off() {
    let server = Server::start(&[]);
    let ask = |more: Value| {
        let mut body = json!({"messages": [{"role": "user", "content": "What is 12+34?"}], "max_tokens": 200,
            "return_token_ids": true});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        server.ok(CHAT, body).json()
    };
    let count = |answer: &Value| answer["usage"]["completion_tokens"].as_u64().unwrap();

    let free = ask(json!({}));
    assert_eq!(
        free["choices"][0]["finish_reason"], "stop",
        "the trained model ends its answer: {free}"
    );
    let ids = numbers(&free["choices"][0]["token_ids"]);
    assert_eq!(ids.len() as u64, count(&free));
    let end = *ids.last().unwrap();
    assert!(!ids[..ids.len() - 1].contains(&end));

    let longer = ask(json!({"min_tokens": count(&free) + 5}));
    let ids = numbers(&longer["choices"][0]["token_ids"]);
    assert!(ids.len() as u64 >= count(&free) + 5, "{longer}");

    let forced = ask(json!({"ignore_eos": true}));
    assert_eq!(count(&forced), 200);
    assert_eq!(forced["choices"][0]["finish_reason"], "length");
}

#[test]
fn a_repeated_prompt_is_cached_unless_told_not_to() {
    let server = Server::start(&[]);
    let long = "1+2=3 ".repeat(20);
    let ask = |more: Value| {
        let mut body = json!({"prompt": long, "max_tokens": 4});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        let answer = server.complete(body);
        let cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
            .as_u64()
            .unwrap();
        assert_eq!(answer["timings"]["cache_n"], cached);
        (cached, text(&answer).to_owned())
    };
    let (cold, text_cold) = ask(json!({}));
    let (warm, text_warm) = ask(json!({}));
    let (refused, text_refused) = ask(json!({"cache_prompt": false}));
    assert_eq!((cold, refused), (0, 0));
    assert!(warm > 0);
    assert_eq!((&text_warm, &text_refused), (&text_cold, &text_cold));
}

#[test]
fn an_echo_stands_before_the_answer() {
    let server = Server::start(&[]);
    let plain = server.complete(prompt());
    let mut body = prompt();
    body["echo"] = json!(true);
    let echoed = server.complete(body.clone());
    assert_eq!(text(&echoed), format!("12+34={}", text(&plain)));
    assert_eq!(
        joined(&server.stream(COMPLETIONS, body.clone())),
        text(&echoed)
    );

    body["max_tokens"] = json!(0);
    let alone = server.complete(body.clone());
    assert_eq!(text(&alone), "12+34=");
    assert_eq!(alone["usage"]["completion_tokens"], 0);
    assert_eq!(joined(&server.stream(COMPLETIONS, body)), "12+34=");
}
