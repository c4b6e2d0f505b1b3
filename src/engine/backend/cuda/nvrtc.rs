//! NVRTC, NVIDIA's compiler as a library, looked for when it is first asked for.
//!
//! Main type: [`Compiler`], which there is only where the library and all that is called of it were
//! found: the binding below panics where they are not. Refuses to know: which kernels there are, the cache.

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use cudarc::nvrtc::sys;

use super::compiler::{CompileError, CompilerVersion};
use super::sources::Arch;

/// All that is called here.
const SYMBOLS: [&str; 10] = [
    "nvrtcVersion",
    "nvrtcGetNumSupportedArchs",
    "nvrtcGetSupportedArchs",
    "nvrtcCreateProgram",
    "nvrtcCompileProgram",
    "nvrtcDestroyProgram",
    "nvrtcGetProgramLogSize",
    "nvrtcGetProgramLog",
    "nvrtcGetCUBINSize",
    "nvrtcGetCUBIN",
];

pub(super) struct Compiler {
    pub(super) version: CompilerVersion,
    known: Vec<Arch>,
}

/// What came of one source.
pub(super) struct Compiled {
    /// `None`: it does not compile, and the log says why.
    pub(super) cubin: Option<Vec<u8>>,
    pub(super) log: String,
}

pub(super) fn compiler() -> Result<Compiler, CompileError> {
    look_for_library()?;
    let (mut major, mut minor) = (0, 0);
    #[expect(unsafe_code, reason = "NVRTC is a C library")]
    // SAFETY: the symbol is there; both pointers are to integers that outlive the call.
    check("nvrtcVersion", unsafe {
        sys::nvrtcVersion(&raw mut major, &raw mut minor)
    })?;
    Ok(Compiler {
        version: CompilerVersion {
            major: major.unsigned_abs(),
            minor: minor.unsigned_abs(),
        },
        known: known()?,
    })
}

#[expect(unsafe_code, reason = "loading a library runs its initialisers")]
fn look_for_library() -> Result<(), CompileError> {
    // SAFETY: NVIDIA's library does nothing when it is loaded but to set itself up.
    if !unsafe { sys::is_culib_present() } {
        return Err(CompileError::Missing);
    }
    // SAFETY: as above; it was found a moment ago.
    let library = unsafe { sys::culib() };
    for symbol in SYMBOLS {
        // SAFETY: the symbol is looked up and not called, so that its type does not matter.
        if unsafe { library.get::<*const ()>(symbol.as_bytes()) }.is_err() {
            return Err(CompileError::TooOld { symbol });
        }
    }
    Ok(())
}

#[expect(unsafe_code, reason = "NVRTC is a C library")]
fn known() -> Result<Vec<Arch>, CompileError> {
    let mut count: c_int = 0;
    // SAFETY: the pointer is to an integer that outlives the call.
    let result = unsafe { sys::nvrtcGetNumSupportedArchs(&raw mut count) };
    check("nvrtcGetNumSupportedArchs", result)?;
    let mut numbers = vec![0 as c_int; usize::try_from(count).unwrap_or(0)];
    // SAFETY: there is room for as many numbers as the library just said that it writes.
    let result = unsafe { sys::nvrtcGetSupportedArchs(numbers.as_mut_ptr()) };
    check("nvrtcGetSupportedArchs", result)?;
    let known = numbers
        .iter()
        .map(|number| Arch::of_number(number.unsigned_abs()));
    Ok(known.collect())
}

impl Compiler {
    /// What to compile for, so that it runs on `arch`: itself, or an earlier one of its major where the
    /// compiler is older than the GPU.
    pub(super) fn target(&self, arch: Arch) -> Result<Arch, CompileError> {
        arch.nearest(&self.known).ok_or_else(|| {
            let names: Vec<String> = self.known.iter().map(Arch::to_string).collect();
            CompileError::Arch {
                arch,
                version: self.version,
                known: names.join(", "),
            }
        })
    }

    pub(super) fn compile(
        &self,
        name: &str,
        text: &str,
        headers: &[(&str, &str)],
        options: &[String],
    ) -> Result<Compiled, CompileError> {
        let program = Program::new(name, text, headers)?;
        let compiled = program.compile(options)?;
        let log = program.log()?;
        let cubin = if compiled {
            Some(program.cubin()?)
        } else {
            None
        };
        Ok(Compiled { cubin, log })
    }
}

/// A source that NVRTC holds; given back when dropped.
struct Program(sys::nvrtcProgram);

impl Program {
    #[expect(unsafe_code, reason = "NVRTC is a C library")]
    fn new(name: &str, text: &str, headers: &[(&str, &str)]) -> Result<Self, CompileError> {
        let text = terminated(text)?;
        let name = terminated(&format!("{name}.cu"))?;
        let texts = all_terminated(headers.iter().map(|(_, text)| *text))?;
        let names = all_terminated(headers.iter().map(|(name, _)| *name))?;
        let (text_pointers, name_pointers) = (pointers(&texts), pointers(&names));
        let mut program = ptr::null_mut();
        // SAFETY: every pointer is to a string that ends in NUL and outlives the call, which copies them;
        // both lists have as many as the count says.
        let result = unsafe {
            sys::nvrtcCreateProgram(
                &raw mut program,
                text.as_ptr(),
                name.as_ptr(),
                count(headers.len()),
                text_pointers.as_ptr(),
                name_pointers.as_ptr(),
            )
        };
        check("nvrtcCreateProgram", result)?;
        Ok(Self(program))
    }

