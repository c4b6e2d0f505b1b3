"""Greedy completions by Hugging Face transformers of Qwen3 and Qwen3.5 models with odd shapes and random weights.

Inputs:  none. Weights come from a counter-based generator that a test can repeat without Python.
Outputs: tests/data/parity/<name>.json, one a model
Command: python -m scripts.parity.odd_models [NAME...]    (from the root of the repository; without a name, all)

Element i (row-major) of the tensor `name` of a model with seed S:
    state = the first 8 bytes, little-endian, of sha256("S|name")
    z = state + 0x9E3779B97F4A7C15 * (i + 1)                  all of it modulo 2^64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9
    z = (z ^ z >> 27) * 0x94D049BB133111EB
    z = z ^ z >> 31
    value = (2 * ((z >> 11) * 2^-53) - 1) * scale             in f64
rounded to f32 and from there to the storage dtype, each to nearest, ties to even. To the weights of Qwen3's norms
1 is added, in f64: their kind has "offset". `scales` gives the scale of each kind of tensor: the name's part before ".weight", or
"bias" for every bias; "scale" is the f64 itself, "rule" says where it came from. `sha256` is of each tensor's
stored bytes, little-endian. Names are those of a stored model: one with pictures has its text under
model.language_model, and experts are stored together or one by one. transformers computes in float32 on the stored values. Prompts are drawn again
until each best token leads by MARGIN nats and DISTINCT of them differ. With tied embeddings there is no lm_head.weight.
"""

import hashlib
import json
import random
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from transformers import (
    Qwen3_5ForCausalLM,
    Qwen3_5MoeForCausalLM,
    Qwen3_5MoeTextConfig,
    Qwen3_5TextConfig,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

from scripts.tiny_qwen3.goldens import MARGIN, TOP_K, complete

OUT = Path(__file__).resolve().parents[2] / "tests/data/parity"
NEW_TOKENS, DISTINCT = 24, 6
PROMPT_LENGTHS = [1, 2, 15, 16, 17, 70]
# Of the recurrent layers' chunks of 64 tokens: less, one, more than one, many.
HYBRID_LENGTHS = [1, 3, 63, 64, 65, 129, 1000]

# Name, dtype, shards, and the config beyond what all of them share.
MODELS = [
    ("ratio3-tied-bf16", "bfloat16", 1, dict(
        vocab_size=97, hidden_size=96, intermediate_size=160, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=2, head_dim=24, tie_word_embeddings=True)),
    ("ratio5-untied-f16-3shards", "float16", 3, dict(
        vocab_size=300, hidden_size=80, intermediate_size=128, num_hidden_layers=3, num_attention_heads=5,
        num_key_value_heads=1, head_dim=40, tie_word_embeddings=False)),
    ("ratio7-untied-f32", "float32", 1, dict(
        vocab_size=131, hidden_size=56, intermediate_size=96, num_hidden_layers=2, num_attention_heads=7,
        num_key_value_heads=1, head_dim=16, tie_word_embeddings=False,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6})),
    ("ratio1-tied-bf16-2shards", "bfloat16", 2, dict(
        vocab_size=256, hidden_size=48, intermediate_size=99, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, head_dim=64, tie_word_embeddings=True)),
    ("ratio2-bias-f32", "float32", 1, dict(
        vocab_size=160, hidden_size=64, intermediate_size=112, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=32, tie_word_embeddings=False, attention_bias=True)),
    ("ratio4-yarn-f32", "float32", 1, dict(
        vocab_size=140, hidden_size=72, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=1, head_dim=32, tie_word_embeddings=False, max_position_embeddings=256,
        rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                         "original_max_position_embeddings": 64})),
]

