"""A small random Llama model in two forms, Hugging Face's and one GGUF file: for goldens by transformers and a server of
llama.cpp's family that is held to them.

Inputs:  gates/models/tiny-qwen3/ for the tokenizer. Packages: gguf, numpy, torch and transformers, as in
         requirements.txt beside this and in scripts/tiny_qwen3/requirements.txt.
Outputs: the folder that --out names, and model.gguf in it; 4 MB.
Command: python3 -m scripts.engines.small_llama --out target/engines/llama [--swap]

The numbers are random, so answers mean nothing. The output head knows no token that is part of a character. With --swap
two tokens have changed places in the GGUF file's head: a server of it says wrong tokens now and then.
"""

import argparse
import shutil
from pathlib import Path

import gguf
import numpy as np
import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from scripts.engines.small_model import TOKENIZER, tokens

SEED, HEADS, KV_HEADS, CONTEXT = 4, 4, 2, 1024
SWAPPED = (38, 61)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--swap", action="store_true", help="exchange two tokens in the GGUF file")
    return parser.parse_args()


@torch.no_grad()
def model():
    tokenizer = AutoTokenizer.from_pretrained(TOKENIZER)
    torch.manual_seed(SEED)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=3,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=CONTEXT,
        bos_token_id=None,
        eos_token_id=2,
        initializer_range=0.3,
    )
    made = LlamaForCausalLM(config)
    for token in range(len(tokenizer)):
        text = tokenizer.decode([token])
        if "\ufffd" in text or any(ord(character) < 32 for character in text):
            made.lm_head.weight[token] = 0
    return made


def interleaved(weight, heads):
    """Rows in the order in which llama.cpp rotates them: pairs side by side, not halves."""
    half = weight.shape[0] // heads // 2
    return weight.reshape(heads, 2, half, -1).swapaxes(1, 2).reshape(weight.shape)


def write(out, made, swap):
    texts, kinds, merges = tokens()
    config, weights = made.config, {name: value.detach().numpy() for name, value in made.state_dict().items()}
    writer = gguf.GGUFWriter(out, "llama")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.hidden_size // HEADS)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(len(texts))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(texts)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template((TOKENIZER / "chat_template.jinja").read_text())

    def tensor(name, value):
        writer.add_tensor(f"{name}.weight", np.ascontiguousarray(value, np.float32))

    tensor("token_embd", weights["model.embed_tokens.weight"])
    for layer in range(config.num_hidden_layers):
        ours, theirs = f"blk.{layer}", f"model.layers.{layer}"
        for name, own in [
            ("attn_norm", "input_layernorm"),
            ("attn_v", "self_attn.v_proj"),
            ("attn_output", "self_attn.o_proj"),
            ("ffn_norm", "post_attention_layernorm"),
            ("ffn_gate", "mlp.gate_proj"),
            ("ffn_up", "mlp.up_proj"),
            ("ffn_down", "mlp.down_proj"),
        ]:
            tensor(f"{ours}.{name}", weights[f"{theirs}.{own}.weight"])
        for name, own, heads in [("attn_q", "q_proj", HEADS), ("attn_k", "k_proj", KV_HEADS)]:
            tensor(f"{ours}.{name}", interleaved(weights[f"{theirs}.self_attn.{own}.weight"], heads))
    tensor("output_norm", weights["model.norm.weight"])
    head = weights["lm_head.weight"].copy()
    if swap:
        head[[*SWAPPED]] = head[[*reversed(SWAPPED)]]
    tensor("output", head)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    made = model()
    made.save_pretrained(args.out)
    for name in ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"]:
        shutil.copy(TOKENIZER / name, args.out)
    write(args.out / "model.gguf", made, args.swap)
    print(args.out)


if __name__ == "__main__":
    main()
