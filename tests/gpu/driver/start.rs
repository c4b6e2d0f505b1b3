//! `gate serve` on the fake GPU.

use crate::driver::fake::FakeGpu;
use fixture::process::{Server, gate};
use fixture::skip::skip;
use nix::sys::signal::Signal;
use std::process::{Output, Stdio};

/// With compiled kernels at hand. `None`, with a line, where a compiler is missing.
pub(crate) fn with_kernels() -> Option<FakeGpu> {
    let gpu = FakeGpu::build()?;
    // Tests begin at once: the first compiles, and the others wait for what it leaves.
    let _turn = fixture::turn("compiling");
    // It ends behind the kernels.
    let output = to_end(&gpu, &[], &[("FAKE_CUDA_FAIL", "cuStreamCreate:1:999")]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    if stderr.contains("no CUDA compiler") {
        skip(stderr.trim());
        return None;
    }
    assert!(stderr.contains("cuStreamCreate"), "{stderr}");
    Some(gpu)
}

/// One that must end by itself.
pub(crate) fn to_end(gpu: &FakeGpu, flags: &[&str], more: &[(&str, &str)]) -> Output {
    let mut command = gate(&["serve", "--port", "0", "--backend", "cuda"]);
    // A GPU's own steps are too large for a fake one.
    command.args(["--step-tokens", "256"]).args(flags);
    command.envs(gpu.environment()).envs(more.iter().copied());
    command.stdout(Stdio::null()).output().unwrap()
}

/// Ends it as an operator does.
pub(crate) fn end(mut server: Server) {
    server.signal(Signal::SIGTERM);
    assert_eq!(server.exit_code(), Some(0), "{}", server.last_words());
}

/// One that listens.
pub(crate) fn server(gpu: &FakeGpu, flags: &[&str], more: &[(&str, &str)]) -> Server {
    let environment = gpu.environment();
    let own = environment
        .iter()
        .map(|(name, value)| (*name, value.as_str()));
    let all: Vec<(&str, &str)> = own.chain(more.iter().copied()).collect();
    Server::start_with(flags, &all)
}
