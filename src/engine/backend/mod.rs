//! Interface of a backend: the operations of a transformer of the Qwen3 and Qwen3.5 classes.
//!
//! Main type: the trait [`Backend`]. Weights, activations and the KV cache are the backend's own types, so
//! that they may live on a device; numbers cross the border only where a batch's token ids go in and
//! chosen tokens come out. Every operation works on a batch of rows, whatever sequences they belong to.
//! Refuses to know: the order of the operations, the scheduler.
//!
//! **Promise on batches.** A backend says by [`Backend::batch_invariant`] whether a row's result is the
//! same, to the bit, whichever rows are computed beside it. Where it is, greedy answers depend on the
//! history alone and not on how it was cut into chunks, turns or batches.

pub mod cpu;
pub mod cuda;
pub mod math;
mod rank;

use std::ops::Range;

use super::config::experts::Experts;
use super::config::hybrid::DeltaShape;
use super::config::rope::RopeSettings;
use super::kv::{PageId, StateId, Window};
use super::sampling::Sampling;
use super::weights::Tensor;
use cuda::device::DeviceError;

/// The backend could not do it; the requests of this batch cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    #[error("{bytes} bytes of memory could not be had")]
    Memory {
        bytes: usize,
        source: std::io::Error,
    },
    #[error("{count} threads could not be started")]
    Threads {
        count: usize,
        source: rayon::ThreadPoolBuildError,
    },
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error("a recurrent layer of a model that has none")]
    NoDeltaRule,
    #[error("mixtures of experts are computed on the CPU alone")]
    NoExperts,
}

/// What a buffer's numbers are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sums and results of products, in f32.
    Stream,
    /// The left side of a product: a backend may keep it in the weights' type.
    Operand,
}

/// A part of a step that a backend may record and repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// From the tokens through all layers.
    Network,
    /// From the rows that are asked about to what the answers are made of.
    Answers,
}

/// What [`Backend::begin`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// Compute the part with this many rows, those asked for at least: what is beyond is padding.
    Compute { rows: usize },
    /// It is done already, by a CUDA graph; there is no `end`.
    Repeated,
}

/// CUDA graphs captured, and their replays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recordings {
    pub made: u64,
    pub repeated: u64,
    /// Kernels, copies and fills that repetitions started.
    pub nodes: u64,
}

/// A part for so many rows that is to be passed through ahead of the first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DummyRun {
    pub part: Part,
    pub rows: usize,
    /// A backend's own: how the part is computed, and whether it is captured or run.
    pub variant: usize,
}

/// The most that a step may bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    pub rows: usize,
    /// Rows asked about that are answered together.
    pub answers: usize,
    pub sequences: usize,
    /// Positions of one sequence.
    pub context: usize,
}

/// Sizes of attention and of the cache behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionShape {
    /// Those that attend.
    pub layers: usize,
    /// Query heads, a multiple of `kv_heads`: head h reads the keys of head `h / (heads / kv_heads)`.
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub rope: RopeSettings,
    /// Elements of a head that are turned, the leading ones of each half; even. The others stay as they are.
    pub rotary_dim: usize,
    pub norm_eps: f32,
    /// Pages in the pool.
    pub pages: usize,
    /// `None`: every position is attended to.
    pub window: Option<Window>,
    /// Sizes of the recurrent layers, and the number of states.
    pub delta: Option<(DeltaShape, usize)>,
}

impl AttentionShape {
    pub fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Columns of the stacked q, k and v projections.
    pub fn qkv_cols(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }

    pub fn q_cols(&self) -> usize {
        self.heads * self.head_dim
    }
}

/// The rows of one step: consecutive tokens of one or more sequences.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Token ids, `[n]`, each within the vocabulary.
    pub tokens: &'a [u32],
    /// The sequences in the order of their rows; their lengths add up to n.
    pub spans: &'a [Span<'a>],
}

