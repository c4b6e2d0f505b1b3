//! Events between the kernels of a graph, so that a replay times each.
//!
//! Main type: [`Marks`]. With them a kernel begins when the one before it has ended, so that the sum is more than
//! what the graph takes without.

use std::sync::Arc;

use cudarc::driver::sys::CUstream;

use super::event::CudaEvent;
use crate::backend::cuda::device::DeviceError;
use crate::backend::cuda::times::{KernelTimes, MARK, Started};

/// Marks of a capture under way, or of a finished graph.
pub(super) struct Marks {
    times: Arc<KernelTimes>,
    begin: CudaEvent,
    /// What was started, and the event behind it.
    ends: Vec<(Started, CudaEvent)>,
}

impl Marks {
    /// The stream records from here on.
    pub(super) fn begin(times: &Arc<KernelTimes>, stream: CUstream) -> Result<Self, DeviceError> {
        let mut marks = Self {
            times: Arc::clone(times),
            begin: recorded(stream)?,
            ends: Vec::new(),
        };
        marks.after(MARK, stream)?;
        Ok(marks)
    }

    pub(super) fn after(&mut self, started: Started, stream: CUstream) -> Result<(), DeviceError> {
        self.ends.push((started, recorded(stream)?));
        Ok(())
    }

    /// Nodes of the graph that are theirs.
    pub(super) fn count(&self) -> u64 {
        1 + self.ends.len() as u64
    }

    /// Adds what a replay took that has ended.
    pub(super) fn add(&self) -> Result<(), DeviceError> {
        let mut begin = &self.begin;
        for (started, end) in &self.ends {
            self.times.add(*started, begin.until(end)?);
            begin = end;
        }
        Ok(())
    }
}

fn recorded(stream: CUstream) -> Result<CudaEvent, DeviceError> {
    let event = CudaEvent::timed()?;
    event.record_within(stream)?;
    Ok(event)
}
