//! Host memory that the GPU copies from and to by itself.
//!
//! Main type: [`Staging`]: halves in turn, so that the host fills one while the GPU empties the other.
//! Refuses to know: what the bytes are.

use std::ffi::c_void;

use cudarc::driver::result;
use cudarc::driver::sys::CUstream;
use rayon::prelude::*;

use super::error::failed;
use super::event::CudaEvent;
use crate::backend::cuda::device::{DeviceError, View};

/// Enough for a copy to run at the bus's full rate.
const HALF_BYTES: usize = 16 << 20;

/// What one thread copies at a time: one thread alone reads a mapped file slower than the bus takes it.
const PIECE_BYTES: usize = 1 << 20;

pub(super) struct Staging {
    halves: [Half; 2],
    /// The next to be filled.
    turn: usize,
}

struct Half {
    memory: *mut c_void,
    /// Has passed when the copy out of it is done.
    emptied: CudaEvent,
}

impl Staging {
    pub(super) fn new() -> Result<Self, DeviceError> {
        Ok(Self {
            halves: [Half::new()?, Half::new()?],
            turn: 0,
        })
    }

    /// Copies to the device on `stream`; the last copies may still be under way when it returns.
    pub(super) fn send(
        &mut self,
        stream: CUstream,
        to: View,
        bytes: &[u8],
    ) -> Result<(), DeviceError> {
        let mut done = 0;
        for part in bytes.chunks(HALF_BYTES) {
            let half = &mut self.halves[self.turn];
            self.turn = 1 - self.turn;
            half.emptied.wait()?;
            copy(part, half.bytes(part.len()));
            #[expect(unsafe_code, reason = "the driver's copy")]
            // SAFETY: the target has the room, by `to`'s checks in `Driver`; the source is pinned and stays
            // as it is until its event has passed.
            unsafe {
                result::memcpy_htod_async(to.address + done as u64, half.bytes(part.len()), stream)
                    .map_err(|e| failed("cuMemcpyHtoDAsync", &e))?;
            }
            half.emptied.record(stream)?;
            done += part.len();
        }
        Ok(())
    }

    /// Copies from the device, when all of `stream` is done.
    pub(super) fn fetch(
        &mut self,
        stream: CUstream,
        from: View,
        to: &mut [u8],
    ) -> Result<(), DeviceError> {
        let mut done = 0;
        for part in to.chunks_mut(HALF_BYTES) {
            let half = &mut self.halves[self.turn];
            half.emptied.wait()?;
            #[expect(unsafe_code, reason = "the driver's copy")]
            // SAFETY: the source has the bytes, by `from`'s checks in `Driver`; the target is pinned, and
            // is read only after the stream is done.
            unsafe {
                let source = from.address + done as u64;
                result::memcpy_dtoh_async(half.bytes(part.len()), source, stream)
                    .map_err(|e| failed("cuMemcpyDtoHAsync", &e))?;
                result::stream::synchronize(stream)
                    .map_err(|e| failed("cuStreamSynchronize", &e))?;
            }
            part.copy_from_slice(half.bytes(part.len()));
            done += part.len();
        }
        Ok(())
    }
}

fn copy(from: &[u8], to: &mut [u8]) {
    if from.len() <= PIECE_BYTES {
        return to.copy_from_slice(from);
    }
    let pieces = to
        .par_chunks_mut(PIECE_BYTES)
        .zip(from.par_chunks(PIECE_BYTES));
    pieces.for_each(|(to, from)| to.copy_from_slice(from));
}

impl Half {
    fn new() -> Result<Self, DeviceError> {
        let emptied = CudaEvent::untimed()?;
        #[expect(unsafe_code, reason = "pinned memory")]
        // SAFETY: a context is current; the memory is zeroed before anything reads it.
        let memory = unsafe {
            let memory =
                result::malloc_host(HALF_BYTES, 0).map_err(|e| failed("cuMemHostAlloc", &e))?;
            memory.cast::<u8>().write_bytes(0, HALF_BYTES);
            memory
        };
        Ok(Self { memory, emptied })
    }

    fn bytes(&mut self, count: usize) -> &mut [u8] {
        assert!(count <= HALF_BYTES);
        #[expect(unsafe_code, reason = "pinned memory")]
        // SAFETY: it is that long, zeroed at first, and this borrow is the only one on the host.
        unsafe {
            std::slice::from_raw_parts_mut(self.memory.cast(), count)
        }
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        drop(self.emptied.wait());
        #[expect(unsafe_code, reason = "gives back what `new` took")]
        // SAFETY: the event has passed or the context is broken, which this call only reports.
        unsafe {
            let _ = result::free_host(self.memory);
        }
    }
}
