//! Device memory of the backend: matrices, vectors, activations, the KV cache.
//!
//! Main types: [`Matrix`], [`Vector`], [`Buffer`], [`KvCache`], [`States`]. Refuses to know: kernels' meaning.

use super::device::{Device, DeviceError, Memory, View};
use super::launch::{self, Heads};
use super::products::Weights;
use super::sources::Element;
use crate::backend::{AttentionShape, Role};
use crate::config::hybrid::DeltaShape;
use crate::kv::PAGE_TOKENS;
use crate::weights::Tensor;

pub(crate) struct Matrix<D: Device> {
    memory: D::Memory,
    rows: usize,
    cols: usize,
}

impl<D: Device> Matrix<D> {
    pub(super) fn new(device: &mut D, rows: usize, cols: usize) -> Result<Self, DeviceError> {
        let memory = device.allocate(rows * cols * device.element().bytes())?;
        Ok(Self { memory, rows, cols })
    }

    /// Stacks `parts` by rows, in the device's element type.
    pub(super) fn stack(device: &mut D, parts: &[Tensor<'_>]) -> Result<Self, DeviceError> {
        let rows = parts.iter().map(|part| part.rows).sum();
        let matrix = Self::new(device, rows, parts[0].cols)?;
        let mut rest = matrix.memory.view();
        for part in parts {
            let count = part.rows * part.cols;
            let from = Element::from(part.dtype);
            if from == device.element() {
                device.upload(rest, part.bytes)?;
            } else {
                let stored = device.allocate(part.bytes.len())?;
                device.upload(stored.view(), part.bytes)?;
                launch::convert(device, stored.view(), from, rest, count)?;
                // What was stored otherwise goes when this ends.
                device.synchronize()?;
            }
            rest = rest.after(count * device.element().bytes());
        }
        Ok(matrix)
    }

    pub(super) fn weights(&self) -> Weights {
        Weights {
            view: self.memory.view(),
            rows: self.rows,
            cols: self.cols,
        }
    }
}

/// Numbers in f32.
pub(crate) struct Vector<D: Device> {
    memory: D::Memory,
}

impl<D: Device> Vector<D> {
    pub(super) fn new(device: &mut D, length: usize) -> Result<Self, DeviceError> {
        let memory = device.allocate(length * size_of::<f32>())?;
        Ok(Self { memory })
    }

    pub(super) fn of(device: &mut D, numbers: &[f32]) -> Result<Self, DeviceError> {
        let vector = Self::new(device, numbers.len())?;
        let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_ne_bytes()).collect();
        device.write(vector.view(), &bytes)?;
        Ok(vector)
    }

    pub(super) fn view(&self) -> View {
        self.memory.view()
    }
}

/// Activations `[rows, cols]`.
pub(crate) struct Buffer<D: Device> {
    memory: D::Memory,
    pub(super) rows: usize,
    pub(super) cols: usize,
}

impl<D: Device> Buffer<D> {
    pub(super) fn new(
        device: &mut D,
        rows: usize,
        cols: usize,
        role: Role,
    ) -> Result<Self, DeviceError> {
        let bytes = match role {
            Role::Stream => size_of::<f32>(),
            Role::Operand => device.element().bytes(),
        };
        let memory = device.allocate(rows * cols * bytes)?;
        Ok(Self { memory, rows, cols })
    }

    pub(super) fn view(&self) -> View {
        self.memory.view()
    }
}

/// Keys and values, `[layer, page, kv_head, slot, d]` each. After the pages that the scheduler knows comes
/// one more, which rows of padding write to.
pub(crate) struct KvCache<D: Device> {
    keys: D::Memory,
    values: D::Memory,
    pub(super) shape: AttentionShape,
    /// The one of padding among them.
    pub(super) pages: usize,
    element: Element,
    states: Option<States<D>>,
}

/// Recurrent states, `[layer, state, value_head, …]` as `delta_rule.cu` has them. After those that the scheduler knows comes
/// one more, of rows of padding.
pub(super) struct States<D: Device> {
    memory: D::Memory,
    pub(super) shape: DeltaShape,
    /// The one of padding among them.
    pub(super) count: usize,
}

impl<D: Device> States<D> {
    fn new(device: &mut D, shape: DeltaShape, count: usize) -> Result<Self, DeviceError> {
        let count = count + 1;
        let sizes = [
            shape.layers,
            count,
            shape.numbers_by_value_head(),
            size_of::<f32>(),
        ];
        Ok(Self {
            memory: device.allocate(product(&sizes))?,
            shape,
            count,
        })
    }

    pub(super) fn layer(&self, layer: usize) -> View {
        let numbers = self.count * self.shape.numbers_by_value_head();
        let all = self.memory.view();
        all.part(layer * numbers, numbers, size_of::<f32>())
    }

    pub(super) fn copy(&self, device: &mut D, from: usize, to: usize) -> Result<(), DeviceError> {
        let states = self.memory.view();
        launch::copy_state(device, states, from, to, self.count, &self.shape)
    }
}

/// Bytes; those that cannot be counted nobody has.
fn product(sizes: &[usize]) -> usize {
    let all = sizes
        .iter()
        .try_fold(1usize, |all, size| all.checked_mul(*size));
    all.unwrap_or(usize::MAX)
}

impl<D: Device> KvCache<D> {
    pub(super) fn new(device: &mut D, shape: &AttentionShape) -> Result<Self, DeviceError> {
        let element = device.element();
        let pages = shape.pages + 1;
        let bytes = product(&[shape.layers, pages, page_elements(shape), element.bytes()]);
        let states = shape
            .delta
            .map(|(shape, count)| States::new(device, shape, count));
        Ok(Self {
            keys: device.allocate(bytes)?,
            values: device.allocate(bytes)?,
            shape: shape.clone(),
            pages,
            element,
            states: states.transpose()?,
        })
    }

    pub(super) fn heads(&self) -> Heads {
        heads(&self.shape)
    }

    /// Where the model has recurrent layers.
    pub(super) fn states(&self) -> Result<&States<D>, DeviceError> {
        self.states.as_ref().ok_or_else(|| DeviceError::Argument {
            kernel: "the backend",
            what: "a recurrent layer of a model without any".to_owned(),
        })
    }

    /// Keys and values of one layer.
    pub(super) fn layer(&self, layer: usize) -> (View, View) {
        let elements = self.pages * page_elements(&self.shape);
        let of = |memory: &D::Memory| {
            memory
                .view()
                .part(layer * elements, elements, self.element.bytes())
        };
        (of(&self.keys), of(&self.values))
    }

    pub(super) fn copy_page(
        &self,
        device: &mut D,
        from: usize,
        to: usize,
    ) -> Result<(), DeviceError> {
        if from == to {
            return Ok(());
        }
        launch::copy_page(
            device,
            self.keys.view(),
            self.values.view(),
            from,
            to,
            self.shape.layers,
            self.pages,
            page_elements(&self.shape),
        )
    }
}

pub(super) fn heads(shape: &AttentionShape) -> Heads {
    Heads {
        heads: shape.heads,
        kv_heads: shape.kv_heads,
        d: shape.head_dim,
    }
}

/// Numbers of keys, or of values, in a page of one layer.
fn page_elements(shape: &AttentionShape) -> usize {
    shape.kv_heads * PAGE_TOKENS * shape.head_dim
}
