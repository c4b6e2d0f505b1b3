//! One checked launcher a kernel: sizes and places in, a started kernel or an error out.
//!
//! A launcher holds every pointer's room and alignment against the sizes, and the sizes against what the
//! kernel supports: a kernel that reads beyond its end tells nobody. Geometry as in the headers of
//! `kernels/`. Refuses to know: what is computed when.

mod answers;
mod attention;
mod call;
mod delta;

pub use answers::{MOST_BANNED, MOST_TOP, RESULTS, Rank, SUMS, part_bytes, rank};
pub use attention::{
    MOST_PARTS, Prefill, Projected, Queries, RowsAttention, SPLIT_INTS, TILE_INTS, TILE_ROWS,
    attention_decode, attention_prefill, attention_rows, rows_launch, supports_prefill,
};
pub use delta::{
    CHUNK_INTS, CHUNK_ROWS, ChunkRoom, Chunks, DeltaRule, SCAN_INTS, SPAN_INTS, Spans,
    chunk_numbers, copy_state, delta_chunks, delta_rule, gate, supports_delta, takes_chunks,
};

use super::device::{Device, DeviceError, Product, View};
use super::sources::Element;
use call::Call;

type Done = Result<(), DeviceError>;

const F32: usize = 4;

/// Widest rows that the norms keep in registers: those that leave room for the kernel behind, and all.
const NORM_COLS: usize = 4_096;
const MOST_NORM_COLS: usize = 16_384;

/// Rows of one launch: a grid's second side has no more blocks.
pub const MOST_ROWS: usize = 65_535;

/// Most blocks of kernels that stride over their numbers.
const MOST_STRIDING_BLOCKS: usize = 16_384;

/// `out[i] = table[tokens[i]]`
pub fn embedding<D: Device>(
    device: &mut D,
    table: View,
    vocab: usize,
    tokens: View,
    out: View,
    n: usize,
    cols: usize,
) -> Done {
    let element = device.element().bytes();
    let mut call = Call::new("embedding");
    call.supports(cols.is_multiple_of(8), || {
        format!("{cols} columns; a multiple of 8 is needed")
    });
    call.at(table, vocab * cols, element);
    call.ints(tokens, n);
    call.at(out, n * cols, F32);
    call.int(n).int(cols);
    call.launch(device, [n, 1, 1], 256, 0)
}

/// `out[i] = norm(x[rows[i]])`, or of `x[i]` without rows; of x plus a delta where there is one. `x_rows`: of all of
/// either.
#[expect(clippy::too_many_arguments, reason = "the kernel's own")]
pub fn rms_norm<D: Device>(
    device: &mut D,
    (x, delta): (View, Option<View>),
    x_rows: usize,
    rows: Option<View>,
    weight: View,
    eps: f32,
    out: View,
    n: usize,
    cols: usize,
) -> Done {
    let element = device.element().bytes();
    let mut call = norm(cols, "rms_norm", "rms_norm_wide");
    call.at(x, x_rows * cols, F32);
    call.at_or_null(delta, x_rows * cols, F32);
    call.ints_or_null(rows, n);
    call.at(weight, cols, F32);
    call.float(eps);
    call.at(out, n * cols, element);
    call.int(n).int(cols);
    call.launch(device, [n, 1, 1], 512, 0)
}

/// `x += delta`, `out = norm(x)`
#[expect(clippy::too_many_arguments, reason = "the kernel's own")]
pub fn add_rms_norm<D: Device>(
    device: &mut D,
    x: View,
    delta: View,
    weight: View,
    eps: f32,
    out: View,
    n: usize,
    cols: usize,
) -> Done {
    let element = device.element().bytes();
    let mut call = norm(cols, "add_rms_norm", "add_rms_norm_wide");
    call.at(x, n * cols, F32);
    call.at(delta, n * cols, F32);
    call.at(weight, cols, F32);
    call.float(eps);
    call.at(out, n * cols, element);
    call.int(n).int(cols);
    call.launch(device, [n, 1, 1], 512, 0)
}

fn norm(cols: usize, entry: &'static str, wide: &'static str) -> Call {
    let mut call = Call::new(if cols <= NORM_COLS { entry } else { wide });
    call.supports(cols.is_multiple_of(4) && cols <= MOST_NORM_COLS, || {
        format!("{cols} columns; a multiple of 4 up to {MOST_NORM_COLS} is needed")
    });
    call
}

