//! infergate: a regression gate for LLM inference engines.
//!
//! Two islands that meet only over HTTP. The gate:
//!
//! ```text
//! gates/*.toml ─ plan ─┐
//!       git refs ─ launch ─ engine processes
//!                      │          ▲ HTTP
//!                      └ measure ─ client ─► RunRecord ─ judge ─► RunVerdict ─ report ─► text
//! ```
//!
//! and the package `engine`: a model behind HTTP, which never knows that it is being measured. Plans, metrics and
//! the judge are the package `verdict`; the load client is `client`; GitHub's API is `github`. Read [`session`]
//! first: its `run` calls every stage in order.

pub mod cli;
pub mod commands;
pub mod session;

pub mod launch;
pub mod measure;
pub mod sandbox;

pub mod doctor;
pub mod explanation;

pub mod baseline;
pub mod calibration;
pub mod history;

pub mod figures;
pub mod import;
pub mod presets;
pub mod report;
pub mod selftest;

pub mod proxy;

pub mod roofline;

#[cfg(test)]
use fixture::skip;
