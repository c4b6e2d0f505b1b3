//! Paged grouped-query attention on the CPU.
//!
//! Main function: [`attend`]. Rows of one sequence go through its keys and values together, so that these
//! come from memory once for all of them; yet each row's numbers are added in the order of its positions
//! alone: the result depends on the sequence, the position and the window's rule, never on the batch or the
//! chunk. Refuses to know: who owns a page.

use std::ops::Range;

use super::cache::CpuCache;
use super::columns::Columns;
use super::rows::{Rows, Run};
use super::simd::{Elements, Kernels};
use super::threads::Threads;
use crate::backend::{AttentionShape, math};
use crate::kv::PAGE_TOKENS;

/// Rows that go through the pages together: so many that reading keys and values is no longer what takes
/// the time, so few that their scores over some thousand positions stay in the second-level cache.
const BLOCK_ROWS: usize = 16;

/// The batch's queries, turned to their places.
#[derive(Clone, Copy)]
pub struct Queries<'a> {
    /// Stacked q, k and v by row.
    pub qkv: &'a [f32],
    /// The queries alone, as rows that are far see the sink; empty where no row is.
    pub sink: &'a [f32],
}

/// `out[n, heads · d]` for the whole batch.
pub fn attend(
    kernels: Kernels,
    threads: &Threads,
    rows: &Rows,
    layer: usize,
    queries: Queries<'_>,
    cache: &CpuCache,
    out: &mut [f32],
) {
    let shape = &cache.shape;
    let (kv_heads, group_cols) = (shape.kv_heads, shape.group() * shape.head_dim);
    let work = 2 * rows.longest() * group_cols;
    // A row of `out` is its key heads' groups of query heads, one after another.
    let out = &mut out[..rows.len() * shape.q_cols()];
    threads.chunks(out, group_cols, work, &|first, part| {
        let count = part.len() / group_cols;
        let mut scratch = Scratch::default();
        for head in 0..kv_heads {
            // Rows whose group for this head is in this part.
            let row_from = |at: usize| at.saturating_sub(head).div_ceil(kv_heads);
            let (mut row, end) = (row_from(first), row_from(first + count));
            while row < end {
                let block = rows.of_one_sequence(row, end.min(row + BLOCK_ROWS));
                row = block.end;
                let block = Block {
                    kernels,
                    cache,
                    layer,
                    head,
                    rows,
                    block,
                };
                let places = |row: usize| {
                    let start = (row * kv_heads + head - first) * group_cols;
                    start..start + group_cols
                };
                block.attend(queries, &mut scratch, part, places);
            }
        }
    });
}

/// What a block works in; kept from one to the next.
#[derive(Default)]
struct Scratch {
    /// `[rows, group, d]` each: as rows see their window, and as they see the sink; the latter empty where
    /// no row is far.
    own: Vec<f32>,
    sink: Vec<f32>,
    /// Scores of one page: `[rows, group, page]`.
    page: Vec<f32>,
    /// Scores, then weights: `[rows, group, longest]`, each row's own positions from its beginning.
    scores: Vec<f32>,
    /// Positions of each row that are done.
    done: Vec<usize>,
}

/// One sequence's consecutive rows, and their query heads that share a key head.
struct Block<'a> {
    kernels: Kernels,
    cache: &'a CpuCache,
    layer: usize,
    head: usize,
    rows: &'a Rows,
    block: Range<usize>,
}

