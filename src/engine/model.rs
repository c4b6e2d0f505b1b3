//! The Qwen3 and Qwen3.5 networks, written once for every backend.
//!
//! Main type: [`Model`]: weights on the backend, scratch for one step, the KV cache, and the forward pass
//! as numbered steps. Shapes: n rows in the step, h hidden size, H query heads, K key heads, d head
//! dimension, m intermediate size, V vocabulary; p projected columns and c value columns of a recurrent layer. Refuses to know: requests, pages' owners.

use super::backend::{
    Ask, AttentionShape, Backend, BackendError, Batch, Begun, Part, Recordings, Role, Room,
};
use super::config::Config;
use super::executor::{Answers, Executor, RowAsk};
use super::kv::{Copy, StateId, Window};
use super::loader::{
    Attention, DeltaRule, Layer, Loader, Mixer, Mlp, WeightFacts, Weights, upload_error,
};
use super::weights::WeightError;

/// Rows of logits that are computed at once, where so many sequences run: theirs, since each pass reads the whole
/// output matrix. `[rows, V]` of f32 is the largest buffer of all, so it has a bound.
pub fn logit_rows(running: usize) -> usize {
    running.clamp(16, 64)
}

pub struct Model<B: Backend> {
    backend: B,
    config: Config,
    embeddings: B::Weight,
    layers: Vec<Layer<B>>,
    final_norm: B::Vector,
    /// `None`: the embeddings are the output matrix too.
    head: Option<B::Weight>,
    cache: B::Cache,
    scratch: Scratch<B>,
    room: Room,
    facts: WeightFacts,
}

/// Activations of one step.
struct Scratch<B: Backend> {
    stream: B::Buffer,
    normed: B::Buffer,
    qkv: B::Buffer,
    attended: B::Buffer,
    hybrid: Option<HybridScratch<B>>,
    gate_up: B::Buffer,
    activated: B::Buffer,
    delta: B::Buffer,
    /// Of the rows asked about.
    picked_normed: B::Buffer,
    logits: B::Buffer,
}

/// What only hybrid models have.
struct HybridScratch<B: Backend> {
    /// Of attention's output.
    gates: B::Buffer,
    /// Of a recurrent layer: its projections, and what it took from the past.
    projected: B::Buffer,
    recalled: B::Buffer,
}

impl<B: Backend> Model<B> {
    /// Uploads the weights and makes room for `pages` pages, `states` recurrent states, if the model has any, and the steps
    /// that `room` allows.
    pub fn load(
        mut backend: B,
        config: Config,
        weights: &Weights,
        pages: usize,
        states: usize,
        window: Option<Window>,
        room: Room,
    ) -> Result<Self, WeightError> {
        let mut loader = Loader::new(&mut backend, weights);
        loader.refuse_too_large(
            weights.bytes() + scratch_bytes(&config, room.rows, room.answers, window),
        )?;
        let embeddings = loader.embeddings(&config)?;
        let layers = (0..config.layers)
            .map(|layer| loader.layer(layer, &config))
            .collect::<Result<_, _>>()?;
        let final_norm = loader.final_norm(&config)?;
        let head = if config.tied {
            None
        } else {
            Some(loader.matrix("lm_head.weight", config.vocab, config.hidden)?)
        };
        let facts = loader.facts(&config);
        let shape = attention_shape(&config, pages, states, window);
        let no_room =
            |cause: BackendError| upload_error("(room for activations and the KV cache)", &cause);
        let cache = backend.cache(&shape, &room).map_err(no_room)?;
        let scratch = Scratch::new(&mut backend, &config, &shape, room).map_err(no_room)?;
        // What a GPU is still at belongs to this, and not to what comes next.
        let waited = backend.wait();
        waited.map_err(|cause| upload_error("(the last of them)", &cause))?;
        Ok(Self {
            backend,
            config,
            embeddings,
            layers,
            final_norm,
            head,
            cache,
            scratch,
            room,
            facts,
        })
    }

    pub fn backend(&self) -> &B {
        &self.backend
    }

    pub fn facts(&self) -> &WeightFacts {
        &self.facts
    }

    /// Passes through what the backend wants to have seen before the first request.
    pub fn dummy_run_all(&mut self) -> Result<(), BackendError> {
        for dummy_run in self.backend.dummy_runs() {
            self.backend.load_dummy_run(&dummy_run)?;
            let passed = match dummy_run.part {
                Part::Network => self.network(dummy_run.rows),
                Part::Answers => self.score(dummy_run.rows),
            };
            if passed.is_err() {
                // What was begun is ended: a device that records takes little else.
                let _failed_too = self.backend.end();
                return passed;
            }
        }
        Ok(())
    }

