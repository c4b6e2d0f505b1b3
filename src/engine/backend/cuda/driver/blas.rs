//! Products by cuBLASLt.
//!
//! Main type: [`Blas`]. Refuses to know: which algorithm is best; it only lists and runs them.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys::{
    self, cublasComputeType_t, cublasLtMatmulAlgo_t, cublasLtMatmulDescAttributes_t,
    cublasLtMatmulPreferenceAttributes_t, cudaDataType,
};
use cudarc::driver::CudaContext;
use cudarc::driver::sys::CUstream;

use super::memory::GpuMemory;
use crate::backend::cuda::device::{DeviceError, Memory, Product};
use crate::backend::cuda::sources::Element;

/// As NVIDIA recommends for GPUs of compute capability 9.
const WORKSPACE_BYTES: usize = 32 << 20;

/// CUBLAS_OP_T.
const TRANSPOSED: i32 = 1;

/// Algorithms asked for.
const WANTED: usize = 16;

pub(super) struct Blas {
    handle: sys::cublasLtHandle_t,
    workspace: GpuMemory,
    element: cudaDataType,
}

impl Blas {
    pub(super) fn new(
        context: &Arc<CudaContext>,
        stream: CUstream,
        element: Element,
    ) -> Result<Self, DeviceError> {
        Ok(Self {
            workspace: GpuMemory::new(context, stream, WORKSPACE_BYTES)?,
            handle: result::create_handle().map_err(|e| failed("cublasLtCreate", e))?,
            element: match element {
                Element::Bf16 => cudaDataType::CUDA_R_16BF,
                Element::F16 => cudaDataType::CUDA_R_16F,
                Element::F32 => cudaDataType::CUDA_R_32F,
            },
        })
    }

    pub(super) fn algorithms(
        &self,
        product: &Product,
    ) -> Result<Vec<cublasLtMatmulAlgo_t>, DeviceError> {
        let shape = BlasShape::new(product, self.element)?;
        let preference = Preference::new()?;
        #[expect(unsafe_code, reason = "calls cuBLASLt")]
        // SAFETY: plain numbers, for which zeros are valid values.
        let mut found: [sys::cublasLtMatmulHeuristicResult_t; WANTED] =
            unsafe { std::mem::zeroed() };
        let mut count = 0;
        #[expect(unsafe_code, reason = "calls cuBLASLt")]
        // SAFETY: every handle lives; `found` has room for as many as are asked for.
        let status = unsafe {
            sys::cublasLtMatmulAlgoGetHeuristic(
                self.handle,
                shape.operation,
                shape.weight,
                shape.x,
                shape.out,
                shape.out,
                preference.0,
                WANTED as i32,
                found.as_mut_ptr(),
                &raw mut count,
            )
        };
        status
            .result()
            .map_err(|e| failed("cublasLtMatmulAlgoGetHeuristic", e))?;
        let usable = found
            .iter()
            .take(count as usize)
            .filter(|one| one.state.result().is_ok());
        Ok(usable.map(|one| one.algo).collect())
    }

    pub(super) fn run(
        &self,
        stream: CUstream,
        product: &Product,
        algorithm: &cublasLtMatmulAlgo_t,
    ) -> Result<(), DeviceError> {
        let shape = BlasShape::new(product, self.element)?;
        let (one, zero) = (1.0f32, 0.0f32);
        let workspace = self.workspace.view();
        #[expect(unsafe_code, reason = "calls cuBLASLt")]
        // SAFETY: handles live; the launcher held the sizes against the room of each pointer; the factors
        // are on the host and read at once.
        let done = unsafe {
            result::matmul(
                self.handle,
                shape.operation,
                (&raw const one).cast(),
                (&raw const zero).cast(),
                product.weight.address as *const c_void,
                shape.weight,
                product.x.address as *const c_void,
                shape.x,
                product.out.address as *const c_void,
                shape.out,
                product.out.address as *mut c_void,
                shape.out,
                algorithm,
                workspace.address as *mut c_void,
                workspace.bytes,
                stream.cast(),
            )
        };
        done.map_err(|e| failed("cublasLtMatmul", e))
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "gives back what `new` took")]
        // SAFETY: nothing uses it any more.
        unsafe {
            let _ = result::destroy_handle(self.handle);
        }
    }
}

