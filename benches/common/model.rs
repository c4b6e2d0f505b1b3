//! A random bf16 model of Qwen3-0.6B's shape as a Hugging Face directory.
//!
//! Main function: [`write`]. Refuses to know: who reads it.

use std::fs;
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::TensorView;

use super::Outcome;

/// Qwen3-0.6B's published configuration.
const LAYERS: usize = 28;
const HIDDEN: usize = 1024;
const HEADS: usize = 16;
const KV_HEADS: usize = 8;
const HEAD_DIM: usize = 128;
const INTERMEDIATE: usize = 3072;
const VOCAB: usize = 151_936;

/// A model directory of random bf16 weights, small enough that activations stay finite.
pub(crate) fn write(directory: &Path) -> Outcome<()> {
    let mut names: Vec<(String, Vec<usize>)> = vec![
        ("model.embed_tokens.weight".into(), vec![VOCAB, HIDDEN]),
        ("model.norm.weight".into(), vec![HIDDEN]),
    ];
    let (q, kv) = (HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM);
    for layer in 0..LAYERS {
        for (part, shape) in [
            ("input_layernorm", vec![HIDDEN]),
            ("self_attn.q_proj", vec![q, HIDDEN]),
            ("self_attn.k_proj", vec![kv, HIDDEN]),
            ("self_attn.v_proj", vec![kv, HIDDEN]),
            ("self_attn.q_norm", vec![HEAD_DIM]),
            ("self_attn.k_norm", vec![HEAD_DIM]),
            ("self_attn.o_proj", vec![HIDDEN, q]),
            ("post_attention_layernorm", vec![HIDDEN]),
            ("mlp.gate_proj", vec![INTERMEDIATE, HIDDEN]),
            ("mlp.up_proj", vec![INTERMEDIATE, HIDDEN]),
            ("mlp.down_proj", vec![HIDDEN, INTERMEDIATE]),
        ] {
            names.push((format!("model.layers.{layer}.{part}.weight"), shape));
        }
    }
    let mut state = 42u64;
    let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = names
        .into_iter()
        .map(|(name, shape)| {
            let count = shape.iter().product::<usize>();
            let bytes = random_bf16(count, &mut state);
            (name, shape, bytes)
        })
        .collect();
    let views = tensors
        .iter()
        .map(|(name, shape, bytes)| Ok((name, TensorView::new(Dtype::BF16, shape.clone(), bytes)?)))
        .collect::<Outcome<Vec<_>>>()?;
    safetensors::serialize_to_file(views, None, &directory.join("model.safetensors"))?;
    let config = serde_json::json!({
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": VOCAB,
        "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "intermediate_size": INTERMEDIATE,
        "max_position_embeddings": 40_960, "rope_theta": 1_000_000.0, "rms_norm_eps": 1e-6,
        "tie_word_embeddings": true, "hidden_act": "silu", "dtype": "bfloat16"
    });
    fs::write(directory.join("config.json"), config.to_string())?;
    let tokenizer = serde_json::json!({
        "version": "1.0", "added_tokens": [],
        "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}
    });
    fs::write(directory.join("tokenizer.json"), tokenizer.to_string())?;
    Ok(())
}

/// Magnitudes from 2^-7 to 2^-6, either sign.
fn random_bf16(count: usize, state: &mut u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(count * 2 + 8);
    while bytes.len() < count * 2 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        let four = (*state & 0x807f_807f_807f_807f) | 0x3c00_3c00_3c00_3c00;
        bytes.extend_from_slice(&four.to_le_bytes());
    }
    bytes.truncate(count * 2);
    bytes
}
