//! A launch being put together, with the first thing that is wrong with it.
//!
//! Main type: [`Call`]. Refuses to know: which kernels there are.

use crate::backend::cuda::device::{Arg, Device, DeviceError, Launch, View};

/// Kernels load 16 bytes at a time.
const ALIGNMENT: u64 = 16;
/// Most blocks along the first axis of a grid, and along the others.
const MOST_BLOCKS: [usize; 3] = [i32::MAX as usize, 65_535, 65_535];

pub(super) struct Call {
    kernel: &'static str,
    args: Vec<Arg>,
    wrong: Option<DeviceError>,
}

impl Call {
    pub(super) fn new(kernel: &'static str) -> Self {
        Self {
            kernel,
            args: Vec::with_capacity(16),
            wrong: None,
        }
    }

    /// A size that the kernel is made for.
    pub(super) fn supports(&mut self, holds: bool, what: impl FnOnce() -> String) {
        let kernel = self.kernel;
        if !holds && self.wrong.is_none() {
            let what = what();
            self.wrong = Some(DeviceError::Unsupported { kernel, what });
        }
    }

    /// A value that makes sense.
    pub(super) fn takes(&mut self, holds: bool, what: impl FnOnce() -> String) {
        let kernel = self.kernel;
        if !holds && self.wrong.is_none() {
            let what = what();
            self.wrong = Some(DeviceError::Argument { kernel, what });
        }
    }

    /// Room for `count` numbers of `each` bytes, which are read 16 bytes at a time.
    pub(super) fn at(&mut self, view: View, count: usize, each: usize) -> &mut Self {
        self.aligned(view, count, each, ALIGNMENT)
    }

    /// Room for `count` integers or floats, which are read one by one.
    pub(super) fn ints(&mut self, view: View, count: usize) -> &mut Self {
        let each = size_of::<i32>();
        self.aligned(view, count, each, each as u64)
    }

    fn aligned(&mut self, view: View, count: usize, each: usize, alignment: u64) -> &mut Self {
        let (place, address, bytes) = (self.args.len(), view.address, view.bytes);
        self.takes(address != 0 && address.is_multiple_of(alignment), || {
            format!("address {address:#x} as argument {place}; a multiple of {alignment} is needed")
        });
        self.takes(
            count.checked_mul(each).is_some_and(|need| bytes >= need),
            || format!("{bytes} bytes as argument {place}; {count} x {each} are needed"),
        );
        self.args.push(Arg::At(address));
        self
    }

    pub(super) fn at_or_null(
        &mut self,
        view: Option<View>,
        count: usize,
        each: usize,
    ) -> &mut Self {
        match view {
            Some(view) => self.at(view, count, each),
            None => {
                self.args.push(Arg::At(0));
                self
            }
        }
    }

    pub(super) fn ints_or_null(&mut self, view: Option<View>, count: usize) -> &mut Self {
        match view {
            Some(view) => self.ints(view, count),
            None => {
                self.args.push(Arg::At(0));
                self
            }
        }
    }

    pub(super) fn int(&mut self, value: usize) -> &mut Self {
        let narrow = i32::try_from(value);
        self.supports(narrow.is_ok(), || format!("a size of {value}"));
        self.args.push(Arg::Int(narrow.unwrap_or(0)));
        self
    }

    pub(super) fn long(&mut self, value: usize) -> &mut Self {
        self.args.push(Arg::Long(value as i64));
        self
    }

    pub(super) fn unsigned(&mut self, value: u64) -> &mut Self {
        self.args.push(Arg::Unsigned(value));
        self
    }

    pub(super) fn float(&mut self, value: f32) -> &mut Self {
        self.args.push(Arg::Float(value));
        self
    }

    /// What was found wrong, if anything.
    pub(super) fn check(self) -> Result<(), DeviceError> {
        self.wrong.map_or(Ok(()), Err)
    }

    /// Starts it. A grid without a block is no work, and no error.
    pub(super) fn launch<D: Device>(
        mut self,
        device: &mut D,
        grid: [usize; 3],
        block: u32,
        shared: usize,
    ) -> Result<(), DeviceError> {
        let fits = grid
            .iter()
            .zip(MOST_BLOCKS)
            .all(|(blocks, most)| *blocks <= most);
        self.supports(fits, || format!("a grid of {grid:?} blocks"));
        let most = device.facts().shared_bytes;
        self.supports(shared <= most, || {
            format!("sizes that take {shared} bytes of shared memory; this GPU gives {most}")
        });
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        if grid.contains(&0) {
            return Ok(());
        }
        device.launch(&Launch {
            kernel: self.kernel,
            grid: grid.map(|blocks| blocks as u32),
            block,
            shared: shared as u32,
            args: self.args,
        })
    }
}
