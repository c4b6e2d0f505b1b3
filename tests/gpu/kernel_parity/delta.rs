//! The gated delta rule, row by row and in chunks, and the copies of its states.

use engine::cuda::device::{Device, Memory};
use engine::cuda::launch::{
    self, CHUNK_INTS, CHUNK_ROWS, ChunkRoom, Chunks, DeltaRule, SCAN_INTS, SPAN_INTS, Spans,
};
use engine::{DeltaShape, Element};

use crate::kernel_parity::lab::{Lab, Placed, close, loaded, rounding};
use crate::on_a_device;

/// Of a sequence of some hundred rows, whose state carries each one's error on: the greatest seen is 4e-6.
const ABSOLUTE: f64 = 2e-5;

/// Of a step's errors in roundings of the element, each of a number's size and 1 together: the root of the mean square, and
/// the greatest. The norm enlarges what is small: a head whose answer is near 0.
const MEAN: f64 = 2.0;
const MOST: f64 = 150.0;

/// The published shape's heads, and odd ones.
const SHAPES: [DeltaShape; 5] = [
    shape(1, 1, 128, 128, 4),
    shape(2, 6, 20, 36, 4),
    shape(1, 4, 64, 16, 3),
    shape(3, 3, 4, 128, 1),
    shape(2, 4, 128, 4, 2),
];

const fn shape(
    key_heads: usize,
    value_heads: usize,
    key_dim: usize,
    value_dim: usize,
    taps: usize,
) -> DeltaShape {
    DeltaShape {
        layers: 2,
        key_heads,
        value_heads,
        key_dim,
        value_dim,
        taps,
        norm_eps: 1e-6,
    }
}

/// A layer's weights, on the device and as they are.
struct Weights<M> {
    conv: Placed<M>,
    log_decay: Placed<M>,
    step_bias: Placed<M>,
    norm: Placed<M>,
}

impl<M> Weights<M> {
    fn new<D: Device<Memory = M>>(lab: &mut Lab<D>, shape: &DeltaShape) -> Self {
        Self {
            conv: lab.floats(shape.taps * shape.channels(), 1.0),
            log_decay: lab.floats(shape.value_heads, 2.0),
            step_bias: lab.floats(shape.value_heads, 2.0),
            norm: lab.floats(shape.value_dim, 1.5),
        }
    }
}

/// Rows of one sequence, its state, and how many of its rows that has seen.
#[derive(Clone)]
struct Sequence {
    rows: Vec<Vec<f64>>,
    /// Of each row, what should come out.
    answers: Vec<Vec<f64>>,
    state: usize,
    done: usize,
}

/// By the definition: loops in f64, from the first row on.
fn defined<M>(shape: &DeltaShape, weights: &Weights<M>, rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let (channels, d, e) = (shape.channels(), shape.key_dim, shape.value_dim);
    let silu = |x: f64| x / (1.0 + (-x).exp());
    let unit = |x: &[f64]| -> Vec<f64> {
        let length = (x.iter().map(|x| x * x).sum::<f64>() + 1e-6).sqrt();
        x.iter().map(|x| x / length).collect()
    };
    let mut states = vec![vec![0.0; d * e]; shape.value_heads];
    let mut answers = Vec::new();
    for at in 0..rows.len() {
        let mixed: Vec<f64> = (0..channels)
            .map(|channel| {
                let taps = (0..shape.taps).filter(|back| *back <= at);
                let tap = |back: usize| (shape.taps - 1 - back) * channels + channel;
                let sum =
                    taps.map(|back| weights.conv.numbers[tap(back)] * rows[at - back][channel]);
                silu(sum.sum())
            })
            .collect();
        let mut answer = Vec::new();
        for (head, state) in states.iter_mut().enumerate() {
            let key_head = head / (shape.value_heads / shape.key_heads);
            let query = unit(&mixed[key_head * d..][..d]);
            let key = unit(&mixed[shape.key_cols() + key_head * d..][..d]);
            let value = &mixed[2 * shape.key_cols() + head * e..][..e];
            let rest = &rows[at][channels..];
            let z = &rest[head * e..][..e];
            let b = rest[shape.value_cols() + head];
            let a = rest[shape.value_cols() + shape.value_heads + head];
            let step = (a + weights.step_bias.numbers[head]).exp().ln_1p();
            let decay = (-weights.log_decay.numbers[head].exp() * step).exp();
            let beta = 1.0 / (1.0 + (-b).exp());
            state.iter_mut().for_each(|number| *number *= decay);
            for column in 0..e {
                let read: f64 = (0..d).map(|i| state[i * e + column] * key[i]).sum();
                let delta = beta * (value[column] - read);
                (0..d).for_each(|i| state[i * e + column] += key[i] * delta);
            }
            let scale = 1.0 / (d as f64).sqrt();
            let raw: Vec<f64> = (0..e)
                .map(|column| {
                    (0..d)
                        .map(|i| state[i * e + column] * query[i] * scale)
                        .sum()
                })
                .collect();
            let mean = raw.iter().map(|x| x * x).sum::<f64>() / e as f64;
            let rms = (mean + f64::from(shape.norm_eps)).sqrt();
            let normed = (0..e).map(|i| raw[i] / rms * weights.norm.numbers[i] * silu(z[i]));
            answer.extend(normed);
        }
        answers.push(answer);
    }
    answers
}

