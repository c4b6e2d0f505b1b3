//! Readings beside a launch while it is measured: GPUs, processes, the machine, the engine's
//! own metrics.
//!
//! Main type: [`Watch`], one a launch: a thread of its own that reads at a fixed rate and hands everything
//! back at the end. A source that cannot be read leaves its fields out and a sentence in `missing`; none of
//! them ever ends a session.
//!
//! Refuses to know: workloads, arms, and what a reading means for a verdict.

mod edge;
mod engine;
mod exporter;
mod exposition;
mod machine;
mod missing;
mod nvml;
mod process;
mod turns;
mod watch;

pub use exposition::{Sample, samples};
pub use nvml::{GpuAtRest, gpus};
pub use turns::Seat;
pub use watch::{Sources, Watch};
