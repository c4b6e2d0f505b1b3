//! `config.json` of a Qwen3 or Qwen3.5 model, checked and reduced to what is computed.
//!
//! Main type: [`Config`]. A file that asks for something this engine does not compute (another
//! architecture, another RoPE, sliding windows, quantised weights) is refused by name: a model served almost right
//! is worse than none. `generation_config.json` is read beside it, in `generation`. Refuses to know: weights,
//! tokens as text.

pub mod experts;
mod family;
mod generation;
pub mod hybrid;
pub mod rope;

use std::path::PathBuf;

use serde::Deserialize;

use super::files::{FileError, Files};
use super::request::{Sampling, ascending};
use experts::{Experts, RawExperts};
use family::Family;
use generation::Generation;
use hybrid::{DeltaShape, Hybrid, RawHybrid};
use rope::{RawRope, RopeSettings};

/// What the network computes. Sizes are counts of elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub vocab: usize,
    pub hidden: usize,
    pub layers: usize,
    /// Query heads and key/value heads; the first is a multiple of the second.
    pub heads: usize,
    pub kv_heads: usize,
    /// Independent of `hidden / heads`; even.
    pub head_dim: usize,
    pub intermediate: usize,
    pub max_positions: usize,
    pub rope: RopeSettings,
    /// Leading elements of a head that are turned by its position; even.
    pub rotary_dim: usize,
    pub norm_eps: f32,
    pub tied: bool,
    pub attention_bias: bool,
    /// End-of-sequence ids, ascending, without repeats.
    pub eos: Vec<u32>,
    /// How the model's authors would have tokens chosen where a request says nothing.
    pub sampling: Sampling,
    /// Of the Qwen3.5 class: its norms multiply by 1 + weight, and its attention's output has a gate.
    pub hybrid: Option<Hybrid>,
    pub experts: Option<Experts>,
}

/// What the least time for a token follows from, as counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelShape {
    pub hidden: usize,
    /// Layers that attend, and their heads.
    pub attention_layers: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    /// Numbers in the layers' matrices that a token is multiplied by: of experts, those that it takes.
    pub layer_numbers: usize,
    /// Numbers of a sequence's recurrent state.
    pub state_numbers: usize,
}

/// A model that cannot be served as its configuration stands.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{} is not the JSON that is expected", path.display())]
    Json {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("{}: `{key}` is missing", path.display())]
    MissingKey { path: PathBuf, key: &'static str },
    #[error("{}: architecture {found} is not supported; this engine serves Qwen3 and Qwen3.5 (Qwen3ForCausalLM, Qwen3_5ForCausalLM, the text of Qwen3_5ForConditionalGeneration) and their mixtures of experts", path.display())]
    Architecture { path: PathBuf, found: String },
    #[error("{}: {what} is not supported; this engine runs hidden_act silu, plain RoPE or YaRN, and full attention or, in Qwen3.5, the gated delta rule", path.display())]
    Unsupported { path: PathBuf, what: String },
    #[error("{}: {what}", path.display())]
    Impossible { path: PathBuf, what: String },
}

#[derive(Deserialize)]
struct RawConfig {
    architectures: Option<Vec<String>>,
    model_type: Option<String>,
    vocab_size: Option<usize>,
    hidden_size: Option<usize>,
    num_hidden_layers: Option<usize>,
    num_attention_heads: Option<usize>,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    intermediate_size: Option<usize>,
    max_position_embeddings: Option<usize>,
    rope_theta: Option<f64>,
    partial_rotary_factor: Option<f64>,
    rope_parameters: Option<RawRope>,
    rope_scaling: Option<RawRope>,
    rms_norm_eps: Option<f64>,
    tie_word_embeddings: Option<bool>,
    attention_bias: Option<bool>,
    hidden_act: Option<String>,
    use_sliding_window: Option<bool>,
    sliding_window: Option<usize>,
    layer_types: Option<Vec<String>>,
    quantization_config: Option<serde_json::Value>,
    compression_config: Option<serde_json::Value>,
    mlp_bias: Option<bool>,
    use_qk_norm: Option<bool>,
    attn_logit_softcapping: Option<f64>,
    final_logit_softcapping: Option<f64>,
    eos_token_id: Option<Ids>,
    attn_output_gate: Option<bool>,
    /// Of a model that reads pictures too.
    text_config: Option<serde_json::Value>,
    #[serde(flatten)]
    hybrid: RawHybrid,
    #[serde(flatten)]
    experts: RawExperts,
}

