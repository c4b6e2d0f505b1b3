//! Whether NVIDIA's libraries are here, with all that is asked of them.
//!
//! Main function: [`check`]. cudarc panics where a library or a symbol is missing, so that nothing of it may
//! be called before. Refuses to know: what the functions do.

use std::ffi::c_void;

use cudarc::{cublaslt, driver};

use crate::engine::backend::cuda::device::DeviceError;

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
    let failed = |error: driver::DriverError| super::failed(ELAPSED, &error);
    result.result().map_err(failed)?;
    Ok(time)
}
