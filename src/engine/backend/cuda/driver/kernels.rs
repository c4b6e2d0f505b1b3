//! The compiled kernels, loaded, by name.
//!
//! Main type: [`Kernels`]. All are looked up when they are loaded: none is loaded during a capture.
//! Refuses to know: arguments.

use std::collections::HashMap;
use std::ffi::CString;

use cudarc::driver::result;
use cudarc::driver::sys::{CUfunction, CUfunction_attribute_enum, CUmodule};

use super::error::failed;
use crate::backend::cuda::compile::Module;
use crate::backend::cuda::device::DeviceError;

pub(super) struct Kernels {
    modules: Vec<CUmodule>,
    functions: HashMap<String, Function>,
}

struct Function {
    handle: CUfunction,
    /// Most bytes of dynamic shared memory that were asked for so far: what a block has without asking depends on its
    /// static ones.
    shared: u32,
}

impl Kernels {
    pub(super) fn load(modules: &[Module]) -> Result<Self, DeviceError> {
        let mut kernels = Self {
            modules: Vec::new(),
            functions: HashMap::new(),
        };
        for module in modules {
            #[expect(unsafe_code, reason = "loads machine code")]
            // SAFETY: the image is a whole cubin, by its digest, of kernels of ours.
            let loaded = unsafe { result::module::load_data(module.cubin.as_ptr().cast()) };
            let loaded = loaded.map_err(|e| failed("cuModuleLoadData", &e))?;
            kernels.modules.push(loaded);
            // The log has rows of functions that kernels call, too: they have no registers of their own.
            let kernels_of_it = module.usage.iter().filter(|usage| usage.registers > 0);
            for usage in kernels_of_it {
                let name =
                    CString::new(usage.kernel.clone()).map_err(|error| DeviceError::Failed {
                        call: "cuModuleGetFunction",
                        cause: error.to_string(),
                    })?;
                #[expect(unsafe_code, reason = "looks for a kernel")]
                // SAFETY: the module was just loaded, and is unloaded by `drop` only.
                let handle = unsafe { result::module::get_function(loaded, name) };
                let handle = handle.map_err(|e| failed("cuModuleGetFunction", &e))?;
                let function = Function { handle, shared: 0 };
                kernels.functions.insert(usage.kernel.clone(), function);
            }
        }
        Ok(kernels)
    }

    /// The kernel, allowed so much dynamic shared memory.
    pub(super) fn function(
        &mut self,
        name: &'static str,
        shared: u32,
    ) -> Result<CUfunction, DeviceError> {
        let function = self
            .functions
            .get_mut(name)
            .ok_or_else(|| DeviceError::Failed {
                call: "launch",
                cause: format!("there is no kernel {name}"),
            })?;
        if shared > function.shared {
            let most = CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            #[expect(unsafe_code, reason = "sets a kernel's attribute")]
            // SAFETY: the function's module is loaded.
            let set = unsafe {
                result::function::set_function_attribute(function.handle, most, shared as i32)
            };
            set.map_err(|e| failed("cuFuncSetAttribute", &e))?;
            function.shared = shared;
        }
        Ok(function.handle)
    }
}

impl Drop for Kernels {
    fn drop(&mut self) {
        for module in &self.modules {
            #[expect(unsafe_code, reason = "gives back what `load` took")]
            // SAFETY: no launch comes after this.
            unsafe {
                let _ = result::module::unload(*module);
            }
        }
    }
}
