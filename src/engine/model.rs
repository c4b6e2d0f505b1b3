//! The Qwen3 network, written once for every backend.
//!
//! Main type: [`Model`]: weights on the backend, scratch for one step, the KV cache, and the forward pass
//! as numbered steps. Shapes: n rows in the step, h hidden size, H query heads, K key heads, d head
//! dimension, m intermediate size, V vocabulary. Refuses to know: requests, pages' owners.

use super::backend::{Ask, AttentionShape, Backend, BackendError, Batch};
use super::config::Config;
use super::executor::{Answers, Executor, RowAsk};
use super::handle::Window;
use super::kv::Copy;
use super::weights::{Checkpoint, Tensor, WeightError};

/// Rows of logits that are computed at once: `[rows, V]` of f32 is the largest buffer of all.
const LOGIT_ROWS: usize = 16;

pub(crate) struct Model<B: Backend> {
    backend: B,
    config: Config,
    embeddings: B::Weight,
    layers: Vec<Layer<B>>,
    final_norm: B::Vector,
    /// `None`: the embeddings are the output matrix too.
    head: Option<B::Weight>,
    cache: B::Cache,
    scratch: Scratch<B>,
    max_rows: usize,
    facts: WeightFacts,
}

/// What was learnt while the weights were uploaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WeightFacts {
    pub(crate) parameters: u64,
    pub(crate) dtype: &'static str,
}

struct Layer<B: Backend> {
    attention_norm: B::Vector,
    /// q, k and v stacked: `[(H + 2K) d, h]`.
    qkv: B::Weight,
    qkv_bias: Option<B::Vector>,
    q_norm: B::Vector,
    k_norm: B::Vector,
    output: B::Weight,
    output_bias: Option<B::Vector>,
    mlp_norm: B::Vector,
    /// gate and up stacked: `[2m, h]`.
    gate_up: B::Weight,
    down: B::Weight,
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
    picked: B::Buffer,
    picked_normed: B::Buffer,
    logits: B::Buffer,
}

impl<B: Backend> Model<B> {
    /// Uploads the weights and makes room for `pages` pages and steps of `max_rows` rows.
    pub(crate) fn load(
        mut backend: B,
        config: Config,
        checkpoint: &Checkpoint,
        pages: usize,
        window: Option<Window>,
        max_rows: usize,
    ) -> Result<Self, WeightError> {
        let mut loader = Loader {
            backend: &mut backend,
            checkpoint,
            parameters: 0,
            dtype: "f32",
        };
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
        let facts = WeightFacts {
            parameters: loader.parameters,
            dtype: loader.dtype,
        };
        let shape = attention_shape(&config, pages, window);
        let no_room =
            |cause: BackendError| upload_error("(room for activations and the KV cache)", &cause);
        let cache = backend.cache(&shape).map_err(no_room)?;
        let scratch = Scratch::new(&mut backend, &config, &shape, max_rows).map_err(no_room)?;
        Ok(Self {
            backend,
            config,
            embeddings,
            layers,
            final_norm,
            head,
            cache,
            scratch,
            max_rows,
            facts,
        })
    }

    pub(crate) fn backend(&self) -> &B {
        &self.backend
    }

    pub(crate) fn facts(&self) -> &WeightFacts {
        &self.facts
    }

