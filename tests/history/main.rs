//! Main's own history: simulated sessions of known truth, and `gate history` through the binary.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]
#![allow(
    clippy::print_stdout,
    reason = "the measured rates are what these tests are for"
)]

#[path = "../common/mod.rs"]
mod common;

mod command;
mod machine;
mod notes;
mod peers;
mod random;
mod rates;
mod trends;
