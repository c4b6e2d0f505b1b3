//! Main's records between runners: `gate baseline push | pull | sign | prune` on a git branch and on a bucket.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../clients/install.rs"]
#[allow(dead_code, reason = "the clients' own tests use the rest")]
mod install;

mod certificates;
mod endings;
mod git;
mod hostile;
mod moto;
mod notes;
mod old;
mod proxy;
mod runner;
mod sign;
mod together;
