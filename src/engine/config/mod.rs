//! `config.json` of a Qwen3 model, checked and reduced to what is computed.
//!
//! Main type: [`Config`]. A file that asks for something this engine does not compute (another
//! architecture, another RoPE, sliding windows, experts) is refused by name: a model served almost right
//! is worse than none. `generation_config.json` is read beside it, in `generation`. Refuses to know: weights,
//! tokens as text.

mod generation;
pub mod rope;

use std::path::PathBuf;

use serde::Deserialize;

use super::files::{FileError, Files};
use super::request::{Sampling, ascending};
use generation::Generation;
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
    pub norm_eps: f32,
    pub tied: bool,
    pub attention_bias: bool,
    /// End-of-sequence ids, ascending, without repeats.
    pub eos: Vec<u32>,
    /// How the model's authors would have tokens chosen where a request says nothing.
    pub sampling: Sampling,
}

/// A model's sizes, as counts of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelShape {
    pub hidden: usize,
    pub layers: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub intermediate: usize,
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
    #[error("{}: architecture {found} is not supported; this engine serves Qwen3ForCausalLM", path.display())]
    Architecture { path: PathBuf, found: String },
    #[error("{}: {what} is not supported; this engine runs hidden_act silu, plain RoPE or YaRN, full attention and dense MLPs", path.display())]
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
    rope_parameters: Option<RawRope>,
    rope_scaling: Option<RawRope>,
    rms_norm_eps: Option<f64>,
    tie_word_embeddings: Option<bool>,
    attention_bias: Option<bool>,
    hidden_act: Option<String>,
    use_sliding_window: Option<bool>,
    sliding_window: Option<usize>,
    layer_types: Option<Vec<String>>,
    num_experts: Option<usize>,
    quantization_config: Option<serde_json::Value>,
    compression_config: Option<serde_json::Value>,
    mlp_bias: Option<bool>,
    use_qk_norm: Option<bool>,
    attn_logit_softcapping: Option<f64>,
    final_logit_softcapping: Option<f64>,
    eos_token_id: Option<Ids>,
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
        refuse_unsupported(&raw, &path)?;
        if files.has(QUANTISED) {
            return Err(ConfigError::Unsupported {
                path: files.path(QUANTISED),
                what: "quantization".to_owned(),
            });
        }
        let generation = Generation::load(files)?;
        let config = assemble(raw, generation, &path)?;
        check_shape(&config, &path)?;
        Ok(config)
    }

    /// Bytes of keys and values that one token leaves in the cache, at `element` bytes a number (8 at the
    /// most). [`Config::load`] refuses a model for which this would overflow.
    pub fn kv_bytes_per_token(&self, element: usize) -> usize {
        2 * self.layers * self.kv_heads * self.head_dim * element
    }

    pub fn shape(&self) -> ModelShape {
        ModelShape {
            hidden: self.hidden,
            layers: self.layers,
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            intermediate: self.intermediate,
        }
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
        let attention = h * heads * d + self.heads * d * h + 2 * d + bias;
        let layer = attention + 3 * h * self.intermediate + 2 * h;
        let tables = if self.tied { 1 } else { 2 };
        tables * self.vocab * h + self.layers * layer + h
    }

    /// The largest products that loading and computing form, in numbers: each must leave room for a
    /// factor of bytes and rows.
    fn products(&self) -> [(&'static str, Option<usize>); 3] {
        let product = |factors: &[usize]| {
            factors
                .iter()
                .try_fold(1usize, |product, factor| product.checked_mul(*factor))
        };
        let heads = self.heads + 2 * self.kv_heads;
        [
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

fn refuse_unsupported(raw: &RawConfig, path: &std::path::Path) -> Result<(), ConfigError> {
    let unsupported = |what: String| {
        Err(ConfigError::Unsupported {
            path: path.to_path_buf(),
            what,
        })
    };
    let architecture = match (&raw.architectures, &raw.model_type) {
        (Some(list), Some(kind)) if *list == ["Qwen3ForCausalLM"] && kind != "qwen3" => {
            format!("Qwen3ForCausalLM of model_type {kind}")
        }
        (Some(list), _) if !list.is_empty() => list.join(", "),
        (_, Some(kind)) if kind == "qwen3" => "Qwen3ForCausalLM".to_owned(),
        (_, kind) => kind.clone().unwrap_or_else(|| "(none named)".to_owned()),
    };
    if architecture != "Qwen3ForCausalLM" {
        return Err(ConfigError::Architecture {
            path: path.to_path_buf(),
            found: architecture,
        });
    }
    if let Some(what) = beyond_qwen3(raw) {
        return unsupported(what);
    }
    match raw.hidden_act.as_deref() {
        None | Some("silu") => Ok(()),
        Some(other) => unsupported(format!("hidden_act `{other}`")),
    }
}

/// What a configuration of the right architecture may ask for that is not computed here.
fn beyond_qwen3(raw: &RawConfig) -> Option<String> {
    let slides = raw.use_sliding_window.unwrap_or(false) && raw.sliding_window.is_some();
    let mut kinds = raw.layer_types.iter().flatten();
    let other = kinds.find(|kind| *kind != "full_attention");
    let is_quantised = raw.quantization_config.is_some() || raw.compression_config.is_some();
    let caps = raw.attn_logit_softcapping.or(raw.final_logit_softcapping);
    let found = [
        (slides, "sliding-window attention"),
        (
            raw.num_experts.is_some_and(|count| count > 0),
            "a mixture of experts",
        ),
        (is_quantised, "quantization"),
        (raw.mlp_bias == Some(true), "mlp_bias = true"),
        (raw.use_qk_norm == Some(false), "use_qk_norm = false"),
        (caps.is_some(), "a soft cap on logits"),
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
    Ok(Config {
        vocab: need(raw.vocab_size, "vocab_size")?,
        hidden,
        layers,
        heads,
        kv_heads: raw.num_key_value_heads.unwrap_or(heads),
        head_dim: raw
            .head_dim
            .unwrap_or(hidden.checked_div(heads).unwrap_or(0)),
        intermediate: need(raw.intermediate_size, "intermediate_size")?,
        max_positions: max_positions.max(rope.reach().unwrap_or(0)),
        rope,
        norm_eps: raw.rms_norm_eps.unwrap_or(1e-6) as f32,
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
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn base() -> Value {
        json!({
            "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 100,
            "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 6,
            "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 96,
            "max_position_embeddings": 256, "rope_theta": 10000.0, "rms_norm_eps": 1e-6,
            "tie_word_embeddings": true, "hidden_act": "silu", "eos_token_id": 7
        })
    }

    pub fn load(
        change: impl FnOnce(&mut Value),
        generation: Option<Value>,
    ) -> Result<Config, String> {
        let directory = tempfile::tempdir().unwrap();
        let mut value = base();
        change(&mut value);
        std::fs::write(directory.path().join(CONFIG), value.to_string()).unwrap();
        if let Some(generation) = generation {
            std::fs::write(
                directory.path().join(generation::FILE),
                generation.to_string(),
            )
            .unwrap();
        }
        Config::load(&Files::Directory(directory.path().to_path_buf())).map_err(|e| e.to_string())
    }

    fn refused(change: impl FnOnce(&mut Value), message: &str) {
        let error = load(change, None).unwrap_err();
        assert!(error.contains(message), "{error:?} lacks {message:?}");
    }

    #[test]
    fn reads_both_spellings() {
        let plain = load(|_| {}, None).unwrap();
        assert_eq!((plain.heads, plain.kv_heads, plain.head_dim), (6, 2, 16));
        assert_eq!(plain.eos, [7]);
        let newer = load(
            |value| {
                value.as_object_mut().unwrap().remove("rope_theta");
                value["rope_parameters"] = json!({"rope_theta": 10000.0, "rope_type": "default"});
            },
            None,
        );
        assert_eq!(newer.unwrap(), plain);
        let both = json!({"rope_type": "default", "type": "default"});
        let both = load(|value| value["rope_scaling"] = both, None);
        assert_eq!(both.unwrap(), plain);
    }

    #[test]
    fn generation_config_has_the_last_word_on_eos() {
        let config = load(|_| {}, Some(json!({"eos_token_id": [9, 3, 9]}))).unwrap();
        assert_eq!(config.eos, [3, 9]);
        assert_eq!(load(|_| {}, Some(json!({}))).unwrap().eos, [7]);
    }

    #[test]
    fn refuses_what_it_does_not_compute() {
        refused(
            |v| v["architectures"] = json!(["LlamaForCausalLM"]),
            "LlamaForCausalLM",
        );
        refused(
            |v| v["rope_scaling"] = json!({"rope_type": "yarn"}),
            "rope type `yarn` without `factor`",
        );
        refused(
            |v| v["rope_scaling"] = json!({"type": "linear"}),
            "rope type `linear`",
        );
        refused(
            |v| v["rope_scaling"] = json!({"rope_type": "default", "type": "yarn"}),
            "both the rope types",
        );
        refused(|v| v["num_experts"] = json!(8), "mixture of experts");
        refused(|v| v["hidden_act"] = json!("gelu"), "hidden_act `gelu`");
        refused(
            |v| v["layer_types"] = json!(["sliding_attention"]),
            "sliding-window",
        );
        refused(|v| v["head_dim"] = json!(15), "head_dim = 15 is odd");
        refused(|v| v["num_key_value_heads"] = json!(4), "not a multiple");
        refused(|v| v["eos_token_id"] = json!(100), "eos_token_id 100");
        refused(
            |v| drop(v.as_object_mut().unwrap().remove("vocab_size")),
            "`vocab_size` is missing",
        );
        refused(|v| v["hidden_size"] = json!("big"), "not the JSON");
    }

    /// Each size is in range by itself; their product wraps to 0.
    #[test]
    fn refuses_sizes_whose_product_overflows() {
        refused(
            |v| {
                v["num_hidden_layers"] = json!(1 << 21);
                for key in ["num_attention_heads", "num_key_value_heads", "head_dim"] {
                    v[key] = json!(1 << 20);
                }
            },
            "keys and values of a token",
        );
        refused(
            |v| {
                v["head_dim"] = json!(u32::MAX - 1);
                v["hidden_size"] = json!(u32::MAX);
            },
            "attention's projections",
        );
        refused(
            |v| {
                v["intermediate_size"] = json!(u32::MAX);
                v["hidden_size"] = json!(u32::MAX);
                v["head_dim"] = json!(2);
            },
            "the MLP's projections",
        );
    }
}
