//! Each refusal: status, code, parameter, and OpenAI's shape.

use fixture::http::{self, Response};
use fixture::process::Server;
use serde_json::{Value, json};

const COMPLETIONS: &str = "/v1/completions";
const CHAT: &str = "/v1/chat/completions";

/// The error object, after its shape was checked.
fn error(response: Response) -> Value {
    assert_eq!(response.header("content-type"), Some("application/json"));
    let body = response.json();
    let error = &body["error"];
    assert_eq!(body.as_object().unwrap().len(), 1);
    let mut names: Vec<_> = error
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["code", "message", "param", "type"]);
    assert!(!error["message"].as_str().unwrap().is_empty());
    error.clone()
}

fn check(response: Response, status: u16, code: &str, param: Value) -> String {
    assert_eq!(response.status, status);
    let error = error(response);
    assert_eq!(
        (&error["code"], &error["param"]),
        (&json!(code), &param),
        "{error}"
    );
    error["message"].as_str().unwrap().to_owned()
}

#[test]
fn parameters_that_are_not_implemented_are_refused_by_name() {
    let server = Server::start(&[]);
    for (name, value) in [
        ("best_of", json!(3)),
        ("suffix", json!("x")),
        ("use_beam_search", json!(true)),
        ("prompt_logprobs", json!(1)),
        ("guided_regex", json!("x")),
        ("skip_special_tokens", json!(false)),
        ("response_format", json!({"type": "grammar"})),
    ] {
        let body = json!({"prompt": "a", name: value});
        check(
            server.post(COMPLETIONS, &body),
            400,
            "unsupported_parameter",
            json!(name),
        );
        let body = json!({"messages": [{"role": "user", "content": "a"}], name: value});
        check(
            server.post(CHAT, &body),
            400,
            "unsupported_parameter",
            json!(name),
        );
    }
}

#[test]
fn values_out_of_range_are_refused_by_name_on_both_routes() {
    let server = Server::start(&[]);
    for (name, value, words) in [
        ("temperature", json!(2.5), "must be from 0 to 2, not 2.5"),
        ("top_p", json!(0), "must be above 0 and at most 1, not 0"),
        ("min_p", json!(-1), "must be from 0 to 1, not -1"),
        ("top_k", json!(-2), "must be from -1 to 4294967295, not -2"),
        ("presence_penalty", json!(3), "must be from -2 to 2, not 3"),
        ("frequency_penalty", json!(3), "must be from -2 to 2, not 3"),
        (
            "repetition_penalty",
            json!(0),
            "must be above 0 and at most 2, not 0",
        ),
        ("n", json!(17), "must be from 1 to 16, not 17"),
        (
            "n",
            json!(4_294_967_296_u64),
            "must be from 1 to 16, not 4294967296",
        ),
        (
            "seed",
            json!(1e20),
            "must be from -9223372036854775808 to 18446744073709551615",
        ),
        (
            "stop",
            json!(["a", ""]),
            "must be from 1 to 1024 bytes, not 0",
        ),
        ("cache_salt", json!(""), "is empty"),
        ("allowed_token_ids", json!([]), "is empty"),
    ] {
        let prompt = json!({"prompt": "a", name: value});
        let messages = json!({"messages": [{"role": "user", "content": "a"}], name: value});
        for (path, body) in [(COMPLETIONS, prompt), (CHAT, messages)] {
            let response = server.post(path, &body);
            let message = check(response, 400, "invalid_value", json!(name));
            assert!(message.contains(words), "{message}");
        }
    }
}

#[test]
fn values_that_ask_for_nothing_are_taken() {
    let server = Server::start(&[]);
    server.complete(json!({
        "prompt": "a", "max_tokens": 1, "temperature": 0, "top_p": 1, "n": 1, "best_of": 1, "seed": 7,
        "stop": null, "presence_penalty": 0, "repetition_penalty": 1.0, "user": "u", "store": false,
        "metadata": {"a": "b"}, "logit_bias": {}, "model": "tiny-qwen3",
    }));
}

#[test]
fn bad_requests_name_the_parameter() {
    let server = Server::start(&[]);
    let vocabulary_end = json!([4_000_000_000_u32]);
    for (body, code, param) in [
        (json!({}), "missing_required_parameter", "prompt"),
        (json!({"prompt": ["a", 1]}), "invalid_type", "prompt.1"),
        (json!({"prompt": ["a", ""]}), "invalid_value", "prompt"),
        (json!({"prompt": vec!["a"; 257]}), "invalid_value", "prompt"),
        (json!({"prompt": ""}), "invalid_value", "prompt"),
        (json!({"prompt": vocabulary_end}), "invalid_value", "prompt"),
        (
            json!({"prompt": "a", "max_tokens": "5"}),
            "invalid_type",
            "max_tokens",
        ),
        (
            json!({"prompt": "a", "max_tokens": 0}),
            "invalid_value",
            "max_tokens",
        ),
        (
            json!({"prompt": "a", "min_tokens": 20}),
            "invalid_value",
            "min_tokens",
        ),
        (
            json!({"prompt": "a", "min_tokens": 1, "allowed_token_ids": [5], "stop_token_ids": [5]}),
            "invalid_value",
            "min_tokens",
        ),
        (
            json!({"prompt": "a", "logprobs": 21}),
            "invalid_value",
            "logprobs",
        ),
        (
            json!({"prompt": "a", "messages": []}),
            "unsupported_parameter",
            "messages",
        ),
        (
            json!({"prompt": "a", "temprature": 0}),
            "unknown_parameter",
            "temprature",
        ),
        (
            json!({"prompt": "a", "stream_options": {}}),
            "invalid_value",
            "stream_options",
        ),
    ] {
        check(server.post(COMPLETIONS, &body), 400, code, json!(param));
    }
    let message = check(
        server.post(COMPLETIONS, &json!({"prompt": "a", "max_token": 5})),
        400,
        "unknown_parameter",
        json!("max_token"),
    );
    assert!(message.ends_with("did you mean `max_tokens`?"), "{message}");
}

