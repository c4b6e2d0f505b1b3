"""Both engines in turns on each model: first that they compute the same, then how fast.

Main function: `run`. Refuses to know: how an engine is started or timed.
"""

import random
import statistics
import sys

import numpy as np

from scripts.compare import model
from scripts.compare.engines import Ours, Theirs, call_overhead, features, version

# Decoding: a short context, so that weights and not attention are what is read.
PROMPT, ANSWER = 16, 65
PREFILL = 512

CHECKED, TOP = 32, 5

# Greatest mean difference of log-probabilities (natural) that still counts as the same model: some three times the
# measured 0.0224 and 0.0034. llama.cpp keeps keys and values as f16, and rounds activations to bf16 where the weights
# are. Half of the right rotary base, the smallest fault seen, gave 0.173 with bf16 (31 of 32 tokens still equal).
TOLERANCE = {"bf16": 0.06, "f16": 0.01}


def run(gate, threads, repeats, types, work):
    print(f"{version()}\n{features()}\n{threads} threads each, {repeats} turns")
    for dtype in types:
        times = compare(gate, model.make(work, dtype), dtype, threads, repeats)
        print("| | ours, tokens/s | llama.cpp, tokens/s | ours / llama.cpp, each turn |\n|---|---|---|---|")
        print("\n".join(rows(dtype, times)), flush=True)


def ids(seed, count):
    return random.Random(seed).choices(range(model.VOCAB), k=count)


def compare(gate, home, dtype, threads, repeats):
    ours = Ours(gate, home, threads)
    try:
        theirs = Theirs(home / "model.gguf", threads)
        print("\n".join(theirs.settings()))
        check_same(ours, theirs, dtype)
        # Both read every weight once, so that the first turn finds all pages in memory.
        times = [turn(ours, theirs, seed) for seed in range(repeats + 1)][1:]
        argmax = statistics.median(theirs.argmax)
        print(
            f"{dtype}: not in llama.cpp's times: argmax in numpy {argmax * 1e6:.0f} µs a token;"
            f" in them: Python's calls {call_overhead() * 1e6:.1f} µs a token"
        )
        theirs.close()
        return times
    finally:
        ours.close()


def turn(ours, theirs, seed):
    """{what: (our seconds a token, theirs)}"""
    short, long = ids(seed, PROMPT), ids(seed, PREFILL)
    return {
        "decode": (ours.decode(short, ANSWER), theirs.decode(short, ANSWER)),
        "prefill": (ours.prefill(long), theirs.prefill(long)),
    }


def check_same(ours, theirs, dtype):
    """Ends the program if llama.cpp scores our greedy answer otherwise than we do."""
    prompt = ids(1000, PROMPT)
    answer, tops = ours.best(prompt, CHECKED, TOP)
    differences, agreed, lead = [], 0, 0.0
    for chosen, top, scored in zip(answer, tops, theirs.forced(prompt, answer), strict=True):
        differences += [abs(scored[token] - logprob) for token, logprob in top.items()]
        agreed += int(scored.argmax()) == chosen
        lead = max(lead, scored.max() - scored[chosen])
    mean, greatest = np.mean(differences), np.max(differences)
    print(
        f"{dtype}: {agreed} of {CHECKED} greedy tokens equal (where not, llama.cpp's leads by {lead:.3f} at most);"
        f" log-probabilities of the best {TOP} differ by {mean:.4f} in the mean, {greatest:.4f} at most"
    )
    if not mean <= TOLERANCE[dtype]:
        sys.exit(f"error: the engines do not compute the same model: the mean may be {TOLERANCE[dtype]}")


def rows(dtype, times):
    for what, size in (("decode", f"batch 1, context {PROMPT}–{PROMPT + ANSWER}"), ("prefill", f"{PREFILL} tokens")):
        ours, theirs = (spread([1 / turn[what][side] for turn in times], 1) for side in (0, 1))
        ratio = spread([turn[what][1] / turn[what][0] for turn in times], 2)
        yield f"| {dtype} {what}, {size} | {ours} | {theirs} | {ratio} |"


def spread(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"
