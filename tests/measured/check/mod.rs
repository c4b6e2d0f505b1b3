//! `gate check` through the binary, against real engine processes: what must pass, what must be caught,
//! and that nothing is left running.
//!
//! Every test here measures, so they run one at a time whatever the number of test threads.

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

use fixture::alone;

/// Gates of a verdict in JSON whose verdict is `wanted`.
fn gates_that(verdict: &serde_json::Value, wanted: &str) -> Vec<String> {
    let gates = verdict["gates"].as_array().unwrap();
    let with = gates.iter().filter(|gate| gate["verdict"] == wanted);
    with.map(|gate| gate["gate"].as_str().unwrap().to_owned())
        .collect()
}
