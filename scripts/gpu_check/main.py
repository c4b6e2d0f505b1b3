#!/usr/bin/env python3
"""Checks and times the CUDA engine on this machine's GPU; writes gpu-check.json and gpu-check.md.

Steps, each with its own limit, so that all end in nine minutes: kernels against their f64 twins; goldens of the
embedded model over HTTP; compute-sanitizer's memcheck and racecheck, where it is installed; roofline and prefill of
0.6B, 1.7B, 4B and 8B with random weights; the cold start by stage, without and with compiled kernels at hand; and 500
mixed requests, a fifth of them cancelled, without growth of memory or captures.

Ends with 0 where all passed, 1 where a step failed, 5 where there is no GPU to check. With --rehearse it goes through
the same steps on the CPU with the embedded model and small numbers: for trying the script itself.
"""
import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import time

import machine
import serving
from steps import Steps

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = ["qwen3-0.6b", "qwen3-1.7b", "qwen3-4b", "qwen3-8b"]
# Of nine minutes, what writing and ending take.
BUDGET_S = 530


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target/gpu-check", help="where the two files go")
    parser.add_argument("--gate", type=pathlib.Path, help="a built gate; without it, cargo builds one")
    parser.add_argument("--parity", type=pathlib.Path, help="the built test kernel_parity; without it, cargo builds it")
    parser.add_argument("--only", action="append", default=[], metavar="STEP", help="this step alone (repeatable)")
    parser.add_argument("--rehearse", action="store_true", help="try the script without a GPU")
    return parser.parse_args()


def main():
    options = arguments()
    gpu = machine.gpu()
    if gpu is None and not options.rehearse:
        print("gpu-check: no NVIDIA GPU answers on this machine (libcuda.so.1): nothing was checked", file=sys.stderr)
        return 5
    machine.find_libraries()
    begun = time.monotonic()
    gate = options.gate or build(["--bin", "gate"], "gate")
    parity = options.parity or build(["--test", "kernel_parity"], "kernel_parity")
    options.out.mkdir(parents=True, exist_ok=True)
    backend = "cpu" if options.rehearse else "cuda"
    steps = Steps(BUDGET_S, options.only)
    steps.run("parity", 120, lambda limit: run_parity(parity, limit, options.rehearse))
    steps.run("goldens", 60, lambda limit: serving.goldens(gate, backend, ROOT, limit))
    models = [None] if options.rehearse else MODELS
    for model in models:
        steps.run(f"roofline {model or 'embedded'}", 90, lambda limit, model=model: roofline(gate, backend, model, limit))
    cold = None if options.rehearse else "qwen3-4b"
    steps.run("cold start", 60, lambda limit: serving.cold_start(gate, backend, cold, limit))
    mixed = None if options.rehearse else "qwen3-0.6b"
    steps.run("mixed requests", 90, lambda limit: serving.mixed(gate, backend, mixed, limit))
    # Last: it is the slowest by far, and what it leaves out can be run by hand.
    for tool in ["memcheck", "racecheck"]:
        steps.run(tool, 150, lambda limit, tool=tool: sanitize(parity, tool, limit))
    result = {
        "format": "infergate-gpu-check/1",
        "rehearsal": options.rehearse,
        "gpu": gpu,
        "commit": commit(),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - begun, 1),
        "passed": steps.passed(),
        "steps": steps.results,
    }
    (options.out / "gpu-check.json").write_text(json.dumps(result, indent=2) + "\n")
    text = machine.markdown(result)
    (options.out / "gpu-check.md").write_text(text)
    print(text)
    return 0 if result["passed"] else 1


def build(target, name):
    """Builds with cargo and gives the executable's path."""
    command = ["cargo", "build", "--release", "--locked", "--message-format=json", *target]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    for line in done.stdout.splitlines():
        artifact = json.loads(line)
        if artifact.get("executable") and artifact["target"]["name"] == name:
            return pathlib.Path(artifact["executable"])
    raise SystemExit(f"gpu-check: cargo built no {name}")


def commit():
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or os.environ.get("GPU_CHECK_COMMIT", "unknown")


def run_parity(parity, limit, rehearse):
    done = subprocess.run([parity, "--nocapture"], cwd=ROOT, capture_output=True, text=True, timeout=limit)
    output = done.stdout + done.stderr
    summary = [line for line in output.splitlines() if line.startswith("test result:")]
    assert done.returncode == 0, output[-3000:]
    # The tests say so themselves, within a line of the runner's.
    elsewhere = "): emulated" in output or "SKIPPED:" in output
    assert rehearse or not elsewhere, f"kernels did not run on the GPU: {output[-3000:]}"
    return {"summary": summary[-1] if summary else output[-300:]}


def roofline(gate, backend, model, limit):
    command = [gate, "roofline", "--backend", backend, "--format", "json"]
    if model is None:
        command += ["--context", "1,64", "--prefill", "64", "--repeats", "2", "--threads", "1"]
    else:
        command += ["--synthetic", model, "--context", "1,1024,8192", "--prefill", "128,1024,8192"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def sanitize(parity, tool, limit):
    sanitizer = machine.sanitizer()
    if sanitizer is None:
        return {"skipped": "compute-sanitizer is not installed"}
    command = [sanitizer, "--tool", tool, "--error-exitcode", "9", parity, "--nocapture", "--test-threads", "1"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired as late:
        # What it had seen by then stands; a report of an error fails all the same.
        output = (late.stdout or b"").decode(errors="replace")
        assert "Invalid" not in output and "hazard" not in output, output[-3000:]
        passed = sum(line.endswith("... ok") for line in output.splitlines())
        return {"unfinished": f"{passed} tests without a finding in {limit:.0f} s"}
    output = done.stdout + done.stderr
    assert done.returncode == 0, output[-3000:]
    return {"summary": next((line for line in output.splitlines() if "SUMMARY" in line), "no finding")}


if __name__ == "__main__":
    sys.exit(main())
