//! The gated delta rule and the copies of its states.

use engine::cuda::device::{Device, Memory};
use engine::cuda::launch::{self, DeltaRule, SPAN_INTS};
use engine::{DeltaShape, Element};

use crate::kernel_parity::lab::{Lab, Placed, close, loaded, rounding};
use crate::on_a_device;

/// Of a sequence of some hundred rows, whose state carries each one's error on: the greatest seen is 4e-6.
const ABSOLUTE: f64 = 2e-5;

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
struct Sequence {
    rows: Vec<Vec<f64>>,
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
fn delta_rule() {
    on_a_device!(check_delta_rule, Element::ALL);
}

/// Three sequences side by side, each in pieces of odd lengths; then two go on from where the first one was kept.
fn check_delta_rule<D: Device>(lab: &mut Lab<D>) {
    for shape in SHAPES {
        let bench = Bench::new(lab, shape);
        let mut sequences: Vec<Sequence> = [(9, 3), (1, 0), (5, 6)]
            .into_iter()
            .map(|(rows, state)| bench.sequence(lab, rows, state))
            .collect();
        // Of each sequence the rows of a step; what is kept after how many of the first one's.
        for (pieces, kept) in [([1, 1, 2], None), ([5, 0, 1], Some(3)), ([3, 0, 2], None)] {
            bench.step(lab, &mut sequences, &pieces, kept);
        }
        // As it was after 4 of the first sequence's rows, whose state has gone on meanwhile.
        let rows = sequences[0].rows.clone();
        bench.copy(lab, KEPT_IN, 1);
        for state in [1, KEPT_IN] {
            let rows = rows.clone();
            let mut resumed = [Sequence {
                rows,
                state,
                done: 4,
            }];
            bench.step(lab, &mut resumed, &[5], None);
        }
        bench.check_other_layer(lab);
    }
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
        let numbers = shape.layers * STATES * launch::state_unit(&shape);
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
        Sequence {
            rows: (0..count).map(|_| row(lab)).collect(),
            state,
            done: 0,
        }
    }

    /// So many more rows of each sequence; the first one's state is also kept after so many of its own.
    fn step<D: Device<Memory = M>>(
        &self,
        lab: &mut Lab<D>,
        sequences: &mut [Sequence],
        pieces: &[usize],
        kept_after: Option<usize>,
    ) {
        let (mut rows, mut spans, mut want) = (Vec::new(), Vec::new(), Vec::new());
        for (at, (sequence, piece)) in sequences.iter_mut().zip(pieces).enumerate() {
            if *piece == 0 {
                continue;
            }
            let part = sequence.done..sequence.done + piece;
            let first = rows.len() / self.shape.projected_cols();
            let kept = kept_after.filter(|_| at == 0);
            let (after, into) = kept.map_or((-1, 0), |after| (after as i32 - 1, KEPT_IN as i32));
            let [first, piece, start] = [first, *piece, part.start].map(|int| int as i32);
            spans.extend([
                first,
                piece,
                start,
                sequence.state as i32,
                after,
                into,
                0,
                0,
            ]);
            let numbers = sequence.rows[part.clone()].concat();
            rows.extend(numbers.into_iter().map(|number| number as f32));
            let all = defined(&self.shape, &self.weights, &sequence.rows[..part.end]);
            want.extend(all[part.clone()].concat());
            sequence.done = part.end;
        }
        let n = rows.len() / self.shape.projected_cols();
        // Work for nobody: as a step of a graph may have it.
        spans.extend([0; SPAN_INTS]);
        let (projected, span_ints) = (lab.place_floats(&rows), lab.ints(&spans));
        let out = lab.poisoned_elements(n * self.shape.value_cols());
        let numbers = STATES * launch::state_unit(&self.shape);
        let of = DeltaRule {
            projected: projected.view(),
            conv: self.weights.conv.view(),
            log_decay: self.weights.log_decay.view(),
            step_bias: self.weights.step_bias.view(),
            norm: self.weights.norm.view(),
            states: self.states.view().part(numbers, numbers, 4),
            states_count: STATES,
            spans: span_ints.view(),
            span_count: spans.len() / SPAN_INTS,
            out: out.view(),
        };
        launch::delta_rule(&mut lab.device, &of, n, &self.shape).unwrap();
        let (got, name) = (lab.read_elements(&out), format!("{:?}", self.shape));
        let relative = rounding(lab.element()) + 1e-6;
        close(&name, &got, &want, relative, ABSOLUTE);
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
        let (unit, count) = (launch::state_unit(&shape), 5);
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
