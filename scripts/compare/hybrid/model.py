"""One random hybrid model as a Hugging Face directory in bf16 and as GGUF (`qwen35`) with the same numbers.

Command: model.py CONFIG DIRECTORY, with a config.json of as many key as value heads and tied embeddings. GGUF keeps in f32 what
llama.cpp multiplies by in f32: norms with 1 added, taps, and -exp(A_log).
"""

import json
import sys
from pathlib import Path

import gguf
import numpy as np

config_path, home = Path(sys.argv[1]), Path(sys.argv[2])
c = json.loads(config_path.read_text())
L, H, HEADS, KV, D, I, V = (
    c[key]
    for key in [
        "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size",
        "vocab_size",
    ]
)
HK, HV, DK, DV, TAPS = (
    c[f"linear_{key}"] for key in ["num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim", "conv_kernel_dim"]
)
# Else GGUF has value heads in another order.
assert HK == HV and DK == DV and c["tie_word_embeddings"]
CONV = 2 * HK * DK + HV * DV
every = c["full_attention_interval"]
PIECE = 1 << 24


def m(hf, gg, shape):
    bound = 1.7 / shape[-1] ** 0.5
    return hf + ".weight", gg + ".weight", shape, shape, -bound, bound, "m"


def n(hf, gg, size):
    return hf + ".weight", gg + ".weight", (size,), (size,), -0.25, 0.25, "1"


def tensors():
    """Both names, both shapes, least and greatest number, kind: m a matrix in bf16, v a vector, 1 a norm centred at zero, a A_log."""
    yield ("model.embed_tokens.weight", "token_embd.weight", (V, H), (V, H), -0.2, 0.2, "m")
    for l in range(L):
        hf, g = f"model.layers.{l}.", f"blk.{l}."
        yield n(hf + "input_layernorm", g + "attn_norm", H)
        if (l + 1) % every == 0:
            hf_a = hf + "self_attn."
            yield m(hf_a + "q_proj", g + "attn_q", (2 * HEADS * D, H))
            yield m(hf_a + "k_proj", g + "attn_k", (KV * D, H))
            yield m(hf_a + "v_proj", g + "attn_v", (KV * D, H))
            yield n(hf_a + "q_norm", g + "attn_q_norm", D)
            yield n(hf_a + "k_norm", g + "attn_k_norm", D)
            yield m(hf_a + "o_proj", g + "attn_output", (H, HEADS * D))
        else:
            hf_l = hf + "linear_attn."
            yield m(hf_l + "in_proj_qkv", g + "attn_qkv", (CONV, H))
            yield m(hf_l + "in_proj_z", g + "attn_gate", (HV * DV, H))
            yield m(hf_l + "in_proj_b", g + "ssm_beta", (HV, H))
            yield m(hf_l + "in_proj_a", g + "ssm_alpha", (HV, H))
            yield (hf_l + "conv1d.weight", g + "ssm_conv1d.weight", (CONV, 1, TAPS), (CONV, TAPS), -0.85, 0.85, "v")
            yield (hf_l + "A_log", g + "ssm_a", (HV,), (HV,), -5.0, 0.0, "a")
            yield (hf_l + "dt_bias", g + "ssm_dt.bias", (HV,), (HV,), -1.0, 1.0, "v")
            yield (hf_l + "norm.weight", g + "ssm_norm.weight", (DV,), (DV,), 0.75, 1.25, "v")
            yield m(hf_l + "out_proj", g + "ssm_out", (H, HV * DV))
        yield n(hf + "post_attention_layernorm", g + "post_attention_norm", H)
        yield m(hf + "mlp.gate_proj", g + "ffn_gate", (I, H))
        yield m(hf + "mlp.up_proj", g + "ffn_up", (I, H))
        yield m(hf + "mlp.down_proj", g + "ffn_down", (H, I))
    yield n("model.norm", "output_norm", H)

def to_bf16(x):
    b = x.view(np.uint32)
    return ((b + 0x7FFF + (b >> 16 & 1)) >> 16).astype(np.uint16)

def widen(b):
    return (b.astype(np.uint32) << 16).view(np.float32)


def as_gguf(bits, kind):
    if kind == "m":
        return bits
    wide = widen(bits)
    return {"v": wide, "1": wide + np.float32(1), "a": -np.exp(wide)}[kind]


home.mkdir(parents=True)
(home / "config.json").write_text(json.dumps(c))
word_level = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}
(home / "tokenizer.json").write_text(json.dumps({"version": "1.0", "added_tokens": [], "model": word_level}))

w = gguf.GGUFWriter(home / "model.gguf", "qwen35")
rope = c["rope_parameters"]
w.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
w.add_block_count(L)
w.add_context_length(c["max_position_embeddings"])
w.add_embedding_length(H)
w.add_feed_forward_length(I)
w.add_head_count(HEADS)
w.add_head_count_kv(KV)
w.add_key_length(D)
w.add_value_length(D)
w.add_layer_norm_rms_eps(c["rms_norm_eps"])
w.add_rope_freq_base(float(rope["rope_theta"]))
w.add_rope_dimension_count(int(D * rope["partial_rotary_factor"]))
w.add_rope_dimension_sections([*rope["mrope_section"], 0])
w.add_ssm_conv_kernel(TAPS)
w.add_ssm_state_size(DK)
w.add_ssm_group_count(HK)
w.add_ssm_time_step_rank(HV)
w.add_ssm_inner_size(HV * DV)
w.add_uint32("qwen35.full_attention_interval", every)
w.add_vocab_size(V)
w.add_tokenizer_model("no_vocab")
for _, gg, _, shape, _, _, kind in tensors():
    q = gguf.GGMLQuantizationType.BF16 if kind == "m" else gguf.GGMLQuantizationType.F32
    w.add_tensor_info(gg, shape, np.dtype(np.float32), int(np.prod(shape)) * (2 if kind == "m" else 4), raw_dtype=q)
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_ti_data_to_file()

header, end = {}, 0
for hf, _, shape, *_ in tensors():
    start, end = end, end + 2 * int(np.prod(shape))
    header[hf] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
rng = np.random.Generator(np.random.PCG64(42))
with (home / "model.safetensors").open("wb") as st:
    st.write(len(text).to_bytes(8, "little") + text)
    for hf, _, shape, gshape, lo, hi, kind in tensors():
        count = int(np.prod(shape))
        bits = np.empty(count, np.uint16)
        for s in range(0, count, PIECE):
            u = rng.random(min(PIECE, count - s), np.float32)
            bits[s:s + u.size] = to_bf16(np.float32(lo) + u * np.float32(hi - lo))
        bits.tofile(st)
        w.write_tensor_data(as_gguf(bits, kind).reshape(gshape))
w.close()
print(sum(int(np.prod(t[2])) for t in tensors()), "parameters")
