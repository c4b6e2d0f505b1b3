"""Greedy completions by Hugging Face transformers of Qwen3 models with odd shapes and random weights.

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
rounded to f32 and from there to the storage dtype, each to nearest, ties to even. Weights of norms are
1 + value, added in f64. `scales` gives the scale of each kind of tensor: the name's part before ".weight", or
"bias" for every bias; "scale" is the f64 itself, "rule" says where it came from. `sha256` is of each tensor's
stored bytes, little-endian. transformers computes in float32 on the stored values. Prompts are drawn again
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
from transformers import Qwen3Config, Qwen3ForCausalLM

from scripts.tiny_qwen3.goldens import MARGIN, TOP_K, complete

OUT = Path(__file__).resolve().parents[2] / "tests/data/parity"
PROMPT_LENGTHS, NEW_TOKENS, DISTINCT = [1, 2, 15, 16, 17, 70], 24, 6

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


def splitmix64(state, count):
    with np.errstate(over="ignore"):
        z = np.uint64(state) + np.uint64(0x9E3779B97F4A7C15) * np.arange(1, count + 1, dtype=np.uint64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def kind_of(name):
    return "bias" if name.endswith(".bias") else name.removesuffix(".weight").split(".")[-1]


def scale_of(name, shape, tied):
    """The scale of a tensor's values, and the rule behind it."""
    kind = kind_of(name)
    if kind == "bias":
        return 0.3, "constant"
    if kind.endswith("norm"):
        return 0.25, "constant; the weight is 1 + value"
    if kind == "embed_tokens":
        # Tied, a larger embedding would outweigh the layers, and each token would predict itself.
        return (0.2, "constant, if tied") if tied else (1.0, "constant, if not tied")
    return 1.7 / shape[1] ** 0.5, "1.7 / sqrt(columns)"


def weights(seed, name, shape, dtype, scale):
    state = int.from_bytes(hashlib.sha256(f"{seed}|{name}".encode()).digest()[:8], "little")
    unit = (splitmix64(state, int(np.prod(shape))) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    values = (2.0 * unit - 1.0) * scale
    if kind_of(name).endswith("norm"):
        values = 1.0 + values
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


def main():
    torch.set_num_threads(1)
    OUT.mkdir(parents=True, exist_ok=True)
    for index, (name, dtype, shards, shape) in enumerate(MODELS):
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        seed = 1000 + index
        config = Qwen3Config(
            **{"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}, "max_position_embeddings": 2048, **shape},
            architectures=["Qwen3ForCausalLM"],
            dtype=dtype,
        )
        model = Qwen3ForCausalLM._from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
        scales, stored = {}, {}
        for tensor, parameter in model.named_parameters():
            scale, rule = scale_of(tensor, parameter.shape, config.tie_word_embeddings)
            kind = scales.setdefault(kind_of(tensor), {"scale": scale, "rule": rule})
            assert kind["scale"] == scale, "tensors of one kind have one scale"
            stored[tensor] = weights(seed, tensor, tuple(parameter.shape), getattr(torch, dtype), scale)
            parameter.data.copy_(stored[tensor])
        rng = random.Random(seed)
        cases = [clear_case(model, rng, length) for length in PROMPT_LENGTHS]
        result = {
            "format": "infergate-parity/1",
            "name": name,
            "made_by": f"transformers {transformers.__version__}, torch {torch.__version__}, float32",
            "config_note": "as transformers 5 writes it: rope_parameters for rope_theta, dtype for torch_dtype",
            "top_k": TOP_K,
            "seed": seed,
            "dtype": dtype,
            "shards": shards,
            "config": {**json.loads(config.to_json_string(use_diff=False)), "dtype": dtype},
            "scales": scales,
            "tensors": {tensor: list(values.shape) for tensor, values in stored.items()},
            "sha256": {tensor: hashlib.sha256(stored_bytes(values)).hexdigest() for tensor, values in stored.items()},
        }
        fields = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in result.items()]
        lines = ",\n".join(json.dumps(case) for case in cases)
        (OUT / f"{name}.json").write_text("{" + ",\n".join(fields) + f',\n"cases": [\n{lines}\n]}}\n')
        print(f"{name}: smallest margin {min(case['min_margin'] for case in cases)}")


if __name__ == "__main__":
    main()
