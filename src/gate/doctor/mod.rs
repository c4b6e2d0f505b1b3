//! Fitness of a machine to measure: its readings against what the project needs.
//!
//! Main function: [`findings()`], pure. Refuses to know: how a fact is read, how a finding is shown, the network.

mod facts;
mod findings;

pub use facts::{Facts, Found, Program};
pub use findings::{Diagnosis, Fitness, findings};
