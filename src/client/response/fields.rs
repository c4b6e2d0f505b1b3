//! Names of the fields of an answer, each with its kind of value: what clients read.
//!
//! Main function: [`of`]. It does not know what the fields mean.

use super::exchange::Exchange;
use super::sse::Decoder;
use serde_json::Value;
use std::collections::BTreeSet;

/// Longest body or event that is read, in bytes: one of hostile JSON takes many times its length.
const LONGEST: usize = 1 << 20;

/// Most fields of an answer that are named, their greatest depth, and the longest name.
const FIELDS: usize = 64;
const DEPTH: usize = 6;
const NAME: usize = 40;

/// `choices[].delta.content: string`, of all events of a stream or of one body. Values that are null, and what is in lists of
/// log-probabilities, where keys may be tokens, are left out.
pub fn of(exchange: &Exchange, streamed: bool) -> BTreeSet<String> {
    let mut fields = BTreeSet::new();
    if exchange.status != Some(200) {
        return fields;
    }
    let mut read = |json: &[u8]| {
        if json.len() > LONGEST {
            return;
        }
        let value = serde_json::from_slice(json).unwrap_or(Value::Null);
        take(&value, String::new(), DEPTH, &mut fields);
    };
    if streamed {
        let mut decoder = Decoder::default();
        for (part, _) in exchange.parts() {
            let pushed = decoder.push(part, |event| read(event.data.as_bytes()));
            if pushed.is_err() {
                break;
            }
        }
    } else {
        read(&exchange.body);
    }
    fields
}

fn take(value: &Value, path: String, depth: usize, fields: &mut BTreeSet<String>) {
    if fields.len() >= FIELDS {
        return;
    }
    let mut leaf = |kind: &str| {
        fields.insert(format!("{path}: {kind}"));
    };
    match value {
        Value::Null => {}
        Value::Bool(_) => leaf("boolean"),
        Value::Number(_) => leaf("number"),
        Value::String(_) => leaf("string"),
        _ if path.ends_with("logprobs") || depth == 0 => leaf("list"),
        Value::Array(items) => {
            for item in items {
                take(item, format!("{path}[]"), depth - 1, fields);
            }
        }
        Value::Object(keys) => {
            for (name, value) in keys.iter().filter(|(name, _)| is_plain(name)) {
                let dot = if path.is_empty() { "" } else { "." };
                take(value, format!("{path}{dot}{name}"), depth - 1, fields);
            }
        }
    }
}

fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=NAME).contains(&name.len()) && name.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::stamps::Arrival;

    fn fields(body: &str, streamed: bool) -> Vec<String> {
        let mut exchange = Exchange::begin(None, 0);
        exchange.status = Some(200);
        let arrival = Arrival {
            at_ns: 1,
            kernel: true,
            number: 1,
        };
        assert!(exchange.store(body.as_bytes(), arrival, 1 << 20));
        of(&exchange, streamed).into_iter().collect()
    }

    #[test]
    fn fields_are_named_with_their_kinds() {
        let body = r#"{"id":"x","created":1,"choices":[{"text":"a","logprobs":{"b":1},"finish_reason":null,"ok":true}],"a b":1}"#;
        let named = [
            "choices[].logprobs: list",
            "choices[].ok: boolean",
            "choices[].text: string",
            "created: number",
            "id: string",
        ];
        assert_eq!(fields(body, false), named);
        let stream = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n";
        let named = [
            "choices[].delta.content: string",
            "choices[].delta.role: string",
        ];
        assert_eq!(fields(stream, true), named);
        assert!(fields("no JSON", false).is_empty());
    }

    #[test]
    fn an_answer_of_many_fields_is_read_in_part() {
        let many: Vec<String> = (0..100).map(|n| format!("\"k{n}\":1")).collect();
        let body = format!("{{{}}}", many.join(","));
        assert_eq!(fields(&body, false).len(), FIELDS);
        let deep = format!("{}1{}", "{\"a\":".repeat(9), "}".repeat(9));
        assert_eq!(fields(&deep, false), ["a.a.a.a.a.a: list"]);
    }
}
