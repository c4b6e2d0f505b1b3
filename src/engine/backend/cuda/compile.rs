//! Kernels from source to machine code, by NVRTC or from the cache.
//!
//! Entry points: [`modules`], and [`stored`] where there is no compiler. The machine code is a cubin and no PTX: a driver that is older than the
//! compiler refuses newer PTX, and takes a cubin of the same major version of CUDA. Refuses to know: GPUs,
//! launches.

use rayon::prelude::*;

use super::cache::{Entry, KernelCache, Key};
use super::compiler::{CompileError, CompilerVersion};
use super::nvrtc;
use super::sources::{self, Arch, Element, HEADERS, Source};
use super::usage::{self, KernelUsage};

/// One source's machine code.
#[derive(Clone, Debug)]
pub struct Module {
    pub file: &'static str,
    pub element: Element,
    pub arch: Arch,
    pub cubin: Vec<u8>,
    pub usage: Vec<KernelUsage>,
    pub origin: Origin,
}

/// Where a module came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Cache,
    /// Compiled now. `lost` says why the cache did not take it.
    Compiled {
        lost: Option<String>,
    },
}

/// Which compiler there is.
pub fn compiler_version() -> Result<CompilerVersion, CompileError> {
    nvrtc::compiler().map(|compiler| compiler.version)
}

/// The kernels for `element` on a GPU of `arch`, one module a source, in a fixed order.
pub fn modules(
    arch: Arch,
    element: Element,
    cache: &KernelCache,
) -> Result<Vec<Module>, CompileError> {
    let sources: Vec<&'static Source> = sources::of(element).collect();
    let compiler = nvrtc::compiler()?;
    let target = compiler.target(arch)?;
    let make = |source: &&'static Source| module(&compiler, source, target, element, cache);
    sources.par_iter().map(make).collect()
}

/// The same from the cache alone, of compilers up to this major version of CUDA. `None`: not all are there.
pub(super) fn stored(
    arch: Arch,
    element: Element,
    cache: &KernelCache,
    most_major: u32,
) -> Option<Vec<Module>> {
    sources::of(element)
        .map(|source| stored_module(source, arch, element, cache, most_major))
        .collect()
}

/// One line where the cache did not take what was compiled: its directory, and what was wrong; or why there is none.
pub fn why_not_kept(modules: &[Module], cache: &KernelCache) -> Option<String> {
    let is_compiled = |module: &Module| module.origin != Origin::Cache;
    let Some(directory) = cache.directory() else {
        let nowhere =
            "kernels cannot be kept: INFERGATE_KERNEL_CACHE, XDG_CACHE_HOME and HOME are unset";
        return modules.iter().any(is_compiled).then(|| nowhere.to_owned());
    };
    let lost = |module: &Module| match &module.origin {
        Origin::Compiled { lost } => lost.clone(),
        Origin::Cache => None,
    };
    let (why, directory) = (modules.iter().find_map(lost)?, directory.display());
    Some(format!("kernels cannot be kept in {directory}: {why}"))
}

fn module(
    compiler: &nvrtc::Compiler,
    source: &'static Source,
    arch: Arch,
    element: Element,
    cache: &KernelCache,
) -> Result<Module, CompileError> {
    let options = options(arch, element);
    let key = key(source, arch, element, &options);
    let as_module = |entry: Entry, origin| Module {
        file: source.name,
        element,
        arch,
        cubin: entry.cubin,
        usage: entry.usage,
        origin,
    };
    if let Some(entry) = cache.find(&key, compiler.version) {
        return Ok(as_module(entry, Origin::Cache));
    }
    let entry = compile(compiler, source, arch, element, &options)?;
    let kept = cache.keep(&key, compiler.version, &entry);
    let lost = kept.err().map(|error| error.to_string());
    Ok(as_module(entry, Origin::Compiled { lost }))
}

/// Which architectures the compiler knew cannot be asked: this one or an earlier one of the same major.
fn stored_module(
    source: &'static Source,
    arch: Arch,
    element: Element,
    cache: &KernelCache,
    most_major: u32,
) -> Option<Module> {
    (0..=arch.minor).rev().find_map(|minor| {
        let arch = Arch { minor, ..arch };
        let options = options(arch, element);
        let entry = cache.find_any(&key(source, arch, element, &options), most_major)?;
        Some(Module {
            file: source.name,
            element,
            arch,
            cubin: entry.cubin,
            usage: entry.usage,
            origin: Origin::Cache,
        })
    })
}

fn compile(
    compiler: &nvrtc::Compiler,
    source: &'static Source,
    arch: Arch,
    element: Element,
    options: &[String],
) -> Result<Entry, CompileError> {
    let done = compiler.compile(source.name, source.text, HEADERS, options)?;
    let Some(cubin) = done.cubin else {
        return Err(CompileError::Kernel {
            source_name: source.name,
            element,
            arch,
            log: done.log,
        });
    };
    let usage = usage::read(&done.log);
    if usage.iter().all(|row| row.registers == 0) {
        return Err(CompileError::Silent {
            source_name: source.name,
            log: done.log,
        });
    }
    Ok(Entry { cubin, usage })
}

fn key<'a>(source: &'a Source, arch: Arch, element: Element, options: &'a [String]) -> Key<'a> {
    let text = std::iter::once(source.text.as_bytes());
    let headers = HEADERS
        .iter()
        .flat_map(|(name, text)| [name.as_bytes(), text.as_bytes()]);
    let options = options.iter().map(String::as_bytes);
    Key {
        source: source.name,
        element,
        arch,
        made_of: text.chain(headers).chain(options).collect(),
    }
}

/// No fast mathematics: results are held against the CPU's.
fn options(arch: Arch, element: Element) -> Vec<String> {
    let mut options = vec![
        format!("--gpu-architecture={arch}"),
        "--std=c++17".to_owned(),
        "--ptxas-options=-v".to_owned(),
        format!("-DELEMENT={}", element.number()),
    ];
    if arch.has_dependent_launch() {
        options.push("-DDEPENDENT_LAUNCH=1".to_owned());
    }
    options
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_compiles_in_vain_says_why() {
        let module = |origin| Module {
            file: "gemv",
            element: Element::Bf16,
            arch: Arch { major: 9, minor: 0 },
            cubin: Vec::new(),
            usage: Vec::new(),
            origin,
        };
        let lost = |why: Option<&str>| Origin::Compiled {
            lost: why.map(str::to_owned),
        };
        let folder = KernelCache::at("/kernels".into());
        for (cache, origin, says) in [
            (KernelCache::none(), lost(None), "HOME are unset"),
            (folder.clone(), lost(Some("full")), "in /kernels: full"),
        ] {
            let modules = [module(Origin::Cache), module(origin)];
            let why = why_not_kept(&modules, &cache).unwrap();
            assert!(why.contains(says), "{why}");
        }
        assert_eq!(
            why_not_kept(&[module(Origin::Cache)], &KernelCache::none()),
            None
        );
        assert_eq!(why_not_kept(&[module(lost(None))], &folder), None);
    }
}
