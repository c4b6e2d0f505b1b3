//! Answers of a set form: JSON of a schema, calls of tools; and thoughts, which stand apart.

use fixture::embedded;
use fixture::http;
use fixture::process::Server;
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";

/// What a small model ends soon.
fn schema() -> Value {
    let digit = json!({"type": "integer", "minimum": 0, "maximum": 9});
    json!({
        "type": "object",
        "properties": {"a": digit, "b": {"enum": ["on", "off"]}, "c": {"type": "array", "items": digit, "maxItems": 3}},
        "required": ["a", "b", "c"],
        "additionalProperties": false,
    })
}

#[track_caller]
fn check_schema(text: &str) {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(value.as_object().unwrap().len(), 3, "{text}");
    assert!(
        value["a"].as_u64() < Some(10) && value["a"].is_u64(),
        "{text}"
    );
    assert!(
        ["on", "off"].contains(&value["b"].as_str().unwrap()),
        "{text}"
    );
    let items = value["c"].as_array().unwrap();
    assert!(
        items.len() <= 3 && items.iter().all(|item| item.as_u64() < Some(10)),
        "{text}"
    );
}

fn asked(further: Value) -> Value {
    let mut body = json!({
        "messages": [{"role": "user", "content": "12+30="}], "max_tokens": 200, "temperature": 0,
    });
    let members = further.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(members);
    body
}

fn form() -> Value {
    json!({"type": "json_schema", "json_schema": {"name": "n", "schema": schema()}})
}

/// The deltas of a stream, and its reason.
fn streamed(server: &Server, mut body: Value) -> (Vec<Value>, Value) {
    body["stream"] = true.into();
    let text = server.ok(CHAT, body).text();
    let events = text
        .split("\n\n")
        .filter_map(|event| event.strip_prefix("data: "));
    let events = events.filter(|event| *event != "[DONE]");
    let choices: Vec<Value> = events
        .map(|event| serde_json::from_str::<Value>(event).unwrap()["choices"][0].clone())
        .collect();
    let reason = choices.last().unwrap()["finish_reason"].clone();
    (
        choices
            .into_iter()
            .map(|choice| choice["delta"].clone())
            .collect(),
        reason,
    )
}

#[test]
fn json_of_a_schema_greedy_drawn_streamed_and_in_a_batch() {
    let server = Server::start(&[]);
    let plain = server.ok(CHAT, asked(json!({"max_tokens": 12}))).json()["choices"].clone();
    let answer = |further: Value| {
        let mut body = asked(further);
        body["response_format"] = form();
        let choice = server.ok(CHAT, body).json()["choices"][0].clone();
        assert_eq!(choice["finish_reason"], "stop");
        choice["message"]["content"].as_str().unwrap().to_owned()
    };
    let greedy = answer(json!({}));
    check_schema(&greedy);
    std::thread::scope(|scope| {
        // Its neighbour has no form, and answers as it does alone.
        let (address, body) = (server.address, asked(json!({"max_tokens": 12})));
        let neighbour = scope.spawn(move || http::post(address, CHAT, &body).json());
        for seed in 0..8 {
            check_schema(&answer(json!({"temperature": 1, "seed": seed})));
        }
        assert_eq!(neighbour.join().unwrap()["choices"], plain);
    });
    let (deltas, reason) = streamed(&server, asked(json!({"response_format": form()})));
    let texts = deltas.iter().filter_map(|delta| delta["content"].as_str());
    assert_eq!(
        (texts.collect::<String>(), reason),
        (greedy.clone(), json!("stop"))
    );
    let several = server.ok(
        CHAT,
        asked(json!({"n": 3, "temperature": 1, "response_format": form()})),
    );
    for choice in several.json()["choices"].as_array().unwrap() {
        check_schema(choice["message"]["content"].as_str().unwrap());
    }
    let completion =
        json!({"prompt": "1+1=", "max_tokens": 200, "temperature": 0, "response_format": form()});
    let completion = server.ok("/v1/completions", completion).json();
    check_schema(completion["choices"][0]["text"].as_str().unwrap());
}

#[test]
fn a_tool_that_is_wanted_is_called() {
    let server = Server::start(&[]);
    let tool = |name: &str| json!({"type": "function", "function": {"name": name, "parameters": schema()}});
    let tools = json!([tool("add"), tool("sub")]);
    let wanted = |choice: Value| asked(json!({"tools": tools, "tool_choice": choice}));
    let choice = server.ok(CHAT, wanted("required".into())).json()["choices"][0].clone();
    assert_eq!(
        (&choice["finish_reason"], &choice["message"]["content"]),
        (&json!("tool_calls"), &Value::Null)
    );
    let call = &choice["message"]["tool_calls"][0];
    assert!(
        ["add", "sub"].contains(&call["function"]["name"].as_str().unwrap()),
        "{call}"
    );
    check_schema(call["function"]["arguments"].as_str().unwrap());

    let named = json!({"type": "function", "function": {"name": "sub"}});
    let (deltas, reason) = streamed(&server, wanted(named));
    let calls: Vec<&Value> = deltas
        .iter()
        .filter_map(|delta| delta.get("tool_calls"))
        .collect();
    assert_eq!((calls.len(), reason), (1, json!("tool_calls")));
    assert_eq!(
        (&calls[0][0]["index"], &calls[0][0]["function"]["name"]),
        (&json!(0), &json!("sub"))
    );
    let texts: String = deltas
        .iter()
        .filter_map(|delta| delta["content"].as_str())
        .collect();
    assert_eq!(texts, "");
}

/// A template that begins a thought: the answer is one, until it ends.
#[test]
fn a_thought_is_no_content() {
    let folder = embedded::copied();
    let template = "{% for message in messages %}{{ message.content }}{% endfor %}{% if add_generation_prompt %}<think>\n{% endif %}";
    std::fs::write(folder.path().join("chat_template.jinja"), template).unwrap();
    let server = Server::start(&["--model", folder.path().to_str().unwrap()]);
    let body = asked(json!({"max_tokens": 8}));
    let message = server.ok(CHAT, body.clone()).json()["choices"][0]["message"].clone();
    let thought = message["reasoning_content"].as_str().unwrap().to_owned();
    assert_eq!(message["content"], "");
    assert!(!thought.is_empty());
    let (deltas, _) = streamed(&server, body);
    let texts = deltas
        .iter()
        .filter_map(|delta| delta["reasoning_content"].as_str());
    assert_eq!(texts.collect::<String>(), thought);
    // A set form has no thought before it.
    let formed = server
        .ok(CHAT, asked(json!({"response_format": form()})))
        .json();
    check_schema(formed["choices"][0]["message"]["content"].as_str().unwrap());
}

#[test]
fn a_form_that_is_none_is_refused() {
    let server = Server::start(&[]);
    let refusal = |further: Value| {
        let response = server.post(CHAT, &asked(further));
        assert_eq!(response.status, 400);
        response.json()["error"].clone()
    };
    let bad = json!({"type": "json_schema", "json_schema": {"schema": {"type": "thing"}}});
    let error = refusal(json!({"response_format": bad}));
    assert_eq!(
        (&error["code"], &error["param"]),
        (&json!("invalid_value"), &json!("response_format"))
    );
    let tool =
        json!({"type": "function", "function": {"name": "f", "parameters": {"type": "thing"}}});
    let error = refusal(json!({"tools": [tool], "tool_choice": "required"}));
    assert_eq!(error["param"], "tools");
}
