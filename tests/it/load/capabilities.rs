//! Engines that lack what is usual, and clients that know the model's tokenizer: what goes over the wire.

use super::server::{Server, stream};
use super::{TOKENS, done, endpoint, goodbye, last, plain, run_on, steady, text, usage};
use client::{Endpoint, Tokenizer};
use fixture::repository;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use verdict::plan::{self, Selection};
use verdict::record::Input;

fn tokenizer() -> Arc<Tokenizer> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = manifest.join("gates/models/tiny-qwen3/tokenizer.json");
    Arc::new(Tokenizer::open(&path).unwrap())
}

#[tokio::test]
async fn a_length_that_cannot_be_forced_is_only_bounded() {
    let early = [text("a"), text("b"), last("stop"), usage(2), done()];
    let server = Server::start(move |_, _| stream(&early)).await;
    let free = Endpoint {
        forces_length: false,
        ..endpoint(server.address)
    };
    let outcome = run_on(&free, &steady(1, 0, 1)).await;
    let sample = &outcome.samples[0];
    assert_eq!((&sample.void, sample.tokens.completion), (&None, Some(2)));
    assert_eq!(sample.tokens.requested, None);
    let body = &server.received()[0].json;
    assert_eq!(body["max_tokens"], 64);
    assert_eq!(
        (&body["min_tokens"], &body["ignore_eos"]),
        (&Value::Null, &Value::Null)
    );
}

#[tokio::test]
async fn usage_is_not_asked_of_an_engine_that_sends_none() {
    let bare = [text("a b"), last("length"), done()];
    let server = Server::start(move |_, _| stream(&bare)).await;
    let silent = Endpoint {
        stream_usage: false,
        forces_length: false,
        tokenizer: Some(tokenizer()),
        ..endpoint(server.address)
    };
    let outcome = run_on(&silent, &steady(1, 0, 1)).await;
    let sample = &outcome.samples[0];
    assert_eq!(sample.void, None);
    assert!(sample.tokens.completion.is_some_and(|tokens| tokens > 0));
    assert_eq!(sample.tokens.completion, sample.tokens.by_tokenizer);
    assert_eq!(server.received()[0].json["stream_options"], Value::Null);
}

/// llama.cpp's server closes after each stream, and nothing in the answer says so.
#[tokio::test]
async fn where_connections_are_closed_each_request_has_its_own() {
    for (keep_alive, connections) in [(true, 1), (false, 4)] {
        let server = Server::start(|_, _| stream(&plain())).await;
        let endpoint = Endpoint {
            keep_alive,
            ..endpoint(server.address)
        };
        let outcome = run_on(&endpoint, &steady(4, 0, 1)).await;
        assert!(outcome.samples.iter().all(|sample| sample.void.is_none()));
        let received = server.received();
        let used: BTreeSet<usize> = received.iter().map(|request| request.connection).collect();
        assert_eq!(used.len(), connections, "keep_alive = {keep_alive}");
    }
}

#[tokio::test]
async fn text_prompts_have_exactly_the_length_that_was_asked_for() {
    // A letter is a token of this tokenizer, as usage says.
    let letters = [vec![text("a"); TOKENS], goodbye()].concat();
    let server = Server::start(move |_, _| stream(&letters)).await;
    let exact = Endpoint {
        prompt_ids: None,
        tokenizer: Some(tokenizer()),
        ..endpoint(server.address)
    };
    let outcome = run_on(&exact, &steady(5, 0, 1)).await;
    assert!(outcome.samples.iter().all(|sample| sample.void.is_none()));
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = manifest.join("gates/models/tiny-qwen3/tokenizer.json");
    let reference = tokenizers::Tokenizer::from_file(file).unwrap();
    for request in server.received() {
        let prompt = request.json["prompt"].as_str().unwrap();
        let encoded = reference.encode(prompt, false).unwrap();
        assert_eq!(encoded.len(), 8, "{prompt}");
    }
}

/// A Qwen3 is served as a chat that may think: it is gated so too.
#[tokio::test]
async fn a_configured_engine_is_asked_as_a_chat_with_its_own_headers_and_keys() {
    let config = fs::read_to_string(repository().join("gates/gate.toml")).unwrap();
    let ids = "prompt_ids = { from = 3, to = 384 }";
    assert!(config.contains(ids), "{config}");
    let config = config.replace(
        ids,
        "chat = true\nheaders = { Authorization = \"Bearer none\", x-team = \"red\" }\n\
         request = { chat_template_kwargs = { enable_thinking = false, modes = [\"a\", 1.5] } }",
    );
    let tpot = fs::read_to_string(repository().join("gates/tpot.toml")).unwrap();
    let inputs = [("gates/gate.toml", config), ("gates/tpot.toml", tpot)];
    let inputs = inputs.map(|(path, text)| Input {
        path: path.to_owned(),
        text,
    });
    let selection = Selection {
        profile: "quick".to_owned(),
        gates: vec!["tpot".to_owned()],
    };
    let plan = plan::from_inputs(&inputs, &selection).unwrap();
    let role = delta(json!({"role": "assistant"}));
    let answer = [
        vec![role],
        vec![delta(json!({"content": "a"})); TOKENS],
        goodbye(),
    ];
    let server = Server::start(move |_, _| stream(&answer.concat())).await;
    let endpoint = Endpoint::new(server.address, &plan.engine, None);
    let outcome = run_on(&endpoint, &steady(1, 0, 1)).await;
    assert_eq!(outcome.samples[0].void, None);
    let asked = &server.received()[0];
    assert_eq!(asked.path, "/v1/chat/completions");
    for header in ["authorization: Bearer none\r\n", "x-team: red\r\n"] {
        assert!(asked.head.contains(header), "{}", asked.head);
    }
    let body = &asked.json;
    assert_eq!(body["messages"][0]["role"], "user");
    assert_eq!(
        body["chat_template_kwargs"],
        json!({"enable_thinking": false, "modes": ["a", 1.5]})
    );
}

fn delta(delta: Value) -> String {
    let event = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    format!("data: {event}\n\n")
}
