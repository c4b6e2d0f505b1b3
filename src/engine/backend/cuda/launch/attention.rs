//! Attention: of single rows, and of many rows of one sequence.

use super::call::Call;
use super::{F32, Heads};
use crate::backend::cuda::device::{Device, DeviceError, View};
use crate::backend::cuda::sources::Element;
use crate::kv::PAGE_TOKENS;

/// Integers of a tile: first row, rows, position of the first, first page.
pub const TILE_INTS: usize = 4;
/// Most rows of a tile.
pub const TILE_ROWS: usize = 64;

/// Most parts that a row's keys are divided into.
pub const MOST_PARTS: usize = 64;

/// Integers of a split: row, position, first page, gap, part, parts, the split with the row's first part, unused.
pub const SPLIT_INTS: usize = 8;

/// Entries of `attention_rows.cu` and `attention_decode.cu`: the query heads that a block computes at once, the
/// blocks whose registers fit a multiprocessor as in the entries' launch bounds, and the names.
const ROWS_ENTRIES: [(usize, usize, &str, &str); 4] = [
    (1, 2, "attention_rows_1", "attention_decode_1"),
    (2, 2, "attention_rows_2", "attention_decode_2"),
    (4, 1, "attention_rows_4", "attention_decode_4"),
    (8, 1, "attention_rows_8", "attention_decode_8"),
];

/// What rows by themselves attend with: queries that are ready, and keys that are in the cache.
#[derive(Clone, Copy, Debug)]
pub struct Queries {
    pub q: View,
    /// As far rows see the window's sink.
    pub q_sink: Option<View>,
}

/// The same for rows that are their sequences' newest, as the projection left them: stacked q, k and v.
#[derive(Clone, Copy, Debug)]
pub struct Projected {
    pub qkv: View,
    pub q_norm: View,
    pub k_norm: View,
    pub eps: f32,
    pub cos_sin: View,
    /// The angle under which far rows see the window's sink.
    pub sink_cos_sin: Option<View>,
}

/// What rows by themselves attend to.
#[derive(Clone, Copy, Debug)]
pub struct RowsAttention {
    /// Of the layer.
    pub keys: View,
    pub values: View,
    pub cache_pages: usize,
    pub pages: View,
    /// Who does what: [`SPLIT_INTS`] integers each.
    pub splits: View,
    pub split_count: usize,
    /// Whether a row may have several.
    pub is_joined: bool,
    pub partial: View,
    pub partial_ml: View,
    /// As many integers a row as [`rows_launch`] says blocks, 0 before and after.
    pub arrived: View,
    pub out: View,
    pub scale: f32,
    pub sink: usize,
    /// 0: every position is attended to.
    pub window: usize,
}

pub fn attention_rows<D: Device>(
    device: &mut D,
    of: &RowsAttention,
    queries: &Queries,
    n: usize,
    heads: Heads,
) -> Result<(), DeviceError> {
    let element = device.element().bytes();
    let numbers = n * heads.heads * heads.d;
    let mut call = Call::new(rows_launch(heads).entry);
    call.takes(
        of.sink == 0 || of.window == 0 || queries.q_sink.is_some(),
        || "a sink without its queries".to_owned(),
    );
    call.at(queries.q, numbers, element);
    call.at_or_null(queries.q_sink, numbers, element);
    finish_rows(device, call, of, n, heads)
}

/// [`qkv_epilogue`](super::qkv_epilogue) and [`attention_rows`] in one, of rows that are their sequences' newest.
pub fn attention_decode<D: Device>(
    device: &mut D,
    of: &RowsAttention,
    projected: &Projected,
    n: usize,
    heads: Heads,
) -> Result<(), DeviceError> {
    let Heads {
        heads: queries,
        kv_heads,
        d,
    } = heads;
    let mut call = Call::new(rows_launch(heads).decode_entry);
    call.takes(
        of.sink == 0 || of.window == 0 || projected.sink_cos_sin.is_some(),
        || "a sink without its angle".to_owned(),
    );
    call.at(projected.qkv, n * (queries + 2 * kv_heads) * d, F32);
    call.at(projected.q_norm, d, F32);
    call.at(projected.k_norm, d, F32);
    call.float(projected.eps);
    call.at(projected.cos_sin, n * d, F32);
    call.at_or_null(projected.sink_cos_sin, d, F32);
    finish_rows(device, call, of, n, heads)
}

