//! Log-probabilities in both of OpenAI's forms.

use fixture::process::Server;
use serde_json::{Value, json};

const COMPLETIONS: &str = "/v1/completions";
const CHAT: &str = "/v1/chat/completions";

fn array(value: &Value) -> &Vec<Value> {
    value
        .as_array()
        .unwrap_or_else(|| panic!("{value} is no array"))
}

fn ask(server: &Server, more: Value) -> Value {
    let mut body = json!({"prompt": "12+34=", "max_tokens": 6, "ignore_eos": true});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    server.complete(body)
}

/// Arrays of one length; each chosen token is in its top and, greedily chosen, the best of it.
fn check_arrays(logprobs: &Value, length: usize, top: usize) {
    for name in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        assert_eq!(array(&logprobs[name]).len(), length, "{name}");
    }
    for place in 0..length {
        let chosen = logprobs["token_logprobs"][place].as_f64().unwrap();
        assert!(chosen <= 0.0);
        let best = logprobs["top_logprobs"][place].as_object().unwrap();
        assert!((1..=top.max(1)).contains(&best.len()), "{best:?}");
        let greatest = best
            .values()
            .map(|value| value.as_f64().unwrap())
            .fold(f64::MIN, f64::max);
        assert_eq!(greatest.to_bits(), chosen.to_bits());
    }
}

#[test]
fn completions_have_parallel_arrays() {
    let server = Server::start(&[]);
    for top in [0, 3] {
        let answer = ask(&server, json!({"logprobs": top}));
        check_arrays(&answer["choices"][0]["logprobs"], 6, top);
    }
    assert!(ask(&server, json!({}))["choices"][0]["logprobs"].is_null());
}

#[test]
fn a_stream_has_them_token_by_token() {
    let server = Server::start(&[]);
    let whole = ask(&server, json!({"logprobs": 3}));
    let body = json!({"prompt": "12+34=", "max_tokens": 6, "ignore_eos": true, "logprobs": 3});
    let mut events = server.stream(COMPLETIONS, body);
    // The finish chunk has no token and so, as in chat, null.
    assert!(events.pop().unwrap()["choices"][0]["logprobs"].is_null());
    for name in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        let pieces = events
            .iter()
            .flat_map(|event| array(&event["choices"][0]["logprobs"][name]).clone());
        assert_eq!(
            json!(pieces.collect::<Vec<_>>()),
            whole["choices"][0]["logprobs"][name],
            "{name}"
        );
    }
}

#[test]
fn tokens_can_be_named_by_id() {
    let server = Server::start(&[]);
    let answer = ask(
        &server,
        json!({"logprobs": 2, "return_tokens_as_token_ids": true, "return_token_ids": true}),
    );
    let choice = &answer["choices"][0];
    for (name, id) in array(&choice["logprobs"]["tokens"])
        .iter()
        .zip(array(&choice["token_ids"]))
    {
        assert_eq!(name.as_str(), Some(format!("token_id:{id}").as_str()));
    }
}

#[test]
fn an_echoed_prompt_is_scored_too() {
    let server = Server::start(&[]);
    let scored = ask(
        &server,
        json!({"echo": true, "logprobs": 2, "max_tokens": 0, "return_token_ids": true}),
    );
    let choice = &scored["choices"][0];
    let logprobs = &choice["logprobs"];
    let prompt = array(&choice["prompt_token_ids"]).len();
    assert!(prompt > 1);
    assert_eq!(array(&logprobs["tokens"]).len(), prompt);
    assert_eq!(logprobs["token_logprobs"][0], Value::Null);
    assert_eq!(logprobs["top_logprobs"][0], Value::Null);
    assert!(
        array(&logprobs["token_logprobs"])[1..]
            .iter()
            .all(|value| value.as_f64().unwrap() <= 0.0)
    );
    let tokens: String = array(&logprobs["tokens"])
        .iter()
        .map(|token| token.as_str().unwrap())
        .collect();
    assert_eq!(tokens, "12+34=");
    assert_eq!(
        logprobs["text_offset"][1],
        array(&logprobs["tokens"])[0].as_str().unwrap().len()
    );
}