/// One sequence's rows in a batch.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// Positions of its rows; keys and values before `start` are in the cache.
    pub positions: (usize, usize),
    /// The pages that it holds, in the order of positions; enough for `positions.1`. After those of the
    /// sink, `gap` pages are missing that no row of the batch attends to.
    pub pages: &'a [PageId],
    pub gap: usize,
    /// Where the model has recurrent layers.
    pub state: SpanState,
}

/// A sequence's recurrent state in a batch. A row at position 0 finds an empty one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanState {
    pub own: StateId,
    /// The state before this position, one of the span's or its end, is also put there.
    pub snapshot: Option<(usize, StateId)>,
}

/// A recurrent layer's weights beside its projections; channels, heads and `value_dim` as in [`DeltaShape`].
pub struct DeltaWeights<V> {
    /// Weights of the convolution, oldest tap first: `[taps, channels]`.
    pub conv: V,
    /// `A_log` and `dt_bias`, one each a value head.
    pub log_decay: V,
    pub step_bias: V,
    /// Weights of the answer's norm, `[value_dim]`.
    pub norm: V,
}

impl Span<'_> {
    pub fn positions(&self) -> Range<usize> {
        self.positions.0..self.positions.1
    }
}

/// A sparse layer's weights: E experts of m intermediate numbers, one after another.
pub struct ExpertWeights<W> {
    /// `[E, h]`
    pub router: W,
    /// Of each expert gate, then up: `[E · 2 m, h]`.
    pub gate_up: W,
    /// `[E · h, m]`
    pub down: W,
    pub shared: Option<SharedExpert<W>>,
}

/// The expert that every row takes, as far as its gate lets it.
pub struct SharedExpert<W> {
    /// `[2 m, h]`
    pub gate_up: W,
    /// `[h, m]`
    pub down: W,
    /// `[1, h]`
    pub gate: W,
}

/// What is wanted of one row of logits.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    pub pick: Pick<'a>,
    /// Log-probability of the token picked, and of this many best tokens.
    pub logprobs: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
pub enum Pick<'a> {
    /// The token with the greatest logit but for these ids, ascending; ties go to the lower id.
    Best { banned: &'a [u32] },
    /// This token (teacher forcing).
    Given(u32),
    /// By the request's own rules.
    Drawn(Draw<'a>),
}

/// A choice by rules that may look back at what was said.
#[derive(Clone, Copy, Debug)]
pub struct Draw<'a> {
    pub rules: &'a Sampling,
    /// Ascending.
    pub banned: &'a [u32],
    pub prompt: &'a [u32],
    /// Generated so far; their count numbers the draw.
    pub answer: &'a [u32],
}

/// The answer to an [`Ask`].
#[derive(Clone, Debug, PartialEq)]
pub struct SampledToken {
    pub id: u32,
    /// Natural-log probabilities of the untouched logits (banned ids too have theirs): of `id`, and of
    /// the best tokens, best first, ties by lower id.
    pub logprobs: Option<(f32, Vec<(u32, f32)>)>,
}

/// A row of logits holds NaN, or no number that is finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the model's output is not a number: its weights or the backend are broken")]
pub struct NotANumber;

/// The operations. Buffers are row-major, of fixed columns and a greatest number of rows; `n` says how
/// many rows are in use. `out` never aliases an input.
pub trait Backend {
    /// A matrix `[rows, cols]` in its stored type.
    type Weight;
    /// A vector of f32.
    type Vector;
    type Buffer;
    /// Keys and values of every layer, in pages of [`PAGE_TOKENS`](super::kv::PAGE_TOKENS) tokens.
    type Cache;

    /// Shown to users: where it computes.
    fn name(&self) -> &'static str;
    /// Shown to users: which kernels run.
    fn kernels(&self) -> &str;
    fn threads(&self) -> usize;
    /// See the module's promise.
    fn batch_invariant(&self) -> bool;
    /// Waits until all is done that was asked for: a device goes on by itself. After an error of this no later call
    /// can do better.
    fn wait(&self) -> Result<(), BackendError> {
        Ok(())
    }
    /// Of parts, since the start.
    fn recordings(&self) -> Recordings {
        Recordings::default()
    }

