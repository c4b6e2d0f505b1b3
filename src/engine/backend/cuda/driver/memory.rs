//! GPU memory, given back when dropped.

use std::sync::Arc;

use cudarc::driver::sys::CUstream;
use cudarc::driver::{CudaContext, DriverError, result};

use super::error::{failed, told};
use crate::backend::cuda::device::{DeviceError, Memory, View};

pub struct GpuMemory {
    view: View,
    context: Arc<CudaContext>,
}

impl GpuMemory {
    /// Zeroed, in the stream's order.
    pub(super) fn new(
        context: &Arc<CudaContext>,
        stream: CUstream,
        bytes: usize,
    ) -> Result<Self, DeviceError> {
        let refused = |error: DriverError| DeviceError::Memory {
            bytes,
            cause: told(&error),
        };
        #[expect(unsafe_code, reason = "takes GPU memory")]
        // SAFETY: the context is current; the memory is zeroed before anything reads it.
        let address = unsafe { result::malloc_sync(bytes.max(1)) }.map_err(refused)?;
        let memory = Self {
            view: View { address, bytes },
            context: Arc::clone(context),
        };
        #[expect(unsafe_code, reason = "zeroes it")]
        // SAFETY: the line above allocated `bytes` bytes at this address.
        let zeroed = unsafe { result::memset_d8_async(address, 0, bytes, stream) };
        zeroed.map_err(|e| failed("cuMemsetD8Async", &e))?;
        Ok(memory)
    }
}

impl Memory for GpuMemory {
    fn view(&self) -> View {
        self.view
    }
}

impl Drop for GpuMemory {
    fn drop(&mut self) {
        let _ = self.context.bind_to_thread();
        #[expect(unsafe_code, reason = "gives back what `new` took")]
        // SAFETY: taken by `new` and given back once; the driver waits for work that uses it.
        unsafe {
            let _ = result::free_sync(self.view.address);
        }
    }
}
