"""A small random model of Qwen3's shape as one GGUF file, for trying a server of llama.cpp's family on any machine.

Inputs:  gates/models/tiny-qwen3/ for the tokenizer. Packages: gguf and numpy, as in requirements.txt beside this.
Outputs: the file that --out names; some 50 MB with the default sizes.
Command: python3 scripts/engines/small_model.py --out target/engines/small.gguf [--layers 8] [--hidden 512]

The numbers are random, so answers mean nothing; time and token counts do. The output head knows digits alone: every
token of an answer is then one character of text and one event of a stream, no answer ends early, and counting an
answer's text with the tokenizer gives the number of tokens that were generated, to the token.
"""

import argparse
import json
from pathlib import Path

import gguf
import numpy as np

TOKENIZER = Path(__file__).resolve().parents[2] / "gates/models/tiny-qwen3"
SEED = 42
HEAD_DIM, CONTEXT, ROPE_THETA, EPSILON = 64, 4096, 10_000.0, 1e-6


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=512, help="a multiple of 128")
    return parser.parse_args()


def tokens():
    """Texts of all tokens in the order of their ids, their kinds, and the merges."""
    file = json.loads((TOKENIZER / "tokenizer.json").read_text())
    special = {token["id"]: token["content"] for token in file["added_tokens"]}
    texts = {**{id: text for text, id in file["model"]["vocab"].items()}, **special}
    kinds = [gguf.TokenType.CONTROL if id in special else gguf.TokenType.NORMAL for id in range(len(texts))]
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in file["model"]["merges"]]
    return [texts[id] for id in range(len(texts))], kinds, merges


def write(out, layers, hidden):
    texts, kinds, merges = tokens()
    heads, inner = hidden // HEAD_DIM, 3 * hidden
    query, pair = heads * HEAD_DIM, heads // 2 * HEAD_DIM
    writer = gguf.GGUFWriter(out, "qwen3")
    writer.add_name("small-random-qwen3")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_block_count(layers)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads // 2)
    writer.add_key_length(HEAD_DIM)
    writer.add_value_length(HEAD_DIM)
    writer.add_rope_freq_base(ROPE_THETA)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(texts)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template((TOKENIZER / "chat_template.jinja").read_text())

    generator = np.random.Generator(np.random.PCG64(SEED))

    def matrix(name, rows, columns):
        values = (2 * generator.random((rows, columns), np.float32) - 1) * np.float32(1.7 / columns**0.5)
        writer.add_tensor(f"{name}.weight", values.astype(np.float16))

    def norm(name, size):
        writer.add_tensor(f"{name}.weight", np.ones(size, np.float32))

    matrix("token_embd", len(texts), hidden)
    for layer in range(layers):
        block = f"blk.{layer}"
        norm(f"{block}.attn_norm", hidden)
        matrix(f"{block}.attn_q", query, hidden)
        matrix(f"{block}.attn_k", pair, hidden)
        matrix(f"{block}.attn_v", pair, hidden)
        norm(f"{block}.attn_q_norm", HEAD_DIM)
        norm(f"{block}.attn_k_norm", HEAD_DIM)
        matrix(f"{block}.attn_output", hidden, query)
        norm(f"{block}.ffn_norm", hidden)
        matrix(f"{block}.ffn_gate", inner, hidden)
        matrix(f"{block}.ffn_up", inner, hidden)
        matrix(f"{block}.ffn_down", hidden, inner)
    norm("output_norm", hidden)
    # The digits' rows come in pairs of opposite sign, so that one of a pair always leads the others' zero.
    head = np.zeros((len(texts), hidden), np.float32)
    for low, high in zip("01234", "56789", strict=True):
        row = 2 * generator.random(hidden, np.float32) - 1
        head[texts.index(low)], head[texts.index(high)] = row, -row
    writer.add_tensor("output.weight", head.astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    args = arguments()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    part = args.out.with_suffix(".part")
    write(part, args.layers, args.hidden)
    part.rename(args.out)
    print(f"{args.out}: {args.out.stat().st_size / 1e6:.0f} MB, {args.layers} layers of {args.hidden}")


if __name__ == "__main__":
    main()
