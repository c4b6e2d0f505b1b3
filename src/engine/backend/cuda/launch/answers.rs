//! From rows of logits to what answers are made of.

use super::F32;
use super::call::Call;
use crate::backend::cuda::device::{Device, DeviceError, View};

/// Ids that a row may have banned on the device.
pub const MOST_BANNED: usize = 32;
/// Best tokens that a row may ask for on the device.
pub const MOST_TOP: usize = 20;
/// Numbers, and ids, of a row's result: greatest, best that is not banned, given, drawn; then the top.
pub const RESULTS: usize = 4 + MOST_TOP;
/// Sums of a row, or of a chunk of it: of e^logit, and of the weights of what may be drawn.
pub const SUMS: usize = 2;

/// Logits of one block.
const CHUNK: usize = 2048;
/// Numbers that a block leaves: its greatest, its best that is not banned, its top.
const PART: usize = 2 + MOST_TOP;
const F64: usize = 8;

/// Blocks for one row of logits.
fn chunks(vocab: usize) -> usize {
    vocab.div_ceil(CHUNK)
}

/// Bytes of the three lists between the two kernels, for one row.
pub fn part_bytes(vocab: usize) -> [usize; 3] {
    let chunks = chunks(vocab);
    [
        chunks * PART * F32,
        chunks * PART * F32,
        chunks * SUMS * F64,
    ]
}

#[derive(Clone, Copy, Debug)]
pub struct Rank {
    pub logits: View,
    /// `[n, 32]`, each row's ascending.
    pub banned: View,
    pub banned_count: View,
    /// Per row; -1 for none.
    pub given: View,
    /// How many of the best each row wants.
    pub top: View,
    /// `[n]` f32, 1 / temperature of a row's draw; 0 for none.
    pub beta: View,
    /// `[n]` f64, 0 to 1: the share of all weights at which the draw lies.
    pub chance: View,
    pub part_values: View,
    pub part_ids: View,
    pub part_sums: View,
    /// `[n, RESULTS]` f32
    pub values: View,
    /// `[n, RESULTS]` int; the first is 1 where the row holds NaN.
    pub ids: View,
    /// `[n, SUMS]` f64: ln of the sum of e^logit, and the sum of the draw's weights, the best one's being 1.
    pub sums: View,
}

pub fn rank<D: Device>(
    device: &mut D,
    of: &Rank,
    n: usize,
    vocab: usize,
) -> Result<(), DeviceError> {
    let chunks = chunks(vocab);
    let mut call = Call::new("rank_partial");
    call.supports(vocab >= MOST_TOP, || {
        format!("a vocabulary of {vocab}; {MOST_TOP} at least are needed")
    });
    call.at(of.logits, n * vocab, F32);
    call.ints(of.banned, n * MOST_BANNED);
    call.ints(of.banned_count, n);
    call.ints(of.top, n);
    call.ints(of.beta, n);
    call.at(of.part_values, n * chunks * PART, F32);
    call.at(of.part_ids, n * chunks * PART, F32);
    call.at(of.part_sums, n * chunks * SUMS, F64);
    call.int(n).int(vocab);
    call.launch(device, [chunks, n, 1], 256, 0)?;
    let mut call = Call::new("rank_final");
    call.at(of.part_values, n * chunks * PART, F32);
    call.at(of.part_ids, n * chunks * PART, F32);
    call.at(of.part_sums, n * chunks * SUMS, F64);
    call.at(of.logits, n * vocab, F32);
    call.ints(of.banned, n * MOST_BANNED);
    call.ints(of.banned_count, n);
    call.ints(of.top, n);
    call.ints(of.beta, n);
    call.ints(of.given, n);
    call.at(of.chance, n, F64);
    call.at(of.values, n * RESULTS, F32);
    call.at(of.ids, n * RESULTS, F32);
    call.at(of.sums, n * SUMS, F64);
    call.int(n).int(vocab);
    call.launch(device, [n, 1, 1], 256, 0)
}
