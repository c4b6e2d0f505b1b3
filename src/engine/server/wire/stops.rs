//! The parameters that say where an answer ends: stop texts and stop ids.
//!
//! Refuses to know: how a text is found in an answer.

use super::error::ApiError;
use super::fields::{Fields, kind};
use serde_json::Value;

pub const NAMES: &[&str] = &["stop", "stop_token_ids", "include_stop_str_in_output"];

/// OpenAI has 4; vLLM has no limit.
const MAX_TEXTS: usize = 16;
/// Each token's text is compared with every stop text: both must be short.
const MAX_TEXT_BYTES: usize = 1024;
/// Each choice keeps its own list.
const MAX_IDS: usize = 4096;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stops {
    pub texts: Vec<String>,
    /// Ascending, each once.
    pub ids: Vec<u32>,
    /// The text or token that ends the answer is shown.
    pub shown: bool,
}

impl Stops {
    pub fn read(fields: &mut Fields) -> Result<Self, ApiError> {
        let texts = texts(fields.take("stop"))?;
        texts.iter().try_for_each(|text| check(text))?;
        if texts.len() > MAX_TEXTS {
            let message = format!(
                "`stop` must hold at most {MAX_TEXTS} texts, not {}",
                texts.len()
            );
            return Err(ApiError::invalid_value("stop", message));
        }
        Ok(Self {
            texts,
            ids: ids(fields)?,
            shown: fields.bool("include_stop_str_in_output")?.unwrap_or(false),
        })
    }
}

fn ids(fields: &mut Fields) -> Result<Vec<u32>, ApiError> {
    let ids = fields.ids("stop_token_ids")?.unwrap_or_default();
    if ids.len() > MAX_IDS {
        let message = format!(
            "`stop_token_ids` must hold at most {MAX_IDS} different ids, not {}",
            ids.len()
        );
        return Err(ApiError::invalid_value("stop_token_ids", message));
    }
    Ok(ids)
}

fn texts(value: Option<Value>) -> Result<Vec<String>, ApiError> {
    const EXPECTED: &str = "a string or an array of strings";
    let text = |value| match value {
        Value::String(text) => Ok(text),
        other => {
            let found = format!("one with {}", kind(&other));
            Err(ApiError::invalid_type("stop", EXPECTED, &found))
        }
    };
    match value {
        None => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![text]),
        Some(Value::Array(items)) => items.into_iter().map(text).collect(),
        Some(other) => Err(ApiError::invalid_type("stop", EXPECTED, &kind(&other))),
    }
}

fn check(text: &str) -> Result<(), ApiError> {
    if (1..=MAX_TEXT_BYTES).contains(&text.len()) {
        return Ok(());
    }
    let message = format!(
        "a text in `stop` must be from 1 to {MAX_TEXT_BYTES} bytes, not {}",
        text.len()
    );
    Err(ApiError::invalid_value("stop", message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(body: Value) -> Result<Stops, ApiError> {
        let Value::Object(members) = body else {
            panic!("an object is needed");
        };
        Stops::read(&mut Fields::new(members))
    }

    #[test]
    fn a_stop_is_a_text_or_several() {
        let check = |value: Value, expect: &[&str]| {
            assert_eq!(read(json!({"stop": value})).unwrap().texts, expect);
        };
        check(json!(null), &[]);
        check(json!([]), &[]);
        check(json!("a"), &["a"]);
        check(json!(["a", "\n"]), &["a", "\n"]);
        check(json!(vec!["a"; 16]), &["a"; 16]);
        check(json!("é".repeat(512)), &["é".repeat(512).as_str()]);
    }

    #[test]
    fn ids_and_the_showing_arrive() {
        let body = json!({"stop_token_ids": [7, 5, 7], "include_stop_str_in_output": true});
        let expect = Stops {
            texts: Vec::new(),
            ids: vec![5, 7],
            shown: true,
        };
        assert_eq!(read(body), Ok(expect));
    }

    #[test]
    fn other_stops_are_refused() {
        let check = |name: &str, value: Value, code: &str| {
            let error = read(json!({name: value})).unwrap_err();
            assert_eq!((error.code, error.param.as_deref()), (code, Some(name)));
        };
        check("stop", json!(""), "invalid_value");
        check("stop", json!(["a", ""]), "invalid_value");
        check("stop", json!(vec!["a"; 17]), "invalid_value");
        check("stop", json!("a".repeat(1025)), "invalid_value");
        check("stop", json!(5), "invalid_type");
        check("stop", json!(["a", 5]), "invalid_type");
        let ids = |count: u32| json!((0..count).collect::<Vec<u32>>());
        assert_eq!(
            read(json!({"stop_token_ids": ids(4096)}))
                .unwrap()
                .ids
                .len(),
            4096
        );
        check("stop_token_ids", ids(4097), "invalid_value");
        check("stop_token_ids", json!(5), "invalid_type");
        check("stop_token_ids", json!(["a"]), "invalid_type");
        check("include_stop_str_in_output", json!(1), "invalid_type");
    }
}
