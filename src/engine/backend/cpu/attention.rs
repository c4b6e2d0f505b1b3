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
use crate::engine::backend::math;
use crate::engine::kv::PAGE_TOKENS;

/// Rows that go through the pages together: so many that reading keys and values is no longer what takes
/// the time, so few that their scores over some thousand positions stay in the second-level cache.
const BLOCK_ROWS: usize = 16;

/// The batch's queries, turned to their places.
#[derive(Clone, Copy)]
pub(super) struct Queries<'a> {
    /// Stacked q, k and v by row.
    pub(super) qkv: &'a [f32],
    /// The queries alone, as rows that are far see the sink; empty where no row is.
    pub(super) sink: &'a [f32],
}

/// `out[n, heads · d]` for the whole batch.
pub(super) fn attend(
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
        let scale = 1.0 / (self.cache.shape.head_dim as f32).sqrt();
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
mod tests {
    use super::super::{CpuBackend, CpuBuffer};
    use crate::engine::backend::cpu::cache::CpuCache;
    use crate::engine::backend::cpu::simd::Kernels;
    use crate::engine::backend::{AttentionShape, Backend, Batch, Span};
    use crate::engine::handle::Window;
    use crate::engine::kv::{PAGE_TOKENS, PageId};

    const LAYER: usize = 1;
    const PAGES: usize = 64;

    /// Numbers in -1..1.
    fn number(at: usize) -> f32 {
        ((at as f32) * 12.9898).sin()
    }

    fn shape(
        (heads, kv_heads, head_dim): (usize, usize, usize),
        window: Option<Window>,
    ) -> AttentionShape {
        AttentionShape {
            layers: 2,
            heads,
            kv_heads,
            head_dim,
            rope_theta: 1e3,
            norm_eps: 1e-6,
            pages: PAGES,
            window,
        }
    }

    /// Stacked q, k and v of a sequence before norm and rotation.
    fn sequence(shape: &AttentionShape, seed: usize, length: usize) -> Vec<Vec<f32>> {
        let cols = shape.qkv_cols();
        let row = |r: usize| (0..cols).map(|c| number(seed + r * 977 + c)).collect();
        (0..length).map(row).collect()
    }

    fn norm_weight(d: usize, seed: usize) -> Vec<f32> {
        (0..d).map(|at| 1.0 + 0.5 * number(seed + at)).collect()
    }

    /// One head normed and turned as at `position`, in f64.
    fn turned(head: &[f32], weight: &[f32], shape: &AttentionShape, position: usize) -> Vec<f64> {
        let d = head.len();
        let x: Vec<f64> = head.iter().map(|v| f64::from(*v)).collect();
        let square = x.iter().map(|v| v * v).sum::<f64>() / d as f64;
        let scale = 1.0 / (square + f64::from(shape.norm_eps)).sqrt();
        let x: Vec<f64> = x
            .iter()
            .zip(weight)
            .map(|(x, w)| x * scale * f64::from(*w))
            .collect();
        let mut out = x.clone();
        for i in 0..d / 2 {
            let frequency = shape.rope_theta.powf(-((2 * i) as f64) / d as f64);
            let (sin, cos) = (position as f64 * frequency).sin_cos();
            out[i] = x[i] * cos - x[i + d / 2] * sin;
            out[i + d / 2] = x[i + d / 2] * cos + x[i] * sin;
        }
        out
    }

    /// The rule in its own words, in f64: one head at one position.
    fn naive(rows: &[Vec<f32>], shape: &AttentionShape, head: usize, position: usize) -> Vec<f64> {
        let d = shape.head_dim;
        let kv = head / shape.group();
        let (q_norm, k_norm) = (norm_weight(d, 3), norm_weight(d, 77));
        let query = |from| turned(&rows[position][head * d..][..d], &q_norm, shape, from);
        let key_start = shape.q_cols() + kv * d;
        let value_start = key_start + shape.kv_heads * d;
        let Window { sink, window } = shape.window.unwrap_or(Window {
            sink: 0,
            window: usize::MAX / 2,
        });
        let (own, as_sink) = (
            query(position),
            query(position.min((sink + window).max(1) - 1)),
        );
        let seen: Vec<usize> = (0..=position)
            .filter(|at| *at < sink || at + window > position)
            .collect();
        let score = |at: &usize| {
            let key = turned(&rows[*at][key_start..][..d], &k_norm, shape, *at);
            let query = if *at < sink { &as_sink } else { &own };
            let dot: f64 = key.iter().zip(query).map(|(k, q)| k * q).sum();
            (dot / (d as f64).sqrt()).exp()
        };
        let weights: Vec<f64> = seen.iter().map(score).collect();
        let total: f64 = weights.iter().sum();
        let mut out = vec![0.0; d];
        for (at, weight) in seen.iter().zip(&weights) {
            for (out, value) in out.iter_mut().zip(&rows[*at][value_start..]) {
                *out += weight / total * f64::from(*value);
            }
        }
        out
    }

    /// A sequence that is fed to the backend piece by piece, on scattered pages; those that no row will
    /// attend to again are given back and poisoned.
    struct Fed<'a> {
        rows: &'a [Vec<f32>],
        first_page: usize,
        done: usize,
        out: Vec<Vec<f32>>,
    }

    impl<'a> Fed<'a> {
        fn new(rows: &'a [Vec<f32>], first_page: usize) -> Self {
            Self {
                rows,
                first_page,
                done: 0,
                out: Vec::new(),
            }
        }

        fn page(&self, index: usize) -> PageId {
            (((self.first_page + index) * 27) % PAGES) as PageId
        }

        /// Pages held for rows up to `end`, and the gap in them.
        fn pages(&self, window: Option<Window>, end: usize) -> (Vec<PageId>, usize) {
            let (sink, oldest) = window.map_or((0, 0), |window| {
                let oldest = (self.done + 1).saturating_sub(window.window);
                (window.sink.div_ceil(PAGE_TOKENS), oldest / PAGE_TOKENS)
            });
            let gap = oldest.saturating_sub(sink);
            let held = (0..end.div_ceil(PAGE_TOKENS))
                .filter(|index| *index < sink || *index >= sink + gap);
            (held.map(|index| self.page(index)).collect(), gap)
        }

        fn poison_the_gap(&self, cache: &mut CpuCache) {
            let held = self.pages(cache.shape.window, self.done).0;
            for index in 0..self.done.div_ceil(PAGE_TOKENS) {
                let page = self.page(index);
                if !held.contains(&page) {
                    for head in 0..cache.shape.kv_heads {
                        let slots = cache.slots(page, head);
                        cache.layers[LAYER].keys[slots.clone()].fill(f32::NAN);
                        cache.layers[LAYER].values[slots].fill(f32::NAN);
                    }
                }
            }
        }
    }

    fn step(backend: &mut CpuBackend, cache: &mut CpuCache, fed: &mut [Fed<'_>], counts: &[usize]) {
        let shape = cache.shape.clone();
        let ends: Vec<usize> = fed
            .iter()
            .zip(counts)
            .map(|(fed, count)| (fed.done + count).min(fed.rows.len()))
            .collect();
        let held: Vec<(Vec<PageId>, usize)> = fed
            .iter()
            .zip(&ends)
            .map(|(fed, end)| fed.pages(shape.window, *end))
            .collect();
        let spans: Vec<Span<'_>> = (fed.iter().zip(&ends).zip(&held))
            .map(|((fed, end), (pages, gap))| Span {
                positions: (fed.done, *end),
                pages,
                gap: *gap,
            })
            .collect();
        let rows: Vec<f32> = (fed.iter().zip(&ends))
            .flat_map(|(fed, end)| fed.rows[fed.done..*end].concat())
            .collect();
        let n = rows.len() / shape.qkv_cols();
        let tokens = vec![0; n];
        let mut qkv = backend.buffer(n, shape.qkv_cols()).unwrap();
        qkv.rows_mut(n).copy_from_slice(&rows);
        let mut out: CpuBuffer = backend.buffer(n, shape.q_cols()).unwrap();
        out.rows_mut(n).fill(f32::NAN);
        let batch = Batch {
            tokens: &tokens,
            spans: &spans,
        };
        backend.load_batch(&batch, cache).unwrap();
        let (q_norm, k_norm) = (
            norm_weight(shape.head_dim, 3),
            norm_weight(shape.head_dim, 77),
        );
        backend.rope_and_store(LAYER, &mut qkv, &q_norm, &k_norm, cache);
        backend.attention(LAYER, &qkv, cache, &mut out);
        let mut row = 0;
        for (fed, end) in fed.iter_mut().zip(ends) {
            for _ in fed.done..end {
                fed.out.push(out.row(row).to_vec());
                row += 1;
            }
            fed.done = end;
            fed.poison_the_gap(cache);
        }
    }

    /// Every output of the sequences, computed in turns of `counts` rows each.
    fn run(
        kernels: Kernels,
        shape: &AttentionShape,
        sequences: &[&[Vec<f32>]],
        counts: &[usize],
    ) -> Vec<Vec<Vec<f32>>> {
        let mut backend = CpuBackend::new(1).unwrap();
        backend.kernels = kernels;
        let mut cache = backend.cache(shape).unwrap();
        // What other requests left in a page must not matter.
        cache.layers[LAYER].keys.fill(f32::NAN);
        cache.layers[LAYER].values.fill(f32::NAN);
        let mut fed: Vec<Fed<'_>> = sequences
            .iter()
            .enumerate()
            .map(|(at, rows)| Fed::new(rows, at * PAGES / 2))
            .collect();
        while fed.iter().any(|fed| fed.done < fed.rows.len()) {
            step(&mut backend, &mut cache, &mut fed, counts);
        }
        fed.into_iter().map(|fed| fed.out).collect()
    }

    fn windows() -> Vec<Option<Window>> {
        let windows = [
            (0, 1),
            (0, 23),
            (4, 20),
            (16, 32),
            (21, 40),
            (37, 5),
            (3, 1000),
        ];
        let some = windows.map(|(sink, window)| Some(Window { sink, window }));
        std::iter::once(None).chain(some).collect()
    }

    #[test]
    fn equals_a_naive_one_in_f64() {
        for (sizes, kernels) in [(4, 2, 16), (6, 2, 10), (5, 1, 32), (3, 3, 24)]
            .into_iter()
            .zip(Kernels::all().into_iter().cycle())
        {
            for window in windows() {
                let shape = shape(sizes, window);
                let (one, two) = (sequence(&shape, 1, 230), sequence(&shape, 5000, 61));
                let out = run(kernels, &shape, &[&one, &two], &[19, 7]);
                for (rows, out) in [&one, &two].into_iter().zip(out) {
                    assert_eq!(out.len(), rows.len());
                    for (position, got) in out.iter().enumerate() {
                        for head in 0..shape.heads {
                            let want = naive(rows, &shape, head, position);
                            let got = &got[head * shape.head_dim..][..shape.head_dim];
                            for (got, want) in got.iter().zip(want) {
                                let near = (f64::from(*got) - want).abs() < 2e-5;
                                assert!(near, "{window:?} {position} {head}: {got} {want}");
                            }
                        }
                    }
                }
            }
        }
    }

    /// To the bit, in every instruction set and under every window.
    #[test]
    fn neither_the_cut_nor_the_neighbours_matter() {
        for kernels in Kernels::all() {
            for window in windows() {
                let shape = shape((6, 2, 20), window);
                let (one, two) = (sequence(&shape, 1, 150), sequence(&shape, 5000, 90));
                let together = run(kernels, &shape, &[&one, &two], &[19, 7]);
                let by_one = run(kernels, &shape, &[&one, &two], &[1, 2]);
                let alone = run(kernels, &shape, &[&one], &[150]);
                assert_eq!(together, by_one, "{window:?}");
                assert_eq!(together[0], alone[0], "{window:?}");
            }
        }
    }

    /// As long as nothing is hidden a window changes no bit.
    #[test]
    fn a_window_that_holds_everything_changes_nothing() {
        let sizes = (6, 2, 20);
        let rows = sequence(&shape(sizes, None), 1, 150);
        let without = run(Kernels::best(), &shape(sizes, None), &[&rows], &[13]);
        for (sink, size) in [(0, 23), (4, 20), (16, 32), (21, 40), (37, 5)] {
            let window = Window { sink, window: size };
            let with = run(
                Kernels::best(),
                &shape(sizes, Some(window)),
                &[&rows],
                &[13],
            );
            assert_eq!(with[0][..sink + size], without[0][..sink + size]);
            assert_ne!(with[0][sink + size], without[0][sink + size]);
        }
    }
}
