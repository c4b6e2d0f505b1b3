//! Launches needed for an effect on this machine: the rows of `gate power`.

use super::Wanted;

/// What a run of the selected gates needs.
#[derive(Clone, Debug)]
pub struct PowerPlan {
    pub power: f64,
    pub profile: String,
    /// Blocks after which the judge looks.
    pub looks: Vec<u32>,
    /// Checks that share the false-alarm budget.
    pub checks: u32,
    pub rows: Vec<PowerRow>,
    /// Why checks are not among them: one sentence per reason.
    pub unknown: Vec<String>,
}

/// One check that is compared by t.
#[derive(Clone, Debug, PartialEq)]
pub struct PowerRow {
    /// `gate/check`.
    pub check: String,
    /// Of a launch; of the difference of two of a block where they are compared in pairs.
    pub sd: f64,
    pub paired: bool,
    pub source: NoiseSource,
    /// Fractions.
    pub effect: f64,
    pub margin: f64,
    /// What a look finds the effect after.
    pub wanted: Wanted,
    /// Blocks after which an unchanged head passes with the same chance; `None`: more than 1000.
    pub to_pass: Option<u32>,
    /// Seconds of a launch, where they are known.
    pub launch_s: Option<f64>,
}

/// Where a standard deviation comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoiseSource {
    /// The certificate of this date (RFC 3339).
    Certificate(String),
    /// So many of main's stored sessions.
    Stored(usize),
    /// The command line.
    Given,
}