/// `x[i] += bias` for each of n rows.
pub fn add_bias<D: Device>(device: &mut D, x: View, bias: View, n: usize, cols: usize) -> Done {
    let mut call = Call::new("add_bias");
    call.supports(cols.is_multiple_of(4), || {
        format!("{cols} columns; a multiple of 4 is needed")
    });
    call.at(x, n * cols, F32);
    call.at(bias, cols, F32);
    call.int(n).int(cols);
    call.launch(device, [n, cols.div_ceil(1024), 1], 256, 0)
}

/// Cosines and sines of each position at each frequency; those of the first `turned` ones times `scale`.
pub fn rope_angles<D: Device>(
    device: &mut D,
    positions: View,
    frequencies: View,
    cos_sin: View,
    n: usize,
    half: usize,
    (turned, scale): (usize, f32),
) -> Done {
    let mut call = Call::new("rope_angles");
    call.ints(positions, n);
    call.at(frequencies, half, F32);
    call.at(cos_sin, n * 2 * half, F32);
    call.int(n).int(half).int(turned).float(scale);
    call.launch(device, [(n * half).div_ceil(128), 1, 1], 128, 0)
}

/// Sizes of the heads of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    pub heads: usize,
    pub kv_heads: usize,
    pub d: usize,
}

/// Where the parts of a stacked q, k, v go.
#[derive(Clone, Copy, Debug)]
pub struct QkvEpilogue {
    pub qkv: View,
    pub q_norm: View,
    pub k_norm: View,
    pub eps: f32,
    pub cos_sin: View,
    pub places: View,
    /// The angle under which far rows see a window's sink, and where those queries go.
    pub sink: Option<(View, View)>,
    pub q: View,
    /// Of the layer, for `pages` pages.
    pub keys: View,
    pub values: View,
    pub pages: usize,
}

pub fn qkv_epilogue<D: Device>(device: &mut D, of: &QkvEpilogue, n: usize, heads: Heads) -> Done {
    let element = device.element().bytes();
    let Heads { heads, kv_heads, d } = heads;
    let all = heads + 2 * kv_heads;
    let mut call = Call::new("qkv_epilogue");
    call.supports(d.is_multiple_of(2) && d <= 256, || {
        format!("heads of {d}; a multiple of 2 up to 256 is needed")
    });
    call.supports(n <= MOST_ROWS, || {
        format!("{n} rows; {MOST_ROWS} are the most")
    });
    call.at(of.qkv, n * all * d, F32);
    call.at(of.q_norm, d, F32);
    call.at(of.k_norm, d, F32);
    call.float(of.eps);
    call.at(of.cos_sin, n * d, F32);
    call.ints(of.places, n);
    call.at_or_null(of.sink.map(|(angle, _)| angle), d, F32);
    call.at_or_null(of.sink.map(|(_, queries)| queries), n * heads * d, element);
    call.at(of.q, n * heads * d, element);
    let cached = of.pages * kv_heads * crate::kv::PAGE_TOKENS * d;
    call.at(of.keys, cached, element);
    call.at(of.values, cached, element);
    call.int(n).int(heads).int(kv_heads).int(d);
    call.launch(device, [all.div_ceil(4), n, 1], 128, 0)
}

/// `out = silu(gate) · up`
pub fn swiglu<D: Device>(device: &mut D, gate_up: View, out: View, n: usize, m: usize) -> Done {
    let element = device.element().bytes();
    let mut call = Call::new("swiglu");
    call.supports(m.is_multiple_of(4) && n <= MOST_ROWS, || {
        format!("{n} rows of {m}; a multiple of 4 and up to {MOST_ROWS} rows are needed")
    });
    call.at(gate_up, n * 2 * m, F32);
    call.at(out, n * m, element);
    call.int(n).int(m);
    call.launch(device, [m.div_ceil(1024), n, 1], 256, 0)
}

/// Entries of `gemv.cu` by the most rows of x that they take.
const GEMV: [(usize, &str, &str); 4] = [
    (1, "gemv_1", "gemv_swiglu_1"),
    (2, "gemv_2", "gemv_swiglu_2"),
    (4, "gemv_4", "gemv_swiglu_4"),
    (8, "gemv_8", "gemv_swiglu_8"),
];

/// `out[n, rows] = x · weightᵀ + bias` for up to 8 rows of x.
#[expect(clippy::too_many_arguments, reason = "the kernel's own")]
pub fn gemv<D: Device>(
    device: &mut D,
    weight: View,
    x: View,
    bias: Option<View>,
    out: View,
    n: usize,
    rows: usize,
    cols: usize,
) -> Done {
    let element = device.element().bytes();
    let (most, name, _) = gemv_entry(n)?;
    let mut call = Call::new(name);
    gemv_supports(&mut call, cols);
    call.at(weight, rows * cols, element);
    call.at(x, n * cols, element);
    call.at_or_null(bias, rows, F32);
    call.at(out, n * rows, F32);
    call.int(n).int(rows).int(cols);
    match most {
        8 => call.launch(device, [rows.div_ceil(16), 1, 1], 256, 0),
        _ => call.launch(device, [rows.div_ceil(8), 1, 1], 128, 0),
    }
}

