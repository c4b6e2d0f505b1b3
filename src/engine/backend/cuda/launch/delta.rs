//! Recurrent layers: the gated delta rule, copies of their states, and the gate of attention's output beside them.

use super::call::Call;
use super::{Done, F32, MOST_ROWS};
use crate::backend::cuda::device::{Device, View};
use crate::backend::cuda::sources::Element;
use crate::config::hybrid::DeltaShape;

/// Integers of a span: first row, rows, position of the first, state; the row after which the state is also stored
/// elsewhere, and where; two unused.
pub const SPAN_INTS: usize = 8;

/// Greatest dimension of a head, and most taps, that the kernels are made for.
const MOST_DELTA_DIM: usize = 128;
const MOST_DELTA_TAPS: usize = 4;

/// Most rows of a chunk of a long prompt. Spans of fewer rows are computed row by row.
pub const CHUNK_ROWS: usize = 64;

/// Integers of a chunk: first row, rows, rows of its span before it, position of the span's first, state; three unused.
pub const CHUNK_INTS: usize = 8;

/// Integers of a scan, the chunks of one span: first chunk, chunks, position of the first row, state; after how many rows
/// the state is also stored elsewhere (0: never), and where; first row, rows.
pub const SCAN_INTS: usize = 8;

/// Columns of a state that a block of the scan has.
const STRIP: usize = 32;
const CHUNK_FACTORS: usize = 3 * CHUNK_ROWS;

/// Blocks that copy a layer's part of a state, which is some MB of a large model.
const COPYING_BLOCKS: usize = 8;

/// A recurrent layer's inputs, weights, states and output.
#[derive(Clone, Copy, Debug)]
pub struct DeltaRule {
    pub projected: View,
    pub conv: View,
    pub log_decay: View,
    pub step_bias: View,
    pub norm: View,
    /// The layer's `states_count` states, [`DeltaShape::numbers_by_value_head`] numbers each.
    pub states: View,
    pub states_count: usize,
    pub out: View,
}

/// Spans that are computed row by row, [`SPAN_INTS`] integers each.
#[derive(Clone, Copy, Debug)]
pub struct Spans {
    pub ints: View,
    pub count: usize,
}

/// Spans that are computed in chunks: [`CHUNK_INTS`] and [`SCAN_INTS`] integers each.
#[derive(Clone, Copy, Debug)]
pub struct Chunks {
    pub ints: View,
    pub count: usize,
    pub scans: View,
    pub scan_count: usize,
}

/// Where `delta_chunks.cu` puts what does not depend on the state.
#[derive(Clone, Copy, Debug)]
pub struct ChunkRoom {
    pub qs: View,
    pub ks: View,
    pub w: View,
    pub u: View,
    pub p: View,
    pub factors: View,
}

/// The size of each field of a [`ChunkRoom`] for this many chunks, in numbers.
pub fn chunk_numbers(shape: &DeltaShape, chunks: usize) -> [usize; 6] {
    let (keys, values) = (
        chunks * shape.key_heads * CHUNK_ROWS,
        chunks * shape.value_heads * CHUNK_ROWS,
    );
    [
        keys * shape.key_dim,
        keys * shape.key_dim,
        values * shape.key_dim,
        values * shape.value_dim,
        values * CHUNK_ROWS,
        chunks * shape.value_heads * CHUNK_FACTORS,
    ]
}

/// Row by row, of n rows in all: `projected` → `out`, and the states after them.
pub fn delta_rule<D: Device>(
    device: &mut D,
    of: &DeltaRule,
    spans: &Spans,
    n: usize,
    shape: &DeltaShape,
) -> Done {
    let element = device.element().bytes();
    let mut call = Call::new("delta_rule");
    supports(&mut call, shape);
    take_gates(&mut call, of, n, shape);
    call.at(of.norm, shape.value_dim, F32);
    call.float(shape.norm_eps);
    take_states(&mut call, of, shape);
    call.ints(spans.ints, spans.count * SPAN_INTS);
    call.at(of.out, n * shape.value_cols(), element);
    take_sizes(&mut call, shape);
    let grid = [shape.value_heads, spans.count, 1];
    call.launch(device, grid, 512, 0)
}

