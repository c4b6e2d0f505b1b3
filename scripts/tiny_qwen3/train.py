"""Trains the embedded model tiny-qwen3, or tiny-qwen3.5, and writes it with its tokenizer, its README and its tasks.

Inputs:  none. Problems are drawn from a fixed seed.
Outputs: gates/models/NAME/      the model as transformers saves it, and a README of this run
         gates/data/tiny-qwen3/tasks.jsonl   200 held-out problems, the same for both
Command: python scripts/tiny_qwen3/train.py [--family qwen3] [--steps 1500] [--threads 2]
"""

import argparse
import hashlib
import json
import platform
import random
import time
from collections import namedtuple
from datetime import date
from pathlib import Path

import safetensors
import tokenizers
import torch
import transformers
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoModelForCausalLM,
    GenerationConfig,
    PreTrainedTokenizerFast,
    Qwen3_5ForCausalLM,
    Qwen3_5TextConfig,
    Qwen3Config,
    Qwen3ForCausalLM,
)

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "gates/models"
TASKS_FILE = ROOT / "gates/data/tiny-qwen3/tasks.jsonl"

SEED = 20261121
VOCAB = 448
END_OF_TEXT, IM_START, IM_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
# What Qwen's tokenizers split by: words with one leading mark or space, single digits, runs of marks.
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CHAT_TEMPLATE = """\
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
MAX_TOKENS = 24  # the longest answer is 23 tokens and <|im_end|>

# ---- problems

Problem = namedtuple("Problem", "task key prompt answer")
CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
CONSONANTS, VOWELS = "bdfgklmnprstvz", "aeiou"


def add(rng):
    a, b = rng.randrange(100), rng.randrange(100)
    return Problem("add", f"{min(a, b)}+{max(a, b)}", f"What is {a}+{b}?", str(a + b))


def sub(rng):
    b, a = sorted((rng.randrange(100), rng.randrange(100)))
    return Problem("sub", f"{a}-{b}", f"What is {a}-{b}?", str(a - b))


def count(rng):
    first = rng.randrange(100)
    last = first + rng.randrange(2, 6 if first > 92 else 8)  # at most 23 tokens
    answer = " ".join(map(str, range(first, last + 1)))
    return Problem("count", f"{first}-{last}", f"Count from {first} to {last}.", answer)


def letters(rng):
    letter = rng.choice("ABC")
    text = "".join(rng.choices("ABC", k=rng.randrange(2, 9)))
    return Problem("letters", f"{letter} in {text}", f"How many {letter} in {text}?", str(text.count(letter)))


def copy(rng):
    word = "".join(rng.choice((CONSONANTS, VOWELS)[i % 2]) for i in range(10))
    start = rng.randrange(2)
    word = word[start : start + rng.randrange(2, 9)]
    return Problem("copy", word, f"Copy this:\n{word}", word)


def reverse(rng):
    text = "".join(rng.choices(CAPITALS, k=rng.randrange(2, 9)))
    return Problem("reverse", text, f"Reverse this:\n{text}", text[::-1])


# Each task with its share of the training turns.
TASKS = {add: 4, sub: 5, count: 2, letters: 4, copy: 2, reverse: 3}
RANGES = {
    "add": "two numbers of 0 to 99",
    "sub": "numbers of 0 to 99, the result not negative",
    "count": "3 to 8 consecutive numbers, starting at 0 to 99",
    "letters": "how often A, B or C occurs in a string of 2 to 8 of them",
    "copy": "a pronounceable word of 2 to 8 small letters",
    "reverse": "a string of 2 to 8 capitals",
}


def held_out(problem):
    """One problem in ten, by hash of what is asked: training never sees it, in whatever order of operands."""
    return hashlib.sha256(f"{problem.task}|{problem.key}".encode()).digest()[0] % 10 == 0


def draw(rng, want_held_out, task=None):
    task = task or rng.choices(list(TASKS), weights=TASKS.values())[0]
    while True:
        problem = task(rng)
        if held_out(problem) == want_held_out:
            return problem


def distinct_held_out(rng, task, limit):
    found = {}
    for _ in range(20 * limit):
        problem = draw(rng, True, task)
        found.setdefault(problem.prompt, problem)
        if len(found) == limit:
            break
    return list(found.values())


# ---- tokenizer and sequences


def train_tokenizer(rng):
    """Byte-level BPE. Strings of capitals are left out of its corpus, so that each capital stays one token."""
    problems = [draw(rng, False) for _ in range(40_000)]
    corpus = [f"user\n{p.prompt}" for p in problems if p.task not in ("letters", "reverse")]
    corpus += [p.answer for p in problems if p.task != "reverse"]
    corpus += ["How many in", "Reverse this:", "system", "assistant"] * 5_000
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=[END_OF_TEXT, IM_START, IM_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    assert tokenizer.get_vocab_size() == VOCAB
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=IM_END,
        pad_token=END_OF_TEXT,
        additional_special_tokens=[IM_START],
        clean_up_tokenization_spaces=False,
        model_max_length=32768,
        chat_template=CHAT_TEMPLATE,
    )


def turns_to_ids(tokenizer, problems):
    """Each problem as a pair: the tokens before the assistant's answer, and those of the answer."""
    before = [f"{IM_START}user\n{p.prompt}{IM_END}\n{IM_START}assistant\n" for p in problems]
    answers = [f"{p.answer}{IM_END}\n" for p in problems]
    return list(zip(tokenizer(before)["input_ids"], tokenizer(answers)["input_ids"]))


