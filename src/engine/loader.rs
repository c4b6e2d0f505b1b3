//! A model's weights by name: read and uploaded, or made on the backend.
//!
//! Main types: [`Weights`], the source of the tensors, and [`Loader`], which uploads them.

use super::backend::{Backend, BackendError};
use super::config::Config;
use super::synthetic::Synthetic;
use super::weights::{Checkpoint, Dtype, Tensor, WeightError};
use crate::splitmix;
use std::collections::HashSet;

/// Of synthetic matrices, as `initializer_range` in Qwen3's configurations.
const DEVIATION: f32 = 0.02;

pub struct Loader<'a, B: Backend> {
    backend: &'a mut B,
    weights: &'a Weights,
    parameters: u64,
    dtype: &'static str,
    /// Synthetic matrices so far: each has numbers of its own.
    made: u64,
    /// Stored tensors that were uploaded.
    read: HashSet<String>,
}

impl<'a, B: Backend> Loader<'a, B> {
    pub fn new(backend: &'a mut B, weights: &'a Weights) -> Self {
        Self {
            backend,
            weights,
            parameters: 0,
            dtype: "f32",
            made: 0,
            read: HashSet::new(),
        }
    }

    pub fn facts(&self, config: &Config) -> WeightFacts {
        WeightFacts {
            parameters: self.parameters,
            dtype: self.dtype,
            unread: self.unread(config),
        }
    }

    /// Copies of what is computed anyway are nobody's loss: the output's matrix of a model that ties it to the embeddings,
    /// and RoPE's frequencies.
    fn unread(&self, config: &Config) -> Vec<String> {
        let Weights::Stored(checkpoint) = self.weights else {
            return Vec::new();
        };
        let is_copy = |name: &str| {
            (config.tied && name == "lm_head.weight") || name.ends_with("rotary_emb.inv_freq")
        };
        let mut names = checkpoint.names();
        names.retain(|name| !self.read.contains(name) && !is_copy(name));
        names
    }

    /// A synthetic model is chosen by its size alone, and filling memory that there is not ends in the
    /// process being killed without a word.
    pub fn refuse_too_large(&self, bytes: usize) -> Result<(), WeightError> {
        let (Weights::Synthetic(model), Some(free)) = (self.weights, self.backend.free_bytes())
        else {
            return Ok(());
        };
        if bytes <= free {
            return Ok(());
        }
        Err(WeightError::TooLarge {
            model: model.name(),
            place: self.backend.name(),
            bytes,
            free,
        })
    }

    pub fn layer(&mut self, layer: usize, config: &Config) -> Result<Layer<B>, WeightError> {
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

    pub fn matrix(
        &mut self,
        name: &str,
        rows: usize,
        cols: usize,
    ) -> Result<B::Weight, WeightError> {
        self.matrices(&[(name.to_owned(), rows, cols)])
    }

    fn matrices(&mut self, parts: &[(String, usize, usize)]) -> Result<B::Weight, WeightError> {
        let Weights::Stored(checkpoint) = self.weights else {
            return self.random(parts);
        };
        let tensors = parts
            .iter()
            .map(|(name, rows, cols)| checkpoint.matrix(name, *rows, *cols))
            .collect::<Result<Vec<_>, _>>()?;
        self.read
            .extend(parts.iter().map(|(name, ..)| name.clone()));
        self.count(&tensors);
        let uploaded = self.backend.upload(&tensors);
        uploaded.map_err(|cause| upload_error(&parts[0].0, &cause))
    }

    fn random(&mut self, parts: &[(String, usize, usize)]) -> Result<B::Weight, WeightError> {
        let rows = parts.iter().map(|(_, rows, _)| rows).sum();
        let (name, _, cols) = &parts[0];
        self.made += 1;
        self.parameters += (rows * cols) as u64;
        self.dtype = "bf16";
        let seed = splitmix::mix(self.made);
        let made = self.backend.random(rows, *cols, DEVIATION, seed);
        made.map_err(|cause| upload_error(name, &cause))
    }

    pub fn vector(&mut self, name: &str, length: usize) -> Result<B::Vector, WeightError> {
        self.vectors(&[(name.to_owned(), length)])
    }

    /// A synthetic model's vectors are weights of norms, since Qwen3 has no biases: all of them 1.
    fn vectors(&mut self, parts: &[(String, usize)]) -> Result<B::Vector, WeightError> {
        let failed = |cause: BackendError| upload_error(&parts[0].0, &cause);
        let Weights::Stored(checkpoint) = self.weights else {
            let length = parts.iter().map(|(_, length)| length).sum();
            self.parameters += length as u64;
            return self.backend.constant(length, 1.0).map_err(failed);
        };
        let tensors = parts
            .iter()
            .map(|(name, length)| checkpoint.vector(name, *length))
            .collect::<Result<Vec<_>, _>>()?;
        self.read.extend(parts.iter().map(|(name, _)| name.clone()));
        self.count(&tensors);
        self.backend.upload_vector(&tensors).map_err(failed)
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

pub fn upload_error(tensor: &str, cause: &BackendError) -> WeightError {
    WeightError::Upload {
        tensor: tensor.to_owned(),
        cause: cause.to_string(),
    }
}

/// Facts found while the weights are uploaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightFacts {
    pub parameters: u64,
    pub dtype: &'static str,
    /// Stored tensors that nothing is computed from, ascending.
    pub unread: Vec<String>,
}

pub struct Layer<B: Backend> {
    pub attention_norm: B::Vector,
    /// q, k and v stacked: `[(H + 2K) d, h]`.
    pub qkv: B::Weight,
    pub qkv_bias: Option<B::Vector>,
    pub q_norm: B::Vector,
    pub k_norm: B::Vector,
    pub output: B::Weight,
    pub output_bias: Option<B::Vector>,
    pub mlp_norm: B::Vector,
    /// gate and up stacked: `[2m, h]`.
    pub gate_up: B::Weight,
    pub down: B::Weight,
}

/// Where a model's weights come from.
pub enum Weights {
    Stored(Checkpoint),
    Synthetic(SyntheticWeights),
}

/// Weights that are made when they are asked for.
pub struct SyntheticWeights {
    model: Synthetic,
    parameters: usize,
}

impl SyntheticWeights {
    pub fn new(model: Synthetic, config: &Config) -> Self {
        Self {
            model,
            parameters: config.parameters(),
        }
    }

    pub fn name(&self) -> &'static str {
        self.model.name()
    }
}

impl Weights {
    /// Name of the start-up stage that uploads them.
    pub fn stage(&self) -> &'static str {
        match self {
            Self::Stored(_) => "weights_upload",
            Self::Synthetic(_) => "weights_made",
        }
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Stored(checkpoint) => checkpoint.bytes(),
            Self::Synthetic(weights) => weights.parameters * Dtype::Bf16.bytes(),
        }
    }

    /// Type of the matrices; f32 if they are stored in more than one type.
    pub fn dtype(&self) -> Dtype {
        match self {
            Self::Stored(checkpoint) => checkpoint.dtype(),
            Self::Synthetic(_) => Dtype::Bf16,
        }
    }
}