    /// 10. rows asked about [r, h] → final norm → logits [r, V] → answers
    fn answer(&mut self, asks: &[RowAsk<'_>]) -> Answers {
        let (backend, s, eps) = (&mut self.backend, &mut self.scratch, self.config.norm_eps);
        let rows: Vec<usize> = asks.iter().map(|ask| ask.row).collect();
        let asks: Vec<Ask<'_>> = asks.iter().map(|ask| ask.ask).collect();
        backend.take_rows(&s.stream, &rows, &mut s.picked);
        backend.rms_norm(
            rows.len(),
            &s.picked,
            &self.final_norm,
            eps,
            &mut s.picked_normed,
        );
        let head = self.head.as_ref().unwrap_or(&self.embeddings);
        backend.matmul(rows.len(), &s.picked_normed, head, None, &mut s.logits);
        backend.rank(&s.logits, &asks)
    }
}

impl<B: Backend> Executor for Model<B> {
    fn forward(&mut self, batch: &Batch<'_>, asks: &[RowAsk<'_>]) -> Result<Answers, BackendError> {
        let n = batch.tokens.len();
        debug_assert!(n <= self.max_rows);
        let (backend, s, eps) = (&mut self.backend, &mut self.scratch, self.config.norm_eps);
        backend.load_batch(batch, &self.cache)?;
        // 1. tokens [n] → stream [n, h]
        backend.embed(&self.embeddings, &mut s.stream);
        for (index, layer) in self.layers.iter().enumerate() {
            // 2. stream [n, h] → normed [n, h]
            backend.rms_norm(n, &s.stream, &layer.attention_norm, eps, &mut s.normed);
            // 3. normed [n, h] → qkv [n, (H + 2K) d]
            backend.matmul(
                n,
                &s.normed,
                &layer.qkv,
                layer.qkv_bias.as_ref(),
                &mut s.qkv,
            );
            // 4. heads of q and k normed and turned; k, v [n, K, d] into the cache's pages
            let (q_norm, k_norm) = (&layer.q_norm, &layer.k_norm);
            backend.rope_and_store(index, &mut s.qkv, q_norm, k_norm, &mut self.cache);
            // 5. q [n, H, d] over cached k, v [positions, K, d] → attended [n, H d]
            backend.attention(index, &s.qkv, &self.cache, &mut s.attended);
            // 6. attended [n, H d] → delta [n, h], added to the stream
            let bias = layer.output_bias.as_ref();
            backend.matmul(n, &s.attended, &layer.output, bias, &mut s.delta);
            backend.add(n, &mut s.stream, &s.delta);
            // 7. stream [n, h] → normed [n, h]
            backend.rms_norm(n, &s.stream, &layer.mlp_norm, eps, &mut s.normed);
            // 8. normed [n, h] → gate, up [n, 2m] → activated [n, m]
            backend.matmul(n, &s.normed, &layer.gate_up, None, &mut s.gate_up);
            backend.swiglu(n, &s.gate_up, &mut s.activated);
            // 9. activated [n, m] → delta [n, h], added to the stream
            backend.matmul(n, &s.activated, &layer.down, None, &mut s.delta);
            backend.add(n, &mut s.stream, &s.delta);
        }
        Ok(asks
            .chunks(LOGIT_ROWS)
            .flat_map(|asks| self.answer(asks))
            .collect())
    }

    fn copy_page(&mut self, copy: Copy) {
        self.backend.copy_page(copy.from, copy.to, &mut self.cache);
    }
}

fn attention_shape(config: &Config, pages: usize, window: Option<Window>) -> AttentionShape {
    AttentionShape {
        layers: config.layers,
        heads: config.heads,
        kv_heads: config.kv_heads,
        head_dim: config.head_dim,
        rope_theta: config.rope_theta,
        norm_eps: config.norm_eps,
        pages,
        window,
    }
}

/// Bytes that the activations of steps of `rows` rows take, in f32.
pub(crate) fn scratch_bytes(config: &Config, rows: usize, window: Option<Window>) -> usize {
    let shape = attention_shape(config, 0, window);
    // Queries are kept a second time, as they see the sink.
    let queries = if window.is_some() { 2 } else { 1 } * shape.q_cols();
    let of_a_row = 3 * config.hidden + shape.qkv_cols() + queries + 3 * config.intermediate;
    let of_an_answer = 2 * config.hidden + config.vocab;
    (rows * of_a_row + LOGIT_ROWS * of_an_answer) * size_of::<f32>()
}

impl<B: Backend> Scratch<B> {
    fn new(
        backend: &mut B,
        config: &Config,
        shape: &AttentionShape,
        rows: usize,
    ) -> Result<Self, BackendError> {
        Ok(Self {
            stream: backend.buffer(rows, config.hidden)?,
            normed: backend.buffer(rows, config.hidden)?,
            qkv: backend.buffer(rows, shape.qkv_cols())?,
            attended: backend.buffer(rows, shape.q_cols())?,
            gate_up: backend.buffer(rows, 2 * config.intermediate)?,
            activated: backend.buffer(rows, config.intermediate)?,
            delta: backend.buffer(rows, config.hidden)?,
            picked: backend.buffer(LOGIT_ROWS, config.hidden)?,
            picked_normed: backend.buffer(LOGIT_ROWS, config.hidden)?,
            logits: backend.buffer(LOGIT_ROWS, config.vocab)?,
        })
    }
}

