//! Products of activations and weights: a kernel of ours for few rows, the vendor's library for more.
//!
//! Main type: [`Products`], which knows for each shape the fastest of the library's algorithms: each was
//! timed when the shape first came. Refuses to know: layers.

use std::collections::HashMap;
use std::time::Duration;

use super::device::{Device, DeviceError, Memory, Product, View};
use super::launch;

/// Up to so many rows a product is bound by the weights' bytes, and our kernel reads them once.
pub(super) const MOST_GEMV_ROWS: usize = 8;

/// Columns of which 16 bytes hold a whole number, whatever their type.
const GEMV_COLS: usize = 8;

/// Algorithms that are timed, and how often each: the first run of each may load code, and does not count.
const CANDIDATES: usize = 8;
const RUNS: usize = 3;
/// Of a run: one alone would be timed with what the host takes to start it.
const PRODUCTS: usize = 3;

/// Rows of the weight, columns, and rows of activations rounded up: an algorithm is remembered for all
/// counts that round alike.
type ProductShape = (usize, usize, usize);

pub(super) struct Products<D: Device> {
    known: HashMap<ProductShape, D::Algorithm>,
    cold: Cold<D::Memory>,
}

/// Memory that products are timed with ahead of the first request.
enum Cold<M> {
    NotYet,
    There(M),
    Over,
}

/// A matrix on the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weights {
    pub(super) view: View,
    pub(super) rows: usize,
    pub(super) cols: usize,
}

/// n rows of x, the weight, what is added to each row, and where the result goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operands {
    pub(super) n: usize,
    pub(super) x: View,
    pub(super) weight: Weights,
    pub(super) bias: Option<View>,
    pub(super) out: View,
}

impl<D: Device> Products<D> {
    pub(super) fn new() -> Self {
        Self {
            known: HashMap::new(),
            cold: Cold::NotYet,
        }
    }

    /// Requests begin: what is timed from here on is timed with its own weights.
    pub(super) fn free_cold(&mut self) {
        self.cold = Cold::Over;
    }

    /// Whether our own kernel computes it.
    pub(super) fn is_gemv(n: usize, cols: usize) -> bool {
        n <= MOST_GEMV_ROWS && cols.is_multiple_of(GEMV_COLS)
    }

    /// `out[n, rows] = x · weightᵀ + bias`. During a capture, a shape must have come before to be fast: no
    /// algorithm can be timed then.
    pub(super) fn multiply(
        &mut self,
        device: &mut D,
        is_recording: bool,
        of: Operands,
    ) -> Result<(), DeviceError> {
        let Operands {
            n, x, bias, out, ..
        } = of;
        let Weights { view, rows, cols } = of.weight;
        if Self::is_gemv(n, cols) {
            return launch::gemv(device, view, x, bias, out, n, rows, cols);
        }
        let product = Product {
            n,
            rows,
            cols,
            x,
            weight: view,
            out,
        };
        launch::check_product(&product, device.element())?;
        let algorithm = self.algorithm(device, is_recording, &product)?;
        if let Err(error) = device.product(&product, &algorithm) {
            // It was timed for another number of rows that rounds alike, and need not do for this one.
            let own = device.algorithms(&product)?;
            let done = |algorithm| device.product(&product, algorithm).is_ok();
            if !own.iter().any(done) {
                return Err(error);
            }
        }
        match bias {
            Some(bias) => launch::add_bias(device, out, bias, n, rows),
            None => Ok(()),
        }
    }

    fn algorithm(
        &mut self,
        device: &mut D,
        is_recording: bool,
        product: &Product,
    ) -> Result<D::Algorithm, DeviceError> {
        let shape = (product.rows, product.cols, product.n.next_power_of_two());
        if let Some(known) = self.known.get(&shape) {
            return Ok(known.clone());
        }
        let candidates = device.algorithms(product)?;
        let fastest = if is_recording {
            candidates.into_iter().next()
        } else {
            fastest(device, &mut self.cold, product, candidates)
        };
        let fastest = fastest.ok_or_else(|| DeviceError::Unsupported {
            kernel: "the library's product",
            what: format!("{} x {} x {}", product.n, product.rows, product.cols),
        })?;
        if !is_recording {
            self.known.insert(shape, fastest.clone());
        }
        Ok(fastest)
    }
}

/// Bytes of weights that the timed products go through in turn: more than a GPU's cache holds, since in a step each weight
/// comes from memory.
const COLD_BYTES: usize = 256 << 20;
/// What the library takes for granted of a matrix's place.
const ALIGNMENT: usize = 256;

/// Weights that a product is timed with: in as many places as no cache holds, whatever the numbers there are. Itself alone, where
/// its weights are so large, there is no such memory, or requests have begun.
fn cold<D: Device>(
    device: &mut D,
    memory: &mut Cold<D::Memory>,
    product: &Product,
) -> Vec<Product> {
    let bytes = product.rows * product.cols * device.element().bytes();
    let apart = bytes.next_multiple_of(ALIGNMENT);
    let count = COLD_BYTES / apart;
    if count < 2 {
        return vec![*product];
    }
    if let Cold::NotYet = memory
        && let Ok(there) = device.allocate(COLD_BYTES)
    {
        *memory = Cold::There(there);
    }
    let Cold::There(memory) = memory else {
        return vec![*product];
    };
    let at = |index: usize| Product {
        weight: memory.view().part(index, 1, apart),
        ..*product
    };
    (0..count.min(CANDIDATES * RUNS * PRODUCTS))
        .map(at)
        .collect()
}

/// The candidate with the shortest run. One that fails is passed over.
fn fastest<D: Device>(
    device: &mut D,
    memory: &mut Cold<D::Memory>,
    product: &Product,
    candidates: Vec<D::Algorithm>,
) -> Option<D::Algorithm> {
    let mut best: Option<(Duration, D::Algorithm)> = None;
    let products = cold(device, memory, product);
    let mut turn = products.iter().cycle();
    for candidate in candidates.into_iter().take(CANDIDATES) {
        if device.product(product, &candidate).is_err() {
            continue;
        }
        let mut run = |device: &mut D| {
            let mut turns = turn.by_ref().take(PRODUCTS);
            turns.try_for_each(|product| device.product(product, &candidate))
        };
        let times: Result<Vec<_>, _> = (0..RUNS).map(|_| device.time(&mut run)).collect();
        let Some(least) = times.ok().and_then(|times| times.into_iter().min()) else {
            continue;
        };
        if best.as_ref().is_none_or(|(time, _)| least < *time) {
            best = Some((least, candidate));
        }
    }
    best.map(|(_, algorithm)| algorithm)
}
