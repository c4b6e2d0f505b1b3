//! An explanation as text, Markdown and JSON.

mod picture;
mod text;

pub use text::{explanation_markdown, explanation_text};

use crate::explanation::{EXPLANATION_FORMAT, checks};
use crate::report::shell_word;
use serde_json::json;
use verdict::record::RunVerdict;

/// Where every check passed, or is waived, and none was named.
pub fn nothing_text(verdict: &RunVerdict) -> String {
    format!("{}\n", nothing(verdict))
}

/// As [`nothing_text`]: the explanation's format without a check.
pub fn nothing_json(verdict: &RunVerdict) -> String {
    let value = json!({
        "format": EXPLANATION_FORMAT,
        "check": null,
        "verdict": verdict.verdict.name(),
        "reason": nothing(verdict),
    });
    format!("{value:#}\n")
}

fn nothing(verdict: &RunVerdict) -> String {
    let run = verdict.verdict.name();
    let compared = checks(verdict).filter_map(|check| Some((check.change?.abs(), check)));
    let most = compared.max_by(|a, b| a.0.total_cmp(&b.0));
    let most = most.map_or_else(
        || "GATE/NAME".to_owned(),
        |(_, check)| shell_word(&check.id),
    );
    format!(
        "nothing to explain: every check passed or is waived (the run: {run}). To explain one anyway, name it: \
         `gate explain DIR {most}`"
    )
}
