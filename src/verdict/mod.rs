//! Gate files, metrics, statistics and the verdict: pure functions of plain data.
//!
//! [`plan`] reads gate files, [`metrics`] makes numbers of samples, [`judge`] makes the verdict of a record.

pub mod judge;
pub mod metrics;
pub mod plan;
pub mod record;
pub mod stats;

pub mod digest;
pub mod plural;
pub mod splitmix;