def batch(tokenizer, rng, rows, length):
    """Conversations of independent turns, cut at `length`, with labels on the answers and <|im_end|> alone."""
    ids = torch.empty(rows, length, dtype=torch.long)
    labels = torch.empty(rows, length, dtype=torch.long)
    turns = []
    for row in range(rows):
        row_ids, row_labels = [], []
        while len(row_ids) < length:
            if not turns:
                turns = turns_to_ids(tokenizer, [draw(rng, False) for _ in range(200)])
            before, answer = turns.pop()
            row_ids += before + answer
            row_labels += [-100] * len(before) + answer[:-1] + [-100]
        ids[row] = torch.tensor(row_ids[:length])
        labels[row] = torch.tensor(row_labels[:length])
    return ids, labels


# ---- model


FAMILIES = {
    "qwen3": (Qwen3ForCausalLM, Qwen3Config, dict(intermediate_size=384, num_hidden_layers=5)),
    # Two layers of the gated delta rule before each that attends.
    "qwen3.5": (
        Qwen3_5ForCausalLM,
        Qwen3_5TextConfig,
        dict(
            intermediate_size=320,
            num_hidden_layers=6,
            full_attention_interval=3,
            linear_num_key_heads=2,
            linear_num_value_heads=4,
            linear_key_head_dim=32,
            linear_value_head_dim=32,
        ),
    ),
}