/// The same in chunks.
pub fn delta_chunks<D: Device>(
    device: &mut D,
    of: &DeltaRule,
    chunks: &Chunks,
    room: &ChunkRoom,
    n: usize,
    shape: &DeltaShape,
) -> Done {
    let element = device.element();
    let heads = shape.value_heads;
    let numbers = chunk_numbers(shape, chunks.count);

    let mut call = Call::new("delta_chunks");
    supports(&mut call, shape);
    call.supports(takes_chunks(element, shape), || {
        let (keys, values) = (shape.key_dim, shape.value_dim);
        format!("heads of {keys} and {values} of {element}; multiples of 16 of 16 bits are needed")
    });
    take_gates(&mut call, of, n, shape);
    take_states(&mut call, of, shape);
    call.ints(chunks.ints, chunks.count * CHUNK_INTS);
    take_room(&mut call, room, &numbers, element);
    take_sizes(&mut call, shape);
    call.launch(device, [heads, chunks.count, 1], 256, 66_560)?;

    let mut call = Call::new("delta_scan");
    call.at(of.projected, n * shape.projected_cols(), F32);
    take_states(&mut call, of, shape);
    call.ints(chunks.scans, chunks.scan_count * SCAN_INTS);
    take_room(&mut call, room, &numbers, element);
    take_sizes(&mut call, shape);
    let grid = [shape.value_dim.div_ceil(STRIP), heads, chunks.scan_count];
    call.launch(device, grid, 128, 73_728)?;

    let mut call = Call::new("delta_norm");
    call.at(of.projected, n * shape.projected_cols(), F32);
    call.at(of.norm, shape.value_dim, F32);
    call.float(shape.norm_eps);
    call.ints(chunks.ints, chunks.count * CHUNK_INTS);
    call.at(room.u, numbers[3], F32);
    call.at(of.out, n * shape.value_cols(), element.bytes());
    take_sizes(&mut call, shape);
    call.launch(device, [heads, chunks.count, 1], 256, 0)
}

/// True if [`delta_chunks`] supports these layers.
pub fn takes_chunks(element: Element, shape: &DeltaShape) -> bool {
    let is_whole = shape.key_dim.is_multiple_of(16) && shape.value_dim.is_multiple_of(16);
    element != Element::F32 && is_whole
}

fn take_gates(call: &mut Call, of: &DeltaRule, n: usize, shape: &DeltaShape) {
    call.at(of.projected, n * shape.projected_cols(), F32);
    call.at(of.conv, shape.taps * shape.channels(), F32);
    call.at(of.log_decay, shape.value_heads, F32);
    call.at(of.step_bias, shape.value_heads, F32);
}

fn take_states(call: &mut Call, of: &DeltaRule, shape: &DeltaShape) {
    call.at(
        of.states,
        of.states_count * shape.numbers_by_value_head(),
        F32,
    );
}

fn take_room(call: &mut Call, room: &ChunkRoom, numbers: &[usize; 6], element: Element) {
    let [qs, ks, w, u, p, factors] = *numbers;
    call.at(room.qs, qs, element.bytes());
    call.at(room.ks, ks, element.bytes());
    call.at(room.w, w, element.bytes());
    call.at(room.u, u, F32);
    call.at(room.p, p, element.bytes());
    call.at(room.factors, factors, F32);
}

fn take_sizes(call: &mut Call, shape: &DeltaShape) {
    call.int(shape.key_heads).int(shape.value_heads);
    call.int(shape.key_dim).int(shape.value_dim).int(shape.taps);
}

/// True if the kernels support these layers.
pub fn supports_delta(shape: &DeltaShape) -> Done {
    let mut call = Call::new("the CUDA backend");
    supports(&mut call, shape);
    call.check()
}

fn supports(call: &mut Call, shape: &DeltaShape) {
    let fits = |dim: usize| dim.is_multiple_of(4) && (4..=MOST_DELTA_DIM).contains(&dim);
    call.supports(fits(shape.key_dim) && fits(shape.value_dim), || {
        let (keys, values) = (shape.key_dim, shape.value_dim);
        format!("heads of {keys} and {values}; multiples of 4 up to {MOST_DELTA_DIM} are needed")
    });
    call.supports((1..=MOST_DELTA_TAPS).contains(&shape.taps), || {
        format!("{} taps; 1 to {MOST_DELTA_TAPS} are needed", shape.taps)
    });
    let shares = shape.key_heads > 0 && shape.value_heads.is_multiple_of(shape.key_heads);
    call.supports(shape.value_heads <= MOST_ROWS, || {
        format!(
            "{} value heads; {MOST_ROWS} are the most",
            shape.value_heads
        )
    });
    call.supports(shares, || {
        format!(
            "{} value heads on {} of keys",
            shape.value_heads, shape.key_heads
        )
    });
}

/// State `from` to state `to`, in every layer.
pub fn copy_state<D: Device>(
    device: &mut D,
    states: View,
    from: usize,
    to: usize,
    count: usize,
    shape: &DeltaShape,
) -> Done {
    let unit = shape.numbers_by_value_head();
    let mut call = Call::new("copy_state");
    supports(&mut call, shape);
    call.takes(from < count && to < count && from != to, || {
        format!("states {from} and {to} of {count}")
    });
    call.at(states, shape.layers * count * unit, F32);
    call.int(from).int(to).int(shape.layers);
    call.long(count * unit).int(unit);
    call.launch(device, [shape.layers, COPYING_BLOCKS, 1], 512, 0)
}

/// `x = x · sigmoid(gate)`
pub fn gate<D: Device>(device: &mut D, gate: View, x: View, count: usize) -> Done {
    let element = device.element().bytes();
    let mut call = Call::new("gate");
    call.supports(count.is_multiple_of(4), || {
        format!("{count} numbers; a multiple of 4 is needed")
    });
    call.at(gate, count, F32);
    call.at(x, count, element);
    call.int(count);
    call.launch(device, [count.div_ceil(1024), 1, 1], 256, 0)
}