/// From the cache on both take the same.
fn finish_rows<D: Device>(
    device: &mut D,
    mut call: Call,
    of: &RowsAttention,
    n: usize,
    heads: Heads,
) -> Result<(), DeviceError> {
    let element = device.element().bytes();
    let blocks = rows_launch(heads).blocks;
    let Heads { heads, kv_heads, d } = heads;
    let splits = of.split_count;
    supports(&mut call, heads, kv_heads, d);
    let cached = of.cache_pages * kv_heads * PAGE_TOKENS * d;
    let (parts, counts) = if of.is_joined {
        (splits, n * blocks)
    } else {
        (0, 0)
    };
    call.at(of.keys, cached, element);
    call.at(of.values, cached, element);
    call.ints(of.pages, 1);
    call.at(of.splits, splits * SPLIT_INTS, size_of::<i32>());
    call.at(of.partial, parts * heads * d, F32);
    call.at(of.partial_ml, parts * heads * 2, F32);
    call.ints(of.arrived, counts);
    call.at(of.out, n * heads * d, element);
    call.int(heads).int(kv_heads).int(d).float(of.scale);
    call.int(of.sink).int(of.window);
    call.launch(device, [blocks, splits, 1], 256, 0)
}

/// How [`attention_rows`] and [`attention_decode`] are started for such heads.
pub struct RowsLaunch {
    entry: &'static str,
    decode_entry: &'static str,
    /// For each split.
    pub blocks: usize,
    /// Of them, those that a multiprocessor holds at once.
    pub resident: usize,
}

pub fn rows_launch(heads: Heads) -> RowsLaunch {
    let group = heads.heads / heads.kv_heads.max(1);
    let enough = ROWS_ENTRIES
        .into_iter()
        .find(|(together, ..)| *together >= group);
    let (together, resident, entry, decode_entry) = enough.unwrap_or(ROWS_ENTRIES[3]);
    RowsLaunch {
        entry,
        decode_entry,
        blocks: heads.kv_heads * group.div_ceil(together),
        resident,
    }
}

fn supports(call: &mut Call, heads: usize, kv_heads: usize, d: usize) {
    call.supports(d.is_multiple_of(16) && (16..=256).contains(&d), || {
        format!("heads of {d}; a multiple of 16 up to 256 is needed")
    });
    call.supports(kv_heads > 0 && heads.is_multiple_of(kv_heads), || {
        format!("{heads} heads on {kv_heads} of keys")
    });
}

/// What tiles of rows attend with, and to. There is no window.
#[derive(Clone, Copy, Debug)]
pub struct Prefill {
    pub q: View,
    /// Of the layer.
    pub keys: View,
    pub values: View,
    pub cache_pages: usize,
    pub pages: View,
    pub tiles: View,
    pub out: View,
    pub scale: f32,
}

/// One way to launch the kernel for tiles.
struct PrefillEntry {
    name: &'static str,
    /// Query heads of a block, which share a key head.
    heads: usize,
    /// Bytes of dynamic shared memory.
    shared: usize,
}

/// Two query heads a block where they share a key head and fit.
fn prefill_entry(group: usize, d: usize) -> PrefillEntry {
    let (name, heads, shared) = match (group.is_multiple_of(2), d) {
        (true, ..=64) => ("attention_prefill_2", 2, 32_768),
        (true, ..=128) => ("attention_prefill_2", 2, 65_536),
        (false, ..=64) => ("attention_prefill", 1, 40_960),
        (false, ..=128) => ("attention_prefill", 1, 81_920),
        (_, _) => ("attention_prefill", 1, 98_304),
    };
    PrefillEntry {
        name,
        heads,
        shared,
    }
}

/// Whether the kernel for tiles takes such heads on this device.
pub fn supports_prefill<D: Device>(device: &D, heads: Heads) -> bool {
    let Heads { heads, kv_heads, d } = heads;
    let entry = prefill_entry(heads / kv_heads.max(1), d);
    device.element() != Element::F32 && entry.shared <= device.facts().shared_bytes
}

/// `n`: rows of q and out.
pub fn attention_prefill<D: Device>(
    device: &mut D,
    of: &Prefill,
    tiles: usize,
    n: usize,
    heads: Heads,
) -> Result<(), DeviceError> {
    let element = device.element();
    let Heads { heads, kv_heads, d } = heads;
    let entry = prefill_entry(heads / kv_heads.max(1), d);
    let mut call = Call::new(entry.name);
    supports(&mut call, heads, kv_heads, d);
    call.supports(element != Element::F32, || "f32".to_owned());
    let cached = of.cache_pages * kv_heads * PAGE_TOKENS * d;
    call.at(of.q, n * heads * d, element.bytes());
    call.at(of.keys, cached, element.bytes());
    call.at(of.values, cached, element.bytes());
    call.ints(of.pages, 1);
    call.ints(of.tiles, tiles * TILE_INTS);
    call.at(of.out, n * heads * d, element.bytes());
    call.int(heads).int(kv_heads).int(d).float(of.scale);
    let grid = [heads / entry.heads, tiles, 1];
    call.launch(device, grid, 128, entry.shared)
}
