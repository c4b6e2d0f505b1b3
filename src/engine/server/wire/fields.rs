//! Strict reading of a JSON object: each member is taken once by name and type, and what is left over
//! is refused.
//!
//! [`Fields`] keeps a request's members until they are read, so that no parameter can be ignored
//! unseen. `null` counts as absent, as OpenAI's clients send it. Refuses to know: which parameters there are.

use super::error::ApiError;
use super::shown::shorten;
use crate::request::ascending;
use serde_json::{Map, Value};
use std::ops::RangeInclusive;

/// The members of one object that were not read yet.
pub struct Fields {
    members: Map<String, Value>,
    /// Where the object stands, with a trailing dot: `stream_options.`; empty at the top.
    path: String,
}

impl Fields {
    pub fn new(members: Map<String, Value>) -> Self {
        let path = String::new();
        Self { members, path }
    }

    /// The name of a member as an error should give it.
    pub fn path(&self, name: &str) -> String {
        format!("{}{}", self.path, shorten(name))
    }

    /// Takes a member; `None` if it is absent or null.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.members.remove(name).filter(|value| !value.is_null())
    }

    pub fn bool(&mut self, name: &str) -> Result<Option<bool>, ApiError> {
        self.typed(name, "a boolean", |value| value.as_bool())
    }

    pub fn string(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        self.typed(name, "a string", |value| match value {
            Value::String(text) => Some(text),
            _ => None,
        })
    }

    /// A whole number within this range.
    pub fn count(
        &mut self,
        name: &str,
        range: RangeInclusive<u32>,
    ) -> Result<Option<u32>, ApiError> {
        let range = i128::from(*range.start())..=i128::from(*range.end());
        let count = self.integer(name, range)?;
        Ok(count.and_then(|count| u32::try_from(count).ok()))
    }

    pub fn number(&mut self, name: &str) -> Result<Option<f64>, ApiError> {
        self.typed(name, "a number", |value| value.as_f64())
    }

    /// A whole number of either sign, within this range.
    pub fn integer(
        &mut self,
        name: &str,
        range: RangeInclusive<i128>,
    ) -> Result<Option<i128>, ApiError> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let path = self.path(name);
        match whole(&value) {
            Some(number) if range.contains(&number) => Ok(Some(number)),
            Some(_) => {
                let (least, greatest) = range.into_inner();
                let message = format!("`{path}` must be from {least} to {greatest}, not {value}");
                Err(ApiError::invalid_value(&path, message))
            }
            None => {
                let found = kind(&value);
                Err(ApiError::invalid_type(&path, "a whole number", &found))
            }
        }
    }

    /// An array of token ids; ascending, each once.
    pub fn ids(&mut self, name: &str) -> Result<Option<Vec<u32>>, ApiError> {
        let Some(items) = self.array(name)? else {
            return Ok(None);
        };
        let path = self.path(name);
        let ids = items.iter().map(|item| token_id(&path, item));
        let ids = ids.collect::<Result<Vec<u32>, ApiError>>()?;
        Ok(Some(ascending(ids)))
    }

    pub fn array(&mut self, name: &str) -> Result<Option<Vec<Value>>, ApiError> {
        self.typed(name, "an array", |value| match value {
            Value::Array(items) => Some(items),
            _ => None,
        })
    }

    /// An object, to be read by the same rules.
    pub fn object(&mut self, name: &str) -> Result<Option<Self>, ApiError> {
        let path = format!("{}.", self.path(name));
        let members = self.members(name)?;
        Ok(members.map(|members| Self { members, path }))
    }

    /// An object whose names are not ours to know.
    pub fn members(&mut self, name: &str) -> Result<Option<Map<String, Value>>, ApiError> {
        self.typed(name, "an object", |value| match value {
            Value::Object(members) => Some(members),
            _ => None,
        })
    }

    /// Names still unread whose value is not null.
    pub fn left(&self) -> impl Iterator<Item = &str> {
        let present = self.members.iter().filter(|(_, value)| !value.is_null());
        present.map(|(name, _)| name.as_str())
    }

    /// Refuses whatever was not read; `known` are the names to suggest.
    pub fn finish<'a>(self, known: impl Iterator<Item = &'a str>) -> Result<(), ApiError> {
        // An unknown name with a null is still a mistake of the client's.
        let Some(name) = self.members.keys().next() else {
            return Ok(());
        };
        let path = self.path(name);
        let message = match nearest(name, known) {
            Some(near) => {
                format!("`{path}` is not a parameter of this API; did you mean `{near}`?")
            }
            None => format!("`{path}` is not a parameter of this API"),
        };
        Err(ApiError::unknown(&path, message))
    }

    fn typed<T>(
        &mut self,
        name: &str,
        expected: &str,
        convert: impl FnOnce(Value) -> Option<T>,
    ) -> Result<Option<T>, ApiError> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let found = kind(&value);
        match convert(value) {
            Some(converted) => Ok(Some(converted)),
            None => Err(ApiError::invalid_type(&self.path(name), expected, &found)),
        }
    }
}

