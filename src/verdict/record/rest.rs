//! A launch's wait for the machine to cool, within the session's budget.

use serde::{Deserialize, Serialize};

/// One launch's rest before it was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rest {
    /// Time waited for cooling, ms; the probes' own time is not in it.
    pub waited_ms: f64,
    /// The probe's median time per token, ms, in the order of probing; the last is what the launch began
    /// with.
    pub probes_ms: Vec<f64>,
    /// The arm's reference: the probe right after the first launch's warm-up burst, ms.
    pub reference_ms: f64,
    /// A launch is cool while its probe is above the reference by no more than this fraction; unknown in old records.
    #[serde(default)]
    pub within: Option<f64>,
    /// What is left of the session's budget for waiting, ms.
    pub budget_left_ms: f64,
}
