//! The gated delta rule on the CPU: convolution, recurrence and gated norm of the layers that keep a state.
//!
//! Main types: [`States`], the sequences' states; [`Delta`], one step's rows and what lies between them. The recurrence takes
//! a sequence's tokens one by one, so that a token's numbers do not depend on how its prompt was cut into chunks or what is
//! computed beside it. Refuses to know: projections, pages, the scheduler.
//!
//! Per value head, with the state S `[key_dim, value_dim]`, decay a = exp(−exp(A_log) · softplus(a + dt_bias)) and
//! β = sigmoid(b): S ← a S; δ = β (v − Sᵀk); S ← S + k δᵀ; o = Sᵀq. q and k have length 1, q is then divided by √key_dim.
//! As transformers 5 computes it (`torch_recurrent_gated_delta_rule`).

use std::ops::Range;

use super::memory::{CpuBuffer, Floats};
use super::simd::Kernels;
use super::threads::Threads;
use crate::backend::{BackendError, Batch, DeltaWeights, SpanState, math};
use crate::config::hybrid::DeltaShape;
use crate::kv::StateId;

/// Under the root of the length of a query or key.
const LENGTH_EPS: f32 = 1e-6;

/// The recurrent states of every layer.
pub struct States {
    pub shape: DeltaShape,
    count: usize,
    layers: Vec<LayerStates>,
}

struct LayerStates {
    /// The convolution's last inputs, oldest first: `[state, taps − 1, channels]`.
    tails: Floats,
    /// `[value head, state, key_dim, value_dim]`: a thread has heads of its own.
    matrices: Floats,
}

impl States {
    pub fn new(shape: DeltaShape, count: usize) -> Result<Self, BackendError> {
        let layer = |_| -> Result<LayerStates, BackendError> {
            Ok(LayerStates {
                tails: Floats::zeroed(&[count, shape.taps - 1, shape.channels()])?,
                matrices: Floats::zeroed(&[
                    shape.value_heads,
                    count,
                    shape.key_dim,
                    shape.value_dim,
                ])?,
            })
        };
        Ok(Self {
            shape,
            count,
            layers: (0..shape.layers).map(layer).collect::<Result<_, _>>()?,
        })
    }

    /// The whole state, in every layer.
    pub fn copy(&mut self, from: StateId, to: StateId) {
        let tail = (self.shape.taps - 1) * self.shape.channels();
        let matrix = self.shape.key_dim * self.shape.value_dim;
        for layer in &mut self.layers {
            copy_part(&mut layer.tails, tail, from as usize, to as usize);
            for head in layer.matrices.chunks_exact_mut(self.count * matrix) {
                copy_part(head, matrix, from as usize, to as usize);
            }
        }
    }
}

fn copy_part(all: &mut [f32], size: usize, from: usize, to: usize) {
    all.copy_within(from * size..(from + 1) * size, to * size);
}

/// The rows of one step, and room for what is between the operations.
#[derive(Default)]
pub struct Delta {
    spans: Vec<StateSpan>,
    /// Each row's span.
    span_of: Vec<usize>,
    /// q, k and v after the convolution: `[rows, channels]`.
    mixed: Vec<f32>,
    /// `[rows, value heads]`.
    gates: Vec<Gates>,
    /// Answers of the recurrence: `[value head, rows, value_dim]`.
    answers: Vec<f32>,
}

/// One sequence's rows.
struct StateSpan {
    rows: Range<usize>,
    /// Position of the first.
    start: usize,
    state: SpanState,
}

#[derive(Clone, Copy, Default)]
struct Gates {
    /// Factor of the state.
    decay: f32,
    /// Share of the difference that is written.
    beta: f32,
}

impl StateSpan {
    /// After which of its rows the state is also put elsewhere.
    fn snapshot(&self) -> Option<(usize, StateId)> {
        let (position, to) = self.state.snapshot?;
        Some((position.checked_sub(self.start + 1)?, to))
    }
}

impl Delta {
    pub fn load(&mut self, batch: &Batch<'_>) {
        self.spans.clear();
        self.span_of.clear();
        for (at, span) in batch.spans.iter().enumerate() {
            let first = self.span_of.len();
            let rows = first..first + span.positions().len();
            self.span_of.extend(rows.clone().map(|_| at));
            self.spans.push(StateSpan {
                rows,
                start: span.positions.0,
                state: span.state,
            });
        }
    }

