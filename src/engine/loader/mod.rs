//! A model's weights by name: read and uploaded, or made on the backend.
//!
//! Main types: [`Weights`], the source of the tensors, and [`Loader`], which uploads them.

use crate::backend::{Backend, BackendError, DeltaWeights, ExpertWeights};
use crate::config::Config;
use crate::splitmix;
use crate::synthetic::Synthetic;
use crate::weights::{Checkpoint, Dtype, Tensor, WeightError};
use std::collections::HashSet;

mod classes;

use classes::Head;

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
        // Pictures, and guesses of tokens ahead, are no part of the text that is served.
        let beside = |name: &str| {
            let others = ["model.visual.", "visual.", "mtp."];
            config.hybrid.is_some() && others.iter().any(|it| name.starts_with(it))
        };
        let is_copy = |name: &str| {
            (config.tied && name == "lm_head.weight")
                || name.ends_with("rotary_emb.inv_freq")
                || beside(name)
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

    /// What stands before a tensor's name without its layer: `model.`, but for models with pictures.
    fn prefix(config: &Config) -> &'static str {
        config.hybrid.as_ref().map_or("model.", |it| it.tensors)
    }

    pub fn embeddings(&mut self, config: &Config) -> Result<B::Weight, WeightError> {
        let name = format!("{}embed_tokens.weight", Self::prefix(config));
        self.matrix(&name, config.vocab, config.hidden)
    }

    pub fn final_norm(&mut self, config: &Config) -> Result<B::Vector, WeightError> {
        let name = format!("{}norm.weight", Self::prefix(config));
        self.norm(&name, config.hidden, config)
    }

    pub fn layer(&mut self, layer: usize, config: &Config) -> Result<Layer<B>, WeightError> {
        let (h, m) = (config.hidden, config.intermediate);
        let prefix = Self::prefix(config);
        let name = |part: &str| format!("{prefix}layers.{layer}.{part}.weight");
        let sparse = config.experts.as_ref().filter(|it| it.sparse[layer]);
        let recurrent = config.hybrid.as_ref().filter(|it| !it.attends[layer]);
        Ok(Layer {
            mixer_norm: self.norm(&name("input_layernorm"), h, config)?,
            mixer: match recurrent {
                None => Mixer::Attention(self.attention(layer, config)?),
                Some(hybrid) => Mixer::Delta(self.delta(layer, h, hybrid)?),
            },
            mlp_norm: self.norm(&name("post_attention_layernorm"), h, config)?,
            mlp: match sparse {
                None => {
                    let (gate_up, down) = self.mlp(&format!("{prefix}layers.{layer}.mlp"), h, m)?;
                    Mlp::Dense { gate_up, down }
                }
                Some(experts) => {
                    let prefix = format!("{prefix}layers.{layer}.mlp.");
                    Mlp::Sparse(self.experts(&prefix, h, experts)?)
                }
            },
        })
    }

    /// The stacked gate and up projections of the MLP of this name, and its down projection.
    fn mlp(
        &mut self,
        name: &str,
        hidden: usize,
        size: usize,
    ) -> Result<(B::Weight, B::Weight), WeightError> {
        let part = |part: &str| format!("{name}.{part}.weight");
        let gate_up = ["gate_proj", "up_proj"].map(|it| (part(it), size, hidden));
        Ok((
            self.matrices(&gate_up)?,
            self.matrix(&part("down_proj"), hidden, size)?,
        ))
    }

    fn attention(&mut self, layer: usize, config: &Config) -> Result<Attention<B>, WeightError> {
        let (h, d) = (config.hidden, config.head_dim);
        let (q_rows, kv_rows) = (config.heads * d, config.kv_heads * d);
        let prefix = Self::prefix(config);
        let name =
            |part: &str, kind: &str| format!("{prefix}layers.{layer}.self_attn.{part}.{kind}");
        let projections = [("q_proj", q_rows), ("k_proj", kv_rows), ("v_proj", kv_rows)];
        let weights = projections.map(|(part, rows)| (name(part, "weight"), rows, h));
        let biases = projections.map(|(part, rows)| (name(part, "bias"), rows));
        let has_bias = config.attention_bias;
        let output_bias = [(name("o_proj", "bias"), h)];
        let head = Head {
            dim: d,
            rotary_dim: config.rotary_dim,
        };
        let (qkv, qkv_bias, gate) = match config.hybrid {
            None => {
                let bias = has_bias.then(|| self.vectors(&biases)).transpose()?;
                (self.matrices(&weights)?, bias, None)
            }
            Some(_) => {
                let (qkv, weight) = self.gated_queries(&weights, config.heads, head)?;
                let biases = has_bias.then(|| self.gated_biases(&biases, config.heads, head));
                let (qkv_bias, bias) = biases.transpose()?.unzip();
                (qkv, qkv_bias, Some(OutputGate { weight, bias }))
            }
        };
        Ok(Attention {
            qkv,
            qkv_bias,
            gate,
            q_norm: self.head_norm(&name("q_norm", "weight"), head, config)?,
            k_norm: self.head_norm(&name("k_norm", "weight"), head, config)?,
            output: self.matrix(&name("o_proj", "weight"), h, q_rows)?,
            output_bias: has_bias.then(|| self.vectors(&output_bias)).transpose()?,
        })
    }

    /// The factors of a norm: where the model's norms are centred at zero, 1 more than is stored.
    fn norm(
        &mut self,
        name: &str,
        length: usize,
        config: &Config,
    ) -> Result<B::Vector, WeightError> {
        match config.hybrid {
            None => self.vector(name, length),
            Some(_) => self.changed(name, &[length], centred_at_one),
        }
    }

    /// Of queries or keys.
    fn head_norm(
        &mut self,
        name: &str,
        head: Head,
        config: &Config,
    ) -> Result<B::Vector, WeightError> {
        match config.hybrid {
            None => self.vector(name, head.dim),
            Some(_) => self.changed(name, &[head.dim], |stored| {
                head.norm(&centred_at_one(stored))
            }),
        }
    }

    /// A tensor of this shape as a vector, after a change of its numbers.
    fn changed(
        &mut self,
        name: &str,
        shape: &[usize],
        change: impl FnOnce(&[f32]) -> Vec<f32>,
    ) -> Result<B::Vector, WeightError> {
        let length = shape.iter().product();
        let Weights::Stored(checkpoint) = self.weights else {
            return self.vector(name, length);
        };
        let stored = checkpoint.tensor(name, shape)?;
        self.read.insert(name.to_owned());
        self.parameters += length as u64;
        let numbers = change(&stored.widened());
        let bytes: Vec<u8> = numbers.iter().flat_map(|it| it.to_le_bytes()).collect();
        let changed = Tensor {
            dtype: Dtype::F32,
            rows: 1,
            cols: length,
            bytes: &bytes,
        };
        let uploaded = self.backend.upload_vector(&[changed]);
        uploaded.map_err(|cause| upload_error(name, &cause))
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

    /// A synthetic model's vectors are weights of norms, since Qwen3 has no biases: all of them 1. So are the few of recurrent
    /// layers, which then forget by exp(−1.3 e) a token.
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

fn centred_at_one(stored: &[f32]) -> Vec<f32> {
    stored.iter().map(|weight| 1.0 + weight).collect()
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
    pub mixer_norm: B::Vector,
    pub mixer: Mixer<B>,
    pub mlp_norm: B::Vector,
    pub mlp: Mlp<B>,
}

pub enum Mlp<B: Backend> {
    Dense {
        /// gate and up stacked: `[2m, h]`.
        gate_up: B::Weight,
        down: B::Weight,
    },
    Sparse(ExpertWeights<B::Weight>),
}

/// What takes from a row's past.
pub enum Mixer<B: Backend> {
    Attention(Attention<B>),
    Delta(DeltaRule<B>),
}

pub struct Attention<B: Backend> {
    /// q, k and v stacked: `[(H + 2K) d, h]`.
    pub qkv: B::Weight,
    pub qkv_bias: Option<B::Vector>,
    pub gate: Option<OutputGate<B>>,
    pub q_norm: B::Vector,
    pub k_norm: B::Vector,
    pub output: B::Weight,
    pub output_bias: Option<B::Vector>,
}

/// Gates of attention's output: `[H d, h]`.
pub struct OutputGate<B: Backend> {
    pub weight: B::Weight,
    pub bias: Option<B::Vector>,
}

pub struct DeltaRule<B: Backend> {
    /// q, k, v, z, b and a stacked: `[projected_cols, h]`.
    pub projections: B::Weight,
    pub weights: DeltaWeights<B::Vector>,
    /// `[h, value_cols]`
    pub output: B::Weight,
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
