//! Whether a machine is fit to measure on: what was read of it, held against what the project asks.
//!
//! Main function: [`findings()`], pure. Refuses to know: how a fact is read, how a finding is shown, the network.

mod facts;
mod findings;

pub use facts::{Facts, Found, Program};
pub use findings::{Diagnosis, Fitness, findings};