    /// Bytes of memory that could be had now, where that can be told.
    fn free_bytes(&self) -> Option<usize> {
        None
    }

    /// A matrix of bf16 numbers, normal with this standard deviation, that depend on seed and place alone.
    fn random(
        &mut self,
        rows: usize,
        cols: usize,
        deviation: f32,
        seed: u64,
    ) -> Result<Self::Weight, BackendError>;
    /// A vector of one number.
    fn constant(&mut self, length: usize, value: f32) -> Result<Self::Vector, BackendError>;
    /// Matrices of equal columns, stacked by rows.
    fn upload(&mut self, parts: &[Tensor<'_>]) -> Result<Self::Weight, BackendError>;
    /// Vectors, one after another.
    fn upload_vector(&mut self, parts: &[Tensor<'_>]) -> Result<Self::Vector, BackendError>;
    fn buffer(
        &mut self,
        rows: usize,
        cols: usize,
        role: Role,
    ) -> Result<Self::Buffer, BackendError>;
    fn cache(&mut self, shape: &AttentionShape, room: &Room) -> Result<Self::Cache, BackendError>;

    /// What should be passed through before the first request, in this order.
    fn dummy_runs(&self) -> Vec<DummyRun> {
        Vec::new()
    }
    /// Loads rows of padding as the input of the dummy run.
    fn load_dummy_run(&mut self, _dummy_run: &DummyRun) -> Result<(), BackendError> {
        Ok(())
    }
    /// Begins a part of the step over `rows` rows of the batch, or questions.
    fn begin(&mut self, _part: Part, rows: usize) -> Result<Begun, BackendError> {
        Ok(Begun::Compute { rows })
    }
    /// Ends what was begun and had to be computed.
    fn end(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    /// Makes `batch` the one that `embed`, `rope_and_store` and `attention` work on.
    fn load_batch(&mut self, batch: &Batch<'_>, cache: &Self::Cache) -> Result<(), BackendError>;
    /// `out[i] = table[token i]`.
    fn embed(
        &mut self,
        n: usize,
        table: &Self::Weight,
        out: &mut Self::Buffer,
    ) -> Result<(), BackendError>;
    /// `out = x / rms(x) · weight` by row, rms over the columns with `eps` under the root.
    fn rms_norm(
        &mut self,
        n: usize,
        x: &Self::Buffer,
        weight: &Self::Vector,
        eps: f32,
        out: &mut Self::Buffer,
    ) -> Result<(), BackendError>;
    /// `x += delta`, then `out` = its norm.
    fn add_rms_norm(
        &mut self,
        n: usize,
        x: &mut Self::Buffer,
        delta: &Self::Buffer,
        weight: &Self::Vector,
        eps: f32,
        out: &mut Self::Buffer,
    ) -> Result<(), BackendError>;
    /// `out[n, rows] = x[n, cols] · weight[rows, cols]ᵀ (+ bias[rows])`.
    fn matmul(
        &mut self,
        n: usize,
        x: &Self::Buffer,
        weight: &Self::Weight,
        bias: Option<&Self::Vector>,
        out: &mut Self::Buffer,
    ) -> Result<(), BackendError>;
    /// In the stacked `qkv`: RMS norm of each query and key head, RoPE by position, then keys and values
    /// into the cache of `layer`. Queries stay in place, or where the backend's attention finds them.
    fn rope_and_store(
        &mut self,
        n: usize,
        layer: usize,
        qkv: &mut Self::Buffer,
        q_norm: &Self::Vector,
        k_norm: &Self::Vector,
        cache: &mut Self::Cache,
    ) -> Result<(), BackendError>;
    /// Causal attention of the batch's queries over the cached keys and values of their sequences, their
    /// own among them. `out[n, heads · head_dim]`.
    fn attention(
        &mut self,
        n: usize,
        layer: usize,
        qkv: &Self::Buffer,
        cache: &Self::Cache,
        out: &mut Self::Buffer,
    ) -> Result<(), BackendError>;
    /// [`rope_and_store`](Self::rope_and_store), then [`attention`](Self::attention).
    #[expect(clippy::too_many_arguments, reason = "what two operations take")]
    fn attend(
        &mut self,
        n: usize,
        layer: usize,
        qkv: &mut Self::Buffer,
        q_norm: &Self::Vector,
        k_norm: &Self::Vector,
        cache: &mut Self::Cache,
        out: &mut Self::Buffer,
    ) -> Result<(), BackendError> {
        self.rope_and_store(n, layer, qkv, q_norm, k_norm, cache)?;
        self.attention(n, layer, qkv, cache, out)
    }
    /// `x *= sigmoid(gate)`: the gate of attention's output, of as many columns.
    fn gate(
        &mut self,
        n: usize,
        gate: &Self::Buffer,
        x: &mut Self::Buffer,
    ) -> Result<(), BackendError>;
    /// The gated delta rule between its projections: convolution, recurrence and gated norm. `projected`: q, k, v, z, b, a.
    /// `layer` counts the recurrent ones; `out[n, value_cols]`. The batch's states are then those after its rows.
    fn delta_rule(
        &mut self,
        n: usize,
        layer: usize,
        projected: &Self::Buffer,
        weights: &DeltaWeights<Self::Vector>,
        cache: &mut Self::Cache,
        out: &mut Self::Buffer,
    ) -> Result<(), BackendError>;
    /// A recurrent state, of every layer.
    fn copy_state(
        &mut self,
        from: StateId,
        to: StateId,
        cache: &mut Self::Cache,
    ) -> Result<(), BackendError>;
    /// Keys and values of every layer from page `from` to page `to`.
    fn copy_page(
        &mut self,
        from: PageId,
        to: PageId,
        cache: &mut Self::Cache,
    ) -> Result<(), BackendError>;
    /// `gate_up[n, 2 m]` → `out[n, m] = silu(gate) · up`.
    fn swiglu(
        &mut self,
        n: usize,
        gate_up: &Self::Buffer,
        out: &mut Self::Buffer,
    ) -> Result<(), BackendError>;
    /// `x · weightᵀ`, then [`swiglu`](Self::swiglu) of it. `gate_up` is room for what is between, and may
    /// be left as it was.
    fn swiglu_product(
        &mut self,
        n: usize,
        x: &Self::Buffer,
        weight: &Self::Weight,
        gate_up: &mut Self::Buffer,
        out: &mut Self::Buffer,
    ) -> Result<(), BackendError> {
        self.matmul(n, x, weight, None, gate_up)?;
        self.swiglu(n, gate_up, out)
    }

    /// A sparse layer: the scores of `x[n, h]` by the router, then the MLPs of each row's best experts, by their shares, and
    /// of the shared one: `out[n, h]`.
    fn experts(
        &mut self,
        _n: usize,
        _x: &Self::Buffer,
        _experts: &Experts,
        _weights: &ExpertWeights<Self::Weight>,
        _out: &mut Self::Buffer,
    ) -> Result<(), BackendError> {
        Err(BackendError::NoExperts)
    }

    /// Makes these rows of the batch and these questions those that `norm_asked`, `score` and `rank`
    /// work on.
    fn load_asks(&mut self, rows: &[usize], asks: &[Ask<'_>]) -> Result<(), BackendError>;
    /// [`rms_norm`](Self::rms_norm) of `x + delta` in the rows asked about.
    fn norm_asked(
        &mut self,
        n: usize,
        x: &Self::Buffer,
        delta: &Self::Buffer,
        weight: &Self::Vector,
        eps: f32,
        out: &mut Self::Buffer,
    ) -> Result<(), BackendError>;
    /// What of the answers can be made without the host.
    fn score(&mut self, _n: usize, _logits: &Self::Buffer) -> Result<(), BackendError> {
        Ok(())
    }
    /// One answer a row of logits, to the questions that were loaded, which are the same as `asks`.
    fn rank(
        &mut self,
        logits: &Self::Buffer,
        asks: &[Ask<'_>],
    ) -> Result<Vec<Result<SampledToken, NotANumber>>, BackendError>;
}