impl Block<'_> {
    /// 1. scores `[group, length]` = q · kᵀ / √d   2. softmax by row   3. out `[group, d]` = scores · v
    ///
    /// `places`: where in `out` a row's group stands.
    fn attend(
        &self,
        queries: Queries<'_>,
        scratch: &mut Scratch,
        out: &mut [f32],
        places: impl Fn(usize) -> Range<usize>,
    ) {
        self.gather(queries, scratch);
        let longest = self.rows.length(self.block.end - 1);
        self.score(longest, scratch);
        let AttentionShape {
            rope,
            head_dim,
            rotary_dim,
            ..
        } = self.cache.shape;
        let scale = rope.score_scale(head_dim, rotary_dim);
        let group = self.cache.shape.group();
        for (lines, row) in scratch
            .scores
            .chunks_exact_mut(group * longest)
            .zip(self.block.clone())
        {
            for line in lines.chunks_exact_mut(longest) {
                let line = &mut line[..self.rows.length(row)];
                line.iter_mut().for_each(|score| *score *= scale);
                math::softmax(line);
            }
            out[places(row)].fill(0.0);
        }
        self.weigh(longest, scratch, out, places);
    }

    /// The rows' queries, one after another.
    fn gather(&self, queries: Queries<'_>, scratch: &mut Scratch) {
        let shape = &self.cache.shape;
        let group_cols = shape.group() * shape.head_dim;
        scratch.own.clear();
        scratch.sink.clear();
        for row in self.block.clone() {
            let own = &queries.qkv[row * shape.qkv_cols() + self.head * group_cols..][..group_cols];
            scratch.own.extend_from_slice(own);
            if queries.sink.is_empty() {
                continue;
            }
            let sink = match self.rows.is_far(row) {
                true => {
                    &queries.sink[row * shape.q_cols() + self.head * group_cols..][..group_cols]
                }
                false => own,
            };
            scratch.sink.extend_from_slice(sink);
        }
    }

    /// Scores page by page; each row keeps those of the positions that it attends to.
    fn score(&self, longest: usize, scratch: &mut Scratch) {
        let (d, group) = (self.cache.shape.head_dim, self.cache.shape.group());
        let Scratch {
            own,
            sink,
            page,
            scores,
            done,
        } = scratch;
        let heads = self.block.len() * group;
        page.resize(heads * PAGE_TOKENS, 0.0);
        scores.resize(heads * longest, 0.0);
        self.begin(done);
        for run in self.rows.runs(self.block.clone()) {
            let keys = &self.cache.layers[self.layer].keys[self.cache.slots(run.page, self.head)];
            let keys = Elements::F32(&keys[run.slots.start * d..run.slots.end * d]);
            let as_sink = run.sink && !sink.is_empty();
            let queries = if as_sink { &sink[..] } else { &own[..] };
            let width = run.slots.len();
            if self.block.len() == 1 {
                // It attends to all of its own runs: no page of scores on the way.
                let mut columns = Columns::new(&mut scores[done[0]..], heads, longest, width);
                self.kernels.product(queries, d, keys, &mut columns);
                done[0] += width;
                continue;
            }
            let mut columns = Columns::new(page, heads, PAGE_TOKENS, width);
            self.kernels.product(queries, d, keys, &mut columns);
            for (at, row) in self.block.clone().enumerate() {
                let seen = self.seen(row, &run);
                for line in at * group..(at + 1) * group {
                    let from = &page[line * PAGE_TOKENS..][seen.clone()];
                    scores[line * longest + done[at]..][..seen.len()].copy_from_slice(from);
                }
                done[at] += seen.len();
            }
        }
    }

    /// Weighted sums of the values, page by page.
    fn weigh(
        &self,
        longest: usize,
        scratch: &mut Scratch,
        out: &mut [f32],
        places: impl Fn(usize) -> Range<usize>,
    ) {
        let (d, group) = (self.cache.shape.head_dim, self.cache.shape.group());
        let Scratch { scores, done, .. } = scratch;
        self.begin(done);
        for run in self.rows.runs(self.block.clone()) {
            let values =
                &self.cache.layers[self.layer].values[self.cache.slots(run.page, self.head)];
            let values = &values[run.slots.start * d..run.slots.end * d];
            for (at, row) in self.block.clone().enumerate() {
                let seen = self.seen(row, &run);
                let values = &values[seen.start * d..seen.end * d];
                let lines = scores[at * group * longest..].chunks_exact(longest);
                for (line, out) in lines.zip(out[places(row)].chunks_exact_mut(d)) {
                    self.kernels
                        .accumulate(&line[done[at]..][..seen.len()], values, out);
                }
                done[at] += seen.len();
            }
        }
    }

    /// Of a run's slots, those that this row attends to: all, if it is the only one.
    fn seen(&self, row: usize, run: &Run) -> Range<usize> {
        match self.block.len() {
            1 => 0..run.slots.len(),
            _ => self.rows.seen(row, run),
        }
    }

    fn begin(&self, done: &mut Vec<usize>) {
        done.clear();
        done.resize(self.block.len(), 0);
    }
}

#[cfg(test)]
mod tests;
