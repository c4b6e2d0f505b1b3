//! The GitHub side through the binary, and its client through the library, against a GitHub of our own
//! (`fake/`) whose every request and answer is held against GitHub's own description of its API.

mod approvals;
mod authorize;
mod client;
mod descriptions;
mod download;
mod job;
mod label;
mod label_refused;
mod prism;
mod proxy;
mod queue;
mod wishes;
