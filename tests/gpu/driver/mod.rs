//! The CUDA backend through the driver's interface, on a machine without a GPU.
//!
//! `gate` finds a `libcuda.so` and a `libcublasLt.so` of ours (`cuda.cpp`, `cublaslt.cpp`), which do what NVIDIA's
//! documentation says, as late as it allows, and report what it forbids. So everything of
//! `src/engine/backend/cuda/driver/` is run here but for the GPU.

#![expect(clippy::print_stdout, reason = "which seed")]

pub(crate) mod fake;
mod losses;
mod refusals;
mod roofline;
mod served;
mod start;
