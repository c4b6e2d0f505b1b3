//! The operations on an NVIDIA GPU.
//!
//! Main type: [`CudaBackend`], generic over the [`Device`] that does the work. Weights, keys and values and
//! the left sides of products have one type, that of the model's matrices; sums are f32. Decoding is one
//! CUDA graph per step, captured before the first request. Not batch-invariant: how a product is summed depends
//! on its rows. Refuses to know: layers, sequences, the scheduler.

mod answers;
pub(crate) mod cache;
pub(crate) mod compile;
pub(crate) mod compiler;
pub mod device;
pub mod driver;
pub mod emulated;
mod graphs;
pub mod launch;
mod memory;
mod nvrtc;
mod products;
pub(crate) mod sources;
pub(crate) mod spills;
mod splits;
mod state;
mod step;
pub mod times;
pub(crate) mod usage;

use super::{
    Ask, AttentionShape, Backend, BackendError, Batch, Begun, DeltaWeights, DummyRun, NotANumber,
    Part, Recordings, Role, Room, SampledToken,
};
use crate::config::Config;
use crate::kv::{PageId, StateId};
use crate::weights::Tensor;
use device::{Device, DeviceError, View};
use graphs::{Graphs, Shape};
use launch::QkvEpilogue;
use memory::{Buffer, KvCache, Matrix, Vector};
use products::Products;
use state::State;

pub(crate) struct CudaBackend<D: Device> {
    // Recordings name memory of the state, and go before it.
    graphs: Graphs<D::Graph>,
    products: Products<D>,
    /// Comes with the cache.
    state: Option<State<D>>,
    /// True while the loaded step will be captured, not run.
    records: bool,
    recording: Option<Shape>,
    /// Replays of graphs, and the nodes that they started.
    repeated: u64,
    nodes: u64,
    device: D,
}

type Done = Result<(), BackendError>;

/// Whether the kernels are made for such a model.
pub(crate) fn supports(config: &Config) -> Result<(), DeviceError> {
    if let Some(hybrid) = &config.hybrid {
        launch::supports_delta(&hybrid.delta)?;
    }
    if config.experts.is_some() {
        return Err(DeviceError::Unsupported {
            kernel: "the CUDA backend",
            what: "a mixture of experts: it is computed on the CPU alone".to_owned(),
        });
    }
    if config.vocab < launch::MOST_TOP {
        return Err(DeviceError::Unsupported {
            kernel: "the CUDA backend",
            what: format!("a vocabulary of {}", config.vocab),
        });
    }
    let sizes = [
        ("hidden_size", config.hidden, 8, 16_384),
        ("head_dim", config.head_dim, 16, 256),
        ("intermediate_size", config.intermediate, 4, usize::MAX),
    ];
    let wrong = sizes
        .into_iter()
        .find(|(_, size, step, most)| !size.is_multiple_of(*step) || size > most);
    match wrong {
        None => Ok(()),
        Some((name, size, step, most)) => {
            let bound = match most {
                usize::MAX => String::new(),
                most => format!(" up to {most}"),
            };
            Err(DeviceError::Unsupported {
                kernel: "the CUDA backend",
                what: format!(
                    "a model with {name} {size}; multiples of {step}{bound} are possible"
                ),
            })
        }
    }
}

impl<D: Device> CudaBackend<D> {
    pub(crate) fn new(device: D) -> Self {
        Self {
            graphs: Graphs::new(),
            products: Products::new(),
            state: None,
            records: false,
            recording: None,
            repeated: 0,
            nodes: 0,
            device,
        }
    }

    fn parts(&mut self) -> Result<(&mut D, &mut State<D>), DeviceError> {
        let no_cache = || DeviceError::Argument {
            kernel: "the backend",
            what: "a batch before its cache".to_owned(),
        };
        let state = self.state.as_mut().ok_or_else(no_cache)?;
        Ok((&mut self.device, state))
    }
}

