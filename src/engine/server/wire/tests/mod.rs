//! Tests of request bodies: what is read, and refusals by code and parameter.

mod chat;

use super::chat::ChatRequest;
use super::completions::{CompletionRequest, PromptInput};
use super::stops::Stops;
use super::{ApiError, Delivery, StreamUsage};
use crate::request::{CacheUse, Sampling};
use serde_json::{Map, Value, json};

fn members(body: Value) -> Map<String, Value> {
    let Value::Object(members) = body else {
        panic!("an object is needed");
    };
    members
}

/// A completion of these parameters; its prompt need not be among them.
fn completion(mut body: Value) -> Result<CompletionRequest, ApiError> {
    if body.get("prompt").is_none() {
        body["prompt"] = json!("a");
    }
    CompletionRequest::read(members(body))
}

/// A chat of these parameters; its messages need not be among them.
fn chat(mut body: Value) -> Result<ChatRequest, ApiError> {
    if body.get("messages").is_none() {
        body["messages"] = json!([{"role": "user", "content": "hi"}]);
    }
    ChatRequest::read(members(body))
}

#[track_caller]
fn refused<T: std::fmt::Debug>(read: Result<T, ApiError>, code: &str, param: &str) -> String {
    let error = read.unwrap_err();
    let found = (error.code, error.param.as_deref());
    assert_eq!(found, (code, Some(param)), "{}", error.message);
    error.message
}

/// Refused with this code by its name, on both routes.
#[track_caller]
fn refused_by_both(name: &str, value: &Value, code: &str) -> String {
    refused(chat(json!({name: value})), code, name);
    refused(completion(json!({name: value})), code, name)
}

#[test]
fn wrong_types_name_the_parameter_and_the_value() {
    for (name, value, message) in [
        ("n", json!("5"), "a number, not string \"5\""),
        ("n", json!(1.5), "a whole number, not floating point `1.5`"),
        ("n", json!([1]), "a number, not an array"),
        ("n", json!(true), "a number, not boolean `true`"),
        ("temperature", json!({}), "a number, not an object"),
        ("stream", json!(1), "a boolean, not integer `1`"),
        ("cache_salt", json!(1), "a string, not integer `1`"),
        ("stream_options", json!([true]), "an object, not an array"),
        ("logit_bias", json!([1]), "an object, not an array"),
        ("stop_token_ids", json!(5), "an array, not integer `5`"),
        (
            "allowed_token_ids",
            json!([5, -1]),
            "an array of token ids, not one with the number -1",
        ),
        (
            "stop",
            json!(["a", 5]),
            "a string or an array of strings, not what was sent",
        ),
        (
            "include_stop_str_in_output",
            json!(1),
            "a boolean, not integer `1`",
        ),
    ] {
        let found = refused_by_both(name, &value, "invalid_type");
        assert_eq!(found, format!("`{name}` must be {message}"));
    }
    let long = refused_by_both("n", &json!("x".repeat(1 << 20)), "invalid_type");
    assert!(long.len() < 200, "{}", long.len());
}

#[test]
fn numbers_hold_their_ends_and_nothing_beyond() {
    let check = |name: &str, good: [&str; 2], bad: &[&str], words: &str| {
        let body =
            |number: &str| serde_json::from_str(&format!("{{\"{name}\": {number}}}")).unwrap();
        for number in good {
            assert!(completion(body(number)).is_ok(), "{name} = {number}");
        }
        for number in bad {
            let message = refused(completion(body(number)), "invalid_value", name);
            let expect = format!("`{name}` must be {words}, not ");
            assert!(message.starts_with(&expect), "{message}");
        }
    };
    check("temperature", ["0", "2"], &["-0.1", "2.1"], "from 0 to 2");
    check(
        "top_p",
        ["0.1", "1"],
        &["0", "1.1"],
        "above 0 and at most 1",
    );
    check("min_p", ["0", "1"], &["-0.1", "1.1"], "from 0 to 1");
    let words = "above 0 and at most 2";
    check(
        "repetition_penalty",
        ["0.1", "2"],
        &["0", "-1.5", "2.1"],
        words,
    );
    for name in ["presence_penalty", "frequency_penalty"] {
        check(name, ["-2", "2"], &["-2.1", "2.1"], "from -2 to 2");
    }
    check(
        "top_k",
        ["-1", "4294967295"],
        &["-2", "4294967296"],
        "from -1 to 4294967295",
    );
    // The last two: one more than 64 bits hold, at both ends.
    let bad = [
        "-1",
        "0",
        "17",
        "18446744073709551616",
        "-9223372036854775809",
    ];
    check("n", ["1", "16"], &bad, "from 1 to 16");
    let words = "from -9223372036854775808 to 18446744073709551615";
    let ends = ["-9223372036854775808", "18446744073709551615"];
    check("seed", ends, &bad[3..], words);
    check("logprobs", ["0", "20"], &["21"], "from 0 to 20");
}