/// `out[n, m] = silu(x · gateᵀ) · (x · upᵀ)` with `[gate; up]` stacked, for up to 8 rows of x.
pub fn gemv_swiglu<D: Device>(
    device: &mut D,
    weight: View,
    x: View,
    out: View,
    n: usize,
    m: usize,
    cols: usize,
) -> Done {
    let element = device.element().bytes();
    let (most, _, name) = gemv_entry(n)?;
    let mut call = Call::new(name);
    gemv_supports(&mut call, cols);
    call.at(weight, 2 * m * cols, element);
    call.at(x, n * cols, element);
    call.at(out, n * m, element);
    call.int(n).int(m).int(cols);
    match most {
        8 => call.launch(device, [m.div_ceil(8), 1, 1], 256, 0),
        _ => call.launch(device, [m.div_ceil(4), 1, 1], 128, 0),
    }
}

fn gemv_entry(n: usize) -> Result<(usize, &'static str, &'static str), DeviceError> {
    let fits = GEMV.into_iter().find(|(most, ..)| n <= *most);
    fits.ok_or_else(|| DeviceError::Unsupported {
        kernel: "gemv",
        what: format!("{n} rows; 8 are the most"),
    })
}

fn gemv_supports(call: &mut Call, cols: usize) {
    call.supports(cols.is_multiple_of(8), || {
        format!("{cols} columns; a multiple of 8 is needed")
    });
}

/// Keys and values of every layer of page `from` to page `to`.
#[expect(clippy::too_many_arguments, reason = "the kernel's own")]
pub fn copy_page<D: Device>(
    device: &mut D,
    keys: View,
    values: View,
    from: usize,
    to: usize,
    layers: usize,
    pages: usize,
    page_elements: usize,
) -> Done {
    let element = device.element().bytes();
    let mut call = Call::new("copy_page");
    call.supports(page_elements.is_multiple_of(8), || {
        format!("pages of {page_elements} numbers; a multiple of 8 is needed")
    });
    call.takes(from < pages && to < pages && from != to, || {
        format!("pages {from} and {to} of {pages}")
    });
    let all = layers * pages * page_elements;
    call.at(keys, all, element);
    call.at(values, all, element);
    call.int(from).int(to).int(layers);
    call.long(pages * page_elements).int(page_elements);
    call.launch(device, [layers, 2, 1], 256, 0)
}

fn striding(count: usize) -> [usize; 3] {
    [count.div_ceil(256).clamp(1, MOST_STRIDING_BLOCKS), 1, 1]
}

/// Random numbers of a normal distribution around 0, the same on any machine.
pub fn fill_random<D: Device>(
    device: &mut D,
    out: View,
    count: usize,
    deviation: f32,
    seed: u64,
) -> Done {
    let element = device.element().bytes();
    let mut call = Call::new("fill_random");
    call.at(out, count, element);
    call.long(count).float(deviation).unsigned(seed);
    call.launch(device, striding(count), 256, 0)
}

pub fn fill_vector<D: Device>(device: &mut D, out: View, count: usize, value: f32) -> Done {
    let mut call = Call::new("fill_vector");
    call.at(out, count, F32);
    call.long(count).float(value);
    call.launch(device, striding(count), 256, 0)
}

/// Numbers stored as `from` in the device's own element type.
pub fn convert<D: Device>(
    device: &mut D,
    input: View,
    from: Element,
    out: View,
    count: usize,
) -> Done {
    let element = device.element().bytes();
    let mut call = Call::new("convert");
    call.at(input, count, from.bytes());
    call.int(from.number() as usize);
    call.at(out, count, element);
    call.long(count);
    call.launch(device, striding(count), 256, 0)
}

/// Holds the sizes of a product against the room of its views.
pub fn check_product(product: &Product, element: Element) -> Done {
    let Product { n, rows, cols, .. } = *product;
    let mut call = Call::new("the library's product");
    call.at(product.x, n * cols, element.bytes());
    call.at(product.weight, rows * cols, element.bytes());
    call.at(product.out, n * rows, F32);
    call.int(n).int(rows).int(cols);
    call.check()
}
