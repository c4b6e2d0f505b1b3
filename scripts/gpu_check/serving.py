"""What is checked over HTTP: goldens, starts, and a long mix of requests."""
import concurrent.futures
import json
import pathlib
import random
import tempfile
import threading
import time

import checkpoint
import machine
from server import served

# Where the reference's two best tokens are closer than this, either is right. The goldens are of f32; with bf16 operands
# the greatest error of a log-probability was 0.046 on the emulated kernels (tests/gpu/engine/emulated.rs), and two may add up.
NEAR_TIE_NATS = 0.1
# Four times that error: sums in another order may add to it, a wrong kernel is far beyond it.
LOGPROB_ERROR_NATS = 0.2
# Allocators keep what they were given; a leak of a request's buffers would show in megabytes.
RESIDENT_GROWTH_BYTES = 32 << 20
# cuBLASLt loads a kernel's code when the kernel first runs. A leak grows in each part of the requests, loaded code does not.
GPU_LOADED_BYTES = 64 << 20
PARTS = 4


def goldens(gate, backend, root, limit, model="tiny-qwen3"):
    """Greedy answers equal the reference's up to the first near-tie: one by one, and once more all at once."""
    cases = golden_cases(root, model)
    flags = ["--model", str(root / "gates/models" / model)]
    with served(gate, backend, None, limit, flags=flags) as server:
        one_by_one = compare(cases, [answer(server, case) for case in cases])
        gate_open = threading.Barrier(len(cases), timeout=10)
        with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
            answers = list(pool.map(lambda case: (gate_open.wait(), answer(server, case))[1], cases))
        return {"cases": len(cases), "one by one": one_by_one, "all at once": compare(cases, answers)}


def goldens_in_order(gate, backend, root, limit):
    """Where these are right and the others are not, a kernel begins before what it reads is written."""
    cases = golden_cases(root, "tiny-qwen3")
    with served(gate, backend, None, limit, environment={"INFERGATE_CUDA_IN_ORDER": "1"}) as server:
        return {"cases": len(cases), "one by one": compare(cases, [answer(server, case) for case in cases])}


def golden_cases(root, model):
    return json.loads((root / "gates/data" / model / "goldens.json").read_text())["cases"]


def answer(server, case):
    return server.post({
        "model": server.name, "prompt": case["prompt_ids"], "max_tokens": len(case["tokens"]), "temperature": 0,
        "logprobs": 5, "return_token_ids": True, "ignore_eos": True,
    })["choices"][0]


def compare(cases, answers):
    wrong, ties, errors = [], 0, []
    for case, got in zip(cases, answers):
        token, reference = until_other(case, got, errors)
        if reference is None:
            continue
        top = dict(map(tuple, reference["top"]))
        if reference["logprob"] - top.get(token, -1e9) < NEAR_TIE_NATS:
            ties += 1
        else:
            wrong.append(case["id"])
    assert not wrong, f"{len(wrong)} of {len(cases)} cases differ from the reference: {wrong[:10]}"
    beyond = [error for error in errors if not error < LOGPROB_ERROR_NATS]
    assert not beyond, f"log-probabilities differ by {beyond[:5]}, allowed is {LOGPROB_ERROR_NATS}"
    return {"near_ties": ties, "greatest_logprob_error": round(max(errors), 5)}


def until_other(case, got, errors):
    """Adds the errors up to the first token that is not the reference's; gives that token and the reference's."""
    assert len(got["token_ids"]) == len(case["tokens"]), f"{case['id']}: {len(got['token_ids'])} tokens"
    for token, logprob, reference in zip(got["token_ids"], got["logprobs"]["token_logprobs"], case["tokens"]):
        if token != reference["id"]:
            return token, reference
        errors.append(abs(logprob - reference["logprob"]))
    return None, None