def new_model(family, tokenizer):
    model_class, config_class, shape = FAMILIES[family]
    config = config_class(
        **shape,
        vocab_size=VOCAB,
        hidden_size=128,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=48,
        max_position_embeddings=32768,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = model_class(config)
    model.generation_config = GenerationConfig(
        do_sample=False,
        eos_token_id=[tokenizer.eos_token_id, tokenizer.pad_token_id],
        pad_token_id=tokenizer.pad_token_id,
    )
    return model


def orthogonal(gradient, coefficients, steps, eps):
    """Muon's Newton-Schulz iteration in float32: torch's is in bfloat16, which takes most of a step on a CPU without it."""
    a, b, c = coefficients
    x = gradient.T if gradient.size(0) > gradient.size(1) else gradient
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if gradient.size(0) > gradient.size(1) else x


def train(model, tokenizer, rng, steps):
    """Muon for the matrices, AdamW for embeddings, norms and convolutions; the last fifth of the steps has rows of 512 tokens."""
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
    others = [p for n, p in model.named_parameters() if p.ndim != 2 or "embed" in n]
    optimizers = [
        torch.optim.Muon(matrices, lr=5e-3, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=4e-3, betas=(0.9, 0.98), weight_decay=0.0),
    ]
    schedules = [
        torch.optim.lr_scheduler.LambdaLR(o, lambda s: min(1, (s + 1) / 50, 0.01 + 2.0 * (1 - s / steps)))
        for o in optimizers
    ]
    model.train()
    start = time.monotonic()
    for step in range(steps):
        rows, length = (32, 128) if step < 0.8 * steps else (8, 512)
        ids, labels = batch(tokenizer, rng, rows, length)
        loss = model(input_ids=ids, labels=labels, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, schedule in zip(optimizers, schedules):
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        if step % 100 == 99:
            print(f"step {step + 1} loss {loss.item():.4f} {time.monotonic() - start:.0f} s", flush=True)


@torch.no_grad()
def right_answers(model, tokenizer, conversations):
    """For each list of turns, whether greedy decoding gives the last turn's answer and <|im_end|>, token for token.

    One forward over prompt and answer shows it: decoding is right exactly if each answer token is the best one.
    """
    right = []
    for start in range(0, len(conversations), 50):
        prompts, answers = [], []
        for conversation in conversations[start : start + 50]:
            turns = turns_to_ids(tokenizer, conversation)
            prompts.append([i for before, answer in turns[:-1] for i in before + answer] + turns[-1][0])
            answers.append(turns[-1][1][:-1])
        width = max(len(p) + len(a) for p, a in zip(prompts, answers))
        rows = [p + a + [0] * (width - len(p) - len(a)) for p, a in zip(prompts, answers)]
        best = model(input_ids=torch.tensor(rows), use_cache=False).logits.argmax(-1).tolist()
        right += [b[len(p) - 1 : len(p) - 1 + len(a)] == a for b, p, a in zip(best, prompts, answers)]
    return right


def evaluate(model, tokenizer, rng):
    """Accuracy on held-out problems per task: alone, and as the last turn of a conversation of about 450 tokens."""
    rows = []
    for task in TASKS:
        problems = distinct_held_out(rng, task, 500)
        alone = right_answers(model, tokenizer, [[p] for p in problems])
        late_problems = problems[:100]
        history = [[draw(rng, True) for _ in range(17)] for _ in late_problems]
        late = right_answers(model, tokenizer, [h + [p] for h, p in zip(history, late_problems)])
        rows.append((task.__name__, sum(alone), len(alone), sum(late), len(late)))
        print("%s %d/%d, late %d/%d" % rows[-1], flush=True)
    return rows


# ---- output


def write_tasks(rng):
    TASKS_FILE.parent.mkdir(parents=True, exist_ok=True)
    with TASKS_FILE.open("w") as file:
        for index, task in enumerate(TASKS):
            for number, p in enumerate(distinct_held_out(rng, task, 34 if index < 2 else 33)):
                line = {
                    "id": f"{p.task}-{number:03}",
                    "task": p.task,
                    "messages": [{"role": "user", "content": p.prompt}],
                    "expect": p.answer,
                    "max_tokens": MAX_TOKENS,
                }
                file.write(json.dumps(line) + "\n")


def percent(right, of):
    return f"{100 * right / of:.1f} % of {of}"


def shape_of(config):
    """A sentence about the model's layers."""
    heads = f"{config.num_attention_heads} query and {config.num_key_value_heads} key-value heads of {config.head_dim}"
    recurrent = config.layer_types.count("linear_attention")
    if recurrent:
        heads += (
            f" in {config.num_hidden_layers - recurrent} of them, the gated delta rule in {recurrent} "
            f"({config.linear_num_key_heads} key heads of {config.linear_key_head_dim}, "
            f"{config.linear_num_value_heads} value heads of {config.linear_value_head_dim})"
        )
    return (
        f"{config.num_hidden_layers} layers, hidden {config.hidden_size}, {heads}, "
        f"MLP {config.intermediate_size}, vocabulary {config.vocab_size}, tied embeddings"
    )


def write_readme(args, directory, model, rows, seconds):
    table = [f"| {t} | {RANGES[t]} | {percent(r, n)} | {percent(lr, ln)} |" for t, r, n, lr, ln in rows]
    total = [sum(row[i] for row in rows) for i in range(1, 5)]
    size = (directory / "model.safetensors").stat().st_size
    family = {"qwen3": "Qwen3", "qwen3.5": "Qwen3.5"}[args.family]
    (directory / "README.md").write_text(
        f"""# {directory.name}

A {family}-class model small enough to live in the repository, and trained until it answers: short
arithmetic, counting, copying and reversing, in the chat format of its template. `gate serve` and the
tests load it. Written by `scripts/tiny_qwen3/train.py`; do not edit.

- Shape: {shape_of(model.config)}
- Parameters: {model.num_parameters():,}; `model.safetensors` {size:,} bytes, bf16
- Trained: {date.today()} by `python scripts/tiny_qwen3/train.py --family {args.family} --steps {args.steps} --threads {args.threads}`, seed {SEED}
- Training: {args.steps} steps of 4096 tokens, {seconds:.0f} s wall time on {args.threads} CPU threads
- Versions: Python {platform.python_version()}, torch {torch.__version__}, transformers {transformers.__version__}, tokenizers {tokenizers.__version__}, safetensors {safetensors.__version__}

Accuracy of greedy decoding on held-out problems, measured with float32 compute on the bf16 weights
loaded back from disk. An answer counts if every token of it and <|im_end|> is right. "Late" is the
last turn after 17 others.

| Task | Range | Alone | Late |
| --- | --- | --- | --- |
{chr(10).join(table)}
| all | | {percent(*total[:2])} | {percent(*total[2:])} |

Held out is one problem in ten, by the first byte of sha256("task|problem") modulo 10: training never
draws it. `a+b` and `b+a` are one problem. `gates/data/tiny-qwen3/tasks.jsonl` holds only such problems,
drawn without looking at the model's answers.
"""
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--family", choices=FAMILIES, default="qwen3")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(SEED)
    rng = {name: random.Random(f"{SEED} {name}") for name in ("tokenizer", "train", "evaluate", "tasks")}

    tokenizer = train_tokenizer(rng["tokenizer"])
    sample = draw(rng["tokenizer"], False)
    chat = [{"role": "user", "content": sample.prompt}, {"role": "assistant", "content": sample.answer}]
    rendered = tokenizer.apply_chat_template(chat, tokenize=True, return_dict=False)
    assert rendered == sum(turns_to_ids(tokenizer, [sample])[0], []), "training must use the template's format"

    directory = MODELS / f"tiny-{args.family}"
    model = new_model(args.family, tokenizer)
    if args.family != "qwen3":  # which was trained before this was found
        torch.optim._muon._zeropower_via_newtonschulz = orthogonal
    start = time.monotonic()
    train(model, tokenizer, rng["train"], args.steps)
    seconds = time.monotonic() - start
    model.to(torch.bfloat16).save_pretrained(directory)
    tokenizer.save_pretrained(directory)

    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    rows = evaluate(model, tokenizer, rng["evaluate"])
    write_readme(args, directory, model, rows, seconds)
    write_tasks(rng["tasks"])


if __name__ == "__main__":
    main()
