//! The delta rule against its definition in f64, and the promise on batches: a row's numbers do not depend on what stands
//! beside it.

use super::super::memory::{CpuBuffer, Floats};
use super::super::simd::Kernels;
use super::super::threads::Threads;
use super::{Delta, States};
use crate::backend::{Batch, DeltaWeights, Span, SpanState};
use crate::config::hybrid::DeltaShape;
use crate::kv::StateId;

/// Odd sizes: value heads share key heads, and neither dimension is a whole number of registers.
const SHAPE: DeltaShape = DeltaShape {
    layers: 2,
    key_heads: 2,
    value_heads: 6,
    key_dim: 20,
    value_dim: 36,
    taps: 4,
    norm_eps: 1e-6,
};
const LAYER: usize = 1;

fn number(seed: usize) -> f32 {
    let mixed = (seed as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed ^ (mixed >> 29)) % 2_000) as f32 / 1_000.0 - 1.0
}

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|at| number(seed * 7_919 + at)).collect()
}

fn weights(shape: &DeltaShape) -> DeltaWeights<Vec<f32>> {
    DeltaWeights {
        conv: numbers(shape.taps * shape.channels(), 1),
        log_decay: numbers(shape.value_heads, 2),
        step_bias: numbers(shape.value_heads, 3),
        norm: numbers(shape.value_dim, 4),
    }
}

/// Projected rows of a sequence.
fn sequence(shape: &DeltaShape, seed: usize, length: usize) -> Vec<Vec<f32>> {
    let row = |at| numbers(shape.projected_cols(), 100 * seed + at);
    (10..10 + length).map(row).collect()
}

/// Some rows of a sequence: from where, how many, its state, and where a snapshot goes.
struct Part<'a> {
    rows: &'a [Vec<f32>],
    start: usize,
    state: SpanState,
}

fn part(rows: &[Vec<f32>], start: usize, own: StateId) -> Part<'_> {
    let state = SpanState {
        own,
        snapshot: None,
    };
    Part { rows, start, state }
}

struct Bench {
    shape: DeltaShape,
    kernels: Kernels,
    threads: Threads,
    states: States,
    delta: Delta,
}

impl Bench {
    fn new(shape: DeltaShape, kernels: Kernels, threads: usize) -> Self {
        Self {
            shape,
            kernels,
            threads: Threads::new(threads).unwrap(),
            states: States::new(shape, 6).unwrap(),
            delta: Delta::default(),
        }
    }

    /// The layer's answers to these rows, one after another.
    fn step(&mut self, parts: &[Part<'_>]) -> Vec<Vec<f32>> {
        let spans: Vec<Span<'_>> = parts
            .iter()
            .map(|part| Span {
                positions: (part.start, part.start + part.rows.len()),
                pages: &[],
                gap: 0,
                state: part.state,
            })
            .collect();
        self.delta.load(&Batch {
            tokens: &[],
            spans: &spans,
        });
        let rows: Vec<f32> = parts.iter().flat_map(|part| part.rows.concat()).collect();
        let (cols, out_cols) = (self.shape.projected_cols(), self.shape.value_cols());
        let n = rows.len() / cols;
        let buffer = |cols| CpuBuffer {
            data: Floats::zeroed(&[n, cols]).unwrap(),
            cols,
        };
        let (mut projected, mut out) = (buffer(cols), buffer(out_cols));
        projected.data.copy_from_slice(&rows);
        let weights = weights(&self.shape);
        self.delta.run(
            self.kernels,
            &self.threads,
            n,
            LAYER,
            &projected,
            &weights,
            &mut self.states,
            &mut out,
        );
        out.data.chunks(out_cols).map(<[f32]>::to_vec).collect()
    }
}

/// By the definition: nothing but loops, in f64.
fn defined(shape: &DeltaShape, rows: &[Vec<f32>]) -> Vec<Vec<f64>> {
    let (weights, channels) = (weights(shape), shape.channels());
    let wide = |x: &[f32]| -> Vec<f64> { x.iter().map(|x| f64::from(*x)).collect() };
    let silu = |x: f64| x / (1.0 + (-x).exp());
    let mut states = vec![vec![0.0; shape.key_dim * shape.value_dim]; shape.value_heads];
    let mut answers = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let row = wide(row);
        let mixed: Vec<f64> = (0..channels)
            .map(|channel| {
                let taps = (0..shape.taps).filter(|back| *back <= at);
                let sum = taps.map(|back| {
                    let weight = weights.conv[(shape.taps - 1 - back) * channels + channel];
                    f64::from(weight) * f64::from(rows[at - back][channel])
                });
                silu(sum.sum())
            })
            .collect();
        let unit = |x: &[f64]| -> Vec<f64> {
            let length = (x.iter().map(|x| x * x).sum::<f64>() + 1e-6).sqrt();
            x.iter().map(|x| x / length).collect()
        };
        let mut answer = Vec::new();
        for (head, state) in states.iter_mut().enumerate() {
            let key_head = head / (shape.value_heads / shape.key_heads);
            let (d, e) = (shape.key_dim, shape.value_dim);
            let query = unit(&mixed[key_head * d..][..d]);
            let key = unit(&mixed[shape.key_cols() + key_head * d..][..d]);
            let value = &mixed[2 * shape.key_cols() + head * e..][..e];
            let z = &row[channels + head * e..][..e];
            let b = row[channels + shape.value_cols() + head];
            let a = row[channels + shape.value_cols() + shape.value_heads + head];
            let step = (a + f64::from(weights.step_bias[head])).exp().ln_1p();
            let decay = (-f64::from(weights.log_decay[head]).exp() * step).exp();
            let beta = 1.0 / (1.0 + (-b).exp());
            state.iter_mut().for_each(|s| *s *= decay);
            for column in 0..e {
                let read: f64 = (0..d).map(|i| state[i * e + column] * key[i]).sum();
                let delta = beta * (value[column] - read);
                (0..d).for_each(|i| state[i * e + column] += key[i] * delta);
            }
            let scale = 1.0 / (d as f64).sqrt();
            let read = |column: usize| -> f64 {
                (0..d)
                    .map(|i| state[i * e + column] * query[i] * scale)
                    .sum()
            };
            let raw: Vec<f64> = (0..e).map(read).collect();
            let mean = raw.iter().map(|x| x * x).sum::<f64>() / e as f64;
            let rms = (mean + f64::from(shape.norm_eps)).sqrt();
            answer.extend((0..e).map(|column| {
                raw[column] / rms * f64::from(weights.norm[column]) * silu(z[column])
            }));
        }
        answers.push(answer);
    }
    answers
}

