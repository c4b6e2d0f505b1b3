//! Failed calls of the driver as [`DeviceError`]s.

use cudarc::driver::DriverError;

use crate::backend::cuda::device::DeviceError;

pub(super) fn failed(call: &'static str, error: &DriverError) -> DeviceError {
    DeviceError::Failed {
        call,
        cause: told(error),
    }
}

/// In the driver's words, and by the name that its documentation has.
pub(super) fn told(error: &DriverError) -> String {
    let name = format!("{:?}", error.0);
    match error.error_string() {
        Ok(words) => format!("{} ({name})", words.to_string_lossy()),
        Err(_) => name,
    }
}
