"""A model folder with random weights, as Hugging Face lays it out; by the standard library alone.

Main function: `write`. Norms are 1; a matrix's numbers are bf16 with a random sign and mantissa and an exponent that gives
about Qwen3's standard deviation of 0.02. One random block is repeated throughout: its length in numbers is odd, so that no
two rows are equal. Refuses to know: who reads it.
"""
import json
import os
import shutil

BLOCK_NUMBERS = (4 << 20) + 1
# A number's high byte: from 2^-7 to 2^-5, of either sign. The low byte has the exponent's last bit and the mantissa.
HIGH = bytes(0x3C | byte & 0x80 for byte in range(256))
ONE = b"\x80\x3f"


def write(folder, config_file, tokenizer_file):
    """Of the shape that the configuration says; gives the size of its vocabulary, of which the tokenizer may know less."""
    config = json.loads(config_file.read_text())
    shutil.copy(config_file, folder / "config.json")
    shutil.copy(tokenizer_file, folder / "tokenizer.json")
    with (folder / "model.safetensors").open("wb") as file:
        file.write(header(config))
        block = Block()
        for _, shape in tensors(config):
            if len(shape) == 1:
                file.write(ONE * shape[0])
            else:
                block.write(file, 2 * shape[0] * shape[1])
    return config["vocab_size"]


def tensors(config):
    hidden, head, middle = config["hidden_size"], config["head_dim"], config["intermediate_size"]
    q, kv = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    yield "model.embed_tokens", (config["vocab_size"], hidden)
    for layer in range(config["num_hidden_layers"]):
        for name, shape in [
            ("input_layernorm", (hidden,)),
            ("self_attn.q_proj", (q, hidden)),
            ("self_attn.k_proj", (kv, hidden)),
            ("self_attn.v_proj", (kv, hidden)),
            ("self_attn.q_norm", (head,)),
            ("self_attn.k_norm", (head,)),
            ("self_attn.o_proj", (hidden, q)),
            ("post_attention_layernorm", (hidden,)),
            ("mlp.gate_proj", (middle, hidden)),
            ("mlp.up_proj", (middle, hidden)),
            ("mlp.down_proj", (hidden, middle)),
        ]:
            yield f"model.layers.{layer}.{name}", shape
    yield "model.norm", (hidden,)


def header(config):
    said, end = {}, 0
    for name, shape in tensors(config):
        numbers = shape[0] * (shape[1] if len(shape) == 2 else 1)
        start, end = end, end + 2 * numbers
        said[f"{name}.weight"] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(said).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


class Block:
    """Random numbers without an end."""

    def __init__(self):
        numbers = bytearray(os.urandom(2 * BLOCK_NUMBERS))
        numbers[1::2] = numbers[1::2].translate(HIGH)
        self.numbers, self.at = memoryview(numbers), 0

    def write(self, file, count):
        while count > 0:
            part = self.numbers[self.at : self.at + count]
            file.write(part)
            count -= len(part)
            self.at = (self.at + len(part)) % len(self.numbers)