    /// Steps 1 to 9 over the n rows that were loaded.
    fn network(&mut self, n: usize) -> Result<(), BackendError> {
        let Begun::Compute { rows: n } = self.backend.begin(Part::Network, n)? else {
            return Ok(());
        };
        let (backend, s, eps) = (&mut self.backend, &mut self.scratch, self.config.norm_eps);
        // 1. tokens [n] → stream [n, h]
        backend.embed(n, &self.embeddings, &mut s.stream)?;
        let (mut attending, mut recurrent) = (0, 0);
        for (index, layer) in self.layers.iter().enumerate() {
            // 2. what the layer before left is added to the stream [n, h] → normed [n, h]
            let norm = &layer.mixer_norm;
            if index == 0 {
                backend.rms_norm(n, &s.stream, norm, eps, &mut s.normed)?;
            } else {
                backend.add_rms_norm(n, &mut s.stream, &s.delta, norm, eps, &mut s.normed)?;
            }
            // 3. to 6. normed [n, h] and the past → delta [n, h]
            match &layer.mixer {
                Mixer::Attention(layer) => {
                    attend(backend, s, n, attending, layer, &mut self.cache)?;
                    attending += 1;
                }
                Mixer::Delta(layer) => {
                    recall(backend, s, n, recurrent, layer, &mut self.cache)?;
                    recurrent += 1;
                }
            }
            // 7. it is added to the stream [n, h] → normed [n, h]
            let norm = &layer.mlp_norm;
            backend.add_rms_norm(n, &mut s.stream, &s.delta, norm, eps, &mut s.normed)?;
            match (&layer.mlp, &self.config.experts) {
                (Mlp::Sparse(weights), Some(experts)) => {
                    // 8. and 9. normed [n, h] through each row's experts → delta [n, h]
                    backend.experts(n, &s.normed, experts, weights, &mut s.delta)?;
                }
                (Mlp::Sparse(_), None) => return Err(BackendError::NoExperts),
                (Mlp::Dense { gate_up, down }, _) => {
                    // 8. normed [n, h] → gate, up [n, 2m] → activated [n, m]
                    let (both, activated) = (&mut s.gate_up, &mut s.activated);
                    backend.swiglu_product(n, &s.normed, gate_up, both, activated)?;
                    // 9. activated [n, m] → delta [n, h], which the next norm adds to the stream
                    backend.matmul(n, &s.activated, down, None, &mut s.delta)?;
                }
            }
        }
        backend.end()
    }

    /// 10. r rows of stream and delta, those that were loaded → final norm → logits [r, V] → scores
    fn score(&mut self, r: usize) -> Result<(), BackendError> {
        let Begun::Compute { rows: r } = self.backend.begin(Part::Answers, r)? else {
            return Ok(());
        };
        let (backend, s, eps) = (&mut self.backend, &mut self.scratch, self.config.norm_eps);
        let norm = &self.final_norm;
        backend.norm_asked(r, &s.stream, &s.delta, norm, eps, &mut s.picked_normed)?;
        let head = self.head.as_ref().unwrap_or(&self.embeddings);
        backend.matmul(r, &s.picked_normed, head, None, &mut s.logits)?;
        backend.score(r, &s.logits)?;
        backend.end()
    }

    fn answer(&mut self, asks: &[RowAsk<'_>]) -> Result<Answers, BackendError> {
        let rows: Vec<usize> = asks.iter().map(|ask| ask.row).collect();
        let asks: Vec<Ask<'_>> = asks.iter().map(|ask| ask.ask).collect();
        self.backend.load_asks(&rows, &asks)?;
        self.score(rows.len())?;
        self.backend.rank(&self.scratch.logits, &asks)
    }
}

/// An attending layer, `index` among those.
fn attend<B: Backend>(
    backend: &mut B,
    s: &mut Scratch<B>,
    n: usize,
    index: usize,
    layer: &Attention<B>,
    cache: &mut B::Cache,
) -> Result<(), BackendError> {
    // 3. normed [n, h] → qkv [n, (H + 2K) d], and the output's gates [n, H d], where it has some
    let bias = layer.qkv_bias.as_ref();
    backend.matmul(n, &s.normed, &layer.qkv, bias, &mut s.qkv)?;
    // 4. heads of q and k normed and turned; k, v [n, K, d] into the cache's pages
    // 5. q [n, H, d] over cached k, v [positions, K, d] → attended [n, H d], times its gates
    let (q_norm, k_norm) = (&layer.q_norm, &layer.k_norm);
    let (qkv, attended) = (&mut s.qkv, &mut s.attended);
    backend.attend(n, index, qkv, q_norm, k_norm, cache, attended)?;
    if let (Some(gate), Some(hybrid)) = (&layer.gate, &mut s.hybrid) {
        let (bias, gates) = (gate.bias.as_ref(), &mut hybrid.gates);
        backend.matmul(n, &s.normed, &gate.weight, bias, gates)?;
        backend.gate(n, gates, &mut s.attended)?;
    }
    // 6. attended [n, H d] → delta [n, h]
    let bias = layer.output_bias.as_ref();
    backend.matmul(n, &s.attended, &layer.output, bias, &mut s.delta)
}

/// A recurrent layer, `index` among those.
fn recall<B: Backend>(
    backend: &mut B,
    s: &mut Scratch<B>,
    n: usize,
    index: usize,
    layer: &DeltaRule<B>,
    cache: &mut B::Cache,
) -> Result<(), BackendError> {
    let hybrid = s.hybrid.as_mut().ok_or(BackendError::NoDeltaRule)?;
    let (projected, recalled) = (&mut hybrid.projected, &mut hybrid.recalled);
    // 3. normed [n, h] → q, k, v, z, b, a [n, p]
    backend.matmul(n, &s.normed, &layer.projections, None, projected)?;
    // 4. and 5. the states of the rows' sequences move on → recalled [n, c]
    backend.delta_rule(n, index, projected, &layer.weights, cache, recalled)?;
    // 6. recalled [n, c] → delta [n, h]
    backend.matmul(n, recalled, &layer.output, None, &mut s.delta)
}

impl<B: Backend> Executor for Model<B> {
    fn forward(&mut self, batch: &Batch<'_>, asks: &[RowAsk<'_>]) -> Result<Answers, BackendError> {
        debug_assert!(batch.tokens.len() <= self.room.rows);
        self.backend.load_batch(batch, &self.cache)?;
        self.network(batch.tokens.len())?;
        let mut answers = Answers::with_capacity(asks.len());
        for asks in asks.chunks(self.room.answers) {
            answers.extend(self.answer(asks)?);
        }
        Ok(answers)
    }