#[test]
fn row_by_row() {
    on_a_device!(check_rows, Element::ALL);
}

/// Three sequences side by side, each in pieces of odd lengths; then two go on from where the first one was kept.
fn check_rows<D: Device>(lab: &mut Lab<D>) {
    for shape in SHAPES {
        let bench = Bench::new(lab, shape);
        let check = |lab: &mut Lab<D>, sequences: &mut [Sequence], pieces: &[usize], kept| {
            let (got, want) = bench.step(lab, By::Rows, sequences, pieces, kept);
            let relative = rounding(lab.element()) + 1e-6;
            close(&format!("{shape:?}"), &got, &want, relative, ABSOLUTE);
        };
        let mut sequences: Vec<Sequence> = [(9, 3), (1, 0), (5, 6)]
            .into_iter()
            .map(|(rows, state)| bench.sequence(lab, rows, state))
            .collect();
        for (pieces, kept) in [([1, 1, 2], 0), ([5, 0, 1], 3), ([3, 0, 2], 0)] {
            check(lab, &mut sequences, &pieces, kept);
        }
        // As it was after 4 of the first sequence's rows, whose state has gone on meanwhile.
        bench.copy(lab, KEPT_IN, 1);
        for state in [1, KEPT_IN] {
            let resumed = Sequence {
                state,
                done: 4,
                ..sequences[0].clone()
            };
            check(lab, &mut [resumed], &[5], 0);
        }
        bench.check_other_layer(lab);
    }
}

/// The published shape's heads, and such as leave parts of tiles and warps empty.
const WHOLE_SHAPES: [DeltaShape; 4] = [
    shape(1, 2, 128, 128, 4),
    shape(2, 2, 32, 16, 4),
    shape(1, 3, 64, 48, 3),
    shape(1, 1, 16, 112, 1),
];

#[test]
fn in_chunks() {
    on_a_device!(check_chunks, [Element::Bf16, Element::F16]);
}

/// Long pieces in chunks, and what follows row by row; then both from where the first sequence was kept in the middle.
fn check_chunks<D: Device>(lab: &mut Lab<D>) {
    let mut greatest = [0.0f64; 2];
    for shape in WHOLE_SHAPES {
        let bench = Bench::new(lab, shape);
        let mut check =
            |lab: &mut Lab<D>, by, sequences: &mut [Sequence], pieces: &[usize], kept| {
                let (got, want) = bench.step(lab, by, sequences, pieces, kept);
                assert_eq!(got.len(), want.len());
                let error = |(got, want): (&f64, &f64)| {
                    (got - want).abs() / (1.0 + want.abs()) / rounding(lab.element())
                };
                let errors: Vec<f64> = got.iter().zip(&want).map(error).collect();
                let squares = errors.iter().map(|error| error * error).sum::<f64>();
                let mean = (squares / errors.len() as f64).sqrt();
                let most = errors.iter().copied().fold(0.0, f64::max);
                assert!(
                    mean < MEAN && most < MOST,
                    "{shape:?}: {mean} and {most} roundings"
                );
                greatest = [greatest[0].max(mean), greatest[1].max(most)];
            };
        let mut sequences: Vec<Sequence> = [(218, 3), (66, 0), (130, 6)]
            .into_iter()
            .map(|(rows, state)| bench.sequence(lab, rows, state))
            .collect();
        check(lab, By::Rows, &mut sequences, &[2, 1, 0], 0);
        check(lab, By::Chunks, &mut sequences, &[147, 64, 65], 82);
        check(lab, By::Rows, &mut sequences, &[2, 1, 1], 0);
        check(lab, By::Chunks, &mut sequences, &[67, 0, 64], 1);
        // As it was after 152 of the first sequence's rows.
        bench.copy(lab, KEPT_IN, 1);
        for (state, by) in [(1, By::Chunks), (KEPT_IN, By::Rows)] {
            let resumed = Sequence {
                state,
                done: 152,
                ..sequences[0].clone()
            };
            check(lab, by, &mut [resumed], &[66], 0);
        }
        bench.check_other_layer(lab);
    }
    println!("greatest errors: mean and single, in roundings: {greatest:.2?}");
}