#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum Ids {
    One(u32),
    Many(Vec<u32>),
}

/// The most numbers that one product of sizes may come to: beyond any machine, and far enough below the
/// end of `usize` that a few bytes for each and some rows of them still fit.
const MOST_NUMBERS: usize = 1 << 48;

const CONFIG: &str = "config.json";
/// Written by the tools of GPTQ and AWQ beside a quantised model.
const QUANTISED: &str = "quantize_config.json";

impl Config {
    pub fn load(files: &Files) -> Result<Self, ConfigError> {
        let raw: RawConfig = parse(files, CONFIG)?;
        let path = files.path(CONFIG);
        let family = family::of(raw.architectures.as_deref(), raw.model_type.as_deref()).map_err(
            |found| ConfigError::Architecture {
                path: path.clone(),
                found,
            },
        )?;
        let raw = match family.text {
            Some(text) => text_of(raw, text, &path)?,
            None => raw,
        };
        refuse_unsupported(family, &raw, &path)?;
        if files.has(QUANTISED) {
            return Err(ConfigError::Unsupported {
                path: files.path(QUANTISED),
                what: "quantization".to_owned(),
            });
        }
        let generation = Generation::load(files)?;
        let config = assemble(family, raw, generation, &path)?;
        check_shape(&config, &path)?;
        Ok(config)
    }

    /// Bytes of keys and values that one token leaves in the cache, at `element` bytes a number (8 at the
    /// most). [`Config::load`] refuses a model for which this would overflow.
    pub fn kv_bytes_per_token(&self, element: usize) -> usize {
        2 * self.attention_layers() * self.kv_heads * self.head_dim * element
    }

    /// Layers that keep keys and values; the others keep a state.
    pub fn attention_layers(&self) -> usize {
        self.layers - self.delta().map_or(0, |delta| delta.layers)
    }

    /// Bytes of a sequence's recurrent state, which is in f32 whatever the weights are in. `by_value_head`: as a GPU keeps it.
    pub fn state_bytes(&self, by_value_head: bool) -> usize {
        let numbers = |delta: &DeltaShape| match by_value_head {
            true => delta.layers.saturating_mul(delta.numbers_by_value_head()),
            false => delta.state_numbers(),
        };
        let numbers = self.delta().map_or(0, numbers);
        numbers.saturating_mul(size_of::<f32>())
    }

    pub fn shape(&self) -> ModelShape {
        ModelShape {
            hidden: self.hidden,
            attention_layers: self.attention_layers(),
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            layer_numbers: self.layer_numbers(),
            state_numbers: self.delta().map_or(0, DeltaShape::state_numbers),
        }
    }

    fn delta(&self) -> Option<&DeltaShape> {
        self.hybrid.as_ref().map(|hybrid| &hybrid.delta)
    }

    /// Layers that have experts.
    fn sparse_layers(&self) -> usize {
        let experts = self.experts.as_ref();
        experts.map_or(0, |it| it.sparse.iter().filter(|sparse| **sparse).count())
    }

    fn layer_numbers(&self) -> usize {
        let (h, sparse) = (self.hidden, self.sparse_layers());
        let gates = if self.hybrid.is_some() { self.heads } else { 0 };
        let attention = h * (2 * self.heads + 2 * self.kv_heads + gates) * self.head_dim;
        let recurrent = self.delta().map_or(0, |delta| {
            delta.layers * h * (delta.projected_cols() + delta.value_cols())
        });
        let taken = self
            .experts
            .as_ref()
            .map_or(0, |it| sparse * it.taken_numbers(h));
        let dense = (self.layers - sparse) * 3 * h * self.intermediate;
        self.attention_layers() * attention + recurrent + taken + dense
    }

    /// Numbers in the weights; tied embeddings count once.
    pub fn parameters(&self) -> usize {
        let (h, d) = (self.hidden, self.head_dim);
        let heads = self.heads + 2 * self.kv_heads;
        let bias = if self.attention_bias {
            heads * d + h
        } else {
            0
        };
        let gate = if self.hybrid.is_some() {
            self.heads * d * h
        } else {
            0
        };
        let attention = h * heads * d + self.heads * d * h + gate + 2 * d + bias;
        let recurrent = self
            .delta()
            .map_or(0, |delta| delta.layers * delta.parameters(h));
        let mixers = self.attention_layers() * attention + recurrent;
        let tables = if self.tied { 1 } else { 2 };
        let sparse = self.sparse_layers();
        let of_experts = self
            .experts
            .as_ref()
            .map_or(0, |it| sparse * it.parameters(h));
        let mlps = of_experts + (self.layers - sparse) * 3 * h * self.intermediate;
        tables * self.vocab * h + mixers + mlps + self.layers * 2 * h + h
    }