/// A whole number; one that JSON's reader could hold in no 64 bits, and made a decimal of, is beyond every range.
fn whole(value: &Value) -> Option<i128> {
    const BEYOND: f64 = 18_446_744_073_709_551_616.0;
    let signed = value.as_i64().map(i128::from);
    let held = signed.or(value.as_u64().map(i128::from));
    held.or_else(|| match value.as_f64()? {
        great if great >= BEYOND => Some(i128::MAX),
        small if small <= -BEYOND / 2.0 => Some(i128::MIN),
        _ => None,
    })
}

/// One item of an array of token ids.
pub fn token_id(name: &str, value: &Value) -> Result<u32, ApiError> {
    let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
    id.ok_or_else(|| {
        let found = format!("one with {}", kind(value));
        ApiError::invalid_type(name, "an array of token ids", &found)
    })
}

/// A JSON value named for a message: its kind, and itself where that is short.
pub fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => format!("the boolean {flag}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) if text.chars().count() <= 32 => format!("the string {value}"),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// The name most like `name`, if one is like it enough to be worth saying.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const LIKE_ENOUGH: f64 = 0.85;
    /// The comparison's time grows with the square of the length.
    const LONGEST_BYTES: usize = 64;
    if name.len() > LONGEST_BYTES {
        return None;
    }
    known
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness >= LIKE_ENOUGH)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields(value: Value) -> Fields {
        let Value::Object(members) = value else {
            panic!("an object is needed");
        };
        Fields::new(members)
    }

    #[test]
    fn null_is_absent() {
        let mut fields = fields(json!({"stream": null}));
        assert_eq!(fields.bool("stream").unwrap(), None);
        assert!(fields.finish(std::iter::empty()).is_ok());
    }

    #[test]
    fn wrong_types_name_the_parameter_and_the_value() {
        let check = |value: Value, expect: &str| {
            let error = fields(json!({"n": value})).count("n", 1..=16).unwrap_err();
            assert_eq!(error.code, "invalid_type");
            assert_eq!(error.param.as_deref(), Some("n"));
            assert_eq!(
                error.message,
                format!("`n` must be a whole number, not {expect}")
            );
        };
        check(json!("5"), "the string \"5\"");
        check(json!(1.5), "the number 1.5");
        check(json!(1e19), &format!("the number {}", json!(1e19)));
        check(json!([1]), "an array");
        check(json!(true), "the boolean true");
    }

    #[test]
    fn whole_numbers_out_of_range_are_told_the_range() {
        let check = |number: &str| {
            let body = format!("{{\"n\": {number}}}");
            let error = fields(serde_json::from_str(&body).unwrap())
                .count("n", 1..=16)
                .unwrap_err();
            assert_eq!(error.code, "invalid_value");
            assert_eq!(error.param.as_deref(), Some("n"));
            let expect = "`n` must be from 1 to 16, not ";
            assert!(error.message.starts_with(expect), "{}", error.message);
        };
        for number in ["-1", "0", "17", "4294967296"] {
            check(number);
        }
        // One more than 64 bits hold, at both ends.
        check("18446744073709551616");
        check("-9223372036854775809");
        let mut ends = fields(json!({"a": 1, "b": 16}));
        assert_eq!(ends.count("a", 1..=16).unwrap(), Some(1));
        assert_eq!(ends.count("b", 1..=16).unwrap(), Some(16));
    }

    #[test]
    fn leftovers_are_refused_with_the_nearest_name() {
        let check = |name: &str, expect: &str| {
            let known = ["max_tokens", "stream", "temperature"];
            let error = fields(json!({name: 1}))
                .finish(known.into_iter())
                .unwrap_err();
            assert_eq!(error.code, "unknown_parameter");
            assert!(error.message.ends_with(expect), "{}", error.message);
        };
        check("max_token", "did you mean `max_tokens`?");
        check("temprature", "did you mean `temperature`?");
        check("zebra", "is not a parameter of this API");
        let long = "max_tokens".repeat(100_000);
        check(&long, "…` is not a parameter of this API");
    }

    #[test]
    fn ids_ascend_and_stand_once() {
        let mut fields = fields(json!({"ids": [7, 5, 7, 0, 5]}));
        assert_eq!(fields.ids("ids").unwrap(), Some(vec![0, 5, 7]));
    }

    #[test]
    fn a_long_name_is_not_sent_back_whole() {
        let name = "x".repeat(1 << 20);
        let error = fields(json!({name: 1}))
            .finish(std::iter::empty())
            .unwrap_err();
        assert!(error.message.len() < 200, "{}", error.message.len());
        assert!(error.param.unwrap().len() < 100);
    }

    #[test]
    fn an_inner_object_gives_its_whole_path() {
        let mut outer = fields(json!({"stream_options": {"include_usage": 1}}));
        let mut inner = outer.object("stream_options").unwrap().unwrap();
        let error = inner.bool("include_usage").unwrap_err();
        assert_eq!(error.param.as_deref(), Some("stream_options.include_usage"));
    }
}