    /// False where the source is at fault.
    #[expect(unsafe_code, reason = "NVRTC is a C library")]
    fn compile(&self, options: &[String]) -> Result<bool, CompileError> {
        let options = all_terminated(options.iter().map(String::as_str))?;
        let pointers = pointers(&options);
        // SAFETY: the program lives; the options are strings that end in NUL and outlive the call.
        let result =
            unsafe { sys::nvrtcCompileProgram(self.0, count(options.len()), pointers.as_ptr()) };
        if result == sys::nvrtcResult::NVRTC_ERROR_COMPILATION {
            return Ok(false);
        }
        // It may have more to say of itself than the code does.
        check("nvrtcCompileProgram", result).map_err(|error| match (error, self.log()) {
            (CompileError::Nvrtc { call, code }, Ok(log)) if !log.is_empty() => {
                let code = format!("{code}: {log}");
                CompileError::Nvrtc { call, code }
            }
            (error, _) => error,
        })?;
        Ok(true)
    }

    #[expect(unsafe_code, reason = "NVRTC is a C library")]
    fn log(&self) -> Result<String, CompileError> {
        // SAFETY: the program lives; the second call fills as many bytes as the first one named.
        let bytes = sized(
            "nvrtcGetProgramLog",
            |size| unsafe { sys::nvrtcGetProgramLogSize(self.0, size) },
            |bytes| unsafe { sys::nvrtcGetProgramLog(self.0, bytes) },
        )?;
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.trim_end_matches('\0').trim_end().to_owned())
    }

    #[expect(unsafe_code, reason = "NVRTC is a C library")]
    fn cubin(&self) -> Result<Vec<u8>, CompileError> {
        // SAFETY: the program lives; the second call fills as many bytes as the first one named.
        sized(
            "nvrtcGetCUBIN",
            |size| unsafe { sys::nvrtcGetCUBINSize(self.0, size) },
            |bytes| unsafe { sys::nvrtcGetCUBIN(self.0, bytes) },
        )
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "NVRTC is a C library")]
        // SAFETY: the program lives until here and is used no more.
        let _ = unsafe { sys::nvrtcDestroyProgram(&raw mut self.0) };
    }
}

/// What NVRTC hands out in two calls: the size, then the bytes.
fn sized(
    call: &'static str,
    size: impl Fn(*mut usize) -> sys::nvrtcResult,
    fill: impl Fn(*mut c_char) -> sys::nvrtcResult,
) -> Result<Vec<u8>, CompileError> {
    let mut length = 0;
    check(call, size(&raw mut length))?;
    let mut bytes = vec![0_u8; length];
    check(call, fill(bytes.as_mut_ptr().cast()))?;
    Ok(bytes)
}

fn check(call: &'static str, result: sys::nvrtcResult) -> Result<(), CompileError> {
    match result {
        sys::nvrtcResult::NVRTC_SUCCESS => Ok(()),
        code => Err(CompileError::Nvrtc {
            call,
            code: format!("{code:?}"),
        }),
    }
}

fn terminated(text: &str) -> Result<CString, CompileError> {
    CString::new(text).map_err(|_| CompileError::Nvrtc {
        call: "nvrtcCreateProgram",
        code: "a source or an option has a NUL in it".to_owned(),
    })
}

fn all_terminated<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Vec<CString>, CompileError> {
    texts.map(terminated).collect()
}

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).collect()
}

fn count(length: usize) -> c_int {
    c_int::try_from(length).unwrap_or(c_int::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: &str = "#include \"add.cuh\"\n\
        extern \"C\" __global__ void add_one(float* x) { x[threadIdx.x] = add(x[threadIdx.x], BY); }\n";
    const HEADER: (&str, &str) = (
        "add.cuh",
        "__device__ float add(float a, float b) { return a + b; }",
    );

    /// Where there is no NVRTC, that is said in one line, and nothing panics; the CLI's tests run it both ways.
    #[test]
    fn a_source_is_compiled_with_its_headers_by_name() -> Result<(), CompileError> {
        let compiler = match compiler() {
            Err(CompileError::Missing) => {
                crate::skip::skip(&CompileError::Missing.to_string());
                return Ok(());
            }
            found => found?,
        };
        let compile = |text: &str| {
            let options = ["--gpu-architecture=sm_90", "-DBY=1.0f"].map(str::to_owned);
            compiler.compile("add_one", text, &[HEADER], &options)
        };
        let good = compile(KERNEL)?;
        let cubin = good.cubin.unwrap_or_default();
        assert!(cubin.starts_with(b"\x7fELF"), "{}", good.log);
        let bad = compile(&KERNEL.replace("BY", "BUY"))?;
        assert!(bad.cubin.is_none());
        assert!(
            bad.log.contains("add_one.cu(2)") && bad.log.contains("BUY"),
            "{}",
            bad.log
        );
        let newest = compiler.known.iter().max().copied();
        let later = newest.map(|arch| Arch { minor: 9, ..arch });
        assert_eq!(later.and_then(|arch| compiler.target(arch).ok()), newest);
        Ok(())
    }
}