    /// The largest products that loading and computing form, in numbers: each must leave room for a
    /// factor of bytes and rows.
    fn products(&self) -> [(&'static str, Option<usize>); 7] {
        let product = |factors: &[usize]| {
            factors
                .iter()
                .try_fold(1usize, |product, factor| product.checked_mul(*factor))
        };
        let heads = self.heads + 2 * self.kv_heads;
        let delta = self.delta();
        let of_delta = |factors: [usize; 4]| delta.map_or(Some(0), |_| product(&factors));
        let (layers, value_heads, key_dim, value_dim) = delta.map_or((0, 0, 0, 0), |delta| {
            (
                delta.layers,
                delta.value_heads,
                delta.key_dim,
                delta.value_dim,
            )
        });
        let (experts, size) = self.experts.as_ref().map_or((0, 0), |it| {
            (it.count, it.intermediate.max(it.shared.unwrap_or(0)))
        });
        [
            (
                "the experts' projections",
                product(&[2 * self.hidden, experts, size, self.layers]),
            ),
            (
                "the convolutions' inputs",
                delta.map_or(Some(0), |it| product(&[layers, it.taps, it.channels()])),
            ),
            (
                "a sequence's recurrent state",
                of_delta([layers, value_heads, key_dim, value_dim]),
            ),
            (
                "the recurrent layers' projections",
                of_delta([4 * self.hidden, value_heads, key_dim.max(value_dim), 1]),
            ),
            (
                "keys and values of a token",
                product(&[2, self.layers, self.kv_heads, self.head_dim]),
            ),
            (
                "attention's projections",
                product(&[heads, self.head_dim, self.hidden]),
            ),
            (
                "the MLP's projections",
                product(&[2, self.intermediate, self.hidden]),
            ),
        ]
    }
}

fn parse<T: serde::de::DeserializeOwned>(files: &Files, name: &str) -> Result<T, ConfigError> {
    let bytes = files.read(name)?;
    serde_json::from_slice(&bytes).map_err(|source| ConfigError::Json {
        path: files.path(name),
        source,
    })
}

/// The text's part of a configuration with pictures. What the whole says of tied embeddings and of the end holds for it too.
fn text_of(raw: RawConfig, wanted: &str, path: &std::path::Path) -> Result<RawConfig, ConfigError> {
    let text = raw.text_config.ok_or_else(|| ConfigError::MissingKey {
        path: path.to_path_buf(),
        key: "text_config",
    })?;
    let text: RawConfig = serde_json::from_value(text).map_err(|source| ConfigError::Json {
        path: path.to_path_buf(),
        source,
    })?;
    if let Some(kind) = text.model_type.as_ref().filter(|kind| *kind != wanted) {
        return Err(ConfigError::Architecture {
            path: path.to_path_buf(),
            found: format!("a model with pictures and a text_config of model_type {kind}"),
        });
    }
    Ok(RawConfig {
        // As in transformers, which does not look at the text's own.
        tie_word_embeddings: raw.tie_word_embeddings,
        eos_token_id: raw.eos_token_id.or(text.eos_token_id),
        quantization_config: raw.quantization_config.or(text.quantization_config),
        compression_config: raw.compression_config.or(text.compression_config),
        ..text
    })
}

fn refuse_unsupported(
    family: Family,
    raw: &RawConfig,
    path: &std::path::Path,
) -> Result<(), ConfigError> {
    let unsupported = |what: String| {
        Err(ConfigError::Unsupported {
            path: path.to_path_buf(),
            what,
        })
    };
    if let Some(what) = not_computed(family, raw) {
        return unsupported(what);
    }
    match raw.hidden_act.as_deref() {
        None | Some("silu") => Ok(()),
        Some(other) => unsupported(format!("hidden_act `{other}`")),
    }
}

/// What a configuration of the right architecture may ask for that is not computed here.
fn not_computed(family: Family, raw: &RawConfig) -> Option<String> {
    let slides = raw.use_sliding_window.unwrap_or(false) && raw.sliding_window.is_some();
    let is_hybrid = family.hybrid;
    let mut kinds = raw.layer_types.iter().flatten();
    let other =
        kinds.find(|kind| *kind != "full_attention" && !(is_hybrid && *kind == "linear_attention"));
    let is_quantised = raw.quantization_config.is_some() || raw.compression_config.is_some();
    let caps = raw.attn_logit_softcapping.or(raw.final_logit_softcapping);
    let found = [
        (slides, "sliding-window attention"),
        (
            !family.experts && raw.experts.are_named(),
            "a mixture of experts in a model of this class",
        ),
        (is_quantised, "quantization"),
        (raw.mlp_bias == Some(true), "mlp_bias = true"),
        (raw.use_qk_norm == Some(false), "use_qk_norm = false"),
        (caps.is_some(), "a soft cap on logits"),
        (
            raw.attn_output_gate == Some(!is_hybrid),
            "attention with an output gate that the model's class does not have",
        ),
    ];
    let found = found.into_iter().find(|(is_asked, _)| *is_asked);
    match (other, found) {
        (Some(kind), _) if kind == "sliding_attention" => {
            Some("sliding-window attention".to_owned())
        }
        (Some(kind), _) => Some(format!("a layer of type `{kind}`")),
        (None, found) => found.map(|(_, what)| what.to_owned()),
    }
}

fn assemble(
    family: Family,
    raw: RawConfig,
    generation: Generation,
    path: &std::path::Path,
) -> Result<Config, ConfigError> {
    let need = |value: Option<usize>, key: &'static str| {
        value.ok_or_else(|| ConfigError::MissingKey {
            path: path.to_path_buf(),
            key,
        })
    };
    let hidden = need(raw.hidden_size, "hidden_size")?;
    let heads = need(raw.num_attention_heads, "num_attention_heads")?;
    let max_positions = need(raw.max_position_embeddings, "max_position_embeddings")?;
    let places = [&raw.rope_parameters, &raw.rope_scaling];
    let rope = rope::read(&places, rope_theta(&raw, path)?, max_positions).map_err(|what| {
        ConfigError::Unsupported {
            path: path.to_path_buf(),
            what,
        }
    })?;
    let layers = need(raw.num_hidden_layers, "num_hidden_layers")?;
    if let Some(kinds) = raw
        .layer_types
        .as_ref()
        .filter(|kinds| kinds.len() != layers)
    {
        return Err(ConfigError::Impossible {
            path: path.to_path_buf(),
            what: format!(
                "`layer_types` has {} entries for `num_hidden_layers` = {layers}",
                kinds.len()
            ),
        });
    }
    let unsupported = |what: String| ConfigError::Unsupported {
        path: path.to_path_buf(),
        what,
    };
    let norm_eps = raw.rms_norm_eps.unwrap_or(1e-6) as f32;
    let hybrid = match family.hybrid {
        false => None,
        true => {
            let kinds = raw.layer_types.as_deref();
            let tensors = match family.text {
                Some(_) => "model.language_model.",
                None => "model.",
            };
            let hybrid = raw.hybrid.read(kinds, layers, norm_eps, tensors);
            Some(hybrid.map_err(unsupported)?)
        }
    };
    let experts = match family.experts {
        false => None,
        true => {
            let experts = raw.experts.read(layers, family.hybrid);
            Some(experts.map_err(unsupported)?)
        }
    };
    // Where every layer has experts, there is no other MLP.
    let sparse = experts
        .as_ref()
        .filter(|it| it.sparse.iter().all(|sparse| *sparse));
    let intermediate = match sparse {
        Some(experts) => experts.intermediate,
        None => need(raw.intermediate_size, "intermediate_size")?,
    };
    let head_dim = raw
        .head_dim
        .unwrap_or(hidden.checked_div(heads).unwrap_or(0));
    let rotary_dim = rotary_dim(family, &raw, head_dim).map_err(unsupported)?;
    Ok(Config {
        hybrid,
        experts,
        rotary_dim,
        vocab: need(raw.vocab_size, "vocab_size")?,
        hidden,
        layers,
        heads,
        kv_heads: raw.num_key_value_heads.unwrap_or(heads),
        head_dim,
        intermediate,
        max_positions: max_positions.max(rope.reach().unwrap_or(0)),
        rope,
        norm_eps,
        tied: raw.tie_word_embeddings.unwrap_or(false),
        attention_bias: raw.attention_bias.unwrap_or(false),
        sampling: generation.sampling(),
        eos: eos_ids(generation.eos_token_id.or(raw.eos_token_id)),
    })
}