    /// `projected[n, projected_cols]` → `out[n, value_cols]`; the states of `layer` are those after these rows.
    #[expect(clippy::too_many_arguments, reason = "what the operation takes")]
    pub fn run(
        &mut self,
        kernels: Kernels,
        threads: &Threads,
        n: usize,
        layer: usize,
        projected: &CpuBuffer,
        weights: &DeltaWeights<Vec<f32>>,
        states: &mut States,
        out: &mut CpuBuffer,
    ) {
        let shape = states.shape;
        self.mixed.resize(n * shape.channels(), 0.0);
        self.gates.resize(n * shape.value_heads, Gates::default());
        self.answers.resize(n * shape.value_cols(), 0.0);
        let states_count = states.count;
        let layer = &mut states.layers[layer];
        self.mix(threads, &shape, projected, &weights.conv, &layer.tails);
        self.keep_tails(&shape, projected, &mut layer.tails);
        self.open_gates(&shape, projected, weights);
        self.recur(kernels, threads, &shape, states_count, &mut layer.matrices);
        self.norm(threads, &shape, n, projected, &weights.norm, out);
    }

    /// Causal depthwise convolution and SiLU of q, k and v; q and k of length 1.
    fn mix(
        &mut self,
        threads: &Threads,
        shape: &DeltaShape,
        projected: &CpuBuffer,
        conv: &[f32],
        tails: &[f32],
    ) {
        let channels = shape.channels();
        let (spans, span_of) = (&self.spans, &self.span_of);
        let work = channels * (shape.taps + math::EXP_WORK);
        threads.chunks(&mut self.mixed, channels, work, &|first, run| {
            for (row, mixed) in (first..).zip(run.chunks_exact_mut(channels)) {
                let span = &spans[span_of[row]];
                mixed.fill(0.0);
                for (tap, weights) in conv.chunks_exact(channels).enumerate() {
                    let back = shape.taps - 1 - tap;
                    let Some(input) = input(shape, span, row, back, projected, tails) else {
                        continue;
                    };
                    for ((mixed, input), weight) in mixed.iter_mut().zip(input).zip(weights) {
                        *mixed += input * weight;
                    }
                }
                for value in mixed.iter_mut() {
                    *value /= 1.0 + math::exp(-*value);
                }
                let (queries, rest) = mixed.split_at_mut(shape.key_cols());
                let scale = 1.0 / (shape.key_dim as f32).sqrt();
                for query in queries.chunks_exact_mut(shape.key_dim) {
                    set_length(query, scale);
                }
                for key in rest[..shape.key_cols()].chunks_exact_mut(shape.key_dim) {
                    set_length(key, 1.0);
                }
            }
        });
    }

    /// The convolution's last inputs, for the rows that will follow.
    fn keep_tails(&self, shape: &DeltaShape, projected: &CpuBuffer, tails: &mut [f32]) {
        for span in &self.spans {
            if let Some((after, to)) = span.snapshot() {
                let end = span.rows.start + after + 1;
                keep_tail(shape, span, end, projected, tails, to);
            }
            let own = span.state.own;
            keep_tail(shape, span, span.rows.end, projected, tails, own);
        }
    }

    fn open_gates(
        &mut self,
        shape: &DeltaShape,
        projected: &CpuBuffer,
        weights: &DeltaWeights<Vec<f32>>,
    ) {
        let heads = shape.value_heads;
        let first = shape.channels() + shape.value_cols();
        for (row, gates) in self.gates.chunks_exact_mut(heads).enumerate() {
            let (b, a) = projected.row(row)[first..].split_at(heads);
            for (head, gate) in gates.iter_mut().enumerate() {
                let step = softplus(a[head] + weights.step_bias[head]);
                gate.decay = (-weights.log_decay[head].exp() * step).exp();
                gate.beta = 1.0 / (1.0 + (-b[head]).exp());
            }
        }
    }

