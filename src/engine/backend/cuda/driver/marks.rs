//! Events between a recording's starts, so that a replay tells what each took.
//!
//! Main type: [`Marks`]. With them a kernel begins when the one before it has ended, so that the sum is more than
//! what the recording takes without. Refuses to know: what is recorded.

use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::result;
use cudarc::driver::sys::{self, CUevent, CUevent_flags, CUstream};

use super::{failed, libraries};
use crate::engine::backend::cuda::device::DeviceError;
use crate::engine::backend::cuda::times::{KernelTimes, MARK, Started};

/// The event is another node of the recording, and is recorded anew by each replay.
const IN_RECORDING: u32 = sys::CUevent_record_flags_enum::CU_EVENT_RECORD_EXTERNAL as u32;

/// Of a recording under way, or of one that is made.
pub(super) struct Marks {
    times: Arc<KernelTimes>,
    begin: Event,
    /// What was started, and the event behind it.
    ends: Vec<(Started, Event)>,
}

struct Event(CUevent);

impl Marks {
    /// The stream records from here on.
    pub(super) fn begin(times: &Arc<KernelTimes>, stream: CUstream) -> Result<Self, DeviceError> {
        let mut marks = Self {
            times: Arc::clone(times),
            begin: Event::in_recording(stream)?,
            ends: Vec::new(),
        };
        marks.after(MARK, stream)?;
        Ok(marks)
    }

    pub(super) fn after(&mut self, started: Started, stream: CUstream) -> Result<(), DeviceError> {
        self.ends.push((started, Event::in_recording(stream)?));
        Ok(())
    }

    /// How many nodes of the recording are theirs.
    pub(super) fn count(&self) -> u64 {
        1 + self.ends.len() as u64
    }

    /// Adds what a replay took that has ended.
    pub(super) fn add(&self) -> Result<(), DeviceError> {
        let mut begin = &self.begin;
        for (started, end) in &self.ends {
            let ms = libraries::elapsed_ms(begin.0, end.0)?;
            let time = Duration::from_secs_f64(f64::from(ms.max(0.0)) / 1e3);
            self.times.add(*started, time);
            begin = end;
        }
        Ok(())
    }
}

impl Event {
    fn in_recording(stream: CUstream) -> Result<Self, DeviceError> {
        let event = result::event::create(CUevent_flags::CU_EVENT_DEFAULT);
        let event = Self(event.map_err(|e| failed("cuEventCreate", &e))?);
        #[expect(unsafe_code, reason = "records an event")]
        // SAFETY: the event lives as long as the recording does, by whom both are kept.
        let done = unsafe { sys::cuEventRecordWithFlags(event.0, stream, IN_RECORDING) };
        done.result()
            .map_err(|e| failed("cuEventRecordWithFlags", &e))?;
        Ok(event)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "gives back what `in_recording` made")]
        // SAFETY: made once, given back once.
        unsafe {
            let _ = result::event::destroy(self.0);
        }
    }
}
