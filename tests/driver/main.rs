//! The CUDA backend through the driver's interface, on a machine without a GPU.
//!
//! `gate` finds a `libcuda.so` and a `libcublasLt.so` of ours (`cuda.cpp`, `cublaslt.cpp`), which do what NVIDIA's
//! documentation says, as late as it allows, and report what it forbids. So everything of
//! `src/engine/backend/cuda/driver/` is run here but for the GPU.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "which seed")]

#[path = "../common/mod.rs"]
mod common;
mod fake;
#[path = "../serve/http.rs"]
#[allow(dead_code, reason = "the server's own tests use the rest")]
mod http;
mod losses;
#[path = "../serve/process.rs"]
#[allow(dead_code, reason = "the server's own tests use the rest")]
mod process;
mod refusals;
mod roofline;
mod served;
#[path = "../common/skip.rs"]
mod skip;
mod start;