/// How the rows of a step are computed.
#[derive(Clone, Copy)]
enum By {
    Rows,
    Chunks,
}

/// A sequence's rows in a step.
struct Part {
    first: usize,
    rows: usize,
    /// Position of the first.
    start: usize,
    state: usize,
    /// After how many of them the state is also kept; 0: never.
    kept: usize,
}

/// Where a state is kept in the middle of a piece.
const KEPT_IN: usize = 5;
const STATES: usize = 7;

struct Bench<M> {
    shape: DeltaShape,
    weights: Weights<M>,
    states: M,
}

impl<M: Memory> Bench<M> {
    fn new<D: Device<Memory = M>>(lab: &mut Lab<D>, shape: DeltaShape) -> Self {
        let weights = Weights::new(lab, &shape);
        // All NaN: a sequence's first row must not read them.
        let numbers = shape.layers * STATES * shape.numbers_by_value_head();
        Self {
            shape,
            weights,
            states: lab.poisoned_floats(numbers),
        }
    }

    fn sequence<D: Device<Memory = M>>(
        &self,
        lab: &mut Lab<D>,
        count: usize,
        state: usize,
    ) -> Sequence {
        let row = |lab: &mut Lab<D>| -> Vec<f64> {
            let cols = self.shape.projected_cols();
            (0..cols).map(|_| f64::from(lab.number() * 2.0)).collect()
        };
        let rows: Vec<Vec<f64>> = (0..count).map(|_| row(lab)).collect();
        Sequence {
            answers: defined(&self.shape, &self.weights, &rows),
            rows,
            state,
            done: 0,
        }
    }

    /// So many more rows of each sequence; the first one's state is also kept after so many of its own. What came out, and
    /// what should have.
    fn step<D: Device<Memory = M>>(
        &self,
        lab: &mut Lab<D>,
        by: By,
        sequences: &mut [Sequence],
        pieces: &[usize],
        kept_after: usize,
    ) -> (Vec<f64>, Vec<f64>) {
        let (mut rows, mut parts, mut want) = (Vec::new(), Vec::new(), Vec::new());
        for (at, (sequence, piece)) in sequences.iter_mut().zip(pieces).enumerate() {
            if *piece == 0 {
                continue;
            }
            let part = sequence.done..sequence.done + piece;
            parts.push(Part {
                first: rows.len() / self.shape.projected_cols(),
                rows: *piece,
                start: part.start,
                state: sequence.state,
                kept: if at == 0 { kept_after } else { 0 },
            });
            let numbers = sequence.rows[part.clone()].concat();
            rows.extend(numbers.into_iter().map(|number| number as f32));
            want.extend(sequence.answers[part.clone()].concat());
            sequence.done = part.end;
        }
        let n = rows.len() / self.shape.projected_cols();
        let projected = lab.place_floats(&rows);
        let out = lab.poisoned_elements(n * self.shape.value_cols());
        let numbers = STATES * self.shape.numbers_by_value_head();
        let of = DeltaRule {
            projected: projected.view(),
            conv: self.weights.conv.view(),
            log_decay: self.weights.log_decay.view(),
            step_bias: self.weights.step_bias.view(),
            norm: self.weights.norm.view(),
            states: self.states.view().part(numbers, numbers, 4),
            states_count: STATES,
            out: out.view(),
        };
        match by {
            By::Rows => self.by_rows(lab, &of, &parts, n),
            By::Chunks => self.by_chunks(lab, &of, &parts, n),
        }
        (lab.read_elements(&out), want)
    }

