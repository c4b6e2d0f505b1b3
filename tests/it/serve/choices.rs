//! Several choices in one answer: their order, counts, streams, and that they are computed as one request.

use super::answers::{CHAT, COMPLETIONS, with};
use fixture::http;
use fixture::process::Server;
use serde_json::{Value, json};

fn several() -> Value {
    json!({"prompt": ["12+34=", "5+6="], "n": 2, "max_tokens": 6, "ignore_eos": true,
        "return_token_ids": true})
}

fn messages(n: u32) -> Value {
    json!({"messages": [{"role": "user", "content": "What is 12+34?"}], "n": n, "max_tokens": 6,
        "ignore_eos": true, "return_token_ids": true})
}

fn choices(answer: &Value) -> &Vec<Value> {
    answer["choices"].as_array().unwrap()
}

/// The one choice of an event.
fn choice(event: &Value) -> &Value {
    match choices(event).as_slice() {
        [choice] => choice,
        other => panic!("{} choices in an event", other.len()),
    }
}

#[test]
fn choices_stand_by_prompt_and_then_by_choice() {
    let server = Server::start(&[]);
    let alone = ["12+34=", "5+6="].map(|prompt| {
        let answer = server.complete(with(several(), json!({"prompt": prompt, "n": 1})));
        let tokens = answer["usage"]["prompt_tokens"].as_u64().unwrap();
        (choice(&answer).clone(), tokens)
    });
    let answer = server.complete(several());
    assert_eq!(choices(&answer).len(), 4);
    for (index, found) in choices(&answer).iter().enumerate() {
        let mut expect = alone[index / 2].0.clone();
        expect["index"] = json!(index);
        assert_eq!(*found, expect);
    }
    // Each prompt counts once, the tokens of every choice.
    let usage = &answer["usage"];
    assert_eq!(usage["prompt_tokens"], alone[0].1 + alone[1].1);
    assert_eq!(usage["completion_tokens"], 4 * 6);
    assert!(answer.get("timings").is_none());
}

#[test]
fn a_chat_has_n_choices_and_its_prompt_once() {
    let server = Server::start(&[]);
    let alone = server.ok(CHAT, messages(1)).json();
    let answer = server.ok(CHAT, messages(3)).json();
    assert_eq!(choices(&answer).len(), 3);
    for (index, found) in choices(&answer).iter().enumerate() {
        assert_eq!(found["index"], index);
        assert_eq!(found["message"], choice(&alone)["message"]);
    }
    assert_eq!(answer["prompt_token_ids"], alone["prompt_token_ids"]);
    let tokens = &answer["usage"]["prompt_tokens"];
    assert_eq!(*tokens, alone["usage"]["prompt_tokens"]);
}

/// Of each choice the events are those of a stream of its own: role, tokens, finish.
#[test]
fn a_stream_has_every_choice_whole() {
    let server = Server::start(&[]);
    for (path, body, count) in [(COMPLETIONS, several(), 4), (CHAT, messages(3), 3)] {
        let whole = server.ok(path, body.clone()).json();
        let options = json!({"stream_options": {"include_usage": true}});
        let events = server.stream(path, with(body, options));
        let (last, events) = events.split_last().unwrap();
        assert_eq!(last["choices"], json!([]));
        assert_eq!(
            last["usage"]["completion_tokens"],
            whole["usage"]["completion_tokens"]
        );
        assert!(last.get("timings").is_none());
        for index in 0..count {
            let own: Vec<_> = events
                .iter()
                .map(choice)
                .filter(|choice| choice["index"] == index)
                .collect();
            let (finish, before) = own.split_last().unwrap();
            assert_eq!(finish["finish_reason"], "length");
            assert!(
                before
                    .iter()
                    .all(|choice| choice["finish_reason"].is_null())
            );
            if path == CHAT {
                assert_eq!(own[0]["delta"]["role"], "assistant");
            }
            let ids: Vec<Value> = own
                .iter()
                .flat_map(|choice| choice["token_ids"].as_array().unwrap().clone())
                .collect();
            assert_eq!(json!(ids), choices(&whole)[index]["token_ids"], "{index}");
        }
    }
}

