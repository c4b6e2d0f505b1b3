//! What the page draws: numbers alone.

use verdict::record::{Arm, Unit};

/// Points of a line, x rising.
pub type Series = Vec<(f64, f64)>;

/// The shares of requests at which their values are drawn: evenly to the median, then ever closer to the slowest.
pub const PERCENTILES: [f64; 25] = [
    0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.96, 0.97, 0.98,
    0.985, 0.99, 0.9925, 0.995, 0.9965, 0.998, 0.999, 0.9995,
];

/// A check's values.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckFigures {
    /// `gate/check`.
    pub check: String,
    pub unit: Unit,
    /// Values with their names, in the metric's unit: margin and ceiling, or the limit.
    pub limits: Vec<(&'static str, f64)>,
    /// In order of execution: the launch's position, its arm and its value.
    pub launches: Vec<(u32, Arm, f64)>,
    /// Base's and head's requests at [`PERCENTILES`], as far as there are requests beyond; empty where a launch gives one
    /// value.
    pub percentiles: [Vec<f64>; 2],
    /// Base's and head's median time before each event of an answer, ms, by its place; empty where nothing streams.
    pub tokens: [Series; 2],
    /// Base's and head's TPOT over context; `None` where a workload has one context.
    pub contexts: [Option<Contexts>; 2],
    /// Requests of one launch an arm; empty where they come one after another.
    pub waterfall: [Vec<Bar>; 2],
}

/// TPOT over context: medians over launches, ms.
#[derive(Clone, Debug, PartialEq)]
pub struct Contexts {
    /// Tokens of context, and TPOT there.
    pub points: Series,
    /// At context 0, and what a token of context adds.
    pub base: f64,
    pub slope: f64,
}

/// One request, ms from the first one's intended moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    pub index: u32,
    /// When it was to be sent.
    pub due: f64,
    pub sent: f64,
    /// The first event of the answer.
    pub first: f64,
    pub done: f64,
}

/// Readings of a session over time, in seconds from its first one.
#[derive(Clone, Debug, PartialEq)]
pub struct Over {
    pub name: &'static str,
    pub unit: &'static str,
    pub base: Series,
    pub head: Series,
}

/// Mean time of each start-up stage of an arm's launches, ms.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    pub arm: Arm,
    pub stages: Vec<(String, f64)>,
}