/// Offsets are places in the text that is shown: with the special tokens where the prompt came as text,
/// without them where it came as ids.
#[test]
fn offsets_of_an_echoed_prompt_count_the_special_tokens_that_are_shown() {
    let server = Server::start(&[]);
    let more = json!({"echo": true, "logprobs": 0, "max_tokens": 0, "return_token_ids": true});
    let check = |prompt: Value, text: &str, skipped: &str| {
        let mut more = more.clone();
        more["prompt"] = prompt;
        let choice = ask(&server, more)["choices"][0].clone();
        let shown = choice["text"].as_str().unwrap();
        assert!(shown.starts_with(text), "{shown}");
        let logprobs = &choice["logprobs"];
        let mut place = 0;
        let offsets = array(&logprobs["text_offset"]).iter();
        for (token, offset) in array(&logprobs["tokens"]).iter().zip(offsets) {
            let token = token.as_str().unwrap();
            assert_eq!(*offset, place, "{token:?} in {shown:?}");
            if token != skipped {
                assert!(shown[place..].starts_with(token), "{token:?} in {shown:?}");
                place += token.len();
            }
        }
        choice["prompt_token_ids"].clone()
    };
    let text = "<|im_start|>ab cd";
    let ids = check(json!(text), text, "");
    check(ids, "ab cd", "<|im_start|>");
}

/// The network sees one character where the text has two.
#[test]
fn offsets_of_an_echoed_prompt_are_places_in_the_text_as_it_came() {
    let server = Server::start(&[]);
    let text = "ae\u{301}<|im_end|>b";
    let more = json!({"prompt": text, "echo": true, "logprobs": 0, "max_tokens": 1});
    let choice = ask(&server, more)["choices"][0].clone();
    assert!(choice["text"].as_str().unwrap().starts_with(text));
    let logprobs = &choice["logprobs"];
    let place = |wanted: &str| {
        let at = array(&logprobs["tokens"])
            .iter()
            .position(|token| token == wanted);
        logprobs["text_offset"][at.unwrap()].clone()
    };
    assert_eq!((place("<|im_end|>"), place("b")), (json!(3), json!(13)));
    assert_eq!(array(&logprobs["text_offset"]).last(), Some(&json!(14)));
}

/// Teacher forcing gives what generation gave: the prompt and its own greedy answer, scored in one go.
#[test]
fn a_forced_answer_scores_as_the_generated_one() {
    let server = Server::start(&[]);
    let generated = ask(&server, json!({"logprobs": 1, "return_token_ids": true}));
    let choice = &generated["choices"][0];
    let mut ids = array(&choice["prompt_token_ids"]).clone();
    ids.extend(array(&choice["token_ids"]).clone());
    let forced =
        server.complete(json!({"prompt": ids, "max_tokens": 0, "echo": true, "logprobs": 1}));
    let forced = array(&forced["choices"][0]["logprobs"]["token_logprobs"]).clone();
    let generated = array(&choice["logprobs"]["token_logprobs"]);
    assert_eq!(generated.len(), 6);
    for (one, other) in generated.iter().rev().zip(forced.iter().rev()) {
        let (one, other) = (one.as_f64().unwrap(), other.as_f64().unwrap());
        // Prefill and decode sum in different orders, in bf16's reach.
        assert!(
            (one - other).abs() < 0.05,
            "{one} generated, {other} forced"
        );
    }
}

#[test]
fn chat_has_one_object_a_token() {
    let server = Server::start(&[]);
    let body = json!({"messages": [{"role": "user", "content": "12+34="}], "max_tokens": 6,
        "ignore_eos": true, "logprobs": true, "top_logprobs": 2});
    let whole = server.ok(CHAT, body.clone()).json();
    let content = array(&whole["choices"][0]["logprobs"]["content"]).clone();
    assert_eq!(content.len(), 6);
    for token in &content {
        let top = array(&token["top_logprobs"]);
        assert_eq!(top.len(), 2);
        assert_eq!(
            (&top[0]["token"], &top[0]["logprob"]),
            (&token["token"], &token["logprob"])
        );
        let bytes: Vec<Value> = token["token"]
            .as_str()
            .unwrap()
            .bytes()
            .map(Value::from)
            .collect();
        assert_eq!(token["bytes"], json!(bytes));
    }
    let events = server.stream(CHAT, body);
    let streamed = events
        .iter()
        .filter_map(|event| event["choices"][0]["logprobs"]["content"].as_array());
    assert_eq!(streamed.flatten().cloned().collect::<Vec<_>>(), content);
}
