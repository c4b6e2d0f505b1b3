//! A point in a stream's work: whether the GPU has passed it, and when.
//!
//! Main type: [`CudaEvent`].

use std::ffi::c_uint;
use std::time::Duration;

use cudarc::driver::result;
use cudarc::driver::sys::{self, CUevent, CUevent_flags, CUstream};

use super::error::failed;
use super::libraries;
use crate::backend::cuda::device::DeviceError;

/// Within a capture the event is a node of the graph, recorded again by each replay.
const IN_RECORDING: c_uint = sys::CUevent_record_flags_enum::CU_EVENT_RECORD_EXTERNAL as c_uint;

/// Needs a current context for as long as it lives.
pub(super) struct CudaEvent(CUevent);

impl CudaEvent {
    /// One that [`CudaEvent::until`] can be asked of.
    pub(super) fn timed() -> Result<Self, DeviceError> {
        Self::new(CUevent_flags::CU_EVENT_DEFAULT)
    }

    /// One that can only be waited for.
    pub(super) fn untimed() -> Result<Self, DeviceError> {
        Self::new(CUevent_flags::CU_EVENT_DISABLE_TIMING)
    }

    fn new(flags: CUevent_flags) -> Result<Self, DeviceError> {
        let event = result::event::create(flags);
        Ok(Self(event.map_err(|e| failed("cuEventCreate", &e))?))
    }

    /// Behind all work that `stream` has so far.
    pub(super) fn record(&self, stream: CUstream) -> Result<(), DeviceError> {
        #[expect(unsafe_code, reason = "records an event")]
        // SAFETY: it lives, and so does the stream, by whom it is asked.
        let done = unsafe { result::event::record(self.0, stream) };
        done.map_err(|e| failed("cuEventRecord", &e))
    }

    /// Behind all that the capture in `stream` has so far, again at each replay; it must live as
    /// long as the graph does.
    pub(super) fn record_within(&self, stream: CUstream) -> Result<(), DeviceError> {
        #[expect(unsafe_code, reason = "records an event")]
        // SAFETY: as above.
        let done = unsafe { sys::cuEventRecordWithFlags(self.0, stream, IN_RECORDING) };
        done.result()
            .map_err(|e| failed("cuEventRecordWithFlags", &e))
    }

    /// Waits until it has passed. One that was never recorded has.
    pub(super) fn wait(&self) -> Result<(), DeviceError> {
        #[expect(unsafe_code, reason = "waits for an event")]
        // SAFETY: it lives.
        let waited = unsafe { result::event::synchronize(self.0) };
        waited.map_err(|e| failed("cuEventSynchronize", &e))
    }

    /// From here to `end`, both timed and passed.
    pub(super) fn until(&self, end: &Self) -> Result<Duration, DeviceError> {
        let ms = libraries::elapsed_ms(self.0, end.0)?;
        Ok(Duration::from_secs_f64(f64::from(ms.max(0.0)) / 1e3))
    }
}

impl Drop for CudaEvent {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "gives back what `new` made")]
        // SAFETY: made once, given back once; the driver keeps it while work in a stream still needs it.
        unsafe {
            let _ = result::event::destroy(self.0);
        }
    }
}
