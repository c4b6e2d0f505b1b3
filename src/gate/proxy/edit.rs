//! Changes to the JSON of an answer, whole or one event of it, by the names of OpenAI's API.
//!
//! Functions on [`Value`]. Refuses to know: streams, time, which answer is to be changed.

use serde_json::{Map, Value};

/// Tokens that an event carries: as many as it has ids or log-probabilities, else 1 for a text. 0 where it
/// shows nothing, or ends a choice.
pub fn tokens(event: &Value) -> usize {
    let Some(choice) = only_choice(event) else {
        return 0;
    };
    if choice.get("finish_reason").is_some_and(|it| !it.is_null()) {
        return 0;
    }
    let listed = [&choice["token_ids"], &choice["logprobs"]["tokens"]];
    let listed = listed.into_iter().filter_map(Value::as_array).map(Vec::len);
    let has_text = text_of(choice).is_some_and(|text| !text.is_empty());
    listed.max().unwrap_or(0).max(usize::from(has_text))
}

/// Takes every text and id from the choices, and the output's count from the usage.
pub fn empty(answer: &mut Value) {
    for choice in choices(answer) {
        if let Some(text) = text_mut(choice) {
            text.clear();
        }
        for ids in ["token_ids", "logprobs"] {
            if let Some(ids) = choice.get_mut(ids) {
                *ids = Value::Null;
            }
        }
    }
    if let Some(usage) = usage(answer) {
        let prompt = usage.get("prompt_tokens").cloned();
        usage.insert("completion_tokens".into(), 0.into());
        usage.insert("total_tokens".into(), prompt.unwrap_or(0.into()));
    }
}

/// Counts so many output tokens more than there are, where any are counted.
pub fn add_usage(answer: &mut Value, more: u32) {
    let Some(usage) = usage(answer) else { return };
    if usage.get("completion_tokens").and_then(Value::as_u64) == Some(0) {
        return;
    }
    for name in ["completion_tokens", "total_tokens"] {
        if let Some(count) = usage.get(name).and_then(Value::as_u64) {
            usage.insert(name.into(), (count + u64::from(more)).into());
        }
    }
}

/// Puts another token in the place of each generated one that `is_wrong` says is due; it is asked once for each.
pub fn replace_tokens(answer: &mut Value, mut is_wrong: impl FnMut() -> bool) {
    let counted = answer["usage"]["completion_tokens"].as_u64();
    let is_event = answer["object"]
        .as_str()
        .is_none_or(|it| it.ends_with(".chunk"));
    let counted = counted.filter(|_| !is_event);
    for choice in choices(answer) {
        let listed = choice["logprobs"]["tokens"].as_array().map(Vec::len);
        match listed {
            Some(listed) => {
                let generated = counted.map_or(listed, |count| listed.min(count as usize));
                replace_listed(choice, listed - generated, &mut is_wrong);
            }
            None => replace_unlisted(choice, counted.unwrap_or(1), &mut is_wrong),
        }
    }
}

/// The tokens stand in the log-probabilities: each wrong one becomes the best of its alternatives.
fn replace_listed(choice: &mut Value, from: usize, is_wrong: &mut impl FnMut() -> bool) {
    let listed = |choice: &Value| -> Vec<String> {
        let tokens = choice["logprobs"]["tokens"].as_array();
        let tokens = tokens.into_iter().flatten();
        tokens
            .map(|token| token.as_str().unwrap_or_default().to_owned())
            .collect()
    };
    let before = listed(choice);
    for at in from..before.len() {
        if !is_wrong() {
            continue;
        }
        let logprobs = &mut choice["logprobs"];
        let best = best_other(&logprobs["top_logprobs"][at], &before[at]);
        let (token, logprob) = best.unwrap_or_else(|| (another(&before[at]), Value::from(-9.0)));
        logprobs["tokens"][at] = token.into();
        logprobs["token_logprobs"][at] = logprob;
        shift_id(choice, at - from);
    }
    let (old, new) = (before[from..].concat(), listed(choice)[from..].concat());
    if let Some(text) = text_mut(choice)
        && let Some(kept) = text.strip_suffix(&old)
    {
        *text = format!("{kept}{new}");
    }
}