/// Reads tensors by name and uploads them.
struct Loader<'a, B: Backend> {
    backend: &'a mut B,
    checkpoint: &'a Checkpoint,
    parameters: u64,
    dtype: &'static str,
}

impl<B: Backend> Loader<'_, B> {
    fn layer(&mut self, layer: usize, config: &Config) -> Result<Layer<B>, WeightError> {
        let (h, d, m) = (config.hidden, config.head_dim, config.intermediate);
        let (q_rows, kv_rows) = (config.heads * d, config.kv_heads * d);
        let name = |part: &str, kind: &str| format!("model.layers.{layer}.{part}.{kind}");
        let projections = [
            ("self_attn.q_proj", q_rows),
            ("self_attn.k_proj", kv_rows),
            ("self_attn.v_proj", kv_rows),
        ];
        let weights = projections.map(|(part, rows)| (name(part, "weight"), rows, h));
        let biases = projections.map(|(part, rows)| (name(part, "bias"), rows));
        let gate_up = ["mlp.gate_proj", "mlp.up_proj"].map(|part| (name(part, "weight"), m, h));
        let bias = config.attention_bias;
        let output_bias = [(name("self_attn.o_proj", "bias"), h)];
        Ok(Layer {
            attention_norm: self.vector(&name("input_layernorm", "weight"), h)?,
            qkv: self.matrices(&weights)?,
            qkv_bias: if bias {
                Some(self.vectors(&biases)?)
            } else {
                None
            },
            q_norm: self.vector(&name("self_attn.q_norm", "weight"), d)?,
            k_norm: self.vector(&name("self_attn.k_norm", "weight"), d)?,
            output: self.matrix(&name("self_attn.o_proj", "weight"), h, q_rows)?,
            output_bias: if bias {
                Some(self.vectors(&output_bias)?)
            } else {
                None
            },
            mlp_norm: self.vector(&name("post_attention_layernorm", "weight"), h)?,
            gate_up: self.matrices(&gate_up)?,
            down: self.matrix(&name("mlp.down_proj", "weight"), h, m)?,
        })
    }

    fn matrix(&mut self, name: &str, rows: usize, cols: usize) -> Result<B::Weight, WeightError> {
        self.matrices(&[(name.to_owned(), rows, cols)])
    }

    fn matrices(&mut self, parts: &[(String, usize, usize)]) -> Result<B::Weight, WeightError> {
        let tensors = parts
            .iter()
            .map(|(name, rows, cols)| self.checkpoint.matrix(name, *rows, *cols))
            .collect::<Result<Vec<_>, _>>()?;
        self.count(&tensors);
        self.backend
            .upload(&tensors)
            .map_err(|cause| upload_error(&parts[0].0, &cause))
    }

    fn vector(&mut self, name: &str, length: usize) -> Result<B::Vector, WeightError> {
        self.vectors(&[(name.to_owned(), length)])
    }

    fn vectors(&mut self, parts: &[(String, usize)]) -> Result<B::Vector, WeightError> {
        let tensors = parts
            .iter()
            .map(|(name, length)| self.checkpoint.vector(name, *length))
            .collect::<Result<Vec<_>, _>>()?;
        self.count(&tensors);
        self.backend
            .upload_vector(&tensors)
            .map_err(|cause| upload_error(&parts[0].0, &cause))
    }

    /// The model's type is that of its largest tensors, of which the last uploaded matrix is one.
    fn count(&mut self, tensors: &[Tensor<'_>]) {
        for tensor in tensors {
            self.parameters += (tensor.rows * tensor.cols) as u64;
            if tensor.rows > 1 {
                self.dtype = tensor.dtype.name();
            }
        }
    }
}

fn upload_error(tensor: &str, cause: &BackendError) -> WeightError {
    WeightError::Upload {
        tensor: tensor.to_owned(),
        cause: cause.to_string(),
    }
}
