//! The operations on the CPU: f32 activations, weights in their stored type.
//!
//! Main type: [`CpuBackend`]. It is batch-invariant to the bit: every kernel sums a row in an order that
//! depends on the instruction set alone (see `simd`), and attention takes each row by itself. That is why
//! products for batches are our own kernel too and no general matrix library, whose order of summation is
//! its own and another than that of a matrix × vector. Refuses to know: layers, sequences, the scheduler.

mod attention;
mod cache;
mod columns;
mod delta;
mod experts;
mod memory;
mod random;
mod rope;
mod rows;
mod simd;
mod threads;

use super::{
    Ask, AttentionShape, Backend, BackendError, Batch, DeltaWeights, ExpertWeights, NotANumber,
    Role, Room, SampledToken, math, rank,
};
use crate::config::experts::Experts;
use crate::kv::{PageId, StateId};
use crate::weights::Tensor;
use attention::Queries;
use cache::CpuCache;
use columns::Columns;
use delta::Delta;
use experts::Routed;
use memory::{CpuBuffer, Floats, Matrix};
use rope::Rope;
use rows::Rows;
use simd::Kernels;
use threads::Threads;

pub struct CpuBackend {
    kernels: Kernels,
    threads: Threads,
    tokens: Vec<u32>,
    /// Rows of the stream that are asked about.
    asked: Vec<usize>,
    rows: Rows,
    /// Angles by row; where a row sees the window's sink as from elsewhere, that place follows.
    rope: Rope,
    /// Queries as they see the window's sink, `[rows, heads · d]`; empty where all see it as they stand.
    sink_queries: Vec<f32>,
    delta: Delta,
    routed: Routed,
}

/// A norm's cost per number, in multiply–adds.
const NORM_WORK: usize = 2;

impl CpuBackend {
    /// `threads`: the calling thread among them; 0 means one for each core. Must be used on the thread
    /// that made it.
    pub fn new(threads: usize) -> Result<Self, BackendError> {
        Ok(Self {
            kernels: Kernels::best(),
            threads: Threads::new(threads)?,
            tokens: Vec::new(),
            asked: Vec::new(),
            rows: Rows::default(),
            rope: Rope::default(),
            sink_queries: Vec::new(),
            delta: Delta::default(),
            routed: Routed::default(),
        })
    }

    /// Whether the system would give so much memory at once. It may promise more than it has.
    pub fn has_room(bytes: usize) -> bool {
        memory::can_be_had(bytes)
    }
}

impl Backend for CpuBackend {
    type Weight = Matrix;
    type Vector = Vec<f32>;
    type Buffer = CpuBuffer;
    type Cache = CpuCache;

