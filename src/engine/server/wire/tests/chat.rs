//! Bodies of chats: limits, log-probabilities, messages, tools.

use super::{chat, completion, refused};
use crate::PromptEnding as Ending;
use serde_json::{Value, json};

#[test]
fn the_two_names_of_a_chats_limit_must_agree() {
    let limit = |body: Value| chat(body).map(|request| request.common.max_tokens);
    assert_eq!(limit(json!({})), Ok(None));
    for body in [
        json!({"max_tokens": 5}),
        json!({"max_completion_tokens": 5}),
        json!({"max_tokens": 5, "max_completion_tokens": 5}),
    ] {
        assert_eq!(limit(body), Ok(Some(5)));
    }
    let body = json!({"max_tokens": 5, "max_completion_tokens": 6});
    refused(limit(body), "invalid_value", "max_completion_tokens");
}

#[test]
fn a_chats_top_logprobs_need_logprobs() {
    let logprobs = |body: Value| chat(body).map(|request| request.common.show.logprobs);
    assert_eq!(
        logprobs(json!({"logprobs": false, "top_logprobs": 0})),
        Ok(None)
    );
    assert_eq!(logprobs(json!({"logprobs": true})), Ok(Some(0)));
    assert_eq!(
        logprobs(json!({"logprobs": true, "top_logprobs": 3})),
        Ok(Some(3))
    );
    refused(
        logprobs(json!({"top_logprobs": 3})),
        "invalid_value",
        "top_logprobs",
    );
    let many = json!({"logprobs": true, "top_logprobs": 21});
    refused(logprobs(many), "invalid_value", "top_logprobs");
    refused(logprobs(json!({"logprobs": 3})), "invalid_type", "logprobs");
    refused(
        completion(json!({"logprobs": true})),
        "invalid_type",
        "logprobs",
    );
}

#[test]
fn content_is_a_string_or_text_parts() {
    let check = |content: Value, expect: &str| {
        // As a client sends an answer back.
        let message = json!({"role": "assistant", "content": content, "tool_calls": [], "refusal": null,
            "reasoning": null});
        let request = chat(json!({"messages": [message]})).unwrap();
        assert_eq!(request.conversation.messages[0]["content"], expect);
    };
    check(json!("hi"), "hi");
    let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    check(parts, "ab");
    check(json!([]), "");
}

#[test]
fn bad_messages_are_refused_by_their_path() {
    const MISSING: &str = "missing_required_parameter";
    let check = |message: Value, code: &str, param: &str| {
        let good = json!({"role": "user", "content": "hi"});
        let param = format!("messages.1{param}");
        refused(chat(json!({"messages": [good, message]})), code, &param);
    };
    check(json!("hi"), "invalid_type", "");
    check(json!(["user", "hi"]), "invalid_type", "");
    check(json!({"content": "hi"}), MISSING, ".role");
    check(json!({"role": "user"}), MISSING, ".content");
    check(
        json!({"role": "user", "content": null}),
        MISSING,
        ".content",
    );
    let role = |role: Value| json!({"role": role, "content": ""});
    check(role(json!(5)), "invalid_type", ".role");
    check(role(json!("robot")), "invalid_value", ".role");
    check(role(json!("function")), "invalid_value", ".role");
    let content = |content: Value| json!({"role": "user", "content": content});
    check(content(json!(5)), "invalid_type", ".content");
    check(content(json!(["hi"])), "invalid_type", ".content.0");
    check(
        content(json!([["text", "hi"]])),
        "invalid_type",
        ".content.0",
    );
    check(content(json!([{"text": "hi"}])), MISSING, ".content.0.type");
    check(
        content(json!([{"type": "text"}])),
        MISSING,
        ".content.0.text",
    );
    let number = json!([{"type": "text", "text": 5}]);
    check(content(number), "invalid_type", ".content.0.text");
    let image = json!([{"type": "image_url", "image_url": {"url": "x"}}]);
    check(content(image), "unsupported_parameter", ".content.0");
    let more = json!([{"type": "text", "text": "a", "x": 1}]);
    check(content(more), "unknown_parameter", ".content.0.x");
    let with = |name: &str| json!({"role": "user", "content": "", name: [1]});
    check(with("name"), "invalid_type", ".name");
    check(with("tool_calls"), "invalid_type", ".tool_calls.0");
    check(with("audio"), "unsupported_parameter", ".audio");
    check(with("nam"), "unknown_parameter", ".nam");
    refused(chat(json!({"messages": []})), "invalid_value", "messages");
}

