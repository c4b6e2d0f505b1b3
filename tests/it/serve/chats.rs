//! What a chat's template is given: variables, tools, roles, a message to go on with; and text as tokens.

use fixture::embedded;
use fixture::http;
use fixture::process::Server;
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;

/// In the form of Qwen3's: tools, thinking, calls and their results.
const TEMPLATE: &str = "\
{%- if tools %}{% for tool in tools %}[{{ tool | tojson }}]{% endfor %}{% endif %}
{%- for message in messages %}{{ message.role }}:{{ message.content }}
{%- for call in message.tool_calls or [] %}<{{ call.function.name }} {{ call.function.arguments.a }}>{% endfor %};
{%- endfor %}
{%- if add_generation_prompt %}assistant:{% if enable_thinking is defined and enable_thinking is false %}<no>{% endif %}{% endif %}";

fn server() -> (TempDir, Server) {
    let folder = embedded::copied();
    fs::write(folder.path().join("chat_template.jinja"), TEMPLATE).unwrap();
    let server = Server::start(&["--model", folder.path().to_str().unwrap()]);
    (folder, server)
}

/// The prompt that these parameters make.
fn prompt(server: &Server, body: &Value) -> String {
    let tokens = server.post("/tokenize", body).json()["tokens"].clone();
    let text = server
        .post("/detokenize", &json!({"tokens": tokens}))
        .json();
    text["prompt"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_template_is_given_what_a_chat_says() {
    let (_folder, server) = server();
    let check = |body: Value, expect: &str| {
        assert_eq!(prompt(&server, &body), expect, "{body}");
        // The same prompt is generated from.
        let mut chat = body;
        chat["max_tokens"] = json!(1);
        let count = server.post("/tokenize", &chat).json()["count"].clone();
        let answer = server.ok("/v1/chat/completions", chat);
        assert_eq!(answer.json()["usage"]["prompt_tokens"], count);
    };
    let user = json!({"role": "user", "content": "1+1"});
    check(json!({"messages": [user]}), "user:1+1;assistant:");
    let quiet = json!({"enable_thinking": false});
    check(
        json!({"messages": [user], "chat_template_kwargs": quiet}),
        "user:1+1;assistant:<no>",
    );
    let developer = json!({"role": "developer", "content": "be brief"});
    check(
        json!({"messages": [developer, user]}),
        "system:be brief;user:1+1;assistant:",
    );
    let begun = json!({"role": "assistant", "content": "it is"});
    check(
        json!({"messages": [user, begun], "continue_final_message": true}),
        "user:1+1;assistant:it is",
    );
    let tool = json!({"type": "function", "function": {"name": "add"}});
    let call = json!({"id": "c", "type": "function",
        "function": {"name": "add", "arguments": "{\"a\": 7}"}});
    let called = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let result = json!({"role": "tool", "content": "2", "tool_call_id": "c"});
    let text = prompt(
        &server,
        &json!({"messages": [user, called, result], "tools": [tool]}),
    );
    let rest = "user:1+1;assistant:<add 7>;tool:2;assistant:";
    assert!(text.starts_with('[') && text.ends_with(rest), "{text}");
    assert!(
        text.contains("\"name\":\"add\"") || text.contains("\"name\": \"add\""),
        "{text}"
    );
}

#[test]
fn text_and_tokens_are_turned_into_each_other() {
    let server = Server::start(&[]);
    let body = json!({"prompt": "1+1=é", "return_token_strs": true});
    let told = server.post("/tokenize", &body).json();
    let tokens = told["tokens"].as_array().unwrap();
    assert_eq!(told["count"], tokens.len());
    assert_eq!(told["token_strs"].as_array().unwrap().len(), tokens.len());
    let back = server
        .post("/detokenize", &json!({"tokens": tokens}))
        .json();
    assert_eq!(back["prompt"], "1+1=é");
    let special = server
        .post("/detokenize", &json!({"tokens": [1, 20, 2]}))
        .json();
    let special = special["prompt"].as_str().unwrap();
    assert!(
        special.starts_with("<|") && special.ends_with("|>"),
        "{special}"
    );
    for (path, body, param) in [
        ("/tokenize", json!({}), "prompt"),
        ("/tokenize", json!({"prompt": "a", "n": 1}), "n"),
        (
            "/tokenize",
            json!({"prompt": "a", "model": "other"}),
            "model",
        ),
        ("/detokenize", json!({"tokens": [448]}), "tokens"),
        ("/detokenize", json!({"tokens": "a"}), "tokens"),
    ] {
        let refused = server.post(path, &body);
        assert!(refused.status >= 400 && refused.status < 500);
        assert_eq!(refused.json()["error"]["param"], param, "{path} {body}");
    }
    assert!(server.get("/version").json()["version"].is_string());
}

#[test]
fn an_answer_has_its_requests_name() {
    let server = Server::start(&[]);
    let get = |header: &str| {
        let head =
            format!("GET /health HTTP/1.1\r\nhost: test\r\n{header}connection: close\r\n\r\n");
        let answer = http::raw(server.address, head.as_bytes());
        answer.header("x-request-id").unwrap().to_owned()
    };
    assert_eq!(get("x-request-id: mine\r\n"), "mine");
    let new = [
        get(""),
        get(""),
        get(&format!("x-request-id: {}\r\n", "x".repeat(200))),
    ];
    assert!(
        new.iter().all(|id| id.starts_with("req-")) && new[0] != new[1],
        "{new:?}"
    );
}
