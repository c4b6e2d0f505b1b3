//! One result in a comparison: its figures, and what a reader must know before trusting a ratio.

use super::Row;
use std::collections::BTreeMap;

/// One result.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// What stands above it.
    pub name: String,
    pub origin: Origin,
    /// Fingerprint of the machine, where the result says it.
    pub machine: Option<String>,
    /// How the weights are quantised, and the precision that it computes in, where the configuration says it.
    pub quantised: Option<String>,
    pub precision: Option<String>,
    /// Further remarks of the configuration, and of the result about itself.
    pub remarks: Vec<String>,
    /// Measured requests that were sent, and how many of them are void.
    pub sent: u64,
    pub void: u64,
    /// Mean prompt and output tokens of a measured request; `None`: the result does not say.
    pub prompt_tokens: Option<f64>,
    pub output_tokens: Option<f64>,
    /// Mean output tokens of the first request after the start.
    pub first_output_tokens: Option<f64>,
    /// In each row's unit; what is not there is not known.
    pub values: BTreeMap<Row, f64>,
}

/// Where a result comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// So many launches that this gate started.
    Launches(u32),
    /// `gate load` against a server that already ran.
    Load,
    /// Another tool's result.
    Imported { tool: String },
}

impl Column {
    /// A result without figures.
    pub fn new(name: String, origin: Origin) -> Self {
        // A file's name must not steer the terminal.
        let name = name.chars().filter(|c| !c.is_control()).collect();
        Self {
            name,
            origin,
            machine: None,
            quantised: None,
            precision: None,
            remarks: Vec::new(),
            sent: 0,
            void: 0,
            prompt_tokens: None,
            output_tokens: None,
            first_output_tokens: None,
            values: BTreeMap::new(),
        }
    }

    /// Puts a value in its row; a number that is none or not positive is not known.
    pub fn put(&mut self, row: Row, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite() && *value > 0.0) {
            self.values.insert(row, value);
        }
    }

    /// What a reader must know, beside `first`, in one line each.
    pub(super) fn caveats(&self, first: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        match &self.origin {
            Origin::Imported { tool } => lines.push(format!(
                "imported from {tool}: its client's own delays are unknown, and no launches"
            )),
            Origin::Load => lines.push("one run against a server that already ran".to_owned()),
            Origin::Launches(1) => lines.push("a single launch".to_owned()),
            Origin::Launches(_) => {}
        }
        if let Some(how) = &self.quantised {
            lines.push(format!("quantised ({how})"));
        }
        lines.extend(self.unlike(first));
        if self.void > 0 {
            lines.push(format!("{} of {} requests void", self.void, self.sent));
        }
        if self.output_tokens.is_none() {
            lines.push("length of its answers unknown".to_owned());
        }
        lines.extend(self.remarks.iter().cloned());
        lines
    }

    /// In what it differs from the first result.
    fn unlike(&self, first: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.precision != first.precision {
            let said = |column: &Self| column.precision.clone().unwrap_or("unsaid".to_owned());
            lines.push(format!(
                "different precision ({} against {})",
                said(self),
                said(first)
            ));
        }
        match (&self.machine, &first.machine) {
            (Some(own), Some(other)) if own != other => {
                lines.push(format!("different hardware ({own})"));
            }
            (Some(_), Some(_)) => {}
            (None, None) if std::ptr::eq(self, first) => {}
            _ => lines.push("hardware not known to be the same".to_owned()),
        }
        if differ(self.prompt_tokens, first.prompt_tokens) {
            lines.push(format!(
                "different prompt tokens ({} against {})",
                tokens(self.prompt_tokens),
                tokens(first.prompt_tokens)
            ));
        }
        lines
    }
}

/// Means of token counts that are not the same work: more than 1 % apart.
pub(super) fn differ(a: Option<f64>, b: Option<f64>) -> bool {
    const SAME: f64 = 0.01;
    a.zip(b)
        .is_some_and(|(a, b)| (a - b).abs() > SAME * a.max(b))
}

/// A mean count as people read it.
pub(super) fn tokens(count: Option<f64>) -> String {
    count.map_or_else(
        || "unknown".to_owned(),
        |count| {
            let text = format!("{count:.1}");
            text.strip_suffix(".0").unwrap_or(&text).to_owned()
        },
    )
}