impl<D: Device> Backend for CudaBackend<D> {
    type Weight = Matrix<D>;
    type Vector = Vector<D>;
    type Buffer = Buffer<D>;
    type Cache = KvCache<D>;

    fn name(&self) -> &'static str {
        "cuda"
    }

    fn kernels(&self) -> &str {
        &self.device.facts().name
    }

    fn threads(&self) -> usize {
        1
    }

    fn batch_invariant(&self) -> bool {
        false
    }

    /// After a fault of a kernel, as a read of memory that is not there, a GPU does nothing more for this process and
    /// says the same of every call.
    fn wait(&self) -> Done {
        Ok(self.device.synchronize()?)
    }

    fn recordings(&self) -> Recordings {
        Recordings {
            made: self.graphs.count(),
            repeated: self.repeated,
            nodes: self.nodes,
        }
    }

    fn free_bytes(&self) -> Option<usize> {
        self.device.free_bytes().ok()
    }

    fn random(
        &mut self,
        rows: usize,
        cols: usize,
        deviation: f32,
        seed: u64,
    ) -> Result<Matrix<D>, BackendError> {
        let device = &mut self.device;
        let matrix = Matrix::new(device, rows, cols)?;
        launch::fill_random(device, matrix.weights().view, rows * cols, deviation, seed)?;
        Ok(matrix)
    }

    fn constant(&mut self, length: usize, value: f32) -> Result<Vector<D>, BackendError> {
        let device = &mut self.device;
        let vector = Vector::new(device, length)?;
        launch::fill_vector(device, vector.view(), length, value)?;
        Ok(vector)
    }

    fn upload(&mut self, parts: &[Tensor<'_>]) -> Result<Matrix<D>, BackendError> {
        Ok(Matrix::stack(&mut self.device, parts)?)
    }

    fn upload_vector(&mut self, parts: &[Tensor<'_>]) -> Result<Vector<D>, BackendError> {
        let numbers: Vec<f32> = parts.iter().flat_map(Tensor::widened).collect();
        Ok(Vector::of(&mut self.device, &numbers)?)
    }

    fn buffer(&mut self, rows: usize, cols: usize, role: Role) -> Result<Buffer<D>, BackendError> {
        Ok(Buffer::new(&mut self.device, rows, cols, role)?)
    }

    fn cache(&mut self, shape: &AttentionShape, room: &Room) -> Result<KvCache<D>, BackendError> {
        let cache = KvCache::new(&mut self.device, shape)?;
        self.state = Some(State::new(&mut self.device, shape, room)?);
        Ok(cache)
    }

    /// Each part is run once for each count of rows, so that products are timed, and then captured.
    fn dummy_runs(&self) -> Vec<DummyRun> {
        self.state.as_ref().map_or_else(Vec::new, State::dummy_runs)
    }

    fn load_dummy_run(&mut self, dummy_run: &DummyRun) -> Done {
        self.records = state::is_recorded(dummy_run);
        let shape = state::shape_of(dummy_run);
        let (device, state) = self.parts()?;
        match shape.part {
            Part::Network if state::is_of_prompts(&shape) => {
                state.step.load_prompts(device, shape.rows)?;
            }
            Part::Network => state.step.load_padding(device, shape)?,
            Part::Answers => state.answers.load_padding(device, shape)?,
        }
        Ok(())
    }

    fn begin(&mut self, part: Part, rows: usize) -> Result<Begun, BackendError> {
        let (_, state) = self.parts()?;
        let shape = match part {
            Part::Network => state.step.shape,
            Part::Answers => state.answers.shape,
        };
        let Some(shape) = shape else {
            return Ok(Begun::Compute { rows });
        };
        if self.records {
            self.device.begin_capture()?;
            self.recording = Some(shape);
        } else if let Some(graph) = self.graphs.get(&shape) {
            self.device.replay(graph)?;
            self.repeated += 1;
            self.nodes += self.device.nodes(graph);
            return Ok(Begun::Repeated);
        }
        Ok(Begun::Compute { rows: shape.rows })
    }

    fn end(&mut self) -> Done {
        if let Some(shape) = self.recording.take() {
            let graph = self.device.end_capture()?;
            self.graphs.keep(shape, graph);
        }
        Ok(())
    }

    fn load_batch(&mut self, batch: &Batch<'_>, _cache: &KvCache<D>) -> Done {
        self.records = false;
        self.products.free_cold();
        let (device, state) = self.parts()?;
        Ok(state.step.load(device, batch, &state.ladder)?)
    }

    fn embed(&mut self, n: usize, table: &Matrix<D>, out: &mut Buffer<D>) -> Done {
        let (device, state) = self.parts()?;
        state.turn(device, n)?;
        let (table, tokens) = (table.weights(), state.step.tokens());
        let (vocab, cols) = (table.rows, table.cols);
        launch::embedding(device, table.view, vocab, tokens, out.view(), n, cols)?;
        Ok(())
    }

    fn rms_norm(
        &mut self,
        n: usize,
        x: &Buffer<D>,
        weight: &Vector<D>,
        eps: f32,
        out: &mut Buffer<D>,
    ) -> Done {
        let (weight, out, cols) = (weight.view(), out.view(), x.cols);
        launch::rms_norm(
            &mut self.device,
            (x.view(), None),
            n,
            None,
            weight,
            eps,
            out,
            n,
            cols,
        )?;
        Ok(())
    }

    fn add_rms_norm(
        &mut self,
        n: usize,
        x: &mut Buffer<D>,
        delta: &Buffer<D>,
        weight: &Vector<D>,
        eps: f32,
        out: &mut Buffer<D>,
    ) -> Done {
        let (x, delta, cols) = (x.view(), delta.view(), x.cols);
        launch::add_rms_norm(
            &mut self.device,
            x,
            delta,
            weight.view(),
            eps,
            out.view(),
            n,
            cols,
        )?;
        Ok(())
    }

    fn matmul(
        &mut self,
        n: usize,
        x: &Buffer<D>,
        weight: &Matrix<D>,
        bias: Option<&Vector<D>>,
        out: &mut Buffer<D>,
    ) -> Done {
        let of = products::Operands {
            n,
            x: x.view(),
            weight: weight.weights(),
            bias: bias.map(Vector::view),
            out: out.view(),
        };
        let recording = self.recording.is_some();
        self.products.multiply(&mut self.device, recording, of)?;
        Ok(())
    }

    fn rope_and_store(
        &mut self,
        n: usize,
        layer: usize,
        qkv: &mut Buffer<D>,
        q_norm: &Vector<D>,
        k_norm: &Vector<D>,
        cache: &mut KvCache<D>,
    ) -> Done {
        let (device, state) = self.parts()?;
        let (keys, values) = cache.layer(layer);
        let of = QkvEpilogue {
            qkv: qkv.view(),
            q_norm: q_norm.view(),
            k_norm: k_norm.view(),
            eps: cache.shape.norm_eps,
            cos_sin: state.cos_sin.view(),
            places: state.step.places(),
            sink: state.sink(),
            q: state.queries(),
            keys,
            values,
            pages: cache.pages,
        };
        launch::qkv_epilogue(device, &of, n, cache.heads())?;
        Ok(())
    }

    fn attention(
        &mut self,
        n: usize,
        layer: usize,
        _qkv: &Buffer<D>,
        cache: &KvCache<D>,
        out: &mut Buffer<D>,
    ) -> Done {
        let (device, state) = self.parts()?;
        Ok(state.attend(device, n, cache, layer, out.view())?)
    }

    fn attend(
        &mut self,
        n: usize,
        layer: usize,
        qkv: &mut Buffer<D>,
        q_norm: &Vector<D>,
        k_norm: &Vector<D>,
        cache: &mut KvCache<D>,
        out: &mut Buffer<D>,
    ) -> Done {
        let (device, state) = self.parts()?;
        if state.step.decodes {
            let own = [qkv.view(), q_norm.view(), k_norm.view()];
            return Ok(state.decode(device, n, own, cache, layer, out.view())?);
        }
        self.rope_and_store(n, layer, qkv, q_norm, k_norm, cache)?;
        self.attention(n, layer, qkv, cache, out)
    }

    fn gate(&mut self, n: usize, gate: &Buffer<D>, x: &mut Buffer<D>) -> Done {
        launch::gate(&mut self.device, gate.view(), x.view(), n * x.cols)?;
        Ok(())
    }

    fn delta_rule(
        &mut self,
        n: usize,
        layer: usize,
        projected: &Buffer<D>,
        weights: &DeltaWeights<Vector<D>>,
        cache: &mut KvCache<D>,
        out: &mut Buffer<D>,
    ) -> Done {
        let (device, state) = self.parts()?;
        let states = cache.states()?;
        let of_layer = (states.layer(layer), states);
        Ok(state.recall(device, n, projected.view(), weights, of_layer, out.view())?)
    }

    fn copy_state(&mut self, from: StateId, to: StateId, cache: &mut KvCache<D>) -> Done {
        Ok(cache
            .states()?
            .copy(&mut self.device, from as usize, to as usize)?)
    }

    fn copy_page(&mut self, from: PageId, to: PageId, cache: &mut KvCache<D>) -> Done {
        Ok(cache.copy_page(&mut self.device, from as usize, to as usize)?)
    }

    fn swiglu(&mut self, n: usize, gate_up: &Buffer<D>, out: &mut Buffer<D>) -> Done {
        launch::swiglu(&mut self.device, gate_up.view(), out.view(), n, out.cols)?;
        Ok(())
    }

    fn swiglu_product(
        &mut self,
        n: usize,
        x: &Buffer<D>,
        weight: &Matrix<D>,
        gate_up: &mut Buffer<D>,
        out: &mut Buffer<D>,
    ) -> Done {
        let weights = weight.weights();
        if Products::<D>::is_gemv(n, weights.cols) {
            let (view, x, m, cols) = (weights.view, x.view(), out.cols, weights.cols);
            launch::gemv_swiglu(&mut self.device, view, x, out.view(), n, m, cols)?;
            return Ok(());
        }
        self.matmul(n, x, weight, None, gate_up)?;
        self.swiglu(n, gate_up, out)
    }

    fn load_asks(&mut self, rows: &[usize], asks: &[Ask<'_>]) -> Done {
        self.records = false;
        let (device, state) = self.parts()?;
        Ok(state.answers.load(device, &state.ladder, rows, asks)?)
    }

    fn norm_asked(
        &mut self,
        n: usize,
        x: &Buffer<D>,
        delta: &Buffer<D>,
        weight: &Vector<D>,
        eps: f32,
        out: &mut Buffer<D>,
    ) -> Done {
        let (device, state) = self.parts()?;
        let rows = Some(state.answers.rows());
        let of = (x.view(), Some(delta.view()));
        let (weight, out, cols) = (weight.view(), out.view(), x.cols);
        launch::rms_norm(device, of, x.rows, rows, weight, eps, out, n, cols)?;
        Ok(())
    }

    fn score(&mut self, n: usize, logits: &Buffer<D>) -> Done {
        let (device, state) = self.parts()?;
        Ok(state.answers.score(device, n, logits.view(), logits.cols)?)
    }

    fn rank(
        &mut self,
        logits: &Buffer<D>,
        asks: &[Ask<'_>],
    ) -> Result<Vec<Result<SampledToken, NotANumber>>, BackendError> {
        let (device, state) = self.parts()?;
        let rows = |row: usize| -> View { logits.view().part(row * logits.cols, logits.cols, 4) };
        Ok(state.answers.read(device, rows, logits.cols, asks)?)
    }
}