/// The likeliest token of this place that is not `token`, with its log-probability.
fn best_other(alternatives: &Value, token: &str) -> Option<(String, Value)> {
    let others = alternatives.as_object()?.iter();
    let best = others
        .filter(|(text, logprob)| *text != token && logprob.is_number())
        .max_by(|a, b| {
            a.1.as_f64()
                .unwrap_or(f64::MIN)
                .total_cmp(&b.1.as_f64().unwrap_or(f64::MIN))
        });
    best.map(|(text, logprob)| (text.clone(), logprob.clone()))
}

/// Only the text says what there is: its end is changed where any of its tokens is wrong.
fn replace_unlisted(choice: &mut Value, count: u64, is_wrong: &mut impl FnMut() -> bool) {
    let wrong = (0..count).filter(|_| is_wrong()).count();
    if wrong == 0 {
        return;
    }
    if let Some(text) = text_mut(choice)
        && let Some(last) = text.pop()
    {
        text.push_str(&another(&last.to_string()));
    }
    let ids = choice["token_ids"].as_array().map(Vec::len);
    if let Some(last) = ids.and_then(|ids| ids.checked_sub(1)) {
        shift_id(choice, last);
    }
}

/// Another text.
fn another(text: &str) -> String {
    if text == "x" { "y" } else { "x" }.to_owned()
}

/// Another id in the place of this one, where ids are told.
fn shift_id(choice: &mut Value, at: usize) {
    let id = choice.get_mut("token_ids").and_then(|ids| ids.get_mut(at));
    if let Some(id) = id
        && let Some(number) = id.as_u64()
    {
        *id = number.checked_sub(1).unwrap_or(1).into();
    }
}

/// Adds a later event's tokens to an earlier one's.
pub fn append(event: &mut Value, later: Value) {
    if let Some(usage) = later.get("usage").filter(|usage| !usage.is_null()) {
        event["usage"] = usage.clone();
    }
    let Some(choice) = choices(event).next() else {
        return;
    };
    let added = &later["choices"][0];
    if let (Some(text), Some(more)) = (text_mut(choice), text_of(added)) {
        text.push_str(more);
    }
    extend(choice, added, "token_ids");
    if let Some(logprobs) = choice.get_mut("logprobs").filter(|it| it.is_object()) {
        let names: Vec<String> = logprobs
            .as_object()
            .into_iter()
            .flat_map(Map::keys)
            .cloned()
            .collect();
        for name in names {
            extend(logprobs, &added["logprobs"], &name);
        }
    }
}

/// Appends one list to another of the same name.
fn extend(to: &mut Value, from: &Value, name: &str) {
    if let (Some(Value::Array(to)), Some(Value::Array(from))) = (to.get_mut(name), from.get(name)) {
        to.extend(from.iter().cloned());
    }
}

/// Whether one event can be appended to the other: they speak of the same choice.
pub fn are_of_one_choice(a: &Value, b: &Value) -> bool {
    let index = |event| only_choice(event).map(|choice| choice["index"].as_u64());
    index(a).is_some() && index(a) == index(b)
}

fn only_choice(event: &Value) -> Option<&Value> {
    match event.get("choices")?.as_array()?.as_slice() {
        [choice] => Some(choice),
        _ => None,
    }
}

fn choices(answer: &mut Value) -> impl Iterator<Item = &mut Value> {
    let choices = answer.get_mut("choices").and_then(Value::as_array_mut);
    choices.into_iter().flatten()
}

fn usage(answer: &mut Value) -> Option<&mut Map<String, Value>> {
    answer.get_mut("usage")?.as_object_mut()
}

fn text_of(choice: &Value) -> Option<&str> {
    let chat = [&choice["delta"], &choice["message"]];
    let chat = chat.into_iter().find_map(|part| part["content"].as_str());
    choice["text"].as_str().or(chat)
}

