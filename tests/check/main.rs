//! `gate check` through the binary, against real engine processes: what must pass, what must be caught,
//! and that nothing is left running.
//!
//! Every test here measures, so they run one at a time whatever the number of test threads.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/skip.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod skip;

mod attacks;
mod baseline;
mod broken_engines;
mod clones;
mod commits;
mod escapes;
mod every_gate;
mod faults;
mod interrupted;
mod null;
mod own_numbers;
mod profiles;
mod same_build;
mod suite;

use common::alone;

/// Gates of a verdict in JSON whose verdict is `wanted`.
fn gates_that(verdict: &serde_json::Value, wanted: &str) -> Vec<String> {
    let gates = verdict["gates"].as_array().unwrap();
    let with = gates.iter().filter(|gate| gate["verdict"] == wanted);
    with.map(|gate| gate["gate"].as_str().unwrap().to_owned())
        .collect()
}