    fn recur(
        &mut self,
        kernels: Kernels,
        threads: &Threads,
        shape: &DeltaShape,
        states: usize,
        matrices: &mut [f32],
    ) {
        let (rows, matrix) = (self.span_of.len(), shape.key_dim * shape.value_dim);
        let (spans, mixed, gates) = (&self.spans, &self.mixed, &self.gates);
        let (key_cols, group) = (shape.key_cols(), shape.value_heads / shape.key_heads);
        let task = |head: usize, states: &mut [f32], answers: &mut [f32]| {
            let key_at = head / group * shape.key_dim;
            let value_at = 2 * key_cols + head * shape.value_dim;
            let mut delta = vec![0.0; shape.value_dim];
            for span in spans {
                let own = span.state.own as usize;
                let snapshot = span.snapshot();
                if span.start == 0 {
                    states[own * matrix..][..matrix].fill(0.0);
                }
                for (index, row) in span.rows.clone().enumerate() {
                    let mixed = &mixed[row * shape.channels()..][..shape.channels()];
                    let query = &mixed[key_at..][..shape.key_dim];
                    let key = &mixed[key_cols + key_at..][..shape.key_dim];
                    let value = &mixed[value_at..][..shape.value_dim];
                    let Gates { decay, beta } = gates[row * shape.value_heads + head];
                    let state = &mut states[own * matrix..][..matrix];
                    kernels.decay_and_read(state, decay, key, &mut delta);
                    for (delta, value) in delta.iter_mut().zip(value) {
                        *delta = beta * (value - *delta);
                    }
                    let answer = &mut answers[row * shape.value_dim..][..shape.value_dim];
                    kernels.write_and_answer(state, (key, query), &delta, answer);
                    if let Some((_, to)) = snapshot.filter(|(after, _)| *after == index) {
                        copy_part(states, matrix, own, to as usize);
                    }
                }
            }
        };
        threads.pairs(
            (matrices, states * matrix),
            (&mut self.answers, rows * shape.value_dim),
            rows * 2 * matrix,
            &task,
        );
    }

    /// RMS norm of each head's answer, times SiLU of the output's gate.
    fn norm(
        &self,
        threads: &Threads,
        shape: &DeltaShape,
        n: usize,
        projected: &CpuBuffer,
        norm: &[f32],
        out: &mut CpuBuffer,
    ) {
        let (cols, dim) = (shape.value_cols(), shape.value_dim);
        let answers = &self.answers;
        threads.chunks(
            out.rows_mut(n),
            cols,
            cols * math::EXP_WORK,
            &|first, run| {
                for (row, out) in (first..).zip(run.chunks_exact_mut(cols)) {
                    let gates = projected.row(row)[shape.channels()..].chunks_exact(dim);
                    for (head, (out, gates)) in out.chunks_exact_mut(dim).zip(gates).enumerate() {
                        let answer = &answers[(head * n + row) * dim..][..dim];
                        math::rms_norm(answer, norm, shape.norm_eps, out);
                        for (out, gate) in out.iter_mut().zip(gates) {
                            *out *= gate / (1.0 + math::exp(-gate));
                        }
                    }
                }
            },
        );
    }
}

/// The convolution's input `back` tokens before a row; `None` before the first token.
fn input<'a>(
    shape: &DeltaShape,
    span: &StateSpan,
    row: usize,
    back: usize,
    projected: &'a CpuBuffer,
    tails: &'a [f32],
) -> Option<&'a [f32]> {
    let (index, channels, kept) = (row - span.rows.start, shape.channels(), shape.taps - 1);
    if back <= index {
        return Some(&projected.row(row - back)[..channels]);
    }
    let before = back - index;
    (before <= span.start).then(|| {
        let at = span.state.own as usize * kept + kept - before;
        &tails[at * channels..][..channels]
    })
}

/// Puts the last inputs before row `end` into the tail of state `to`; where that is the span's own, in place.
fn keep_tail(
    shape: &DeltaShape,
    span: &StateSpan,
    end: usize,
    projected: &CpuBuffer,
    tails: &mut [f32],
    to: StateId,
) {
    let (channels, kept) = (shape.channels(), shape.taps - 1);
    let new = end - span.rows.start;
    let (own, to) = (span.state.own as usize * kept, to as usize * kept);
    // In this order no input is overwritten that is still to be moved.
    for slot in 0..kept {
        let place = (to + slot) * channels..(to + slot + 1) * channels;
        let back = kept - slot;
        if back <= new {
            tails[place].copy_from_slice(&projected.row(end - back)[..channels]);
        } else if back - new <= span.start {
            let from = (own + kept - (back - new)) * channels;
            tails.copy_within(from..from + channels, place.start);
        } else {
            tails[place].fill(0.0);
        }
    }
}

/// Scales to this length.
fn set_length(x: &mut [f32], length: f32) {
    let scale = length / (math::sum_of_squares(x) + LENGTH_EPS).sqrt();
    for value in x {
        *value *= scale;
    }
}

/// ln(1 + e^x); beyond 20 it is x, as in torch.
fn softplus(x: f32) -> f32 {
    if x > 20.0 { x } else { x.exp().ln_1p() }
}

#[cfg(test)]
mod tests;