    fn name(&self) -> &'static str {
        "cpu"
    }

    fn kernels(&self) -> &str {
        self.kernels.name()
    }

    fn threads(&self) -> usize {
        self.threads.count()
    }

    fn batch_invariant(&self) -> bool {
        true
    }

    fn free_bytes(&self) -> Option<usize> {
        memory::free()
    }

    fn random(
        &mut self,
        rows: usize,
        cols: usize,
        deviation: f32,
        seed: u64,
    ) -> Result<Matrix, BackendError> {
        Matrix::random(rows, cols, deviation, seed, &self.threads)
    }

    fn constant(&mut self, length: usize, value: f32) -> Result<Vec<f32>, BackendError> {
        Ok(vec![value; length])
    }

    fn upload(&mut self, parts: &[Tensor<'_>]) -> Result<Matrix, BackendError> {
        Matrix::stack(parts, &self.threads)
    }

    fn upload_vector(&mut self, parts: &[Tensor<'_>]) -> Result<Vec<f32>, BackendError> {
        Ok(parts.iter().flat_map(Tensor::widened).collect())
    }

    fn buffer(&mut self, rows: usize, cols: usize, _role: Role) -> Result<CpuBuffer, BackendError> {
        Ok(CpuBuffer {
            data: Floats::zeroed(&[rows, cols])?,
            cols,
        })
    }

    fn cache(&mut self, shape: &AttentionShape, _room: &Room) -> Result<CpuCache, BackendError> {
        self.rope = Rope::new(shape.head_dim, shape.rotary_dim, shape.rope);
        CpuCache::new(shape)
    }

    fn load_batch(&mut self, batch: &Batch<'_>, cache: &CpuCache) -> Result<(), BackendError> {
        self.tokens.clear();
        self.tokens.extend_from_slice(batch.tokens);
        self.rows.load(batch, cache.shape.window);
        if cache.states.is_some() {
            self.delta.load(batch);
        }
        let sink_view = self.rows.sink_view();
        let places = self.rows.positions().chain(sink_view);
        self.rope.set_positions(places);
        let queries = sink_view.map_or(0, |_| self.rows.len() * cache.shape.q_cols());
        self.sink_queries.resize(queries, 0.0);
        Ok(())
    }

    fn embed(&mut self, n: usize, table: &Matrix, out: &mut CpuBuffer) -> Result<(), BackendError> {
        let cols = table.cols;
        let out = out.rows_mut(n);
        for (token, out) in self.tokens.iter().zip(out.chunks_exact_mut(cols)) {
            let start = *token as usize * cols;
            table.elements().slice(start, start + cols).widen(out);
        }
        Ok(())
    }

    fn rms_norm(
        &mut self,
        n: usize,
        x: &CpuBuffer,
        weight: &Vec<f32>,
        eps: f32,
        out: &mut CpuBuffer,
    ) -> Result<(), BackendError> {
        let cols = out.cols;
        self.threads
            .chunks(out.rows_mut(n), cols, cols * NORM_WORK, &|first, run| {
                for (at, out) in run.chunks_exact_mut(cols).enumerate() {
                    math::rms_norm(x.row(first + at), weight, eps, out);
                }
            });
        Ok(())
    }

    fn add_rms_norm(
        &mut self,
        n: usize,
        x: &mut CpuBuffer,
        delta: &CpuBuffer,
        weight: &Vec<f32>,
        eps: f32,
        out: &mut CpuBuffer,
    ) -> Result<(), BackendError> {
        let cols = x.cols;
        self.threads
            .chunks(x.rows_mut(n), cols, cols, &|first, run| {
                let delta = &delta.data[first * cols..];
                for (x, delta) in run.iter_mut().zip(delta) {
                    *x += delta;
                }
            });
        self.rms_norm(n, x, weight, eps, out)
    }

    fn matmul(
        &mut self,
        n: usize,
        x: &CpuBuffer,
        weight: &Matrix,
        bias: Option<&Vec<f32>>,
        out: &mut CpuBuffer,
    ) -> Result<(), BackendError> {
        let (k, m) = (weight.cols, weight.rows);
        let elements = weight.elements();
        let x = x.rows(n);
        let columns = Columns::new(&mut out.data, n, m, m);
        self.threads.columns(columns, n * k, &|mut part| {
            let rows = elements.slice(part.first() * k, (part.first() + part.width()) * k);
            self.kernels.product(x, k, rows, &mut part);
            if let Some(bias) = bias {
                part.add(bias);
            }
        });
        Ok(())
    }

    fn rope_and_store(
        &mut self,
        n: usize,
        layer: usize,
        qkv: &mut CpuBuffer,
        q_norm: &Vec<f32>,
        k_norm: &Vec<f32>,
        cache: &mut CpuCache,
    ) -> Result<(), BackendError> {
        let cols = qkv.cols;
        let (d, q_cols, eps) = (
            cache.shape.head_dim,
            cache.shape.q_cols(),
            cache.shape.norm_eps,
        );
        let k_end = q_cols + cache.shape.kv_heads * d;
        self.threads.chunks(
            &mut self.sink_queries,
            q_cols,
            q_cols * NORM_WORK * 2,
            &|first, run| {
                for (at, queries) in run.chunks_exact_mut(q_cols).enumerate() {
                    queries.copy_from_slice(&qkv.row(first + at)[..q_cols]);
                    for head in queries.chunks_exact_mut(d) {
                        math::rms_norm_in_place(head, q_norm, eps);
                        self.rope.turn(n, head);
                    }
                }
            },
        );
        self.threads.chunks(
            qkv.rows_mut(n),
            cols,
            k_end * NORM_WORK * 2,
            &|first, run| {
                for (at, row) in run.chunks_exact_mut(cols).enumerate() {
                    let (queries, keys) = row[..k_end].split_at_mut(q_cols);
                    for (heads, norm) in [(queries, q_norm), (keys, k_norm)] {
                        for head in heads.chunks_exact_mut(d) {
                            math::rms_norm_in_place(head, norm, eps);
                            self.rope.turn(first + at, head);
                        }
                    }
                }
            },
        );
        for row in 0..n {
            let (page, slot) = self.rows.place(row);
            cache.store(layer, page, slot, qkv.row(row));
        }
        Ok(())
    }

    fn attention(
        &mut self,
        n: usize,
        layer: usize,
        qkv: &CpuBuffer,
        cache: &CpuCache,
        out: &mut CpuBuffer,
    ) -> Result<(), BackendError> {
        let queries = Queries {
            qkv: qkv.rows(n),
            sink: &self.sink_queries,
        };
        attention::attend(
            self.kernels,
            &self.threads,
            &self.rows,
            layer,
            queries,
            cache,
            &mut out.data,
        );
        Ok(())
    }

    fn gate(&mut self, n: usize, gate: &CpuBuffer, x: &mut CpuBuffer) -> Result<(), BackendError> {
        let cols = x.cols;
        self.threads
            .chunks(x.rows_mut(n), cols, cols * math::EXP_WORK, &|first, run| {
                for (row, x) in (first..).zip(run.chunks_exact_mut(cols)) {
                    for (x, gate) in x.iter_mut().zip(gate.row(row)) {
                        *x /= 1.0 + math::exp(-gate);
                    }
                }
            });
        Ok(())
    }

    fn delta_rule(
        &mut self,
        n: usize,
        layer: usize,
        projected: &CpuBuffer,
        weights: &DeltaWeights<Vec<f32>>,
        cache: &mut CpuCache,
        out: &mut CpuBuffer,
    ) -> Result<(), BackendError> {
        let states = cache.states.as_mut().ok_or(BackendError::NoDeltaRule)?;
        let (kernels, threads) = (self.kernels, &self.threads);
        let delta = &mut self.delta;
        delta.run(kernels, threads, n, layer, projected, weights, states, out);
        Ok(())
    }

    fn copy_state(
        &mut self,
        from: StateId,
        to: StateId,
        cache: &mut CpuCache,
    ) -> Result<(), BackendError> {
        let states = cache.states.as_mut().ok_or(BackendError::NoDeltaRule)?;
        states.copy(from, to);
        Ok(())
    }

    fn copy_page(
        &mut self,
        from: PageId,
        to: PageId,
        cache: &mut CpuCache,
    ) -> Result<(), BackendError> {
        cache.copy_page(from, to);
        Ok(())
    }

    fn swiglu(
        &mut self,
        n: usize,
        gate_up: &CpuBuffer,
        out: &mut CpuBuffer,
    ) -> Result<(), BackendError> {
        let cols = out.cols;
        self.threads.chunks(
            out.rows_mut(n),
            cols,
            cols * math::EXP_WORK,
            &|first, run| {
                for (at, out) in run.chunks_exact_mut(cols).enumerate() {
                    let (gate, up) = gate_up.row(first + at).split_at(cols);
                    math::swiglu(gate, up, out);
                }
            },
        );
        Ok(())
    }

    fn experts(
        &mut self,
        n: usize,
        x: &CpuBuffer,
        experts: &Experts,
        weights: &ExpertWeights<Matrix>,
        out: &mut CpuBuffer,
    ) -> Result<(), BackendError> {
        let (kernels, threads) = (self.kernels, &self.threads);
        self.routed
            .run(kernels, threads, n, x, experts, weights, out);
        Ok(())
    }

    fn load_asks(&mut self, rows: &[usize], _asks: &[Ask<'_>]) -> Result<(), BackendError> {
        self.asked.clear();
        self.asked.extend_from_slice(rows);
        Ok(())
    }

    fn norm_asked(
        &mut self,
        n: usize,
        x: &CpuBuffer,
        delta: &CpuBuffer,
        weight: &Vec<f32>,
        eps: f32,
        out: &mut CpuBuffer,
    ) -> Result<(), BackendError> {
        let (cols, asked) = (x.cols, &self.asked);
        self.threads
            .chunks(out.rows_mut(n), cols, cols * NORM_WORK, &|first, run| {
                for (at, out) in run.chunks_exact_mut(cols).enumerate() {
                    let row = asked[first + at];
                    for (out, (x, delta)) in
                        out.iter_mut().zip(x.row(row).iter().zip(delta.row(row)))
                    {
                        *out = x + delta;
                    }
                    math::rms_norm_in_place(out, weight, eps);
                }
            });
        Ok(())
    }

    fn rank(
        &mut self,
        logits: &CpuBuffer,
        asks: &[Ask<'_>],
    ) -> Result<Vec<Result<SampledToken, NotANumber>>, BackendError> {
        let mut answers = vec![Err(NotANumber); asks.len()];
        let work = logits.cols * math::EXP_WORK;
        self.threads.chunks(&mut answers, 1, work, &|first, run| {
            for (at, answer) in (first..).zip(run) {
                *answer = rank::rank(logits.row(at), &asks[at]);
            }
        });
        Ok(answers)
    }
}