#[test]
fn answers_are_those_of_the_definition() {
    let short_taps = DeltaShape {
        taps: 1,
        key_heads: 1,
        value_heads: 1,
        key_dim: 64,
        value_dim: 16,
        ..SHAPE
    };
    for shape in [SHAPE, short_taps] {
        let rows = sequence(&shape, 1, 40);
        let want = defined(&shape, &rows);
        for kernels in Kernels::all() {
            let got = Bench::new(shape, kernels, 1).step(&[part(&rows, 0, 3)]);
            for (got, want) in got.iter().flatten().zip(want.iter().flatten()) {
                let name = kernels.name();
                assert!(
                    (f64::from(*got) - want).abs() < 2e-5,
                    "{name}: {got} {want}"
                );
            }
        }
    }
}

/// To the bit: in one piece, token by token, in odd chunks, beside others, on more threads, in another state.
#[test]
fn answers_do_not_depend_on_chunks_neighbours_or_threads() {
    let rows = sequence(&SHAPE, 1, 50);
    let others = sequence(&SHAPE, 2, 50);
    for kernels in Kernels::all() {
        let whole = Bench::new(SHAPE, kernels, 1).step(&[part(&rows, 0, 0)]);
        for chunk in [1, 2, 3, 7, 49] {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut bench = Bench::new(SHAPE, kernels, 3);
                    let mut got = Vec::new();
                    for start in (0..50).step_by(chunk) {
                        let end = (start + chunk).min(50);
                        let other = part(&others[start..end], start, 2);
                        let mine = part(&rows[start..end], start, 5);
                        let answers = bench.step(&[other, mine]);
                        got.extend_from_slice(&answers[end - start..]);
                    }
                    assert_eq!(got, whole, "{} {chunk}", kernels.name());
                });
            });
        }
    }
}

/// From a snapshot that was taken in the middle of a chunk, wherever that is.
#[test]
fn a_snapshot_goes_on_as_the_whole() {
    let rows = sequence(&SHAPE, 1, 30);
    let kernels = Kernels::best();
    let whole = Bench::new(SHAPE, kernels, 1).step(&[part(&rows, 0, 0)]);
    for (begin, at) in [(0, 1), (0, 2), (0, 16), (0, 30), (5, 6), (5, 16), (29, 30)] {
        let mut bench = Bench::new(SHAPE, kernels, 1);
        if begin > 0 {
            bench.step(&[part(&rows[..begin], 0, 1)]);
        }
        let filled = Part {
            state: SpanState {
                own: 1,
                snapshot: Some((at, 4)),
            },
            ..part(&rows[begin..], begin, 1)
        };
        let answers = bench.step(&[filled]);
        assert_eq!(answers, whole[begin..]);
        // Its own state has gone on; the snapshot has not, nor does using a copy of it change it.
        for own in [0, 2] {
            bench.states.copy(4, own);
            if at < 30 {
                let answers = bench.step(&[part(&rows[at..], at, own)]);
                assert_eq!(answers, whole[at..], "{begin} {at}");
            }
        }
    }
}

/// A sequence that begins in a used state starts from zero.
#[test]
fn a_beginning_finds_an_empty_state() {
    let (rows, others) = (sequence(&SHAPE, 1, 9), sequence(&SHAPE, 2, 9));
    let mut bench = Bench::new(SHAPE, Kernels::best(), 1);
    let fresh = bench.step(&[part(&rows, 0, 1)]);
    bench.step(&[part(&others, 0, 1)]);
    assert_eq!(bench.step(&[part(&rows, 0, 1)]), fresh);
}
