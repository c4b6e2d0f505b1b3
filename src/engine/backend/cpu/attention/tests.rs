//! Paged attention against the rule in its own words, in f64, whatever the cut, the neighbours and the window.
//!
//! [`Fed`] gives a sequence to the backend piece by piece, as the scheduler does; [`naive`] knows no pages.

use super::super::{CpuBackend, CpuBuffer};
use crate::backend::cpu::cache::CpuCache;
use crate::backend::cpu::simd::Kernels;
use crate::backend::{AttentionShape, Backend, Batch, Role, Room, Span, SpanState};
use crate::config::rope::RopeSettings;
use crate::kv::Window;
use crate::kv::{PAGE_TOKENS, PageId};

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
        rope: RopeSettings::plain(1e3),
        rotary_dim: head_dim,
        norm_eps: 1e-6,
        pages: PAGES,
        window,
        delta: None,
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
        let frequency = shape.rope.theta.powf(-((2 * i) as f64) / d as f64);
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
        let held =
            (0..end.div_ceil(PAGE_TOKENS)).filter(|index| *index < sink || *index >= sink + gap);
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
            state: SpanState::default(),
        })
        .collect();
    let rows: Vec<f32> = (fed.iter().zip(&ends))
        .flat_map(|(fed, end)| fed.rows[fed.done..*end].concat())
        .collect();
    let n = rows.len() / shape.qkv_cols();
    let tokens = vec![0; n];
    let mut qkv = backend.buffer(n, shape.qkv_cols(), Role::Stream).unwrap();
    qkv.rows_mut(n).copy_from_slice(&rows);
    let mut out: CpuBuffer = backend.buffer(n, shape.q_cols(), Role::Operand).unwrap();
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
    backend
        .rope_and_store(n, LAYER, &mut qkv, &q_norm, &k_norm, cache)
        .unwrap();
    backend.attention(n, LAYER, &qkv, cache, &mut out).unwrap();
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
    let room = Room {
        rows: 64,
        answers: 1,
        sequences: 2,
        context: 4096,
    };
    let mut cache = backend.cache(shape, &room).unwrap();
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