# The same, and how it is stored: as text alone, or as part of a model with pictures.
HYBRIDS = [
    ("hybrid-values1-interval4-f32", "float32", 1, "text", dict(
        vocab_size=120, hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, head_dim=32, tie_word_embeddings=True, full_attention_interval=4,
        linear_num_key_heads=2, linear_num_value_heads=2, linear_key_head_dim=16, linear_value_head_dim=16)),
    ("hybrid-values2-interval2-bf16-2shards", "bfloat16", 2, "text", dict(
        vocab_size=150, hidden_size=80, intermediate_size=112, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=1, head_dim=64, tie_word_embeddings=False, full_attention_interval=2,
        linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=32, linear_value_head_dim=64)),
    ("hybrid-values4-interval3-f16-pictures", "float16", 1, "pictures", dict(
        vocab_size=131, hidden_size=72, intermediate_size=100, num_hidden_layers=6, num_attention_heads=3,
        num_key_value_heads=3, head_dim=40, tie_word_embeddings=False, full_attention_interval=3,
        linear_num_key_heads=1, linear_num_value_heads=4, linear_key_head_dim=128, linear_value_head_dim=24)),
    ("hybrid-listed-bias-f32", "float32", 1, "text", dict(
        vocab_size=97, hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=2,
        num_key_value_heads=1, head_dim=128, tie_word_embeddings=True, attention_bias=True,
        layer_types=["full_attention", "linear_attention", "linear_attention"],
        linear_num_key_heads=3, linear_num_value_heads=3, linear_key_head_dim=24, linear_value_head_dim=40)),
    ("hybrid-true-heads-bf16-pictures", "bfloat16", 2, "pictures", dict(
        vocab_size=200, hidden_size=96, intermediate_size=128, num_hidden_layers=4, num_attention_heads=2,
        num_key_value_heads=1, head_dim=96, tie_word_embeddings=True, full_attention_interval=4,
        linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=128, linear_value_head_dim=128)),
    ("hybrid-half-turned-taps3-f32", "float32", 1, "text", dict(
        vocab_size=110, hidden_size=56, intermediate_size=72, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, tie_word_embeddings=False, full_attention_interval=2,
        linear_conv_kernel_dim=3, rope_parameters={"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 0.5},
        linear_num_key_heads=4, linear_num_value_heads=8, linear_key_head_dim=16, linear_value_head_dim=32)),
]


# Mixtures of experts, and how these are stored: together or one by one; and a hybrid with a stretched context.
OTHERS = [
    ("experts-hybrid-4-of-8-f32", "float32", 1, "text", Qwen3_5MoeForCausalLM, Qwen3_5MoeTextConfig, dict(
        vocab_size=140, hidden_size=64, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
        tie_word_embeddings=False, full_attention_interval=4, linear_num_key_heads=2, linear_num_value_heads=4,
        linear_key_head_dim=16, linear_value_head_dim=32, num_experts=8, num_experts_per_tok=4, moe_intermediate_size=48,
        shared_expert_intermediate_size=40)),
    ("experts-hybrid-1-of-4-bf16-pictures", "bfloat16", 2, "pictures", Qwen3_5MoeForCausalLM, Qwen3_5MoeTextConfig, dict(
        vocab_size=125, hidden_size=56, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1, head_dim=64,
        tie_word_embeddings=True, full_attention_interval=3, linear_num_key_heads=2, linear_num_value_heads=2,
        linear_key_head_dim=32, linear_value_head_dim=16, num_experts=4, num_experts_per_tok=1, moe_intermediate_size=24,
        shared_expert_intermediate_size=32)),
    ("experts-2-of-5-single-f16", "float16", 1, "single", Qwen3MoeForCausalLM, Qwen3MoeConfig, dict(
        vocab_size=133, hidden_size=48, intermediate_size=72, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, tie_word_embeddings=False, num_experts=5, num_experts_per_tok=2,
        moe_intermediate_size=40, mlp_only_layers=[1], norm_topk_prob=True)),
    ("experts-3-of-6-single-f32", "float32", 1, "single", Qwen3MoeForCausalLM, Qwen3MoeConfig, dict(
        vocab_size=118, hidden_size=40, intermediate_size=64, num_hidden_layers=4, num_attention_heads=2,
        num_key_value_heads=1, head_dim=32, tie_word_embeddings=False, num_experts=6, num_experts_per_tok=3,
        moe_intermediate_size=32, decoder_sparse_step=2, norm_topk_prob=False)),
    ("hybrid-yarn-f32", "float32", 1, "text", Qwen3_5ForCausalLM, Qwen3_5TextConfig, dict(
        vocab_size=145, hidden_size=64, intermediate_size=80, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=64, tie_word_embeddings=False, full_attention_interval=2,
        max_position_embeddings=2048, rope_parameters={
            "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64,
            "partial_rotary_factor": 0.5},
        linear_num_key_heads=2, linear_num_value_heads=2, linear_key_head_dim=32, linear_value_head_dim=32)),
]


def splitmix64(state, count):
    with np.errstate(over="ignore"):
        z = np.uint64(state) + np.uint64(0x9E3779B97F4A7C15) * np.arange(1, count + 1, dtype=np.uint64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def kind_of(name):
    return "bias" if name.endswith(".bias") else name.removesuffix(".weight").split(".")[-1]


def scale_of(name, shape, config):
    """The scale of a tensor's values, and the rule behind it."""
    kind, tied = kind_of(name), config.tie_word_embeddings
    if kind == "down_proj" and hasattr(config, "moe_intermediate_size"):
        return 0.25, "constant, if MLPs are of several sizes"
    if kind == "bias":
        return 0.3, "constant"
    if kind.endswith("norm"):
        return 0.25, "constant"
    if kind in ("A_log", "dt_bias", "conv1d"):
        return {"A_log": 1.5, "dt_bias": 1.0, "conv1d": 0.8}[kind], "constant"
    if kind == "embed_tokens":
        # Tied, a larger embedding would outweigh the layers, and each token would predict itself.
        return (0.2, "constant, if tied") if tied else (1.0, "constant, if not tied")
    return 1.7 / shape[-1] ** 0.5, "1.7 / sqrt(columns)"


def weights(seed, name, shape, dtype, scale, offset):
    state = int.from_bytes(hashlib.sha256(f"{seed}|{name}".encode()).digest()[:8], "little")
    unit = (splitmix64(state, int(np.prod(shape))) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    values = offset + (2.0 * unit - 1.0) * scale
    return torch.from_numpy(values.astype(np.float32)).to(dtype).reshape(shape)


def stored_bytes(tensor):
    return tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes()


def clear_case(model, rng, length):
    """A prompt of that length whose every greedy choice is clear, with its completion, which is not one token's."""
    while True:
        prompt_ids = [rng.randrange(model.config.vocab_size) for _ in range(length)]
        tokens, margin = complete(model, prompt_ids, NEW_TOKENS)
        if margin >= MARGIN and len({token["id"] for token in tokens}) >= DISTINCT:
            return {"prompt_ids": prompt_ids, "tokens": tokens, "min_margin": margin}


def stored_config(config, stored_as):
    """What config.json holds."""
    text = json.loads(config.to_json_string(use_diff=False))
    if stored_as != "pictures":
        return text
    return {
        "architectures": [text["architectures"][0].replace("ForCausalLM", "ForConditionalGeneration")],
        "model_type": text["model_type"].removesuffix("_text"),
        "text_config": text,
        "tie_word_embeddings": config.tie_word_embeddings,
        "vision_config": {"hidden_size": 8},
    }


def common():
    """Made anew each time: a configuration changes its own."""
    return {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}, "max_position_embeddings": 2048}


def models():
    for name, dtype, shards, shape in MODELS:
        yield name, dtype, shards, "text", Qwen3ForCausalLM, Qwen3Config(
            **{**common(), **shape}, architectures=["Qwen3ForCausalLM"], dtype=dtype)
    for name, dtype, shards, stored_as, shape in HYBRIDS:
        yield name, dtype, shards, stored_as, Qwen3_5ForCausalLM, Qwen3_5TextConfig(
            **{**common(), **shape}, architectures=["Qwen3_5ForCausalLM"], dtype=dtype)
    for name, dtype, shards, stored_as, model_class, config_class, shape in OTHERS:
        yield name, dtype, shards, stored_as, model_class, config_class(
            **{**common(), **shape}, architectures=[model_class.__name__], dtype=dtype)


def main():
    torch.set_num_threads(1)
    OUT.mkdir(parents=True, exist_ok=True)
    for index, (name, dtype, shards, stored_as, model_class, config) in enumerate(models()):
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        seed = 1000 + index
        model = model_class._from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
        scales, stored = {}, {}

        def make(tensor, shape):
            scale, rule = scale_of(tensor, shape, config)
            kind = scales.setdefault(kind_of(tensor), {"scale": scale, "rule": rule})
            assert kind["scale"] == scale, f"tensors of one kind have one scale: {tensor}"
            is_centred_at_1 = not hasattr(config, "linear_num_key_heads") and kind_of(tensor).endswith("norm")
            offset = 1.0 if is_centred_at_1 else 0.0
            if offset:
                kind["offset"] = offset
            stored[tensor] = weights(seed, tensor, tuple(shape), getattr(torch, dtype), scale, offset)
            return stored[tensor]

        for tensor, parameter in model.named_parameters():
            if stored_as == "pictures":
                tensor = tensor.replace("model.", "model.language_model.", 1)
            if stored_as == "single" and ".experts." in tensor:
                parts = ["gate_proj", "up_proj"] if tensor.endswith("gate_up_proj") else ["down_proj"]
                rows = parameter.shape[1] // len(parts)
                prefix = tensor.rsplit(".", 1)[0]
                for expert in range(parameter.shape[0]):
                    for at, part in enumerate(parts):
                        values = make(f"{prefix}.{expert}.{part}.weight", (rows, parameter.shape[2]))
                        parameter.data[expert, at * rows : (at + 1) * rows].copy_(values)
                continue
            parameter.data.copy_(make(tensor, parameter.shape))
        if stored_as == "pictures":
            make("model.visual.patch_embed.proj.weight", (8, 12))
        rng = random.Random(seed)
        lengths = HYBRID_LENGTHS if hasattr(config, "linear_num_key_heads") else PROMPT_LENGTHS
        cases = [clear_case(model, rng, length) for length in lengths]
        result = {
            "format": "infergate-parity/1",
            "name": name,
            "made_by": f"transformers {transformers.__version__}, torch {torch.__version__}, float32",
            "config_note": "as transformers 5 writes it: rope_parameters for rope_theta, dtype for torch_dtype",
            "top_k": TOP_K,
            "seed": seed,
            "dtype": dtype,
            "shards": shards,
            "config": {**stored_config(config, stored_as), "dtype": dtype},
            "scales": scales,
            "tensors": {tensor: list(values.shape) for tensor, values in stored.items()},
            "sha256": {tensor: hashlib.sha256(stored_bytes(values)).hexdigest() for tensor, values in stored.items()},
        }
        fields = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in result.items()]
        lines = ",\n".join(json.dumps(case) for case in cases)
        (OUT / f"{name}.json").write_text("{" + ",\n".join(fields) + f',\n"cases": [\n{lines}\n]}}\n')
        print(f"{name}: smallest margin {min(case['min_margin'] for case in cases)}", flush=True)


if __name__ == "__main__":
    main()
