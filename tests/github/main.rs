//! The GitHub side through the binary, and its client through the library, against a GitHub of our own
//! (`fake/`) whose every request and answer is held against GitHub's own description of its API.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod approvals;
mod authorize;
mod client;
#[path = "../common/mod.rs"]
mod common;
mod descriptions;
mod fake;
#[path = "../clients/install.rs"]
#[allow(dead_code, reason = "the clients' own tests use the rest")]
mod install;
mod job;
mod label;
mod label_refused;
mod prism;
mod proxy;
mod queue;
mod validator;
mod wishes;