/// A product in the library's words, which count by columns: outᵀ = weight · xᵀ.
struct BlasShape {
    operation: sys::cublasLtMatmulDesc_t,
    weight: sys::cublasLtMatrixLayout_t,
    x: sys::cublasLtMatrixLayout_t,
    out: sys::cublasLtMatrixLayout_t,
}

impl BlasShape {
    fn new(product: &Product, element: cudaDataType) -> Result<Self, DeviceError> {
        let Product { n, rows, cols, .. } = *product;
        let layout = |kind, rows: usize, cols: usize| {
            result::create_matrix_layout(kind, rows as u64, cols as u64, rows as i64)
                .map_err(|e| failed("cublasLtMatrixLayoutCreate", e))
        };
        // What was made is given back by `drop` also where a later one fails.
        let mut shape = Self {
            operation: std::ptr::null_mut(),
            weight: std::ptr::null_mut(),
            x: std::ptr::null_mut(),
            out: std::ptr::null_mut(),
        };
        let compute = cublasComputeType_t::CUBLAS_COMPUTE_32F;
        shape.operation = result::create_matmul_desc(compute, cudaDataType::CUDA_R_32F)
            .map_err(|e| failed("cublasLtMatmulDescCreate", e))?;
        shape.weight = layout(element, cols, rows)?;
        shape.x = layout(element, cols, n)?;
        shape.out = layout(cudaDataType::CUDA_R_32F, rows, n)?;
        let transposed = TRANSPOSED;
        #[expect(unsafe_code, reason = "calls cuBLASLt")]
        // SAFETY: the attribute is an operation, and copied.
        let set = unsafe {
            result::set_matmul_desc_attribute(
                shape.operation,
                cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSA,
                (&raw const transposed).cast(),
                size_of_val(&transposed),
            )
        };
        set.map_err(|e| failed("cublasLtMatmulDescSetAttribute", e))?;
        Ok(shape)
    }
}

impl Drop for BlasShape {
    fn drop(&mut self) {
        for layout in [self.weight, self.x, self.out] {
            if !layout.is_null() {
                #[expect(unsafe_code, reason = "gives back what `new` took")]
                // SAFETY: made by `new`, and no one else's.
                unsafe {
                    let _ = result::destroy_matrix_layout(layout);
                }
            }
        }
        if !self.operation.is_null() {
            #[expect(unsafe_code, reason = "gives back what `new` took")]
            // SAFETY: as above.
            unsafe {
                let _ = result::destroy_matmul_desc(self.operation);
            }
        }
    }
}

struct Preference(sys::cublasLtMatmulPreference_t);

impl Preference {
    fn new() -> Result<Self, DeviceError> {
        let made = result::create_matmul_pref();
        let preference = Self(made.map_err(|e| failed("cublasLtMatmulPreferenceCreate", e))?);
        let most = WORKSPACE_BYTES;
        #[expect(unsafe_code, reason = "calls cuBLASLt")]
        // SAFETY: the attribute is a count of bytes, and copied.
        let set = unsafe {
            result::set_matmul_pref_attribute(
                preference.0,
                cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                (&raw const most).cast(),
                size_of::<usize>(),
            )
        };
        set.map_err(|e| failed("cublasLtMatmulPreferenceSetAttribute", e))?;
        Ok(preference)
    }
}

impl Drop for Preference {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "gives back what `new` took")]
        // SAFETY: made by `new`, and no one else's.
        unsafe {
            let _ = result::destroy_matmul_pref(self.0);
        }
    }
}

fn failed(call: &'static str, error: CublasError) -> DeviceError {
    DeviceError::Failed {
        call,
        cause: format!("{:?}", error.0),
    }
}
