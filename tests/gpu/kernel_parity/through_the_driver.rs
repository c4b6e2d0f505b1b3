//! All of this once more through the driver's calls, with the kernels that NVRTC makes, where there is no GPU.
//!
//! The fake driver (tests/gpu/driver/) holds each launch against what its kernel takes of a GPU, and runs the emulator's kernel
//! of that name.

use std::process::Command;

use engine::Element;
use engine::cuda::driver::Card;

use crate::driver::fake::FakeGpu;
use crate::kernel_parity::lab::ON_GPU;
use fixture::skip;

#[test]
fn through_the_driver() {
    if Card::find().is_ok() {
        // Nothing is skipped, which scripts/gpu-check takes for a run elsewhere.
        return println!("a GPU is here, and all runs through its driver");
    }
    let Some(gpu) = FakeGpu::build() else {
        return;
    };
    let this = std::env::current_exe().expect("this program");
    let again = Command::new(this)
        .args(["kernel_parity::", "--skip", "through_the_driver"])
        .envs(gpu.environment())
        .env(ON_GPU, Element::Bf16.to_string())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&again.stdout);
    if said.contains("no CUDA compiler") {
        return skip::skip("NVRTC is missing");
    }
    assert!(again.status.success(), "{said}");
    gpu.report().is_clean();
}
