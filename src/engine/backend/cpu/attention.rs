//! Paged grouped-query attention on the CPU.
//!
//! Main types: [`CpuCache`], keys and values in pages; [`Rows`], where each row of a batch stands. Each
//! (row, key head) pair is computed alone, over the pages in order: the result depends on the sequence
//! and the position, never on the batch or the chunk. Refuses to know: who owns a page.

use std::ops::Range;

use super::columns::Columns;
use super::math;
use super::memory::Floats;
use super::simd::{Elements, Kernels};
use super::threads::Threads;
use crate::engine::backend::{AttentionShape, BackendError, Batch};
use crate::engine::kv::{PAGE_TOKENS, PageId};

/// Keys and values of every layer: `[page, kv head, slot, head_dim]` f32 each.
pub(crate) struct CpuCache {
    pub(super) shape: AttentionShape,
    layers: Vec<Layer>,
}

struct Layer {
    keys: Floats,
    values: Floats,
}

impl CpuCache {
    pub(super) fn new(shape: &AttentionShape) -> Result<Self, BackendError> {
        let sizes = [shape.pages, shape.kv_heads, PAGE_TOKENS, shape.head_dim];
        let layer = |_| {
            Ok(Layer {
                keys: Floats::zeroed(&sizes)?,
                values: Floats::zeroed(&sizes)?,
            })
        };
        Ok(Self {
            layers: (0..shape.layers).map(layer).collect::<Result<_, _>>()?,
            shape: shape.clone(),
        })
    }

    /// Takes keys and values of one row of stacked q, k and v.
    pub(super) fn store(&mut self, layer: usize, page: PageId, slot: usize, qkv: &[f32]) {
        let (d, kv_heads) = (self.shape.head_dim, self.shape.kv_heads);
        let (keys, values) = qkv[self.shape.q_cols()..].split_at(kv_heads * d);
        for head in 0..kv_heads {
            let start = self.slots(page, head).start + slot * d;
            let at = head * d..(head + 1) * d;
            self.layers[layer].keys[start..start + d].copy_from_slice(&keys[at.clone()]);
            self.layers[layer].values[start..start + d].copy_from_slice(&values[at]);
        }
    }

    /// The elements of a page's head.
    fn slots(&self, page: PageId, head: usize) -> Range<usize> {
        let size = PAGE_TOKENS * self.shape.head_dim;
        let start = (page as usize * self.shape.kv_heads + head) * size;
        start..start + size
    }
}

/// Where each row of the batch stands.
#[derive(Default)]
pub(super) struct Rows {
    /// Position of each row, and its sequence's index.
    rows: Vec<(usize, usize)>,
    tables: Vec<Vec<PageId>>,
    longest: usize,
}

impl Rows {
    pub(super) fn load(&mut self, batch: &Batch<'_>) {
        self.rows.clear();
        self.tables.resize_with(batch.spans.len(), Vec::new);
        for (at, span) in batch.spans.iter().enumerate() {
            self.rows
                .extend(span.positions().map(|position| (position, at)));
            self.tables[at].clear();
            self.tables[at].extend_from_slice(span.pages);
        }
        self.longest = batch
            .spans
            .iter()
            .map(|span| span.positions.1)
            .max()
            .unwrap_or(0);
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn positions(&self) -> impl Iterator<Item = usize> {
        self.rows.iter().map(|(position, _)| *position)
    }

    /// Page and slot of a row's own token.
    pub(super) fn place(&self, row: usize) -> (PageId, usize) {
        let (position, table) = self.rows[row];
        (
            self.tables[table][position / PAGE_TOKENS],
            position % PAGE_TOKENS,
        )
    }

    /// The pages that a row attends to, and its count of positions.
    fn context(&self, row: usize) -> (&[PageId], usize) {
        let (position, table) = self.rows[row];
        (&self.tables[table], position + 1)
    }
}

/// `out[n, heads · d]` from the queries in `qkv`, for the whole batch.
pub(super) fn attend(
    kernels: Kernels,
    threads: &Threads,
    rows: &Rows,
    layer: usize,
    qkv: &[f32],
    cache: &CpuCache,
    out: &mut [f32],
) {
    let shape = &cache.shape;
    let group_cols = shape.group() * shape.head_dim;
    let work = 2 * rows.longest * group_cols;
    // A row of `out` is its key heads' groups of query heads, one after another.
    let out = &mut out[..rows.len() * shape.q_cols()];
    threads.chunks(out, group_cols, work, &|first, run| {
        let mut scores = vec![0.0; shape.group() * rows.longest];
        for (at, out) in run.chunks_exact_mut(group_cols).enumerate() {
            let (row, head) = ((first + at) / shape.kv_heads, (first + at) % shape.kv_heads);
            let queries = &qkv[row * shape.qkv_cols() + head * group_cols..][..group_cols];
            let (pages, length) = rows.context(row);
            let one = OneHead {
                kernels,
                cache,
                layer,
                head,
                pages,
                length,
            };
            one.attend(queries, &mut scores, out);
        }
    });
}

/// One row's query heads that share a key head.
struct OneHead<'a> {
    kernels: Kernels,
    cache: &'a CpuCache,
    layer: usize,
    head: usize,
    pages: &'a [PageId],
    /// Positions attended to: 0..length.
    length: usize,
}