/// An answer that is a call alone, as a client sends it back, and its result.
#[test]
fn calls_and_their_results_are_the_templates() {
    let call = json!({"id": "c", "type": "function", "index": 0,
        "function": {"name": "add", "arguments": "{\"a\": 1}"}});
    let messages = json!([
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": "1+1", "name": "me"},
        {"role": "assistant", "content": null, "reasoning_content": "so", "tool_calls": [call]},
        {"role": "tool", "content": "2", "tool_call_id": "c"},
    ]);
    let tool = json!({"type": "function", "function": {"name": "add", "parameters": {}}});
    let body = json!({"messages": messages, "tools": [tool], "tool_choice": "none",
        "chat_template_kwargs": {"enable_thinking": false}});
    let told = chat(body).unwrap().conversation;
    assert_eq!(told.tools, [tool]);
    assert_eq!(told.variables["enable_thinking"], false);
    assert_eq!(told.messages[1]["name"], "me");
    let answer = &told.messages[2];
    assert_eq!(
        (&answer["content"], &answer["reasoning_content"]),
        (&json!(""), &json!("so"))
    );
    let function = json!({"name": "add", "arguments": {"a": 1}});
    let expect = json!([{"id": "c", "type": "function", "function": function}]);
    assert_eq!(answer["tool_calls"], expect);
    assert_eq!(told.messages[3]["tool_call_id"], "c");
}

#[test]
fn what_no_chat_can_be_is_refused() {
    let check = |body: Value, code: &str, param: &str| refused(chat(body), code, param);
    let tool = json!({"type": "function", "function": {"name": "add"}});
    let named = json!({"type": "function", "function": {"name": "sub"}});
    for (tools, choice) in [
        (json!([]), json!("required")),
        (json!([tool]), named),
        (json!([tool]), json!({"type": "function"})),
        (json!([tool]), json!("any")),
    ] {
        let body = json!({"tools": tools, "tool_choice": choice});
        check(body, "invalid_value", "tool_choice");
    }
    let format = json!({"type": "json_object"});
    for (name, value) in [
        ("ignore_eos", json!(true)),
        ("min_tokens", json!(1)),
        ("allowed_token_ids", json!([3])),
    ] {
        check(
            json!({"response_format": format, name: value}),
            "invalid_value",
            name,
        );
    }
    let both = json!({"response_format": format, "tools": [tool], "tool_choice": "required"});
    check(both, "invalid_value", "response_format");
    let unnamed = json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}});
    check(unnamed, "invalid_value", "response_format.json_schema");
    let other = json!({"response_format": {"type": "grammar"}});
    check(other, "unsupported_parameter", "response_format");
    check(json!({"tools": [{}]}), "invalid_value", "tools.0");
    check(json!({"tools": {}}), "invalid_type", "tools");
    check(
        json!({"chat_template_kwargs": 5}),
        "invalid_type",
        "chat_template_kwargs",
    );
    let reserved = json!({"chat_template_kwargs": {"add_generation_prompt": false}});
    let path = "chat_template_kwargs.add_generation_prompt";
    check(reserved, "unsupported_parameter", path);
    let both = json!({"continue_final_message": true, "add_generation_prompt": true});
    check(both, "invalid_value", "continue_final_message");
    let ending = |body: Value| chat(body).unwrap().conversation.ending;
    assert_eq!(ending(json!({})), Ending::Answer);
    assert_eq!(
        ending(json!({"add_generation_prompt": false})),
        Ending::Message
    );
    assert_eq!(
        ending(json!({"continue_final_message": true})),
        Ending::Unfinished
    );
}
