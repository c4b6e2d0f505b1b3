//! Sessions that measure, against real engine processes: what must pass, what must be caught. They run one at a time, with
//! nothing beside them, whatever the number of test threads.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod every_gate;
mod faults;
mod null;
mod profiles;
mod scaled;

/// Gates of a verdict in JSON whose verdict is `wanted`.
fn gates_that(verdict: &serde_json::Value, wanted: &str) -> Vec<String> {
    let gates = verdict["gates"].as_array().unwrap();
    let with = gates.iter().filter(|gate| gate["verdict"] == wanted);
    with.map(|gate| gate["gate"].as_str().unwrap().to_owned())
        .collect()
}
