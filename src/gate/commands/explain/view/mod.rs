//! An explanation as text, Markdown and JSON.

mod picture;
mod text;

pub use text::{explanation_markdown, explanation_text};

use crate::explanation::Explanation;

/// As JSON, with a newline at its end.
pub fn explanation_json(explanation: &Explanation) -> String {
    // These types hold no map and no foreign type: writing them cannot fail.
    let mut json = serde_json::to_string_pretty(explanation).unwrap_or_default();
    json.push('\n');
    json
}
