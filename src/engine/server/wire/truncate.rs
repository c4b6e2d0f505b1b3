//! A client's own words as a message repeats them: whole if short.
//!
//! A name of megabytes must not come back as megabytes, so every name, model, role or value that an error
//! echoes passes [`shorten`].

use serde_json::Value;
use std::borrow::Cow;

/// Characters of an echoed text; no name of the API is longer.
const SHOWN: usize = 64;

/// The text, or its beginning with `…` behind it.
pub fn shorten(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(SHOWN) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_is_cut_between_characters() {
        let check = |text: &str, expect: &str| assert_eq!(shorten(text), expect);
        check("", "");
        check("temprature", "temprature");
        check(&"é".repeat(64), &"é".repeat(64));
        check(&"é".repeat(65), &format!("{}…", "é".repeat(64)));
    }
}
