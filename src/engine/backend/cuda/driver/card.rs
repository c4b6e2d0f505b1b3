//! A GPU that was found, with its context and kernels, before any work.
//!
//! Main type: [`Card`]; it may go to another thread. Refuses to know: streams, memory.

use std::sync::{Arc, OnceLock};

use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};
use cudarc::driver::{CudaContext, DriverError};

use super::error::{failed, told};
use super::libraries;
use crate::backend::cuda::cache::KernelCache;
use crate::backend::cuda::compile::{self, Module};
use crate::backend::cuda::device::{DeviceError, DeviceFacts};
use crate::backend::cuda::sources::{Arch, Element, OLDEST};

pub struct Card {
    pub(super) context: Arc<CudaContext>,
    pub(super) facts: DeviceFacts,
}

/// The same with kernels.
pub struct Equipped {
    pub(super) card: Card,
    pub(super) element: Element,
    pub(super) modules: Vec<Module>,
    /// Why the cache did not take what was compiled.
    pub(super) not_kept: Option<String>,
}

impl Card {
    /// The first GPU. Nothing panics where there is none, or no driver.
    pub fn find() -> Result<Self, DeviceError> {
        libraries::check()?;
        let none = |error| format!("no GPU that CUDA can use: {}", told(&error));
        let context = kept_context().map_err(|error| DeviceError::Missing(none(error)))?;
        libraries::check_age("cuBLAS", libraries::blas_major(), driver_version()?)?;
        let attribute = |which| {
            let value = context
                .attribute(which)
                .map_err(|e| failed("cuDeviceGetAttribute", &e))?;
            usize::try_from(value).map_err(|_| DeviceError::Failed {
                call: "cuDeviceGetAttribute",
                cause: format!("{which:?} is {value}"),
            })
        };
        let facts = DeviceFacts {
            name: context.name().map_err(|e| failed("cuDeviceGetName", &e))?,
            arch: Arch {
                major: attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? as u32,
                minor: attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)? as u32,
            },
            multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            shared_bytes: attribute(
                Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
            )?,
        };
        if facts.arch < OLDEST {
            let DeviceFacts { name, arch, .. } = facts;
            return Err(DeviceError::Missing(format!(
                "no GPU that the kernels run on: they need {OLDEST} or newer, and {name} is {arch}"
            )));
        }
        Ok(Self { context, facts })
    }

    pub fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    pub fn free_bytes(&self) -> Result<usize, DeviceError> {
        free_bytes(&self.context)
    }

    /// Takes the kernels from the cache, or compiles them.
    pub fn equip(self, element: Element, cache: &KernelCache) -> Result<Equipped, DeviceError> {
        let modules = self.modules(element, cache)?;
        Ok(Equipped {
            card: self,
            element,
            not_kept: compile::why_not_kept(&modules, cache),
            modules,
        })
    }

    /// None that the driver does not load: of a newer major version of CUDA than its own.
    fn modules(&self, element: Element, cache: &KernelCache) -> Result<Vec<Module>, DeviceError> {
        let driver = driver_version()?;
        let missing = match compile::compiler_version() {
            Ok(compiler) => {
                libraries::check_age("NVRTC", compiler.major, driver)?;
                return Ok(compile::modules(self.facts.arch, element, cache)?);
            }
            Err(missing) => missing,
        };
        let stored = |most_major| compile::stored(self.facts.arch, element, cache, most_major);
        if let Some(modules) = stored(libraries::major(driver)) {
            return Ok(modules);
        }
        match cache.directory().filter(|_| stored(u32::MAX).is_some()) {
            Some(directory) => Err(libraries::too_new(directory, driver)),
            None => Err(missing.into()),
        }
    }
}

impl Equipped {
    pub fn element(&self) -> Element {
        self.element
    }

    pub fn free_bytes(&self) -> Result<usize, DeviceError> {
        self.card.free_bytes()
    }

    /// Where kernels were compiled that the next start has to compile again: why.
    pub fn not_kept(&self) -> Option<&str> {
        self.not_kept.as_deref()
    }
}

/// One for the process: the driver takes down what a context has once its last owner is gone, under libraries
/// that go on.
fn kept_context() -> Result<Arc<CudaContext>, DriverError> {
    static KEPT: OnceLock<Arc<CudaContext>> = OnceLock::new();
    if let Some(kept) = KEPT.get() {
        return Ok(Arc::clone(kept));
    }
    let made = CudaContext::new(0)?;
    Ok(Arc::clone(KEPT.get_or_init(|| made)))
}

/// CUDA's version that the driver knows, as 12030 for 12.3.
pub(super) fn driver_version() -> Result<u32, DeviceError> {
    let mut version = 0;
    #[expect(unsafe_code, reason = "asks the driver")]
    // SAFETY: it writes one int.
    let done = unsafe { sys::cuDriverGetVersion(&raw mut version) };
    done.result()
        .map_err(|e| failed("cuDriverGetVersion", &e))?;
    Ok(version.unsigned_abs())
}

pub(super) fn free_bytes(context: &CudaContext) -> Result<usize, DeviceError> {
    let bound = context.bind_to_thread();
    bound.map_err(|e| failed("cuCtxSetCurrent", &e))?;
    let (free, _) =
        cudarc::driver::result::mem_get_info().map_err(|e| failed("cuMemGetInfo", &e))?;
    Ok(free)
}
