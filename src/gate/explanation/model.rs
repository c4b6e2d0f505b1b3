//! Data of an explanation; values in the metric's unit.

use serde::Serialize;
use verdict::record::Unit;

/// Name and version of the JSON format.
pub const EXPLANATION_FORMAT: &str = "infergate-explanation/1";

/// One check of one session. Values are in the metric's unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// [`EXPLANATION_FORMAT`].
    pub format: &'static str,
    pub check: String,
    pub verdict: &'static str,
    pub reason: String,
    /// Of what the reason counts.
    pub examples: Vec<String>,
    pub metric: &'static str,
    #[serde(skip)]
    pub unit: Unit,
    /// Further checks that failed.
    pub others: Vec<String>,
    /// Which part of the work it sits in.
    pub sits: Option<String>,
    pub facets: Vec<FacetRow>,
    pub first_bad: Option<FirstBad>,
    /// Launches that ended as they should not: a line each, and below it the end of the engine's log.
    pub crashes: Vec<String>,
    /// Where the launches fall into two modes.
    pub modes: Option<ModeSplit>,
    pub readings: Vec<ReadingRow>,
    /// The check's launches in order of execution.
    pub points: Vec<Point>,
    pub limit: Option<Limit>,
    pub requests: Option<RequestSpread>,
    pub answers: Vec<AnswerRow>,
    /// The first of these answers' request, as a command for a shell.
    pub request: Option<String>,
}

/// One part of the time: means over launches on the scale of logarithms, the change with an interval of 95 %. A part that a
/// check compares is as judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FacetRow {
    pub name: String,
    #[serde(skip)]
    pub unit: Unit,
    pub base: Option<f64>,
    pub head: Option<f64>,
    /// 0.03 is +3 %.
    pub change: Option<f64>,
    pub interval: Option<(f64, f64)>,
    /// Behind the change: of base and of head. A part that a check compares has those of its last test.
    pub launches: (usize, usize),
}

/// The first head launch that is no longer like base's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FirstBad {
    pub launch: u32,
    pub block: u32,
    pub value: f64,
    /// Beyond this a launch counts as bad, and by which rule.
    pub bound: f64,
    pub rule: &'static str,
    /// Head launches beyond it, of those that have a value.
    pub beyond: u32,
    pub of: u32,
}

/// A reading beside the launches: each arm's median, and the first bad launch's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReadingRow {
    /// With its unit.
    pub name: &'static str,
    pub base: Option<f64>,
    pub head: Option<f64>,
    pub launch: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    pub launch: u32,
    pub arm: &'static str,
    pub value: Option<f64>,
}

/// Head fails beyond this value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limit {
    pub value: f64,
    pub name: &'static str,
}

/// Single requests, base's against those of the first bad launch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestSpread {
    /// 99 % of base's are better than this.
    pub threshold: f64,
    pub beyond: usize,
    pub of: usize,
    pub stalls: Option<Stalls>,
    #[serde(skip)]
    pub base: Vec<f64>,
    #[serde(skip)]
    pub head: Vec<f64>,
}

/// Gaps between two tokens of a launch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stalls {
    /// Gaps beyond the threshold: those that overlap another request's wait for its first token, and all.
    pub long: (usize, usize),
    /// The same of the others.
    pub other: (usize, usize),
    /// Median over the long ones of the prompt beside them whose first token came last.
    pub prompt_tokens: Option<f64>,
}

/// An answer of head that is wrong, or not base's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AnswerRow {
    pub case: String,
    /// Whether base answered it right; `None` where base was not measured.
    pub is_right_in_base: Option<bool>,
    /// Place of the first token that differs, what was said there and what was expected; none is an end.
    pub token: Option<(usize, Option<String>, Option<String>)>,
    /// The engine's own words.
    pub said: String,
    /// The right answer; where none is known, base's, if it gave one.
    pub expected: Option<String>,
    /// Head's answer to the same prompt alone, if its text differs.
    pub alone: Option<String>,
    /// The launch's block and the request's number, where answers are compared.
    #[serde(skip)]
    pub sent: Option<(u32, u32)>,
}

/// Launches of a check in two modes; `low` and `high` by their values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModeSplit {
    pub low: Mode,
    pub high: Mode,
    /// Readings that were compared.
    pub compared: usize,
    /// Those that differ most, by p.
    pub readings: Vec<ModeReading>,
    /// Lines that every launch of one mode logged and none of the other.
    pub logged: Vec<ModeLine>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mode {
    /// Median of its launches, in the metric's unit.
    pub value: f64,
    /// Launches of base and of head.
    pub base: usize,
    pub head: usize,
    /// Which, by position.
    pub launches: Vec<u32>,
}

/// A reading that differs between the modes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModeReading {
    /// With its unit.
    pub name: String,
    /// Medians over each mode's launches.
    pub low: f64,
    pub high: f64,
    /// Two-sided p of Mann and Whitney that this one would be parted so far by chance.
    pub p: f64,
    /// The same for any of the readings that were compared (Bonferroni).
    pub p_of_all: f64,
}

/// A line of the engine's log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModeLine {
    /// True for a line of the upper mode.
    pub is_high: bool,
    /// Without stamps of time; `#` for numbers where these differ.
    pub text: String,
}
