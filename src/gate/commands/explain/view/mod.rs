//! An explanation as text, Markdown and JSON.

mod picture;
mod text;

pub use text::{explanation_markdown, explanation_text};

use crate::explanation::EXPLANATION_FORMAT;
use serde_json::json;
use verdict::record::Verdict;

/// Where every check passed, or is waived, and none was named.
pub fn nothing_text(verdict: Verdict) -> String {
    format!("{}\n", nothing(verdict))
}

/// As [`nothing_text`]: the explanation's format without a check.
pub fn nothing_json(verdict: Verdict) -> String {
    let value = json!({
        "format": EXPLANATION_FORMAT,
        "check": null,
        "verdict": verdict.name(),
        "reason": nothing(verdict),
    });
    format!("{value:#}\n")
}

fn nothing(verdict: Verdict) -> String {
    let run = verdict.name();
    format!(
        "nothing to explain: every check passed or is waived (the run: {run}). `gate explain GATE/NAME` explains one"
    )
}