#[test]
fn unknown_names_are_refused_with_the_nearest() {
    let check = |name: &str, expect: &str| {
        let message = refused_by_both(name, &json!(null), "unknown_parameter");
        assert_eq!(
            message,
            format!("`{name}` is not a parameter of this API{expect}")
        );
    };
    check("max_token", "; did you mean `max_tokens`?");
    check("temprature", "; did you mean `temperature`?");
    check("sufix", "; did you mean `suffix`?");
    check("zebra", "");
    check("a`b, expected `c`", "");
    let body = json!({"stream": true, "stream_options": {"include_usages": true}});
    let param = "stream_options.include_usages";
    let message = refused(completion(body), "unknown_parameter", param);
    assert!(
        message.ends_with("did you mean `include_usage`?"),
        "{message}"
    );
    let error = completion(json!({"max_tokens".repeat(100_000): 1})).unwrap_err();
    assert!(error.message.ends_with("…` is not a parameter of this API"));
    assert!(error.message.len() < 200 && error.param.unwrap().len() < 100);
}

#[test]
fn parameters_of_the_other_route_are_told_apart_from_unknown_ones() {
    for name in [
        "messages",
        "top_logprobs",
        "max_completion_tokens",
        "add_generation_prompt",
    ] {
        let message = refused(completion(json!({name: []})), "unsupported_parameter", name);
        assert_eq!(message, format!("`{name}` belongs to /v1/chat/completions"));
    }
    for name in ["prompt", "echo"] {
        let message = refused(chat(json!({name: 1})), "unsupported_parameter", name);
        assert_eq!(message, format!("`{name}` belongs to /v1/completions"));
    }
}

#[test]
fn null_is_absent() {
    let body =
        json!({"stream": null, "n": null, "stop": null, "logit_bias": null, "logprobs": null});
    assert_eq!(completion(body), completion(json!({})));
    refused(
        completion(json!({"prompt": null})),
        "missing_required_parameter",
        "prompt",
    );
    refused(
        chat(json!({"messages": null})),
        "missing_required_parameter",
        "messages",
    );
}

#[test]
fn what_is_left_out_is_the_models_own() {
    let model = Sampling {
        temperature: 0.5,
        top_k: 20,
        top_p: 0.75,
        ..Sampling::default()
    };
    let sampling = |body: Value, model: &Sampling| {
        completion(body)
            .unwrap()
            .common
            .parameters
            .sampling(model, 1000)
            .unwrap()
    };
    assert_eq!(sampling(json!({}), &model), model);
    assert_eq!(sampling(json!({"temperature": null}), &model), model);
    let sent = json!({"temperature": 0, "top_k": -1, "top_p": 1});
    assert_eq!(sampling(sent, &model), Sampling::default());
    let all = json!({"temperature": 1.5, "top_p": 0.5, "top_k": 7, "min_p": 0.25, "presence_penalty": -2,
        "frequency_penalty": 2, "repetition_penalty": 1.25, "logit_bias": {"10": -100, "9": 0.5},
        "allowed_token_ids": [10, 9, 10]});
    let expect = Sampling {
        temperature: 1.5,
        top_k: 7,
        top_p: 0.5,
        min_p: 0.25,
        repetition_penalty: 1.25,
        presence_penalty: -2.0,
        frequency_penalty: 2.0,
        bias: vec![(9, 0.5), (10, -100.0)],
        allowed: vec![9, 10],
        seed: 0,
    };
    assert_eq!(sampling(all, &model), expect);
}

