//! A command's result as one HTML page that needs nothing else and runs no script: its policy names its style alone, by
//! its hash.
//!
//! Main type: [`Sheet`]. Every text is stripped of secrets and escaped by the template engine. Refuses to know: which
//! command it is of.

mod bars;
mod chart;
mod scale;
mod tone;

pub use bars::{Bar, Bars, BarsDrawn, Mark};
pub use chart::{Chart, ChartDrawn, ChartLine, Point};
pub use scale::ScaleKind;
pub use tone::Tone;

use super::page::{STYLE, hash, shown};
use super::site::render;
use minijinja::context;
use minijinja::value::{Serde, Value};
use serde::Serialize;
use serde_json::Value as Json;
use verdict::record::is_ignorable;

const TEMPLATE: &str = include_str!("../templates/sheet.html.j2");
const OWN_STYLE: &str = include_str!("../templates/sheet.css");

/// A page.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sheet {
    /// The command's name: `gate load`.
    pub title: String,
    /// A word on the result where it has one.
    pub badge: Option<(Tone, String)>,
    /// The result in a sentence.
    pub headline: String,
    /// What was measured, where and when.
    pub about: Vec<String>,
    /// Sentences without which no number may be read.
    pub notices: Vec<String>,
    pub pictures: Vec<Picture>,
    pub tables: Vec<SheetTable>,
    pub notes: Vec<String>,
    /// Names with texts, below the notes.
    pub facts: Vec<(String, String)>,
    /// The command line that printed the page.
    pub command: String,
    /// Name and version of the program.
    pub tool: String,
}

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Picture {
    Bars(BarsDrawn),
    Chart(ChartDrawn),
}

/// Names on the left, numbers on the right.
#[derive(Clone, Debug, Serialize)]
pub struct SheetTable {
    pub title: String,
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// The page. Deterministic.
pub fn page(sheet: &Sheet) -> String {
    let style = format!("{STYLE}{OWN_STYLE}");
    // These types hold texts, flags and finite numbers: writing them cannot fail.
    let sheet = serde_json::to_value(sheet).unwrap_or_default();
    let values = context! {
        hash => Value::from_safe_string(hash(&style)),
        style => Value::from_safe_string(style),
        sheet => Value::from(Serde(cleaned(sheet))),
    };
    let written = render(TEMPLATE, values);
    written.chars().filter(|c| !is_ignorable(*c)).collect()
}

/// The same with every text as it may be shown.
fn cleaned(value: Json) -> Json {
    match value {
        Json::String(text) => shown(&text).into(),
        Json::Array(all) => all.into_iter().map(cleaned).collect(),
        Json::Object(all) => {
            let all = all.into_iter();
            Json::Object(all.map(|(name, value)| (name, cleaned(value))).collect())
        }
        other => other,
    }
}
