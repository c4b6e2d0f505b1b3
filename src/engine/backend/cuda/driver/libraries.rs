//! Search for NVIDIA's libraries and the functions needed of them.
//!
//! Main function: [`check`]. cudarc panics where a library or a symbol is missing, so that nothing of it may
//! be called before. Refuses to know: what the functions do.

use std::ffi::c_void;
use std::path::Path;

use cudarc::{cublaslt, driver};

use crate::backend::cuda::device::DeviceError;

/// All that `super` and what it uses of cudarc call.
const DRIVER: &[&str] = &[
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDriverGetVersion",
    ELAPSED,
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventRecordWithFlags",
    "cuEventSynchronize",
    "cuFuncSetAttribute",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphGetNodes",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuGraphUpload",
    "cuInit",
    "cuLaunchKernelEx",
    "cuMemAlloc_v2",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuStreamBeginCapture_v2",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamEndCapture",
    "cuStreamSynchronize",
];

const CUBLASLT: &[&str] = &[
    "cublasLtCreate",
    "cublasLtDestroy",
    "cublasLtGetVersion",
    "cublasLtMatmul",
    "cublasLtMatmulAlgoGetHeuristic",
    "cublasLtMatmulDescCreate",
    "cublasLtMatmulDescDestroy",
    "cublasLtMatmulDescSetAttribute",
    "cublasLtMatmulPreferenceCreate",
    "cublasLtMatmulPreferenceDestroy",
    "cublasLtMatmulPreferenceSetAttribute",
    "cublasLtMatrixLayoutCreate",
    "cublasLtMatrixLayoutDestroy",
];

/// Drivers older than 12.8 lack what cudarc calls in its place.
const ELAPSED: &str = "cuEventElapsedTime";

pub(super) fn check() -> Result<(), DeviceError> {
    #[expect(unsafe_code, reason = "loads NVIDIA's libraries")]
    // SAFETY: loading them runs their constructors, which is what using them means.
    let (has_driver, has_blas) = unsafe {
        (
            driver::sys::is_culib_present(),
            cublaslt::sys::is_culib_present(),
        )
    };
    if !has_driver {
        return missing(
            "no NVIDIA driver: libcuda.so was not found; install the driver of the GPU",
        );
    }
    if !has_blas {
        return missing(
            "no cuBLAS: libcublasLt.so was not found; `python3 -m pip install nvidia-cublas-cu12` brings it, \
             and LD_LIBRARY_PATH must name the folder nvidia/cublas/lib that it lies in",
        );
    }
    #[expect(unsafe_code, reason = "the libraries that were just found")]
    // SAFETY: both are there.
    let (driver, blas) = unsafe { (driver::sys::culib(), cublaslt::sys::culib()) };
    for (library, symbols, update) in [
        (
            driver,
            DRIVER,
            "the NVIDIA driver (12.0 or newer is needed)",
        ),
        (blas, CUBLASLT, "cuBLAS (12.0 or newer is needed)"),
    ] {
        for symbol in symbols {
            #[expect(unsafe_code, reason = "asks whether a symbol is there")]
            // SAFETY: it is not called.
            let found = unsafe { library.get::<*const c_void>(symbol.as_bytes()) };
            if found.is_err() {
                return missing(&format!("{symbol} is missing; update {update}"));
            }
        }
    }
    Ok(())
}

/// CUDA's major version that cuBLAS was made for.
pub(super) fn blas_major() -> u32 {
    #[expect(unsafe_code, reason = "asks cuBLASLt")]
    // SAFETY: `check` found the symbol; it only gives a number, as 130100 for 13.1.
    let version = unsafe { cublaslt::sys::cublasLtGetVersion() };
    (version / 10_000) as u32
}

/// A library for a newer major version of CUDA than the driver's has kernels that it does not load.
/// `driver`: as 12030 for 12.3.
pub(super) fn check_age(library: &str, major: u32, driver: u32) -> Result<(), DeviceError> {
    let known = self::major(driver);
    if major <= known {
        return Ok(());
    }
    let minor = minor(driver);
    missing(&format!(
        "{library} is for CUDA {major}, and the NVIDIA driver for {known}.{minor}; update the driver, or have \
         {library} for CUDA {known} in LD_LIBRARY_PATH and no newer one"
    ))
}

/// Where no compiler is, and all kernels in the cache are for a newer major version than the driver's.
pub(super) fn too_new(cache: &Path, driver: u32) -> DeviceError {
    let (cache, known, minor) = (cache.display(), major(driver), minor(driver));
    DeviceError::Missing(format!(
        "the kernels in {cache} are for a newer CUDA than {known}.{minor}, which the NVIDIA driver is for; update the \
         driver, or have NVRTC for CUDA {known} in LD_LIBRARY_PATH"
    ))
}

/// 12 of a driver's 12030, as `minor` is 3.
pub(super) fn major(driver: u32) -> u32 {
    driver / 1000
}

fn minor(driver: u32) -> u32 {
    driver % 1000 / 10
}

fn missing(what: &str) -> Result<(), DeviceError> {
    Err(DeviceError::Missing(what.to_owned()))
}

type Elapsed = unsafe extern "C" fn(
    *mut f32,
    driver::sys::CUevent,
    driver::sys::CUevent,
) -> driver::sys::CUresult;

/// Milliseconds between two events that have passed.
pub(super) fn elapsed_ms(
    start: driver::sys::CUevent,
    end: driver::sys::CUevent,
) -> Result<f32, DeviceError> {
    let mut time = 0.0;
    #[expect(unsafe_code, reason = "calls the driver")]
    // SAFETY: `check` found the symbol before any event could be made; it has this signature since CUDA 2.
    let result = unsafe {
        let call = driver::sys::culib().get::<Elapsed>(ELAPSED.as_bytes());
        let call = call.map_err(|error| DeviceError::Missing(error.to_string()))?;
        call(&raw mut time, start, end)
    };
    let failed = |error: driver::DriverError| super::error::failed(ELAPSED, &error);
    result.result().map_err(failed)?;
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_may_be_older_than_the_driver_and_of_its_major() {
        for (major, driver) in [(12, 12_000), (12, 12_090), (12, 13_000), (13, 13_010)] {
            assert!(check_age("cuBLAS", major, driver).is_ok());
        }
        let refused = check_age("NVRTC", 13, 12_080)
            .expect_err("too new")
            .to_string();
        let (is, remedy) = ("NVRTC is for CUDA 13", "the NVIDIA driver for 12.8; update");
        assert!(
            refused.contains(is) && refused.contains(remedy),
            "{refused}"
        );
    }
}