/// The base of the rotary embedding's wavelengths. A config may give it in three places. transformers 4 reads one of them
/// and transformers 5 another, so two different values are refused.
fn rope_theta(raw: &RawConfig, path: &std::path::Path) -> Result<f64, ConfigError> {
    let of = |rope: &Option<RawRope>| rope.as_ref().and_then(|rope| rope.rope_theta);
    let places = [
        ("rope_theta", raw.rope_theta),
        ("rope_parameters.rope_theta", of(&raw.rope_parameters)),
        ("rope_scaling.rope_theta", of(&raw.rope_scaling)),
    ];
    let mut found = places
        .into_iter()
        .filter_map(|(key, theta)| Some((key, theta?)));
    let (key, theta) = found.next().ok_or_else(|| ConfigError::MissingKey {
        path: path.to_path_buf(),
        key: "rope_theta",
    })?;
    match found.find(|(_, other)| other.to_bits() != theta.to_bits()) {
        None => Ok(theta),
        Some((other_key, other)) => Err(ConfigError::Impossible {
            path: path.to_path_buf(),
            what: format!(
                "`{key}` = {theta} and `{other_key}` = {other} contradict each other; remove the wrong one"
            ),
        }),
    }
}

/// How much of a head is turned: all of it, or the share that the configuration gives (a quarter, in Qwen3.5).
fn rotary_dim(family: Family, raw: &RawConfig, head_dim: usize) -> Result<usize, String> {
    let of = |rope: &Option<RawRope>| rope.as_ref().and_then(|rope| rope.partial_rotary_factor);
    let places = [
        of(&raw.rope_parameters),
        of(&raw.rope_scaling),
        raw.partial_rotary_factor,
    ];
    let mut stated = places.into_iter().flatten();
    let first = stated.next();
    if let Some(other) =
        stated.find(|other| first.is_some_and(|it| it.to_bits() != other.to_bits()))
    {
        return Err(format!(
            "two values of partial_rotary_factor ({first:?} and {other})"
        ));
    }
    let factor = first.unwrap_or(if family.hybrid { 0.25 } else { 1.0 });
    let is_whole = (factor - 1.0).abs() < f64::EPSILON;
    if is_whole {
        return Ok(head_dim);
    }
    let turned = (head_dim as f64 * factor) as usize;
    let is_sound = factor > 0.0 && factor < 1.0 && turned >= 2 && turned.is_multiple_of(2);
    match is_sound && family.hybrid {
        true => Ok(turned),
        false => Err(format!(
            "partial_rotary_factor = {factor} with head_dim = {head_dim}"
        )),
    }
}

