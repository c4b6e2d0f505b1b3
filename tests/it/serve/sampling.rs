//! Parameters of choice reach the engine: seeds repeat, biases and permitted ids decide.
//!
//! Whether the numbers are right is the business of the engine's own tests.

use super::answers::{CHAT, COMPLETIONS, with};
use fixture::process::Server;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn body() -> Value {
    json!({"prompt": "12+34=", "max_tokens": 32, "ignore_eos": true, "return_token_ids": true})
}

/// Token ids by choice.
fn ids(server: &Server, more: Value) -> Vec<Value> {
    let answer = server.complete(with(body(), more));
    let choices = answer["choices"].as_array().unwrap();
    choices
        .iter()
        .map(|choice| choice["token_ids"].clone())
        .collect()
}

#[test]
fn equal_seeds_give_equal_answers() {
    let server = Server::start(&[]);
    let hot = |seed: Value, n: u32| ids(&server, json!({"temperature": 2, "seed": seed, "n": n}));
    let four = hot(json!(7), 4);
    assert_eq!(hot(json!(7), 4), four);
    assert_eq!(hot(json!(7), 1), four[..1]);
    assert_eq!(
        four.iter()
            .map(Value::to_string)
            .collect::<BTreeSet<_>>()
            .len(),
        4
    );
    assert_ne!(hot(json!(8), 1), four[..1]);
    // By no seed every answer, and every prompt of one, is drawn afresh.
    assert_ne!(hot(json!(null), 1), hot(json!(null), 1));
    let prompts = json!({"prompt": ["12+34=", "12+34="], "temperature": 2});
    let drawn = ids(&server, prompts);
    assert_ne!(drawn[0], drawn[1]);
}

#[test]
fn a_seed_draws_the_same_on_both_ways_out() {
    let server = Server::start(&[]);
    let body = json!({"messages": [{"role": "user", "content": "What is 12+34?"}], "max_tokens": 24,
        "ignore_eos": true, "temperature": 1.5, "seed": 3, "n": 2, "return_token_ids": true});
    let whole = server.ok(CHAT, body.clone()).json();
    let events = server.stream(CHAT, body);
    for index in 0..2 {
        let streamed: Vec<Value> = events
            .iter()
            .map(|event| &event["choices"][0])
            .filter(|choice| choice["index"] == index)
            .flat_map(|choice| choice["token_ids"].as_array().unwrap().clone())
            .collect();
        assert_eq!(json!(streamed), whole["choices"][index]["token_ids"]);
    }
}

#[test]
fn no_heat_and_one_best_token_are_greedy() {
    let server = Server::start(&[]);
    let greedy = ids(&server, json!({"temperature": 0, "seed": 1}));
    for more in [
        json!({"temperature": 0, "seed": 2, "top_p": 0.5}),
        json!({"temperature": 2, "top_k": 1}),
        json!({"temperature": 2, "min_p": 1}),
        json!({"temperature": 2, "top_p": 0.000_001}),
        json!({}),
    ] {
        assert_eq!(ids(&server, more.clone()), greedy, "{more}");
    }
}

#[test]
fn biases_and_permitted_ids_decide() {
    let server = Server::start(&[]);
    let only = |id: u32| vec![json!(vec![id; 32])];
    assert_eq!(ids(&server, json!({"logit_bias": {"19": 100}})), only(19));
    assert_eq!(ids(&server, json!({"allowed_token_ids": [20]})), only(20));
    let greedy = ids(&server, json!({}));
    let banned = &greedy[0][0];
    let bias = json!({banned.to_string(): -100});
    let without = ids(&server, json!({"logit_bias": bias}));
    let stands = |ids: &[Value]| {
        let ids = ids[0].as_array().unwrap();
        ids.contains(banned)
    };
    assert!(stands(&greedy) && !stands(&without), "{without:?}");
}

#[test]
fn penalties_change_what_is_drawn() {
    let server = Server::start(&[]);
    let drawn = |more: Value| ids(&server, with(json!({"temperature": 2, "seed": 5}), more));
    let free = drawn(json!({}));
    for (name, strong, none) in [
        ("presence_penalty", json!(2), json!(0)),
        ("frequency_penalty", json!(2), json!(0)),
        ("repetition_penalty", json!(2), json!(1)),
    ] {
        assert_ne!(drawn(json!({name: strong})), free, "{name}");
        assert_eq!(drawn(json!({name: none})), free, "{name}");
    }
}

/// The model repeats itself here; a penalty on each repeat adds up until another token is the best.
#[test]
fn a_penalty_on_frequency_ends_a_repetition() {
    let server = Server::start(&[]);
    let distinct = |more: Value| {
        let ids = ids(&server, more);
        let ids = ids[0].as_array().unwrap().iter();
        ids.map(Value::to_string).collect::<BTreeSet<_>>().len()
    };
    assert!(distinct(json!({"frequency_penalty": 2})) > distinct(json!({})));
}

#[test]
fn ids_outside_the_vocabulary_are_refused_by_name() {
    let server = Server::start(&[]);
    for (name, value) in [
        ("logit_bias", json!({"4000000000": 1})),
        ("allowed_token_ids", json!([4_000_000_000_u32])),
        ("stop_token_ids", json!([4_000_000_000_u32])),
    ] {
        let refused = server.post(COMPLETIONS, &with(body(), json!({name: value})));
        assert_eq!(refused.status, 400);
        let error = refused.json()["error"].clone();
        assert_eq!(
            (&error["code"], &error["param"]),
            (&json!("invalid_value"), &json!(name))
        );
    }
}

/// Requests of one salt share a prefix; of two they do not.
#[test]
fn a_salt_keeps_the_cache_apart() {
    let server = Server::start(&[]);
    let cached = |salt: Value| {
        let body = json!({"prompt": "1+2=3 ".repeat(20), "max_tokens": 1, "cache_salt": salt});
        let answer = server.complete(body);
        answer["usage"]["prompt_tokens_details"]["cached_tokens"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(cached(json!("a")), 0);
    assert_eq!(cached(json!("b")), 0);
    assert_eq!(cached(json!(null)), 0);
    assert!(cached(json!("a")) > 0);
    assert!(cached(json!(null)) > 0);
}
