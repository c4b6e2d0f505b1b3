//! Tests through the binary and the public API, one module for each part of the tool.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod architecture;
mod baselines;
mod bisect;
mod calibrate;
mod check;
mod clients;
mod completions;
mod doctor;
mod engines;
mod explain;
mod fuzz;
mod github;
mod history;
mod incidents;
mod judge;
mod load;
mod parity;
mod proxy;
mod publish;
mod quirks;
mod refusals;
mod replay;
mod resume;
mod sandbox;
mod scenarios;
mod schemas;
mod selftest;
mod serve;
mod shards;
mod stats_vectors;
mod story;
mod telemetry;
mod verdict_vectors;
