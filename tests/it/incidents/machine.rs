//! Incidents of what stands around the engine's work: dead workers, other tenants, heat.

use super::engine::Engine;
use super::session::{Story, Told};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Twenty requests, against base.
const TWENTY: &str = r#"
kind = "steady"
requests = 20
warmup = 0
prompt_tokens = 8
output_tokens = 8
concurrency = 1
[[check]]
name = "e2e"
metric = "e2e"
rule = "regression"
margin = "10 %"
ceiling = "100 %"
min_samples = 1
"#;

/// A dead worker stood behind a `/health` that said 200.
#[test]
fn incident_24_a_dead_worker_in_good_health() {
    let told = Story {
        head: &["dead=1"],
        ready: "5 s",
        gate: TWENTY,
        ..Story::default()
    }
    .check();
    let parts = ["did not start", "generated no token", "the worker is dead"];
    told.says("e2e", "fail", "reliability", &parts);
    told.ends_with(1);
}

/// Another tenant cost 3 to 4 ms, and was taken for a change of the engine.
#[test]
fn incident_25_another_tenant() {
    let stop = AtomicBool::new(false);
    let told = thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                spin_loop();
            }
        });
        let told = Story {
            knobs: &["ttft=20"],
            telemetry: "[telemetry]\nevery = \"50 ms\"\nothers_cpu = \"0.2 cores\"",
            gate: TWENTY,
            ..Story::default()
        }
        .check();
        stop.store(true, Ordering::Relaxed);
        told
    });
    told.says(
        "e2e",
        "invalid",
        "busy-machine",
        &["other processes used", "0.2 are allowed"],
    );
    told.ends_with(4);
}

/// The box was throttling, and a "win" of 38 % had to be taken back.
#[test]
fn incident_25_the_gpu_throttles() {
    let exporter = Engine::start(&["throttle=32"]);
    let telemetry =
        format!("[telemetry]\nevery = \"50 ms\"\ngpu_exporter = \"{exporter}/metrics\"");
    let told = Story {
        telemetry: &telemetry,
        gate: TWENTY,
        ..Story::default()
    }
    .check();
    told.says("e2e", "invalid", "throttled", &["the GPU throttled in"]);
    told.ends_with(4);
    check_interleaved(&told);
}

/// Node variance cannot stand for a change: each block has a launch of both arms, on one machine.
fn check_interleaved(told: &Told) {
    let launches = told.record["launches"].as_array().unwrap();
    assert!(launches.len() >= 8);
    for block in launches.chunks(2) {
        assert_eq!(block[0]["block"], block[1]["block"]);
        assert_ne!(block[0]["arm"], block[1]["arm"]);
        assert_eq!(block[0]["fingerprint"], block[1]["fingerprint"]);
    }
}
