//! The kernel compiler in use, or the reason that there is none.
//!
//! Main types: [`CompilerVersion`] and [`CompileError`]. Refuses to know: how it is called.

use std::fmt;

use super::sources::{Arch, Element};

/// Of NVRTC, as of the toolkit that it came with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CompilerVersion {
    pub major: u32,
    pub minor: u32,
}

impl CompilerVersion {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once('.')?;
        Some(Self {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        })
    }
}

impl fmt::Display for CompilerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The kernels could not be had.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    #[error(
        "no CUDA compiler: libnvrtc.so was not found; `python3 -m pip install nvidia-cuda-nvrtc-cu12` brings it, \
         and LD_LIBRARY_PATH must name the folder nvidia/cuda_nvrtc/lib that it lies in"
    )]
    Missing,
    #[error(
        "libnvrtc.so has no {symbol}: it is older than CUDA 11.2; install nvidia-cuda-nvrtc-cu12"
    )]
    TooOld { symbol: &'static str },
    #[error("NVRTC {version} does not compile for {arch}, but for {known}; install a newer one")]
    Arch {
        arch: Arch,
        version: CompilerVersion,
        known: String,
    },
    #[error("NVRTC failed in {call}: {code}")]
    Nvrtc { call: &'static str, code: String },
    #[error("kernels/{source_name}.cu does not compile for {element} on {arch}:\n{log}")]
    Kernel {
        source_name: &'static str,
        element: Element,
        arch: Arch,
        log: String,
    },
    #[error(
        "NVRTC's log of kernels/{source_name}.cu names no kernel with its registers, so that spills would go unseen:\n{log}"
    )]
    Silent {
        source_name: &'static str,
        log: String,
    },
}
