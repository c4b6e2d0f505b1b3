//! Interface of a GPU for the backend: memory, launches, products, CUDA graphs.
//!
//! Main type: the trait [`Device`], with the driver's GPU and an emulated one behind it. Work is done in
//! the order in which it was asked for, and is waited for only where it is read. Refuses to know: what a
//! kernel computes.

use std::time::Duration;

use super::compiler::CompileError;
use super::sources::{Arch, Element};
use super::times::Started;

/// The GPU could not do it.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    #[error("{bytes} bytes of GPU memory could not be had ({cause})")]
    Memory { bytes: usize, cause: String },
    /// The kernels are not made for such sizes.
    #[error("{kernel} does not support {what}")]
    Unsupported { kernel: &'static str, what: String },
    /// A caller's mistake, found before the launch.
    #[error("{kernel} was given {what}")]
    Argument { kernel: &'static str, what: String },
    #[error("the GPU failed in {call}: {cause}")]
    Failed { call: &'static str, cause: String },
    #[error("{0}")]
    Missing(String),
    #[error(transparent)]
    Kernels(#[from] CompileError),
}

/// A place in the device's memory, and how many bytes from there on may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    pub address: u64,
    pub bytes: usize,
}

impl View {
    /// What follows the first `bytes`; nothing where there are no more.
    pub fn after(self, bytes: usize) -> Self {
        let skipped = bytes.min(self.bytes);
        Self {
            address: self.address + skipped as u64,
            bytes: self.bytes - skipped,
        }
    }

    /// `count` times `each` bytes, from `first` times `each` on.
    pub fn part(self, first: usize, count: usize, each: usize) -> Self {
        let rest = self.after(first * each);
        Self {
            bytes: rest.bytes.min(count * each),
            ..rest
        }
    }
}

/// Memory of the device's, given back when dropped.
pub trait Memory {
    fn view(&self) -> View;
}

/// One argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arg {
    /// 0 is null.
    At(u64),
    Int(i32),
    Long(i64),
    Unsigned(u64),
    Float(f32),
}

impl Arg {
    /// As a kernel's start finds it behind a pointer; little-endian, so that an int is a word's first half.
    pub(super) fn word(&self) -> u64 {
        match *self {
            Self::At(address) => address,
            Self::Int(value) => u64::from(value.cast_unsigned()),
            Self::Long(value) => value.cast_unsigned(),
            Self::Unsigned(value) => value,
            Self::Float(value) => u64::from(value.to_bits()),
        }
    }
}

/// A kernel with all that it is started with.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    pub kernel: &'static str,
    pub grid: [u32; 3],
    pub block: u32,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    pub args: Vec<Arg>,
}

/// `out[n, rows] = x[n, cols] · weight[rows, cols]ᵀ`, out in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    pub n: usize,
    pub rows: usize,
    pub cols: usize,
    pub x: View,
    pub weight: View,
    pub out: View,
}

impl Launch {
    /// As whose time is told.
    pub(super) fn started(&self) -> Started {
        Started {
            name: self.kernel,
            size: self.grid.map(|blocks| blocks as usize),
        }
    }
}

impl Product {
    /// As whose time is told.
    pub(super) fn started(&self) -> Started {
        Started {
            name: "library product",
            size: [self.n, self.rows, self.cols],
        }
    }
}

/// What a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// As it is shown: `NVIDIA H200`.
    pub name: String,
    pub arch: Arch,
    pub multiprocessors: usize,
    /// Most bytes of shared memory that a block may have.
    pub shared_bytes: usize,
}

pub trait Device {
    type Memory: Memory;
    /// The graph captured between [`begin_capture`](Self::begin_capture) and its end.
    type Graph;
    /// One way to compute a product.
    type Algorithm: Clone;

    fn facts(&self) -> &DeviceFacts;
    /// What its kernels were compiled for.
    fn element(&self) -> Element;
    /// Bytes that nobody has taken.
    fn free_bytes(&self) -> Result<usize, DeviceError>;

    /// Zeroed.
    fn allocate(&mut self, bytes: usize) -> Result<Self::Memory, DeviceError>;
    /// Copies a few bytes of a step.
    fn write(&mut self, to: View, bytes: &[u8]) -> Result<(), DeviceError>;
    /// Copies many bytes, as of weights; [`synchronize`](Self::synchronize) says when the last of them are
    /// there for sure.
    fn upload(&mut self, to: View, bytes: &[u8]) -> Result<(), DeviceError> {
        self.write(to, bytes)
    }
    /// Waits for what was asked for before.
    fn read(&mut self, from: View, to: &mut [u8]) -> Result<(), DeviceError>;

    fn launch(&mut self, launch: &Launch) -> Result<(), DeviceError>;

    /// The ways to compute products of this shape, the most promising first; never none.
    fn algorithms(&mut self, product: &Product) -> Result<Vec<Self::Algorithm>, DeviceError>;
    fn product(
        &mut self,
        product: &Product,
        algorithm: &Self::Algorithm,
    ) -> Result<(), DeviceError>;

    /// From here on work is captured, not done.
    fn begin_capture(&mut self) -> Result<(), DeviceError>;
    fn end_capture(&mut self) -> Result<Self::Graph, DeviceError>;
    fn replay(&mut self, graph: &Self::Graph) -> Result<(), DeviceError>;
    /// Kernels, copies and fills of a graph, which a GPU starts one after another.
    fn nodes(&self, graph: &Self::Graph) -> u64;

    /// The time that the device takes for `work`, by its own clock.
    fn time(
        &mut self,
        work: &mut dyn FnMut(&mut Self) -> Result<(), DeviceError>,
    ) -> Result<Duration, DeviceError>;
    fn synchronize(&self) -> Result<(), DeviceError>;
}
