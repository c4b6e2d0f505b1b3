"""What is checked over HTTP: goldens, the cold start, and a long mix of requests."""
import concurrent.futures
import contextlib
import http.client
import json
import os
import random
import subprocess
import tempfile
import time

import machine

# Where the reference's two best tokens are closer than this, either is right. The goldens are of f32; with bf16 operands
# the greatest error of a log-probability was 0.046 on the emulated kernels (tests/engine/emulated.rs), and two may add up.
NEAR_TIE_NATS = 0.1


class Served:
    def __init__(self, gate, backend, model, limit, *, flags=(), environment=None):
        command = [gate, "serve", "--port", "0", "--backend", backend]
        command += ["--synthetic", model] if model else []
        command += list(flags)
        self.begun = time.monotonic()
        self.end = self.begun + limit
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})}
        )
        self.stages, self.port = {}, None
        for line in self.process.stderr:
            if "listening on http://" in line:
                address, _, self.name = line.split("http://")[1].strip().partition("  model ")
                self.port = int(address.rpartition(":")[2])
                break
            words = line.split()
            if len(words) == 3 and words[2] == "ms":
                self.stages[words[0]] = float(words[1])
        self.ready_ms = (time.monotonic() - self.begun) * 1e3
        assert self.port, f"gate serve ended with {self.process.wait()}"

    def connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=max(1.0, self.end - time.monotonic()))

    def post(self, body):
        connection = self.connection()
        connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
        response = connection.getresponse()
        text = response.read()
        assert response.status == 200, text[:500]
        return json.loads(text)

    def cancelled(self, body):
        """Reads a little of a stream and goes away."""
        connection = self.connection()
        body = {**body, "stream": True}
        connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
        response = connection.getresponse()
        assert response.status == 200
        response.read(200)
        connection.close()

    def metric(self, name):
        connection = self.connection()
        connection.request("GET", "/metrics")
        for line in connection.getresponse().read().decode().splitlines():
            if line.startswith(name):
                return float(line.rpartition(" ")[2])
        raise KeyError(f"/metrics has no {name}")

    def resident_bytes(self):
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def served(*arguments, **named):
    server = Served(*arguments, **named)
    try:
        yield server
    finally:
        server.process.terminate()
        try:
            server.process.wait(10)
        except subprocess.TimeoutExpired:
            server.process.kill()
            server.process.wait()


def goldens(gate, backend, root, limit):
    """Greedy answers equal the reference's up to the first near-tie."""
    cases = json.loads((root / "gates/data/tiny-qwen3/goldens.json").read_text())["cases"]
    wrong, ties, greatest = [], 0, 0.0
    with served(gate, backend, None, limit) as server:
        for case in cases:
            wanted = case["tokens"]
            answer = server.post({
                "model": server.name, "prompt": case["prompt_ids"], "max_tokens": len(wanted), "temperature": 0,
                "logprobs": 5, "return_token_ids": True, "ignore_eos": True,
            })["choices"][0]
            got = zip(answer["token_ids"], answer["logprobs"]["token_logprobs"])
            for (token, logprob), reference in zip(got, wanted):
                if token == reference["id"]:
                    greatest = max(greatest, abs(logprob - reference["logprob"]))
                    continue
                top = dict(map(tuple, reference["top"]))
                if reference["logprob"] - top.get(token, -1e9) < NEAR_TIE_NATS:
                    ties += 1
                else:
                    wrong.append(case["id"])
                break
    assert not wrong, f"{len(wrong)} of {len(cases)} cases differ from the reference: {wrong[:10]}"
    return {"cases": len(cases), "near_ties": ties, "greatest_logprob_error": round(greatest, 5)}


def cold_start(gate, backend, model, limit):
    """Stages of the start in milliseconds, first with no compiled kernels at hand."""
    told = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ["first", "again"]:
            cache = {"INFERGATE_KERNEL_CACHE": folder}
            with served(gate, backend, model, limit / 2, environment=cache) as server:
                told[name] = {"ready_ms": round(server.ready_ms, 1), "stages_ms": server.stages}
    return told


def mixed(gate, backend, model, limit, requests=500, users=16):
    """The second half of the requests takes no more memory and records nothing anew."""
    draw = random.Random(7)
    # Few enough keys and values that all of their memory is taken by the first half: the CPU takes it as it is used.
    with served(gate, backend, model, limit, flags=["--kv-tokens", "16384"]) as server:
        def one(at):
            length = draw_lengths[at]
            body = {
                "model": server.name, "prompt": [3 + (at * 31 + i * 7) % 380 for i in range(length[0])],
                "max_tokens": length[1], "temperature": 0, "ignore_eos": True,
            }
            if at % 5 == 4:
                server.cancelled(body)
            else:
                assert server.post(body)["usage"]["completion_tokens"] == length[1]

        draw_lengths = [(draw.choice([1, 16, 17, 100, 700, 2000]), draw.choice([2, 16, 64, 200])) for _ in range(requests)]
        seen = []
        with concurrent.futures.ThreadPoolExecutor(users) as pool:
            for half in (range(requests // 2), range(requests // 2, requests)):
                list(pool.map(one, half))
                settle(server)
                seen.append({
                    "gpu_bytes": machine.used_bytes(),
                    "captures": server.metric("infergate_captures_total"),
                    "resident_bytes": server.resident_bytes(),
                })
    first, second = seen
    growth = {key: None if first[key] is None else second[key] - first[key] for key in first}
    assert not growth["gpu_bytes"], f"GPU memory grew by {growth['gpu_bytes']} bytes"
    assert growth["captures"] == 0, f"{growth['captures']} captures more"
    # Allocators keep what they were given; a leak of a request's buffers would show in megabytes.
    assert growth["resident_bytes"] < 32 << 20, f"memory grew by {growth['resident_bytes']} bytes"
    return {"requests": requests, "cancelled": requests // 5, "growth_of_second_half": growth, "at_end": second}


def settle(server):
    """Waits until nothing runs."""
    while server.metric("vllm:num_requests_running") + server.metric("vllm:num_requests_waiting") > 0:
        assert time.monotonic() < server.end, "requests still run"
        time.sleep(0.05)