#[test]
fn another_model_is_not_found() {
    let server = Server::start(&["--served-model-name", "mine"]);
    for (path, mut body) in [
        (COMPLETIONS, json!({"prompt": "a"})),
        (
            CHAT,
            json!({"messages": [{"role": "user", "content": "a"}]}),
        ),
    ] {
        body["model"] = json!("gpt-4");
        check(
            server.post(path, &body),
            404,
            "model_not_found",
            json!("model"),
        );
        body["model"] = json!("mine");
        assert_eq!(server.ok(path, body).json()["model"], "mine");
    }
}

#[test]
fn a_prompt_that_does_not_fit_is_refused_with_the_numbers() {
    let server = Server::start(&["--max-context", "32"]);
    let ask = |length: usize, max_tokens: Value| {
        server.post(
            COMPLETIONS,
            &json!({"prompt": vec![1; length], "max_tokens": max_tokens, "ignore_eos": true}),
        )
    };
    let refused = |response, param| check(response, 400, "context_length_exceeded", json!(param));
    let message = refused(ask(30, json!(3)), "max_tokens");
    for part in [
        "this server's limit is 32 tokens",
        "needs 33",
        "30 in the prompt",
        "3 for the answer",
    ] {
        assert!(message.contains(part), "{part} is not in {message}");
    }
    refused(ask(1, json!(999_999)), "max_tokens");
    refused(ask(32, json!(null)), "prompt");
    refused(ask(40, json!(1)), "prompt");
    assert_eq!(ask(30, json!(2)).status, 200);
    // A text that is too long however it is cut is not tokenised at all.
    for (path, body) in [
        (COMPLETIONS, json!({"prompt": "a".repeat(4 << 20)})),
        (
            CHAT,
            json!({"messages": [{"role": "user", "content": "a".repeat(4 << 20)}]}),
        ),
    ] {
        let refused = server.post(path, &body);
        assert_eq!(refused.status, 400);
        let error = refused.json()["error"].clone();
        assert_eq!(error["code"], "context_length_exceeded");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.contains("32 tokens, and a text of 4194"),
            "{message}"
        );
    }
    // A default takes what is left.
    assert_eq!(ask(30, json!(null)).json()["usage"]["completion_tokens"], 2);
}

/// Each choice would show its prompt's anew: 9 kB of a request would be gigabytes.
#[test]
fn an_echo_with_too_many_log_probabilities_is_refused_with_the_numbers() {
    let server = Server::start(&[]);
    let body = |n: u32, logprobs: u32| json!({"prompt": vec![20; 3125], "n": n, "logprobs": logprobs, "echo": true, "max_tokens": 0});
    let refused = server.post(COMPLETIONS, &body(16, 20));
    let message = check(refused, 400, "invalid_value", json!("logprobs"));
    for number in ["1050000", "3125", "16", "1048576"] {
        assert!(message.contains(number), "{message}");
    }
    server.ok(COMPLETIONS, body(16, 0));
}

#[test]
fn bodies_that_are_no_json_object_are_refused() {
    let server = Server::start(&[]);
    let send = |content_type: &str, body: &str| {
        http::raw(
            server.address,
            &http::post_bytes(COMPLETIONS, content_type, body),
        )
    };
    let json = "application/json";
    let message = check(
        send(json, "{\"prompt\": }"),
        400,
        "invalid_json",
        Value::Null,
    );
    assert!(message.contains("line 1 column 12"), "{message}");
    check(send(json, ""), 400, "invalid_json", Value::Null);
    check(send(json, "[1]"), 400, "invalid_json", Value::Null);
    check(
        send("text/plain", "{}"),
        415,
        "unsupported_media_type",
        Value::Null,
    );
}

#[test]
fn a_body_over_the_limit_is_refused_by_its_length_and_by_its_size() {
    let server = Server::start(&[]);
    let head =
        format!("POST {COMPLETIONS} HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n");
    let announced = format!("{head}content-length: 9000000\r\n\r\n");
    check(
        http::raw(server.address, announced.as_bytes()),
        413,
        "body_too_large",
        Value::Null,
    );
    // One byte over, as one chunk: nothing is left unread when the answer comes.
    let size = (8 << 20) + 1;
    let mut chunked = format!("{head}transfer-encoding: chunked\r\n\r\n{size:x}\r\n").into_bytes();
    chunked.extend(vec![b' '; size]);
    check(
        http::raw(server.address, &chunked),
        413,
        "body_too_large",
        Value::Null,
    );
}

#[test]
fn routes_and_methods_are_refused_in_the_same_shape() {
    let server = Server::start(&[]);
    let message = check(server.get("/v1/nothing"), 404, "unknown_url", Value::Null);
    assert!(message.contains("/v1/completions"), "{message}");
    let response = server.get(COMPLETIONS);
    assert_eq!(response.header("allow"), Some("POST"));
    check(response, 405, "method_not_allowed", Value::Null);
    let response = server.get("/v1/models/%FF");
    check(response, 400, "invalid_value", json!("model"));
    check(
        server.post("/health", &json!({})),
        405,
        "method_not_allowed",
        Value::Null,
    );
}
