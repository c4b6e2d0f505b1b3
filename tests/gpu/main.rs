//! The in-tree engine and its CUDA kernels, on a GPU or emulated.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod driver;
mod engine;
mod kernel_parity;
mod kernels;
