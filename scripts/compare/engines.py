"""The two engines behind one form: `Ours` is `gate serve` over HTTP, `Theirs` llama.cpp in this process.

Each has `decode` and `prefill`, which give seconds a token, and what the check needs of it. Refuses to know: turns,
medians, tables.
"""

import ctypes
import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import llama_cpp
import numpy as np

CONTEXT = 1024


class Ours:
    def __init__(self, gate, home, threads):
        command = [gate, "serve", "--model", home, "--port", "0", "--threads", threads, "--max-context", CONTEXT]
        self.process = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True)
        said = []
        for line in self.process.stderr:
            said.append(line)
            if address := re.match(r"listening on (http://\S+)", line):
                self.address = address[1]
                return
        sys.exit(f"error: `{' '.join(map(str, command))}` ended before it listened:\n{''.join(said)}")

    def close(self):
        self.process.terminate()
        self.process.wait()

    def complete(self, prompt, tokens, **more):
        body = dict(prompt=prompt, max_tokens=tokens, ignore_eos=True, temperature=0, cache_prompt=False, **more)
        request = urllib.request.Request(
            f"{self.address}/v1/completions", json.dumps(body).encode(), {"content-type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            sys.exit(f"error: `gate serve` refused a request: {error.read().decode()}")

    def decode(self, prompt, tokens):
        timings = self.complete(prompt, tokens)["timings"]
        return timings["predicted_ms"] / 1e3 / (timings["predicted_n"] - 1)

    def prefill(self, prompt):
        timings = self.complete(prompt, 1)["timings"]
        return timings["prompt_ms"] / 1e3 / timings["prompt_n"]

    def best(self, prompt, tokens, count):
        """The greedy answer, and for each of its tokens {id: log-probability} of the best `count`."""
        more = dict(logprobs=count, return_token_ids=True, return_tokens_as_token_ids=True)
        choice = self.complete(prompt, tokens, **more)["choices"][0]
        tops = choice["logprobs"]["top_logprobs"]
        return choice["token_ids"], [{int(name.split(":")[1]): lp for name, lp in top.items()} for top in tops]


class Theirs:
    def __init__(self, file, threads):
        self.said = []
        # Held: llama.cpp calls it as long as the process lives.
        self.log = llama_cpp.llama_log_callback(lambda _, text, __: self.said.append(text.decode(errors="replace")))
        llama_cpp.llama_log_set(self.log, None)
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(
            str(file).encode(), llama_cpp.llama_model_default_params()
        )
        if not self.model:
            sys.exit(f"error: llama.cpp cannot load {file}:\n{''.join(self.said)}")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = CONTEXT, 512, 512
        params.n_threads = params.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        if not self.context:
            sys.exit(f"error: llama.cpp cannot make a context:\n{''.join(self.said)}")
        self.vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        self.argmax = []

    def close(self):
        llama_cpp.llama_free(self.context)
        llama_cpp.llama_model_free(self.model)

    def settings(self):
        """What it says of the buffers for weights and cache, which decide on kernels, and of attention."""
        said = "".join(self.said).splitlines()
        return [line.strip() for line in said if re.search(r"(model|KV) buffer size|flash_attn|Flash Attention", line)]

    def forget(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)

    def step(self, tokens):
        """Computes these tokens. Gives the last one's logits, a view that the next step overwrites, and seconds."""
        array = (llama_cpp.llama_token * len(tokens))(*tokens)
        start = time.perf_counter()
        status = llama_cpp.llama_decode(self.context, llama_cpp.llama_batch_get_one(array, len(tokens)))
        logits = llama_cpp.llama_get_logits_ith(self.context, -1)
        elapsed = time.perf_counter() - start
        if status != 0:
            sys.exit(f"error: llama_decode gave {status}:\n{''.join(self.said[-20:])}")
        return np.ctypeslib.as_array(logits, shape=(self.vocab,)), elapsed

    def decode(self, prompt, tokens):
        self.forget()
        logits, _ = self.step(prompt)
        total = 0.0
        for _ in range(tokens - 1):
            start = time.perf_counter()
            best = int(logits.argmax())
            self.argmax.append(time.perf_counter() - start)
            logits, elapsed = self.step([best])
            total += elapsed
        return total / (tokens - 1)

    def prefill(self, prompt):
        self.forget()
        return self.step(prompt)[1] / len(prompt)

    def forced(self, prompt, answer):
        """Log-probabilities of the whole vocabulary before each token of `answer`."""
        self.forget()
        for tokens in [prompt, *([token] for token in answer[:-1])]:
            logits = self.step(tokens)[0].astype(np.float64)
            logits -= logits.max()
            yield logits - np.log(np.exp(logits).sum())


def call_overhead():
    """Seconds that Python adds to a timed step: the same calls and clock, on a function that does nothing."""
    nothing = ctypes.CDLL(None).getppid
    array = (llama_cpp.llama_token * 1)(0)
    times = []
    for _ in range(1000):
        start = time.perf_counter()
        llama_cpp.llama_batch_get_one(array, 1)
        nothing()
        nothing()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def features():
    return llama_cpp.llama_print_system_info().decode().strip()


def version():
    """llama-cpp-python's version and the commit that ggml says it was built from."""
    for file in sorted((Path(llama_cpp.__file__).parent / "lib").glob("libggml-base*")):
        ggml = ctypes.CDLL(str(file))
        ggml.ggml_commit.restype = ctypes.c_char_p
        return f"llama-cpp-python {llama_cpp.__version__}, ggml commit {ggml.ggml_commit().decode()}"
    return f"llama-cpp-python {llama_cpp.__version__}"