impl OneHead<'_> {
    /// 1. scores `[group, length]` = q · kᵀ / √d   2. softmax by row   3. out `[group, d]` = scores · v
    fn attend(&self, queries: &[f32], scores: &mut [f32], out: &mut [f32]) {
        let (d, group, length) = (
            self.cache.shape.head_dim,
            self.cache.shape.group(),
            self.length,
        );
        let layer = &self.cache.layers[self.layer];
        let mut columns = Columns::new(scores, group, length, length);
        for (page, count) in self.pages() {
            let keys = &layer.keys[self.cache.slots(page, self.head)][..count * d];
            let (mut slots, rest) = columns.split_at(count);
            self.kernels
                .product(queries, d, Elements::F32(keys), &mut slots);
            columns = rest;
        }
        let scale = 1.0 / (d as f32).sqrt();
        out.fill(0.0);
        for (scores, out) in scores.chunks_exact_mut(length).zip(out.chunks_exact_mut(d)) {
            scores.iter_mut().for_each(|score| *score *= scale);
            math::softmax(scores);
            let mut scores = &scores[..];
            for (page, count) in self.pages() {
                let values = &layer.values[self.cache.slots(page, self.head)][..count * d];
                let (weights, rest) = scores.split_at(count);
                self.kernels.accumulate(weights, values, out);
                scores = rest;
            }
        }
    }

    /// Pages in order with the slots in use.
    fn pages(&self) -> impl Iterator<Item = (PageId, usize)> {
        let starts = (0..self.length).step_by(PAGE_TOKENS);
        self.pages
            .iter()
            .zip(starts)
            .map(|(page, start)| (*page, (self.length - start).min(PAGE_TOKENS)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::backend::Span;

    /// Numbers in -1..1.
    fn number(at: usize) -> f32 {
        ((at as f32) * 12.9898).sin()
    }

    /// q, k, v of one head at one position by the formula, in f64.
    fn naive(rows: &[Vec<f32>], shape: &AttentionShape, head: usize, position: usize) -> Vec<f64> {
        let d = shape.head_dim;
        let kv = head / shape.group();
        let part =
            |row: usize, start: usize| rows[row][start..start + d].iter().map(|v| f64::from(*v));
        let q: Vec<f64> = part(position, head * d).collect();
        let key_start = shape.q_cols() + kv * d;
        let value_start = key_start + shape.kv_heads * d;
        let scores: Vec<f64> = (0..=position)
            .map(|at| {
                part(at, key_start).zip(&q).map(|(k, q)| k * q).sum::<f64>() / (d as f64).sqrt()
            })
            .collect();
        let total: f64 = scores.iter().map(|s| s.exp()).sum();
        let mut out = vec![0.0; d];
        for (at, score) in scores.iter().enumerate() {
            for (out, value) in out.iter_mut().zip(part(at, value_start)) {
                *out += score.exp() / total * value;
            }
        }
        out
    }

    /// Attention over two sequences in one batch, the first in two chunks, on scattered pages.
    #[test]
    fn paged_attention_equals_a_naive_one_in_f64() {
        let threads = Threads::new(1).unwrap();
        for (heads, kv_heads, head_dim) in [(4, 2, 16), (6, 2, 10), (5, 1, 32), (3, 3, 24)] {
            let shape = AttentionShape {
                layers: 2,
                heads,
                kv_heads,
                head_dim,
                rope_theta: 1e4,
                norm_eps: 1e-6,
                pages: 9,
            };
            let sequence = |seed: usize, length: usize| -> Vec<Vec<f32>> {
                let row = |r: usize| {
                    (0..shape.qkv_cols())
                        .map(|c| number(seed + r * 977 + c))
                        .collect()
                };
                (0..length).map(row).collect()
            };
            let (one, two) = (sequence(1, 40), sequence(5000, 17));
            let (pages_one, pages_two) = ([7, 0, 4], [8, 3]);
            for kernels in Kernels::all() {
                let mut cache = CpuCache::new(&shape).unwrap();
                // What other requests left in a page must not matter.
                cache.layers[1].keys.fill(f32::NAN);
                cache.layers[1].values.fill(f32::NAN);
                for chunk in [(0, 21, 0), (21, 40, 17)] {
                    let spans = [
                        Span {
                            positions: (chunk.0, chunk.1),
                            pages: &pages_one,
                        },
                        Span {
                            positions: (0, chunk.2),
                            pages: &pages_two,
                        },
                    ];
                    let mut rows = Rows::default();
                    rows.load(&Batch {
                        tokens: &[],
                        spans: &spans,
                    });
                    let qkv: Vec<f32> = one[chunk.0..chunk.1]
                        .iter()
                        .chain(&two[..chunk.2])
                        .flatten()
                        .copied()
                        .collect();
                    for row in 0..rows.len() {
                        let (page, slot) = rows.place(row);
                        cache.store(
                            1,
                            page,
                            slot,
                            &qkv[row * shape.qkv_cols()..][..shape.qkv_cols()],
                        );
                    }
                    let mut out = vec![f32::NAN; rows.len() * shape.q_cols()];
                    attend(kernels, &threads, &rows, 1, &qkv, &cache, &mut out);
                    for (row, position) in rows.positions().enumerate() {
                        let source = if row < chunk.1 - chunk.0 { &one } else { &two };
                        for head in 0..heads {
                            let want = naive(source, &shape, head, position);
                            let got = &out[row * shape.q_cols() + head * head_dim..][..head_dim];
                            for (got, want) in got.iter().zip(want) {
                                assert!((f64::from(*got) - want).abs() < 2e-6, "{got} {want}");
                            }
                        }
                    }
                }
            }
        }
    }
}
