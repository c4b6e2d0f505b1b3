"""`gate serve` and llama.cpp on one hybrid model, both loaded, in turns.

Command: turns.py GATE STEP MODEL THREADS TURNS; STEP is step.cpp's program, MODEL what model.py wrote. A first turn does not count.
"""

import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import numpy as np

# Tokens of the prompt, and of the answer whose tokens after the first are timed; none: the prompt is timed.
ROWS = {"decode after 16 tokens": (16, 65), "decode after 1,024 tokens": (1024, 65), "prefill of 512 tokens": (512, 0)}


class Ours:
    def __init__(self, gate, model, threads):
        flags = ["--backend", "cpu", "--model", model, "--port", "0", "--threads", threads, "--max-context", "2048"]
        self.process = subprocess.Popen([gate, "serve", *flags], stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if found := re.match(r"listening on (http://\S+)", line):
                self.address = found[1]
                return
        sys.exit("error: gate serve ended before it listened")

    def complete(self, prompt, tokens, **more):
        body = dict(prompt=prompt, max_tokens=tokens, ignore_eos=True, temperature=0, cache_prompt=False, **more)
        head = {"content-type": "application/json"}
        request = urllib.request.Request(f"{self.address}/v1/completions", json.dumps(body).encode(), head)
        return json.load(urllib.request.urlopen(request))

    def seconds_a_token(self, prompt, tokens):
        timings = self.complete(prompt, max(tokens, 1))["timings"]
        if tokens:
            return timings["predicted_ms"] / 1e3 / (timings["predicted_n"] - 1)
        return timings["prompt_ms"] / 1e3 / timings["prompt_n"]


class Theirs:
    def __init__(self, step, model, threads):
        command = [step, f"{model}/model.gguf", threads]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def wait_ready(self):
        if self.process.stdout.readline() != "ready\n":
            sys.exit("error: llama.cpp does not load the model")

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def seconds_a_token(self, prompt, tokens):
        return float(self.ask("decode", tokens, *prompt) if tokens else self.ask("prefill", *prompt))


def compare(ours, theirs, vocab):
    """How far log-probabilities of one greedy answer of ours are apart: whether both compute the same model."""
    prompt = random.Random(1000).choices(range(vocab), k=16)
    more = dict(logprobs=5, return_token_ids=True, return_tokens_as_token_ids=True)
    choice = ours.complete(prompt, 32, **more)["choices"][0]
    answer = choice["token_ids"]
    with tempfile.NamedTemporaryFile() as file:
        assert theirs.ask("forced", file.name, *prompt, "|", *answer) == "ok"
        logits = np.fromfile(file.name, np.float32).reshape(len(answer), vocab).astype(np.float64)
    logits -= logits.max(1, keepdims=True)
    logits -= np.log(np.exp(logits).sum(1, keepdims=True))
    apart = [
        abs(logits[at, int(name.split(":")[1])] - value)
        for at, top in enumerate(choice["logprobs"]["top_logprobs"])
        for name, value in top.items()
    ]
    equal = sum(int(logits[at].argmax()) == token for at, token in enumerate(answer))
    print(f"{equal} of {len(answer)} greedy tokens equal; log-probabilities differ by {np.mean(apart):.4f}, at most {max(apart):.4f}")


class Machine:
    """What others did on the machine meanwhile, in shares of a core."""

    def __init__(self, processes):
        self.processes = [*processes, os.getpid()]

    def jiffies(self):
        with open("/proc/stat") as stat:
            user, nice, system, idle, wait, irq, soft, steal = map(int, stat.readline().split()[1:9])
        own = 0
        for process in self.processes:
            with open(f"/proc/{process}/stat") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
            own += int(fields[11]) + int(fields[12])
        return time.time(), user + nice + system + irq + soft - own, steal

    def during(self, work):
        begun, others, steal = self.jiffies()
        result = work()
        ended, others_then, steal_then = self.jiffies()
        ticks = (ended - begun) * os.sysconf("SC_CLK_TCK")
        return result, max(others_then - others, steal_then - steal) / ticks


def shown(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def main():
    gate, step, model, threads, turns = sys.argv[1:]
    with open(f"{model}/config.json") as config:
        vocab = json.load(config)["vocab_size"]
    engines = []
    try:
        ours = Ours(gate, model, threads)
        engines.append(ours)
        theirs = Theirs(step, model, threads)
        engines.append(theirs)
        theirs.wait_ready()
        compare(ours, theirs, vocab)
        machine = Machine([ours.process.pid, theirs.process.pid])
        rows = {}
        for turn in range(int(turns) + 1):
            for what, (length, tokens) in ROWS.items():
                prompt = random.Random(turn).choices(range(vocab), k=length)
                one, beside = machine.during(lambda: ours.seconds_a_token(prompt, tokens))
                other, beside_other = machine.during(lambda: theirs.seconds_a_token(prompt, tokens))
                print(f"turn {turn}, {what}: {one * 1e3:.2f} and {other * 1e3:.2f} ms a token, others {max(beside, beside_other):.2f} cores")
                if turn:
                    rows.setdefault(what, []).append((one, other))
        print("\n| | ours, tokens/s | llama.cpp, tokens/s | ours / llama.cpp, each turn |\n|---|---|---|---|")
        for what, pairs in rows.items():
            columns = [1 / one for one, _ in pairs], [1 / other for _, other in pairs], [other / one for one, other in pairs]
            print(f"| {what} | {' | '.join(map(shown, columns))} |")
    finally:
        for engine in engines:
            engine.process.kill()
            engine.process.wait()


if __name__ == "__main__":
    main()