    fn copy_page(&mut self, copy: Copy) -> Result<(), BackendError> {
        self.backend.copy_page(copy.from, copy.to, &mut self.cache)
    }

    fn copy_state(&mut self, from: StateId, to: StateId) -> Result<(), BackendError> {
        self.backend.copy_state(from, to, &mut self.cache)
    }

    fn is_lost(&mut self) -> bool {
        self.backend.wait().is_err()
    }

    fn recordings(&self) -> Recordings {
        self.backend.recordings()
    }
}

fn attention_shape(
    config: &Config,
    pages: usize,
    states: usize,
    window: Option<Window>,
) -> AttentionShape {
    AttentionShape {
        layers: config.attention_layers(),
        heads: config.heads,
        kv_heads: config.kv_heads,
        head_dim: config.head_dim,
        rope: config.rope,
        rotary_dim: config.rotary_dim,
        norm_eps: config.norm_eps,
        pages,
        window,
        delta: config.hybrid.as_ref().map(|it| (it.delta, states)),
    }
}

/// Bytes that the activations of steps of `rows` rows take, in f32, with `answers` rows of logits at once.
pub fn scratch_bytes(
    config: &Config,
    rows: usize,
    answers: usize,
    window: Option<Window>,
) -> usize {
    let shape = attention_shape(config, 0, 0, window);
    // Queries are kept a second time, as they see the sink.
    let queries = if window.is_some() { 2 } else { 1 } * shape.q_cols();
    // Gates; projections, what is recalled, and room for what lies between the two.
    let hybrid = shape.delta.map_or(0, |(delta, _)| {
        shape.q_cols() + delta.projected_cols() + delta.channels() + 2 * delta.value_cols()
    });
    // Scores and choices (of 24 bytes), and the rows of the largest MLP.
    let experts = config.experts.as_ref().map_or(0, |it| {
        let size = it.intermediate.max(it.shared.unwrap_or(0));
        it.count + 6 * it.chosen + 2 * config.hidden + 3 * size
    });
    let of_a_row =
        3 * config.hidden + shape.qkv_cols() + queries + hybrid + experts + 3 * config.intermediate;
    let of_an_answer = config.hidden + config.vocab;
    (rows * of_a_row + answers * of_an_answer) * size_of::<f32>()
}

impl<B: Backend> Scratch<B> {
    fn new(
        backend: &mut B,
        config: &Config,
        shape: &AttentionShape,
        room: Room,
    ) -> Result<Self, BackendError> {
        use Role::{Operand, Stream};
        let (rows, answers) = (room.rows, room.answers);
        Ok(Self {
            stream: backend.buffer(rows, config.hidden, Stream)?,
            normed: backend.buffer(rows, config.hidden, Operand)?,
            qkv: backend.buffer(rows, shape.qkv_cols(), Stream)?,
            attended: backend.buffer(rows, shape.q_cols(), Operand)?,
            hybrid: match shape.delta {
                None => None,
                Some((delta, _)) => Some(HybridScratch {
                    gates: backend.buffer(rows, shape.q_cols(), Stream)?,
                    projected: backend.buffer(rows, delta.projected_cols(), Stream)?,
                    recalled: backend.buffer(rows, delta.value_cols(), Operand)?,
                }),
            },
            gate_up: backend.buffer(rows, 2 * config.intermediate, Stream)?,
            activated: backend.buffer(rows, config.intermediate, Operand)?,
            delta: backend.buffer(rows, config.hidden, Stream)?,
            picked_normed: backend.buffer(answers, config.hidden, Operand)?,
            logits: backend.buffer(answers, config.vocab, Stream)?,
        })
    }
}