#[test]
fn bad_biases_and_ids_are_refused() {
    let check = |bias: Value, code: &str, param: &str| {
        refused(completion(json!({"logit_bias": bias})), code, param);
    };
    check(json!({"a": 1}), "invalid_value", "logit_bias");
    check(json!({"5": 1, "05": 1}), "invalid_value", "logit_bias");
    check(json!({"5": "1"}), "invalid_type", "logit_bias.5");
    check(json!({"5": 101}), "invalid_value", "logit_bias.5");
    refused_by_both("allowed_token_ids", &json!([]), "invalid_value");
    for (name, value) in [
        ("logit_bias", json!({"10": 1})),
        ("allowed_token_ids", json!([9, 10])),
    ] {
        let sent = completion(json!({name: value})).unwrap().common.parameters;
        assert!(sent.sampling(&Sampling::default(), 11).is_ok());
        let sampling = sent.sampling(&Sampling::default(), 10);
        let message = refused(sampling, "invalid_value", name);
        assert!(message.contains("from 0 to 9"), "{message}");
    }
}

#[test]
fn a_seed_is_any_integer_of_64_bits_and_minus_one_is_none() {
    let check = |value: Value, expect: Option<u64>| {
        let request = completion(json!({"seed": value})).unwrap();
        assert_eq!(request.common.parameters.seed(), expect);
    };
    check(json!(null), None);
    check(json!(-1), None);
    check(json!(0), Some(0));
    check(json!(u64::MAX), Some(u64::MAX));
    check(json!(-2), Some(u64::MAX - 1));
    refused_by_both("seed", &json!(1.5), "invalid_type");
}

#[test]
fn stops_are_texts_and_ids() {
    let check = |value: Value, expect: &[&str]| {
        let request = completion(json!({"stop": value})).unwrap();
        assert_eq!(request.common.stops.texts, expect);
    };
    check(json!([]), &[]);
    check(json!("a"), &["a"]);
    check(json!(["a", "\n"]), &["a", "\n"]);
    check(json!(vec!["a"; 16]), &["a"; 16]);
    check(json!("é".repeat(512)), &["é".repeat(512).as_str()]);
    let body = json!({"stop_token_ids": [7, 5, 7, 0], "include_stop_str_in_output": true});
    let expect = Stops {
        texts: Vec::new(),
        ids: vec![0, 5, 7],
        shown: true,
    };
    assert_eq!(completion(body).unwrap().common.stops, expect);
    for value in [
        json!(""),
        json!(["a", ""]),
        json!(vec!["a"; 17]),
        json!("a".repeat(1025)),
    ] {
        refused_by_both("stop", &value, "invalid_value");
    }
    let ids = |count: u32| json!((0..count).collect::<Vec<u32>>());
    assert!(completion(json!({"stop_token_ids": ids(4096)})).is_ok());
    refused_by_both("stop_token_ids", &ids(4097), "invalid_value");
    refused_by_both("stop_token_ids", &json!(["a"]), "invalid_type");
}

#[test]
fn stream_options_decide_where_usage_stands() {
    let check = |options: Value, expect: StreamUsage| {
        let request = completion(json!({"stream": true, "stream_options": options})).unwrap();
        assert_eq!(request.common.delivery, Delivery::Stream(expect));
    };
    check(json!(null), StreamUsage::Never);
    check(json!({}), StreamUsage::Never);
    check(json!({"include_usage": false}), StreamUsage::Never);
    check(
        json!({"include_usage": true, "include_obfuscation": false}),
        StreamUsage::Last,
    );
    let each = json!({"include_usage": true, "continuous_usage_stats": true});
    check(each, StreamUsage::Each);
    assert_eq!(
        completion(json!({})).unwrap().common.delivery,
        Delivery::Whole
    );
    let check = |body: Value, code: &str, param: &str| refused(completion(body), code, param);
    let unused = json!({"stream_options": {"include_usage": true}});
    check(unused, "invalid_value", "stream_options");
    for (name, value, code) in [
        ("continuous_usage_stats", json!(true), "invalid_value"),
        ("include_obfuscation", json!(true), "unsupported_parameter"),
        ("include_usage", json!(1), "invalid_type"),
    ] {
        let body = json!({"stream": true, "stream_options": {name: value}});
        check(body, code, &format!("stream_options.{name}"));
    }
}

