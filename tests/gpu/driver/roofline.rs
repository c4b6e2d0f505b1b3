//! `gate roofline --kernels`, whose events stand within recordings.

use crate::driver::start;
use fixture::process::gate;
use serde_json::Value;

#[test]
fn each_start_of_a_token_is_timed() {
    let Some(gpu) = start::with_kernels() else {
        return;
    };
    let lengths = [
        "--context",
        "9",
        "--prefill",
        "9",
        "--answer",
        "3",
        "--repeats",
        "1",
    ];
    let mut command = gate(&[
        "roofline",
        "--backend",
        "cuda",
        "--kernels",
        "--format",
        "json",
    ]);
    let output = command
        .args(lengths)
        .envs(gpu.environment())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    // As tests/gpu/engine/emulated.rs counts them: seven in each of five layers, and six.
    assert_eq!(told["launches_per_token"].as_f64(), Some(41.0), "{told:#}");
    let kernels = told["kernels"][0]["kernels"].as_array().unwrap();
    let number = |kernel: &Value, key: &str| kernel[key].as_f64().unwrap();
    let starts: f64 = kernels.iter().map(|kernel| number(kernel, "starts")).sum();
    assert!((starts - 41.0).abs() < 1e-9, "{told:#}");
    // The fake's clock: each takes a microsecond.
    let kernel_us = number(&told["machine"], "kernel_us");
    assert!((kernel_us - 1.0).abs() < 1e-3, "{told:#}");
    for kernel in kernels {
        let off = number(kernel, "us") - number(kernel, "starts");
        assert!(off.abs() < 1e-3, "{kernel}");
    }
    gpu.report().is_clean();
}
