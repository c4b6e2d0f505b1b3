//! JSON with a line for each value.

use serde::Serialize;

/// With a newline at its end. What is written here has no map with keys other than strings, so that it cannot fail.
pub fn pretty_json(value: &(impl Serialize + ?Sized)) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("strings and numbers serialise");
    text.push('\n');
    text
}
