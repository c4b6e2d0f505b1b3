//! Attention: of single rows, and of many rows of one sequence.

use super::call::Call;
use super::{F32, Heads};
use crate::engine::backend::cuda::device::{Device, DeviceError, View};
use crate::engine::backend::cuda::sources::Element;
use crate::engine::kv::PAGE_TOKENS;

/// Integers of a tile: first row, rows, position of the first, first page, gap.
pub const TILE_INTS: usize = 5;
/// Most rows of a tile.
pub const TILE_ROWS: usize = 64;

/// Most parts that the reduction joins.
pub const MOST_SPLITS: usize = 64;

/// Entries of `attention_rows.cu`: the query heads that a block computes at once, the blocks whose registers fit
/// a multiprocessor as in the entry's launch bounds, and the name.
const ROWS_ENTRIES: [(usize, usize, &str); 4] = [
    (1, 2, "attention_rows_1"),
    (2, 2, "attention_rows_2"),
    (4, 1, "attention_rows_4"),
    (8, 1, "attention_rows_8"),
];

/// What rows by themselves attend with, and to.
#[derive(Clone, Copy, Debug)]
pub struct RowsAttention {
    pub q: View,
    /// Queries as far rows see the window's sink.
    pub q_sink: Option<View>,
    /// Of the layer.
    pub keys: View,
    pub values: View,
    pub cache_pages: usize,
    pub pages: View,
    pub first_page: View,
    pub gaps: View,
    pub positions: View,
    pub partial: View,
    pub partial_ml: View,
    pub out: View,
    pub scale: f32,
    pub sink: usize,
    /// 0: every position is attended to.
    pub window: usize,
    /// Parts of each row's keys.
    pub splits: usize,
}

pub fn attention_rows<D: Device>(
    device: &mut D,
    of: &RowsAttention,
    n: usize,
    heads: Heads,
) -> Result<(), DeviceError> {
    let element = device.element().bytes();
    let RowsLaunch { entry, blocks, .. } = rows_launch(heads);
    let Heads { heads, kv_heads, d } = heads;
    let splits = of.splits;
    let mut call = Call::new(entry);
    supports(&mut call, heads, kv_heads, d);
    call.supports((1..=MOST_SPLITS).contains(&splits), || {
        format!("{splits} parts; 1 to {MOST_SPLITS} are possible")
    });
    call.takes(
        of.sink == 0 || of.window == 0 || of.q_sink.is_some(),
        || "a sink without its queries".to_owned(),
    );
    let cached = of.cache_pages * kv_heads * PAGE_TOKENS * d;
    let parts = if splits > 1 { n * heads * splits } else { 0 };
    call.at(of.q, n * heads * d, element);
    call.at_or_null(of.q_sink, n * heads * d, element);
    call.at(of.keys, cached, element);
    call.at(of.values, cached, element);
    call.ints(of.pages, 1);
    call.ints(of.first_page, n);
    call.ints(of.gaps, n);
    call.ints(of.positions, n);
    call.at(of.partial, parts * d, F32);
    call.at(of.partial_ml, parts * 2, F32);
    call.at(of.out, n * heads * d, element);
    call.int(n).int(heads).int(kv_heads).int(d).float(of.scale);
    call.int(of.sink).int(of.window).int(splits);
    call.launch(device, [blocks, splits, n], 256, 0)?;
    match splits {
        1 => Ok(()),
        _ => reduce(device, of, n, heads, d),
    }
}

/// How [`attention_rows`] is started for such heads.
pub struct RowsLaunch {
    entry: &'static str,
    /// For each row and split.
    pub blocks: usize,
    /// Of them, those that a multiprocessor holds at once.
    pub resident: usize,
}

pub fn rows_launch(heads: Heads) -> RowsLaunch {
    let group = heads.heads / heads.kv_heads.max(1);
    let enough = ROWS_ENTRIES
        .into_iter()
        .find(|(together, ..)| *together >= group);
    let (together, resident, entry) = enough.unwrap_or(ROWS_ENTRIES[3]);
    RowsLaunch {
        entry,
        blocks: heads.kv_heads * group.div_ceil(together),
        resident,
    }
}

fn reduce<D: Device>(
    device: &mut D,
    of: &RowsAttention,
    n: usize,
    heads: usize,
    d: usize,
) -> Result<(), DeviceError> {
    let element = device.element().bytes();
    let parts = n * heads * of.splits;
    let mut call = Call::new("attention_reduce");
    call.at(of.partial, parts * d, F32);
    call.at(of.partial_ml, parts * 2, F32);
    call.at(of.out, n * heads * d, element);
    call.int(n).int(heads).int(d).int(of.splits);
    call.launch(device, [heads, n, 1], 128, 0)
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
