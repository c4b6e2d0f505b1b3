//! Configurations that are read, and those that are refused by name.

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

pub fn load(change: impl FnOnce(&mut Value), generation: Option<Value>) -> Result<Config, String> {
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

fn hybrid() -> Value {
    let mut text = base();
    text["architectures"] = json!(["Qwen3_5ForCausalLM"]);
    text["model_type"] = json!("qwen3_5_text");
    text["num_hidden_layers"] = json!(4);
    text["linear_num_key_heads"] = json!(2);
    text["linear_num_value_heads"] = json!(4);
    text["partial_rotary_factor"] = json!(0.25);
    text
}

#[test]
fn hybrids_are_read_alone_and_within_a_model_with_pictures() {
    let alone = load(|value| *value = hybrid(), None).unwrap();
    let it = alone.hybrid.as_ref().unwrap();
    assert_eq!(it.attends, [false, false, false, true]);
    assert_eq!(
        (it.delta.layers, it.delta.key_dim, it.delta.taps),
        (3, 128, 4)
    );
    assert_eq!((alone.rotary_dim, alone.attention_layers()), (4, 1));
    // 4 heads of 128 × 128 and the convolution's last three inputs in each of three layers.
    assert_eq!(alone.state_bytes(false), 4 * 3 * (4 * 128 * 128 + 3 * 1024));
    // On a GPU the inputs of two key heads are there for each of the four value heads.
    assert_eq!(
        alone.state_bytes(true),
        4 * 3 * 4 * (128 * 128 + 3 * 3 * 128)
    );
    let with_pictures = |tied: Value| {
        load(
            |value| {
                *value = json!({
                    "architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5",
                    "text_config": hybrid(), "tie_word_embeddings": tied, "vision_config": {},
                });
            },
            None,
        )
    };
    let whole = with_pictures(json!(true)).unwrap();
    let prefix = "model.language_model.";
    assert_eq!(whole.hybrid.as_ref().unwrap().tensors, prefix);
    assert!(whole.tied && !with_pictures(Value::Null).unwrap().tied);
    let listed = json!([
        "linear_attention",
        "full_attention",
        "linear_attention",
        "full_attention"
    ]);
    let listed = load(
        |value| {
            *value = hybrid();
            value["layer_types"] = listed;
        },
        None,
    );
    assert_eq!(listed.unwrap().attention_layers(), 2);
}

#[test]
fn hybrids_that_cannot_be_are_refused() {
    use super::tests::refused as refuses;
    let refused = |key: &'static str, wrong: Value, message: &str| {
        refuses(
            |value| {
                *value = hybrid();
                value[key] = wrong;
            },
            message,
        );
    };
    refused(
        "linear_num_value_heads",
        json!(3),
        "not a multiple of linear_num_key_heads",
    );
    refused(
        "linear_num_key_heads",
        json!(0),
        "`linear_num_key_heads` = 0 is out of range",
    );
    refused(
        "linear_conv_kernel_dim",
        json!(1000),
        "`linear_conv_kernel_dim` = 1000",
    );
    refused(
        "full_attention_interval",
        json!(0),
        "`full_attention_interval` = 0",
    );
    refused("full_attention_interval", json!(9), "no full_attention");
    refused(
        "layer_types",
        json!(["mamba", "x", "x", "x"]),
        "a layer of type `mamba`",
    );
    refused(
        "partial_rotary_factor",
        json!(0.01),
        "partial_rotary_factor = 0.01",
    );
    refused(
        "partial_rotary_factor",
        json!(-1),
        "partial_rotary_factor = -1",
    );
    refused("attn_output_gate", json!(false), "output gate");
    refused(
        "model_type",
        json!("qwen3_next"),
        "Qwen3_5ForCausalLM of model_type qwen3_next",
    );
    refused(
        "architectures",
        json!(["Qwen3NextForCausalLM"]),
        "Qwen3NextForCausalLM is not supported",
    );
    refused("num_experts", json!(4), "a mixture of experts in");
    refused(
        "num_hidden_layers",
        json!(1_000_000_000_000_u64),
        "`num_hidden_layers` = 1000000000000",
    );
    refused(
        "rope_scaling",
        json!({"rope_type": "default", "partial_rotary_factor": 0.5}),
        "two values of partial_rotary_factor",
    );
    refuses(
        |v| v["layer_types"] = json!(["linear_attention", "full_attention"]),
        "a layer of type `linear_attention`",
    );
    refuses(
        |v| v["partial_rotary_factor"] = json!(0.5),
        "partial_rotary_factor",
    );
    refuses(
        |v| *v = json!({"model_type": "qwen3_5", "tie_word_embeddings": true}),
        "`text_config` is missing",
    );
    refuses(
        |v| *v = json!({"model_type": "qwen3_5", "text_config": {"model_type": "qwen3"}}),
        "a text_config of model_type qwen3",
    );
}

#[test]
fn experts_are_read_by_layer() {
    let sparse = |change: &dyn Fn(&mut Value)| {
        load(
            |value| {
                value["architectures"] = json!(["Qwen3MoeForCausalLM"]);
                value["model_type"] = json!("qwen3_moe");
                value["num_experts"] = json!(8);
                value["num_experts_per_tok"] = json!(2);
                value["moe_intermediate_size"] = json!(24);
                change(value);
            },
            None,
        )
    };
    let some = sparse(&|value| value["mlp_only_layers"] = json!([0])).unwrap();
    let experts = some.experts.as_ref().unwrap();
    assert_eq!(experts.sparse, [false, true]);
    assert_eq!((some.intermediate, experts.normalised), (96, false));
    // No other MLP than the experts'.
    let all = sparse(&|value| drop(value.as_object_mut().unwrap().remove("intermediate_size")));
    assert_eq!(all.unwrap().intermediate, 24);
    for (key, wrong, message) in [
        (
            "num_experts_per_tok",
            json!(9),
            "num_experts_per_tok = 9 of num_experts = 8",
        ),
        ("num_experts", json!(0), "`num_experts` = 0 is out of range"),
        (
            "num_experts",
            json!(5000),
            "`num_experts` = 5000 is out of range",
        ),
        (
            "num_local_experts",
            json!(7),
            "`num_local_experts` = 7 contradict",
        ),
        (
            "num_hidden_layers",
            json!(1_000_000_000_000_u64),
            "`num_hidden_layers`",
        ),
        (
            "moe_intermediate_size",
            json!(null),
            "`moe_intermediate_size` is missing",
        ),
        ("decoder_sparse_step", json!(0), "`decoder_sparse_step` = 0"),
    ] {
        let error = sparse(&|value| value[key] = wrong.clone()).unwrap_err();
        assert!(error.contains(message), "{error:?} lacks {message:?}");
    }
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
    refused(|v| v["num_experts"] = json!(8), "a mixture of experts in");
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
