//! infergate: a regression gate for LLM inference engines.
//!
//! Two islands that meet only over HTTP. The gate:
//!
//! ```text
//! gates/*.toml ─ plan ─┐
//!       git refs ─ launch ─ engine processes
//!                      │          ▲ HTTP
//!                      └ measure ─ load ─► RunRecord ─ judge ─► RunVerdict ─ report ─► text
//! ```
//!
//! and the engine: [`engine`] (model, cache, scheduler, backend) behind [`server`] (HTTP), which never
//! knows that it is being measured. Read [`pipeline`] first: it names every stage in order.

pub mod cli;
pub mod pipeline;

pub mod plan;

pub mod launch;
pub mod load;
pub mod measure;
pub mod sandbox;
pub mod telemetry;

pub mod doctor;

pub mod baseline;
pub mod calibration;
pub mod history;
pub mod judge;
pub mod metrics;
pub mod stats;

pub mod figures;
pub mod import;
pub mod presets;
pub mod report;
pub mod selftest;

pub mod record;

pub mod github;

pub mod engine;
pub mod server;

pub mod proxy;

pub mod roofline;

mod digest;
mod fault_value;
mod plural;
mod splitmix;

#[cfg(test)]
use fixture::skip;
