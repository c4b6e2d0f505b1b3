//! Main's own history: simulated sessions of known truth, and `gate history` through the binary.

#![allow(
    clippy::print_stdout,
    reason = "the measured rates are what these tests are for"
)]

mod alarms;
mod command;
mod machine;
mod notes;
mod peers;
mod rates;
mod site;
mod trends;
