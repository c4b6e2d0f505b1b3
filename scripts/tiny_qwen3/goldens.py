"""Greedy completions of a small model by Hugging Face transformers: what the in-tree engine is held against.

Inputs:  gates/models/NAME/, gates/data/tiny-qwen3/tasks.jsonl
Outputs: gates/data/NAME/goldens.json
Command: python scripts/tiny_qwen3/goldens.py [NAME]     (tiny-qwen3, or tiny-qwen3.5)

float32 compute on the bf16 weights, eager attention, no cache. A token's logprob and the top tokens are of
the log-softmax (natural logarithm) of the raw logits, from one forward over prompt and output. Prompts drawn
at random are drawn again until each best token leads by MARGIN nats, so that rounding cannot turn a choice;
texts are kept as they are. `min_margin` is the smallest lead in the case. A token's `text` is that token
decoded alone; the completion's `text` leaves special tokens out. Chat prompts carry their `messages`.
"""

import json
import random
import sys
from pathlib import Path

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

ROOT = Path(__file__).resolve().parents[2]
TASKS = ROOT / "gates/data/tiny-qwen3/tasks.jsonl"
SEED, NEW_TOKENS, TOP_K, MARGIN = 20261121, 32, 5, 0.02

TEXTS = {
    "word": "Copy",
    "english": "The quick brown fox jumps over the lazy dog.",
    "spaces": "  two  spaces,\ttabs\t and\n\n\nlines \n",
    "code": 'fn main() { println!("{:?}", [1, 22, 333]); }',
    "accents": "Zażółć gęślą jaźń — naïve café, Ångström",
    "decomposed": "Cafe\u0301 and n\u0303 are composed by NFC",
    "cyrillic": "Съешь же ещё этих мягких французских булок",
    "cjk": "日本語のテキスト、中文和한국어",
    "emoji": "😀 family: 👩‍👩‍👧‍👦 flag: 🇳🇴 skin: 👍🏽",
    "arabic": "مرحبا بالعالم ١٢٣",
    "specials": "<|im_start|>user\nWhat is 1+1?<|im_end|>\n<|im_start|>system\n<|im_end|>",
}
RANDOM_LENGTHS = [1, 2, 3, 7, 15, 16, 17, 31, 33, 64, 100, 129, 255, 256, 600]
TURNS = [2, 3, 5, 9, 16, 23]


@torch.no_grad()
def complete(model, prompt_ids, new_tokens, stop_ids=()):
    """The greedy tokens with logprob and top tokens, and the smallest lead of a best token over the second."""
    ids = list(prompt_ids)
    while len(ids) < len(prompt_ids) + new_tokens and not (len(ids) > len(prompt_ids) and ids[-1] in stop_ids):
        ids.append(model(torch.tensor([ids]), use_cache=False).logits[0, -1].argmax().item())
    logits = model(torch.tensor([ids]), use_cache=False).logits[0, len(prompt_ids) - 1 : -1]
    best = torch.log_softmax(logits, -1).topk(TOP_K)
    tokens = []
    for token, logprobs, top_ids in zip(ids[len(prompt_ids) :], best.values.tolist(), best.indices.tolist()):
        assert token == top_ids[0], "a greedy choice changed with the length of the forward"
        top = [[i, round(logprob, 6)] for i, logprob in zip(top_ids, logprobs)]
        tokens.append({"id": token, "logprob": top[0][1], "top": top})
    return tokens, round((best.values[:, 0] - best.values[:, 1]).min().item(), 6)


def golden(model, tokenizer, name, prompt_ids, prompt_text=None, messages=None, ignore_eos=False):
    tokens, margin = complete(
        model, prompt_ids, NEW_TOKENS, () if ignore_eos else model.generation_config.eos_token_id
    )
    ids = [token["id"] for token in tokens]
    stopped = not ignore_eos and ids[-1] in model.generation_config.eos_token_id
    return {
        "id": name,
        **({"messages": messages} if messages else {}),
        "prompt_text": prompt_text,
        "prompt_ids": prompt_ids,
        **({"ignore_eos": True} if ignore_eos else {}),
        "tokens": [{"id": t["id"], "text": tokenizer.decode([t["id"]]), **t} for t in tokens],
        "text": tokenizer.decode(ids, skip_special_tokens=True),
        "finish": "stop" if stopped else "length",
        "min_margin": margin,
    }


def text_golden(model, tokenizer, name, text):
    return golden(model, tokenizer, name, tokenizer(text)["input_ids"], text)


def chat_golden(model, tokenizer, name, messages, ignore_eos=False):
    text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    return golden(model, tokenizer, name, tokenizer(text)["input_ids"], text, messages, ignore_eos)


def until_clear(draw):
    """The first of the drawn cases whose every choice is clear."""
    while True:
        case = draw()
        if case["min_margin"] >= MARGIN:
            return case


def named_ids(cases):
    """Every token id that a top list names: an engine's answer is told by text."""
    return {i for case in cases for token in case["tokens"] for i, _ in token["top"]}


def main():
    torch.set_num_threads(1)
    name = sys.argv[1] if sys.argv[1:] else "tiny-qwen3"
    directory, out = ROOT / "gates/models" / name, ROOT / "gates/data" / name / "goldens.json"
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(directory)
    tasks = [json.loads(line) for line in TASKS.read_text().splitlines()]
    rng = random.Random(SEED)

    def conversation(turns):
        messages = []
        for task in rng.sample(tasks, turns):
            messages += [*task["messages"], {"role": "assistant", "content": task["expect"]}]
        return messages[:-1]

    def random_ids(length):
        return [rng.randrange(3, model.config.vocab_size) for _ in range(length)]

    cases = []
    for index, task in enumerate(tasks[5::20]):
        cases.append(chat_golden(model, tokenizer, task["id"], task["messages"]))
        if index % 3 == 0:
            case = f"chat-{index // 3}-ignore-eos"
            cases.append(until_clear(lambda: chat_golden(model, tokenizer, case, conversation(1), True)))
    for turns in TURNS:
        cases.append(until_clear(lambda: chat_golden(model, tokenizer, f"turns-{turns}", conversation(turns))))
    system = [{"role": "system", "content": "Answer with the result alone."}]
    cases.append(until_clear(lambda: chat_golden(model, tokenizer, "system", system + conversation(1))))
    for case, text in TEXTS.items():
        cases.append(text_golden(model, tokenizer, f"text-{case}", text))
    for index, length in enumerate(RANDOM_LENGTHS):
        case, ignore_eos = f"random-{length}", index % 2 == 0
        cases.append(
            until_clear(lambda: golden(model, tokenizer, case, random_ids(length), ignore_eos=ignore_eos))
        )

    goldens = {
        "format": "infergate-goldens/1",
        "model": name,
        "made_by": f"transformers {transformers.__version__}, torch {torch.__version__}, float32",
        "top_k": TOP_K,
        "texts": {i: tokenizer.decode([i]) for i in sorted(named_ids(cases))},
    }
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    head = json.dumps(goldens, ensure_ascii=False)[:-1]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(f'{head}, "cases": [\n{lines}\n]}}\n')
    print(f"{len(cases)} cases, smallest margin {min(case['min_margin'] for case in cases)}")


if __name__ == "__main__":
    main()