/// generation_config.json has the last word, as in transformers.
fn eos_ids(ids: Option<Ids>) -> Vec<u32> {
    match ids {
        None => Vec::new(),
        Some(Ids::One(id)) => vec![id],
        Some(Ids::Many(ids)) => ascending(ids),
    }
}

fn check_shape(config: &Config, path: &std::path::Path) -> Result<(), ConfigError> {
    let impossible = |what: String| {
        Err(ConfigError::Impossible {
            path: path.to_path_buf(),
            what,
        })
    };
    let sizes = [
        ("vocab_size", config.vocab),
        ("hidden_size", config.hidden),
        ("num_hidden_layers", config.layers),
        ("num_attention_heads", config.heads),
        ("num_key_value_heads", config.kv_heads),
        ("head_dim", config.head_dim),
        ("intermediate_size", config.intermediate),
        ("max_position_embeddings", config.max_positions),
    ];
    for (key, size) in sizes {
        if size == 0 || size > u32::MAX as usize {
            return impossible(format!("`{key}` = {size} is out of range"));
        }
    }
    for (what, product) in config.products() {
        if product.is_none_or(|product| product > MOST_NUMBERS) {
            return impossible(format!("{what} would be more numbers than can be held"));
        }
    }
    if !config.heads.is_multiple_of(config.kv_heads) {
        let (heads, kv_heads) = (config.heads, config.kv_heads);
        return impossible(format!(
            "num_attention_heads = {heads} is not a multiple of num_key_value_heads = {kv_heads}"
        ));
    }
    if config.attention_layers() == 0 {
        return impossible("`layer_types` has no full_attention".to_owned());
    }
    if !config.head_dim.is_multiple_of(2) {
        return impossible(format!(
            "head_dim = {} is odd; RoPE turns pairs",
            config.head_dim
        ));
    }
    if let Some(id) = config.eos.iter().find(|id| **id as usize >= config.vocab) {
        return impossible(format!(
            "eos_token_id {id} is outside the vocabulary of {}",
            config.vocab
        ));
    }
    let theta = config.rope.theta;
    if !(theta.is_finite() && theta > 0.0) {
        return impossible(format!("rope_theta = {theta} is not positive"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
