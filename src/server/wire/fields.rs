//! Strict reading of a JSON object: each member is taken once by name and type, and what is left over
//! is refused.
//!
//! [`Fields`] keeps a request's members until they are read, so that no parameter can be ignored
//! unseen. `null` counts as absent, as OpenAI's clients send it. Refuses to know: which parameters there are.

use super::error::ApiError;
use super::shown::shorten;
use crate::engine::request::ascending;
use serde_json::{Map, Value};

/// The members of one object that were not read yet.
pub(super) struct Fields {
    members: Map<String, Value>,
    /// Where the object stands, with a trailing dot: `stream_options.`; empty at the top.
    path: String,
}

impl Fields {
    pub(super) fn new(members: Map<String, Value>) -> Self {
        let path = String::new();
        Self { members, path }
    }

    /// The name of a member as an error should give it.
    pub(super) fn path(&self, name: &str) -> String {
        format!("{}{}", self.path, shorten(name))
    }

    /// Takes a member; `None` if it is absent or null.
    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.members.remove(name).filter(|value| !value.is_null())
    }

    pub(super) fn bool(&mut self, name: &str) -> Result<Option<bool>, ApiError> {
        self.typed(name, "a boolean", |value| value.as_bool())
    }

    pub(super) fn string(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        self.typed(name, "a string", |value| match value {
            Value::String(text) => Some(text),
            _ => None,
        })
    }

    /// A whole number from 0 to 2³² − 1.
    pub(super) fn count(&mut self, name: &str) -> Result<Option<u32>, ApiError> {
        self.typed(name, "a whole number from 0 to 4294967295", |value| {
            value.as_u64().and_then(|number| u32::try_from(number).ok())
        })
    }

    pub(super) fn number(&mut self, name: &str) -> Result<Option<f64>, ApiError> {
        self.typed(name, "a number", |value| value.as_f64())
    }

    /// A whole number of either sign.
    pub(super) fn integer(&mut self, name: &str) -> Result<Option<i128>, ApiError> {
        self.typed(name, "a whole number", |value| {
            let signed = value.as_i64().map(i128::from);
            signed.or(value.as_u64().map(i128::from))
        })
    }

    /// An array of token ids; ascending, each once.
    pub(super) fn ids(&mut self, name: &str) -> Result<Option<Vec<u32>>, ApiError> {
        let Some(items) = self.array(name)? else {
            return Ok(None);
        };
        let path = self.path(name);
        let ids = items.iter().map(|item| token_id(&path, item));
        let ids = ids.collect::<Result<Vec<u32>, ApiError>>()?;
        Ok(Some(ascending(ids)))
    }

    pub(super) fn array(&mut self, name: &str) -> Result<Option<Vec<Value>>, ApiError> {
        self.typed(name, "an array", |value| match value {
            Value::Array(items) => Some(items),
            _ => None,
        })
    }

    /// An object, to be read by the same rules.
    pub(super) fn object(&mut self, name: &str) -> Result<Option<Self>, ApiError> {
        let path = format!("{}.", self.path(name));
        let members = self.members(name)?;
        Ok(members.map(|members| Self { members, path }))
    }

    /// An object whose names are not ours to know.
    pub(super) fn members(&mut self, name: &str) -> Result<Option<Map<String, Value>>, ApiError> {
        self.typed(name, "an object", |value| match value {
            Value::Object(members) => Some(members),
            _ => None,
        })
    }

    /// Names still unread whose value is not null.
    pub(super) fn left(&self) -> impl Iterator<Item = &str> {
        let present = self.members.iter().filter(|(_, value)| !value.is_null());
        present.map(|(name, _)| name.as_str())
    }

    /// Refuses whatever was not read; `known` are the names to suggest.
    pub(super) fn finish<'a>(self, known: impl Iterator<Item = &'a str>) -> Result<(), ApiError> {
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

/// One item of an array of token ids.
pub(super) fn token_id(name: &str, value: &Value) -> Result<u32, ApiError> {
    let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
    id.ok_or_else(|| {
        let found = format!("one with {}", kind(value));
        ApiError::invalid_type(name, "an array of token ids", &found)
    })
}

/// A JSON value named for a message: its kind, and itself where that is short.
pub(super) fn kind(value: &Value) -> String {
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
            let error = fields(json!({"max_tokens": value}))
                .count("max_tokens")
                .unwrap_err();
            assert_eq!(error.code, "invalid_type");
            assert_eq!(error.param.as_deref(), Some("max_tokens"));
            assert!(error.message.ends_with(expect), "{}", error.message);
        };
        check(json!("5"), "not the string \"5\"");
        check(json!(-1), "not the number -1");
        check(json!(1.5), "not the number 1.5");
        check(json!(4_294_967_296_u64), "not the number 4294967296");
        check(json!([1]), "not an array");
        check(json!(true), "not the boolean true");
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