def cold_start(gate, backend, model, limit):
    """Stages of the start in milliseconds, first with no compiled kernels at hand."""
    end, starts = time.monotonic() + limit, {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ["no compiled kernels", "compiled kernels"]:
            cache = {"INFERGATE_KERNEL_CACHE": folder}
            with served(gate, backend, model, end - time.monotonic(), environment=cache) as server:
                starts[name] = stages(server)
    return {"starts": starts}


def stages(server):
    return {**server.stages, "ready, from outside": round(server.ready_ms, 1)}


def from_files(gate, backend, root, config, limit):
    """Weights that are uploaded, and not made: where they came over whole, prompts are as likely as on the CPU."""
    end, draw = time.monotonic() + limit, random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        vocab = checkpoint.write(pathlib.Path(folder), config, root / "gates/models/tiny-qwen3/tokenizer.json")
        prompts = [[draw.randrange(vocab) for _ in range(length)] for length in (7, 40, 100)]
        starts, said = {}, []
        for on in (backend, "cpu"):
            with served(gate, on, None, end - time.monotonic(), flags=["--model", folder]) as server:
                said.append([logprob for prompt in prompts for logprob in likelihood(server, prompt)])
                starts[f"weights from files, {on}"] = stages(server)
    error = max(abs(got - want) for got, want in zip(*said))
    assert error < LOGPROB_ERROR_NATS, f"log-probabilities differ by {error}, allowed is {LOGPROB_ERROR_NATS}"
    return {"tokens": len(said[0]), "greatest_logprob_error": round(error, 5), "starts": starts}


def likelihood(server, prompt):
    """Log-probabilities of a prompt's tokens but for the first; an answer follows them."""
    said = server.post({
        "model": server.name, "prompt": prompt, "max_tokens": 4, "temperature": 0, "ignore_eos": True, "echo": True,
        "logprobs": 1,
    })
    assert said["usage"]["completion_tokens"] == 4, f"{said['usage']} where 4 tokens were asked for"
    return said["choices"][0]["logprobs"]["token_logprobs"][1 : len(prompt)]


def mixed(gate, backend, model, limit, requests=500, users=16):
    """Checks that GPU and host memory stop growing, and that no request captures a CUDA graph."""
    draw = random.Random(7)
    work = [(at, draw.choice([1, 16, 17, 100, 700, 2000]), draw.choice([2, 16, 64, 200])) for at in range(requests)]
    seen = []
    # Few enough keys and values that all of their memory is taken by the first parts: the CPU takes it as it is used.
    with served(gate, backend, model, limit, flags=["--kv-tokens", "16384"]) as server:
        seen.append(figures(server))
        with concurrent.futures.ThreadPoolExecutor(users) as pool:
            for part in range(PARTS):
                list(pool.map(lambda one: ask(server, *one), work[part::PARTS]))
                settle(server)
                seen.append(figures(server))
    return {"requests": requests, **judge(seen, sum(map(is_cancelled, range(requests))), backend == "cuda")}


def is_cancelled(at):
    return at % 5 == 4


def ask(server, at, prompt, answer_tokens):
    body = {
        "model": server.name, "prompt": [3 + (at * 31 + i * 7) % 380 for i in range(prompt)],
        "max_tokens": answer_tokens, "temperature": 0, "ignore_eos": True,
    }
    if is_cancelled(at):
        # Long enough that it still runs when the client has gone.
        server.cancelled({**body, "max_tokens": 1500})
    else:
        assert server.post(body)["usage"]["completion_tokens"] == answer_tokens


def settle(server):
    """Waits until nothing runs."""
    while server.metric("vllm:num_requests_running") + server.metric("vllm:num_requests_waiting") > 0:
        assert time.monotonic() < server.end, "requests still run"
        time.sleep(0.05)


def figures(server):
    return {
        "gpu_bytes": machine.used_bytes(),
        "resident_bytes": server.resident_bytes(),
        "captures": server.metric("infergate_captures_total"),
        "replays": server.find("infergate_replays_total"),
        "cancelled": server.metric("vllm:request_success_total", 'finished_reason="abort"'),
    }


def judge(seen, cancelled, on_gpu):
    start, end = seen[0], seen[-1]
    is_measured = all(figures["gpu_bytes"] is not None for figures in seen)
    growths = [difference(*pair, "gpu_bytes") for pair in zip(seen[1:], seen[2:])] if is_measured else []
    leaks = is_measured and all(growth > 0 for growth in growths)
    resident = difference(seen[PARTS // 2], end, "resident_bytes")
    captures, ended = difference(start, end, "captures"), difference(start, end, "cancelled")
    replays = difference(start, end, "replays")
    assert not leaks, f"GPU memory grew in each part of the requests, by {growths} bytes"
    assert sum(growths) <= GPU_LOADED_BYTES, f"GPU memory grew by {growths} bytes, allowed is {GPU_LOADED_BYTES} in all"
    assert captures == 0, f"{captures:.0f} captures after the start"
    assert resident < RESIDENT_GROWTH_BYTES, f"memory grew by {resident} bytes"
    assert ended >= cancelled // 2, f"the server saw {ended:.0f} of {cancelled} requests go away"
    assert not on_gpu or start["captures"] > 0, "nothing was recorded at the start"
    assert not on_gpu or replays is None or replays > 0, "what was recorded was never repeated"
    memory = f"{sum(growths)} bytes" if is_measured else "not measured"
    growth = f"GPU memory {memory}, host memory {resident} bytes, captures {captures:.0f}"
    told = {"growth": growth, "gone_away": cancelled, "cancelled_by_the_server": ended, "replays": replays}
    told["seen"] = seen
    if on_gpu and not is_measured:
        told["unfinished"] = "GPU memory not measured: nvidia-smi does not say"
    return told


def difference(before, after, key):
    return None if before[key] is None or after[key] is None else after[key] - before[key]