    fn by_rows<D: Device<Memory = M>>(
        &self,
        lab: &mut Lab<D>,
        of: &DeltaRule,
        parts: &[Part],
        n: usize,
    ) {
        let span = |part: &Part| -> [i32; SPAN_INTS] {
            let first = [part.first, part.rows, part.start, part.state].map(|int| int as i32);
            let into = if part.kept > 0 { KEPT_IN as i32 } else { 0 };
            let [a, b, c, d] = first;
            [a, b, c, d, part.kept as i32 - 1, into, 0, 0]
        };
        let mut spans: Vec<i32> = parts.iter().flat_map(span).collect();
        // Work for nobody: as a step of a graph may have it.
        spans.extend([0; SPAN_INTS]);
        let ints = lab.ints(&spans);
        let spans = Spans {
            ints: ints.view(),
            count: spans.len() / SPAN_INTS,
        };
        launch::delta_rule(&mut lab.device, of, &spans, n, &self.shape).unwrap();
    }

    fn by_chunks<D: Device<Memory = M>>(
        &self,
        lab: &mut Lab<D>,
        of: &DeltaRule,
        parts: &[Part],
        n: usize,
    ) {
        let (mut chunks, mut scans) = (Vec::new(), Vec::new());
        for part in parts {
            let first_chunk = chunks.len() / CHUNK_INTS;
            for whole in [0..part.kept, part.kept..part.rows] {
                for before in whole.clone().step_by(CHUNK_ROWS) {
                    let rows = CHUNK_ROWS.min(whole.end - before);
                    let first = part.first + before;
                    let chunk = [first, rows, before, part.start, part.state, 0, 0, 0];
                    chunks.extend(chunk.map(|int| int as i32));
                }
            }
            let count = chunks.len() / CHUNK_INTS - first_chunk;
            let [start, state] = [part.start, part.state];
            let (first, rows) = (part.first, part.rows);
            let scan = [
                first_chunk,
                count,
                start,
                state,
                part.kept,
                KEPT_IN,
                first,
                rows,
            ];
            scans.extend(scan.map(|int| int as i32));
        }
        let count = chunks.len() / CHUNK_INTS;
        let (chunk_ints, scan_ints) = (lab.ints(&chunks), lab.ints(&scans));
        let [q, k, w, u, p, factors] = launch::chunk_numbers(&self.shape, count);
        let elements = [q, k, w, p].map(|count| lab.poisoned_elements(count));
        let floats = [u, factors].map(|count| lab.poisoned_floats(count));
        let room = ChunkRoom {
            qs: elements[0].view(),
            ks: elements[1].view(),
            w: elements[2].view(),
            u: floats[0].view(),
            p: elements[3].view(),
            factors: floats[1].view(),
        };
        let of_chunks = Chunks {
            ints: chunk_ints.view(),
            count,
            scans: scan_ints.view(),
            scan_count: scans.len() / SCAN_INTS,
        };
        launch::delta_chunks(&mut lab.device, of, &of_chunks, &room, n, &self.shape).unwrap();
        for memory in elements.iter().chain(&floats) {
            lab.guarded(memory);
        }
    }

    fn copy<D: Device<Memory = M>>(&self, lab: &mut Lab<D>, from: usize, to: usize) {
        let (device, states) = (&mut lab.device, self.states.view());
        launch::copy_state(device, states, from, to, STATES, &self.shape).unwrap();
    }

    /// It was no part of any step.
    fn check_other_layer<D: Device<Memory = M>>(&self, lab: &mut Lab<D>) {
        let all = loaded(Element::F32, &lab.guarded(&self.states));
        let (first, second) = all.split_at(all.len() / 2);
        assert!(first.iter().all(|number| number.is_nan()));
        assert!(second.iter().any(|number| number.is_finite()));
    }
}

/// Each layer's, and nothing else's.
#[test]
fn state_copies() {
    on_a_device!(check_state_copy, [Element::F32]);
}

fn check_state_copy<D: Device>(lab: &mut Lab<D>) {
    for shape in SHAPES {
        let (unit, count) = (shape.numbers_by_value_head(), 5);
        let states = lab.floats(shape.layers * count * unit, 1.0);
        let (from, to) = (count - 1, lab.below(count - 1));
        launch::copy_state(&mut lab.device, states.view(), from, to, count, &shape).unwrap();
        let mut want = states.numbers.clone();
        for layer in want.chunks_mut(count * unit) {
            layer.copy_within(from * unit..(from + 1) * unit, to * unit);
        }
        let got = loaded(Element::F32, &lab.bytes(&states.memory));
        close("copy_state", &got, &want, 0.0, 0.0);
    }
}
