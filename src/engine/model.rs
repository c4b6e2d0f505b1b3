//! The Qwen3 network, written once for every backend.
//!
//! Main type: [`Model`]: weights on the backend, scratch for one step, the KV cache, and the forward pass
//! as numbered steps. Shapes: n rows in the step, h hidden size, H query heads, K key heads, d head
//! dimension, m intermediate size, V vocabulary. Refuses to know: requests, pages' owners.

use super::backend::{
    Ask, AttentionShape, Backend, BackendError, Batch, Begun, Part, Recordings, Role, Room,
};
use super::config::Config;
use super::executor::{Answers, Executor, RowAsk};
use super::kv::{Copy, Window};
use super::loader::{Layer, Loader, WeightFacts, Weights, upload_error};
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
    gate_up: B::Buffer,
    activated: B::Buffer,
    delta: B::Buffer,
    /// Of the rows asked about.
    picked_normed: B::Buffer,
    logits: B::Buffer,
}

impl<B: Backend> Model<B> {
    /// Uploads the weights and makes room for `pages` pages and for the steps that `room` allows.
    pub fn load(
        mut backend: B,
        config: Config,
        weights: &Weights,
        pages: usize,
        window: Option<Window>,
        room: Room,
    ) -> Result<Self, WeightError> {
        let mut loader = Loader::new(&mut backend, weights);
        loader.refuse_too_large(
            weights.bytes() + scratch_bytes(&config, room.rows, room.answers, window),
        )?;
        let embeddings = loader.matrix("model.embed_tokens.weight", config.vocab, config.hidden)?;
        let layers = (0..config.layers)
            .map(|layer| loader.layer(layer, &config))
            .collect::<Result<_, _>>()?;
        let final_norm = loader.vector("model.norm.weight", config.hidden)?;
        let head = if config.tied {
            None
        } else {
            Some(loader.matrix("lm_head.weight", config.vocab, config.hidden)?)
        };
        let facts = loader.facts(&config);
        let shape = attention_shape(&config, pages, window);
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
        for (index, layer) in self.layers.iter().enumerate() {
            // 2. what the layer before left is added to the stream [n, h] → normed [n, h]
            let norm = &layer.attention_norm;
            if index == 0 {
                backend.rms_norm(n, &s.stream, norm, eps, &mut s.normed)?;
            } else {
                backend.add_rms_norm(n, &mut s.stream, &s.delta, norm, eps, &mut s.normed)?;
            }
            // 3. normed [n, h] → qkv [n, (H + 2K) d]
            let bias = layer.qkv_bias.as_ref();
            backend.matmul(n, &s.normed, &layer.qkv, bias, &mut s.qkv)?;
            // 4. heads of q and k normed and turned; k, v [n, K, d] into the cache's pages
            // 5. q [n, H, d] over cached k, v [positions, K, d] → attended [n, H d]
            let (q_norm, k_norm, cache) = (&layer.q_norm, &layer.k_norm, &mut self.cache);
            let (qkv, attended) = (&mut s.qkv, &mut s.attended);
            backend.attend(n, index, qkv, q_norm, k_norm, cache, attended)?;
            // 6. attended [n, H d] → delta [n, h]
            let bias = layer.output_bias.as_ref();
            backend.matmul(n, &s.attended, &layer.output, bias, &mut s.delta)?;
            // 7. it is added to the stream [n, h] → normed [n, h]
            let norm = &layer.mlp_norm;
            backend.add_rms_norm(n, &mut s.stream, &s.delta, norm, eps, &mut s.normed)?;
            // 8. normed [n, h] → gate, up [n, 2m] → activated [n, m]
            let (gate_up, activated) = (&mut s.gate_up, &mut s.activated);
            backend.swiglu_product(n, &s.normed, &layer.gate_up, gate_up, activated)?;
            // 9. activated [n, m] → delta [n, h], which the next norm adds to the stream
            backend.matmul(n, &s.activated, &layer.down, None, &mut s.delta)?;
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

    fn is_lost(&mut self) -> bool {
        self.backend.wait().is_err()
    }

    fn recordings(&self) -> Recordings {
        self.backend.recordings()
    }
}

fn attention_shape(config: &Config, pages: usize, window: Option<Window>) -> AttentionShape {
    AttentionShape {
        layers: config.layers,
        heads: config.heads,
        kv_heads: config.kv_heads,
        head_dim: config.head_dim,
        rope: config.rope,
        norm_eps: config.norm_eps,
        pages,
        window,
    }
}

/// Bytes that the activations of steps of `rows` rows take, in f32, with `answers` rows of logits at once.
pub fn scratch_bytes(
    config: &Config,
    rows: usize,
    answers: usize,
    window: Option<Window>,
) -> usize {
    let shape = attention_shape(config, 0, window);
    // Queries are kept a second time, as they see the sink.
    let queries = if window.is_some() { 2 } else { 1 } * shape.q_cols();
    let of_a_row = 3 * config.hidden + shape.qkv_cols() + queries + 3 * config.intermediate;
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
            gate_up: backend.buffer(rows, 2 * config.intermediate, Stream)?,
            activated: backend.buffer(rows, config.intermediate, Operand)?,
            delta: backend.buffer(rows, config.hidden, Stream)?,
            picked_normed: backend.buffer(answers, config.hidden, Operand)?,
            logits: backend.buffer(answers, config.vocab, Stream)?,
        })
    }
}