fn text_mut(choice: &mut Value) -> Option<&mut String> {
    let at = ["/text", "/delta/content", "/message/content"];
    let at = at
        .into_iter()
        .find(|at| choice.pointer(at).is_some_and(Value::is_string))?;
    match choice.pointer_mut(at) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(text: &str, id: u32) -> Value {
        json!({"object": "x.chunk", "choices": [
            {"index": 0, "text": text, "token_ids": [id], "finish_reason": null, "logprobs": null}
        ]})
    }

    #[test]
    fn an_events_tokens_are_counted() {
        let check = |event: Value, expect: usize| assert_eq!(tokens(&event), expect, "{event}");
        check(event("a", 1), 1);
        check(event("", 1), 1);
        check(
            json!({"choices": [{"text": "a", "token_ids": [1, 2], "finish_reason": null}]}),
            2,
        );
        check(json!({"choices": [{"delta": {"content": "a"}}]}), 1);
        check(
            json!({"choices": [{"delta": {"role": "assistant", "content": ""}}]}),
            0,
        );
        check(
            json!({"choices": [{"text": "a", "finish_reason": "stop"}]}),
            0,
        );
        check(json!({"choices": [], "usage": {"completion_tokens": 2}}), 0);
        check(json!({"error": "x"}), 0);
    }

    #[test]
    fn two_events_become_one() {
        let mut all = event("a", 1);
        all["choices"][0]["logprobs"] = json!({"tokens": ["a"], "top_logprobs": [{"a": -1.0}]});
        let mut later = event("b", 2);
        later["choices"][0]["logprobs"] = json!({"tokens": ["b"], "top_logprobs": [null]});
        assert!(are_of_one_choice(&all, &later));
        append(&mut all, later);
        let choice = &all["choices"][0];
        assert_eq!(choice["text"], "ab");
        assert_eq!(choice["token_ids"], json!([1, 2]));
        assert_eq!(choice["logprobs"]["tokens"], json!(["a", "b"]));
        assert_eq!(
            choice["logprobs"]["top_logprobs"],
            json!([{"a": -1.0}, null])
        );
        let mut other = event("c", 3);
        other["choices"][0]["index"] = 1.into();
        assert!(!are_of_one_choice(&all, &other));
        assert!(!are_of_one_choice(&all, &json!({"choices": []})));
    }

    #[test]
    fn a_wrong_token_is_the_next_best_one_in_text_and_lists() {
        let mut whole = json!({
            "object": "text_completion",
            "choices": [{"text": "pab", "logprobs": {
                "tokens": ["p", "a", "b"],
                "token_logprobs": [null, -0.1, -0.2],
                "top_logprobs": [null, {"a": -0.1, "c": -2.0, "d": -3.0}, {"b": -0.2}],
            }}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 2},
        });
        let mut turn = 0;
        replace_tokens(&mut whole, || {
            turn += 1;
            turn == 1
        });
        assert_eq!(turn, 2, "generated tokens alone are asked for");
        let choice = &whole["choices"][0];
        assert_eq!(choice["text"], "pcb");
        assert_eq!(choice["logprobs"]["tokens"], json!(["p", "c", "b"]));
        assert_eq!(
            choice["logprobs"]["token_logprobs"],
            json!([null, -2.0, -0.2])
        );
    }

    #[test]
    fn without_lists_the_text_and_the_id_change() {
        let mut streamed = event("a", 5);
        replace_tokens(&mut streamed, || true);
        assert_eq!(streamed, event("x", 4));
        replace_tokens(&mut streamed, || false);
        assert_eq!(streamed, event("x", 4));
        let mut chat =
            json!({"object": "chat.completion", "choices": [{"message": {"content": "12"}}]});
        replace_tokens(&mut chat, || true);
        assert_eq!(chat["choices"][0]["message"]["content"], "1x");
    }

    #[test]
    fn usage_is_counted_wrong_and_an_answer_emptied() {
        let mut last = json!({"choices": [], "usage":
            {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}});
        add_usage(&mut last, 4);
        let usage = json!({"prompt_tokens": 3, "completion_tokens": 6, "total_tokens": 9});
        assert_eq!(last["usage"], usage);
        empty(&mut last);
        add_usage(&mut last, 4);
        let usage = json!({"prompt_tokens": 3, "completion_tokens": 0, "total_tokens": 3});
        assert_eq!(last["usage"], usage);
        let mut full = event("a", 1);
        empty(&mut full);
        assert_eq!(tokens(&full), 0);
    }
}