#[test]
fn best_of_is_the_equal_of_n() {
    for (body, n) in [
        (json!({}), 1),
        (json!({"n": 16, "best_of": 16}), 16),
        (json!({"best_of": 1}), 1),
    ] {
        assert_eq!(completion(body).unwrap().common.n, n);
    }
    for body in [json!({"n": 2, "best_of": 3}), json!({"best_of": 2})] {
        refused(completion(body), "unsupported_parameter", "best_of");
    }
}

#[test]
fn the_cache_is_shared_salted_or_off() {
    let check = |body: Value, expect: CacheUse| {
        assert_eq!(completion(body).unwrap().common.cache, expect);
    };
    check(json!({}), CacheUse::Shared);
    check(json!({"cache_prompt": false}), CacheUse::Off);
    check(
        json!({"cache_prompt": false, "cache_salt": "x"}),
        CacheUse::Off,
    );
    let longest = "x".repeat(256);
    check(
        json!({"cache_salt": longest}),
        CacheUse::Salted(longest.clone()),
    );
    for salt in [String::new(), longest + "x"] {
        refused_by_both("cache_salt", &json!(salt), "invalid_value");
    }
}

#[test]
fn a_prompt_has_four_forms() {
    let check = |prompt: Value, expect: &[PromptInput]| {
        assert_eq!(
            completion(json!({"prompt": prompt})).unwrap().prompts,
            expect
        );
    };
    let text = |text: &str| PromptInput::Text(text.to_owned());
    let tokens = |ids: &[u32]| PromptInput::Tokens(ids.to_vec());
    check(json!("a"), &[text("a")]);
    check(json!(["a"]), &[text("a")]);
    check(json!(["a", "b"]), &[text("a"), text("b")]);
    check(json!([1, 2]), &[tokens(&[1, 2])]);
    check(json!([[1, 2]]), &[tokens(&[1, 2])]);
    check(json!([[1], [2]]), &[tokens(&[1]), tokens(&[2])]);
    check(json!([[1], "a"]), &[tokens(&[1]), text("a")]);
    let check = |prompt: Value, code: &str, param: &str| {
        refused(completion(json!({"prompt": prompt})), code, param);
    };
    check(json!([]), "invalid_value", "prompt");
    check(json!(["a", 1]), "invalid_type", "prompt.1");
    check(json!([["a"]]), "invalid_type", "prompt.0");
    check(json!([[1], [[2]]]), "invalid_type", "prompt.1");
    for prompt in [json!([1, "a"]), json!([-1]), json!([1.5]), json!({})] {
        check(prompt, "invalid_type", "prompt");
    }
}

#[test]
fn prompts_times_n_have_a_limit() {
    let body = |prompts, n| json!({"prompt": vec!["a"; prompts], "n": n});
    assert!(completion(body(256, 1)).is_ok());
    assert!(completion(body(16, 16)).is_ok());
    refused(completion(body(257, 1)), "invalid_value", "prompt");
    refused(completion(body(17, 16)), "invalid_value", "prompt");
}

#[test]
fn nothing_to_generate_needs_echo() {
    refused(
        completion(json!({"max_tokens": 0})),
        "invalid_value",
        "max_tokens",
    );
    assert!(
        completion(json!({"max_tokens": 0, "echo": true}))
            .unwrap()
            .echo
    );
    refused(
        chat(json!({"max_tokens": 0})),
        "invalid_value",
        "max_tokens",
    );
}