/// Computed together, the choices' events come in turn and not one answer after the other.
#[test]
fn a_stream_interleaves_its_choices() {
    let server = Server::start(&["--fault", "decode-delay=5ms"]);
    let events = server.stream(COMPLETIONS, with(several(), json!({"max_tokens": 200})));
    let order: Vec<u64> = events
        .iter()
        .map(|event| choice(event)["index"].as_u64().unwrap())
        .collect();
    let ends = |event: &Value| !choice(event)["finish_reason"].is_null();
    let first_end = events.iter().position(ends).unwrap();
    for index in 0..4 {
        let begun = order.iter().position(|found| *found == index).unwrap();
        assert!(begun < first_end, "{index} began after another had ended");
    }
}

/// The siblings find the prompt's keys and values in the cache.
#[test]
fn the_prompt_of_n_choices_is_computed_once() {
    let server = Server::start(&[]);
    let body = json!({"prompt": "1+2=3 ".repeat(40), "n": 4, "max_tokens": 2, "ignore_eos": true});
    let answer = server.complete(body);
    let prompt = answer["usage"]["prompt_tokens"].as_f64().unwrap();
    let computed = server.metric("infergate_prefilled_tokens_total", "");
    assert!(computed < 2.0 * prompt, "{computed} for 4 × {prompt}");
}

#[test]
fn each_choice_has_its_echo_and_its_logprobs() {
    let server = Server::start(&[]);
    let more = json!({"echo": true, "logprobs": 2});
    let answer = server.complete(with(several(), more.clone()));
    for (index, prompt) in ["12+34=", "12+34=", "5+6=", "5+6="].iter().enumerate() {
        let found = &choices(&answer)[index];
        assert!(found["text"].as_str().unwrap().starts_with(prompt));
        let alone = with(several(), more.clone());
        let alone = server.complete(with(alone, json!({"prompt": prompt, "n": 1})));
        assert_eq!(found["logprobs"], choice(&alone)["logprobs"], "{index}");
    }
}

#[test]
fn a_client_that_goes_away_cancels_every_choice() {
    let server = Server::start(&["--fault", "decode-delay=20ms", "--max-running", "2"]);
    for stream in [true, false] {
        let body = with(several(), json!({"max_tokens": 400, "stream": stream}));
        let bytes = http::post_bytes(COMPLETIONS, "application/json", &body.to_string());
        let connection = http::send(server.address, &bytes);
        server.await_metric("vllm:num_requests_running", 2.0);
        drop(connection);
        server.await_metric("vllm:num_requests_running", 0.0);
        server.await_metric("vllm:num_requests_waiting", 0.0);
    }
    let made = server.metric("vllm:generation_tokens_total", "");
    assert!(made < 4.0 * 400.0, "{made} tokens were made for nobody");
}

/// The queue takes all prompts of a request or none.
#[test]
fn prompts_that_do_not_fit_the_queue_are_refused_together() {
    let server = Server::start(&["--queue", "2"]);
    let body = json!({"prompt": vec!["1+1="; 3], "max_tokens": 1});
    let refused = server.post(COMPLETIONS, &body);
    // They would never fit: no reason to try again.
    assert_eq!(refused.status, 400);
    let error = &refused.json()["error"];
    assert_eq!(
        (&error["code"], &error["param"]),
        (&json!("invalid_value"), &json!("prompt"))
    );
    let total = server.metric("vllm:prompt_tokens_total", "");
    assert_eq!(total.to_bits(), 0f64.to_bits());
    // Siblings need no room there.
    server.complete(json!({"prompt": "1+1=", "n": 16, "max_tokens": 1}));
}
