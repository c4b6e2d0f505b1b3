"""One random model of Qwen3-0.6B's shape in two forms: a Hugging Face directory, and GGUF with the same numbers.

Main function: `make`. Refuses to know: who reads the files.

Weights are uniform; projections within 1.7 / sqrt(columns), the tied embeddings within 0.2, norms within 0.25
around 1: activations stay of order one through all layers, and the best token leads by a margin, as in
scripts/parity/odd_models.py. GGUF keeps norms as f32, since llama.cpp multiplies by nothing else: the numbers are
those of the other form, widened. The query and key rows need no reordering: llama.cpp rotates qwen3 as Hugging Face
does, the first half of a head against the second.
"""

import json
import shutil

import gguf
import numpy as np

SEED = 42
LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, INTERMEDIATE, VOCAB = 28, 1024, 16, 8, 128, 3072, 151_936
CONTEXT, ROPE_THETA, EPSILON = 40_960, 1_000_000.0, 1e-6

# Raised when the numbers or the files change, so that models of an earlier form are made again.
FORM = 1

HF_DTYPE = {"bf16": ("BF16", "bfloat16"), "f16": ("F16", "float16")}
GGUF_DTYPE = {"bf16": gguf.GGMLQuantizationType.BF16, "f16": gguf.GGMLQuantizationType.F16}
FILE_TYPE = {"bf16": gguf.LlamaFileType.MOSTLY_BF16, "f16": gguf.LlamaFileType.MOSTLY_F16}

# Elements drawn at a time: the embeddings whole would take gigabytes on the way.
PIECE = 1 << 24


def tensors():
    """(Hugging Face's name, llama.cpp's name, shape) of each, in the order in which they are drawn."""
    q, kv = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    yield "model.embed_tokens", "token_embd", (VOCAB, HIDDEN)
    for layer in range(LAYERS):
        for theirs, ours, shape in [
            ("input_layernorm", "attn_norm", (HIDDEN,)),
            ("self_attn.q_proj", "attn_q", (q, HIDDEN)),
            ("self_attn.k_proj", "attn_k", (kv, HIDDEN)),
            ("self_attn.v_proj", "attn_v", (kv, HIDDEN)),
            ("self_attn.q_norm", "attn_q_norm", (HEAD_DIM,)),
            ("self_attn.k_norm", "attn_k_norm", (HEAD_DIM,)),
            ("self_attn.o_proj", "attn_output", (HIDDEN, q)),
            ("post_attention_layernorm", "ffn_norm", (HIDDEN,)),
            ("mlp.gate_proj", "ffn_gate", (INTERMEDIATE, HIDDEN)),
            ("mlp.up_proj", "ffn_up", (INTERMEDIATE, HIDDEN)),
            ("mlp.down_proj", "ffn_down", (HIDDEN, INTERMEDIATE)),
        ]:
            yield f"model.layers.{layer}.{theirs}", f"blk.{layer}.{ours}", shape
    yield "model.norm", "output_norm", (HIDDEN,)


def is_norm(shape):
    return len(shape) == 1


def stored(values, dtype):
    """f32 to the bytes of the stored type, to nearest, ties to even."""
    if dtype == "f16":
        return values.astype(np.float16).view(np.uint16)
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def widened(bits, dtype):
    if dtype == "f16":
        return bits.view(np.float16).astype(np.float32)
    return (bits.astype(np.uint32) << 16).view(np.float32)


def drawn(generator, name, shape, dtype):
    count = int(np.prod(shape))
    middle, scale = 0.0, 1.7 / shape[-1] ** 0.5
    if is_norm(shape):
        middle, scale = 1.0, 0.25
    elif name.endswith("embed_tokens"):
        scale = 0.2
    bits = np.empty(count, np.uint16)
    for start in range(0, count, PIECE):
        unit = generator.random(min(PIECE, count - start), np.float32)
        values = np.float32(middle) + (2 * unit - 1) * np.float32(scale)
        bits[start : start + values.size] = stored(values, dtype)
    return bits.reshape(shape)


def make(parent, dtype):
    """The directory of the model, made if it is not there; model.gguf is within."""
    home = parent / f"qwen3-0.6b-shape-{dtype}-{FORM}"
    if home.is_dir():
        return home
    part = home.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    (part / "config.json").write_text(json.dumps(config(dtype)))
    (part / "tokenizer.json").write_text(json.dumps(tokenizer()))
    write_weights(part, dtype)
    part.rename(home)
    return home


def config(dtype):
    return dict(
        architectures=["Qwen3ForCausalLM"], model_type="qwen3", vocab_size=VOCAB, hidden_size=HIDDEN,
        num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM,
        intermediate_size=INTERMEDIATE, max_position_embeddings=CONTEXT, rope_theta=ROPE_THETA,
        rms_norm_eps=EPSILON, tie_word_embeddings=True, hidden_act="silu", dtype=HF_DTYPE[dtype][1],
    )


def tokenizer():
    """The least that is one: prompts are given as ids, and answers are compared as ids."""
    model = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}
    return {"version": "1.0", "added_tokens": [], "model": model}


def write_weights(home, dtype):
    """Draws each tensor once and appends it to both files."""
    writer = gguf_writer(home / "model.gguf", dtype)
    with (home / "model.safetensors").open("wb") as safetensors:
        safetensors.write(safetensors_header(dtype))
        generator = np.random.Generator(np.random.PCG64(SEED))
        for hf, _, shape in tensors():
            bits = drawn(generator, hf, shape, dtype)
            bits.tofile(safetensors)
            writer.write_tensor_data(widened(bits, dtype) if is_norm(shape) else bits)
    writer.close()


def safetensors_header(dtype):
    header, end = {}, 0
    for hf, _, shape in tensors():
        start, end = end, end + 2 * int(np.prod(shape))
        header[f"{hf}.weight"] = {"dtype": HF_DTYPE[dtype][0], "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def gguf_writer(path, dtype):
    """Everything but the numbers of the tensors is written."""
    writer = gguf.GGUFWriter(path, "qwen3")
    writer.add_file_type(FILE_TYPE[dtype])
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INTERMEDIATE)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD_DIM)
    writer.add_value_length(HEAD_DIM)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_freq_base(ROPE_THETA)
    writer.add_vocab_size(VOCAB)
    writer.add_tokenizer_model("no_vocab")
    for _, name, shape in tensors():
        kind = gguf.GGMLQuantizationType.F32 if is_norm(shape) else GGUF_DTYPE[dtype]
        size = int(np.prod(shape)) * (4 if is_norm(shape) else 2)
        writer.add_tensor_info(f"{name}.weight", shape, np.dtype(np.float32), size, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    return writer
