#!/usr/bin/env python3
"""Checks and times the CUDA engine on this machine's GPU; writes gpu-check.json and gpu-check.md.

The steps share nine minutes; cargo's build is not counted. Later steps use what a step leaves of its share.

  facts             clocks, power and throttling of the GPU, versions of the libraries; `facts after` reads the GPU again
  compile           all kernels, into the cache that later steps read
  parity            each kernel against its f64 twin; a failing test runs again by itself
  goldens           greedy answers over HTTP against the reference: the embedded model one by one and all at once, the hybrid,
                    and with kernels in order
  roofline          TPOT and TTFT of Qwen3 0.6B, 1.7B, 4B and 8B and of Qwen3.5-4B, random weights; Qwen3-4B again with
                    kernels in order
  kernels           the time of each kernel of a decoded token, Qwen3 0.6B and 4B
  cold start        by stage, Qwen3-4B with random weights, without and with compiled kernels
  from files        the start of 0.6B from files; log-probabilities against the CPU's
  mixed requests    500 requests, a fifth of them cancelled: growth of memory, new CUDA graphs
  memcheck, racecheck   compute-sanitizer on the parity tests, bf16

Compiled kernels are in INFERGATE_KERNEL_CACHE, or else in a directory that is deleted at the end. A folder `kernels` beside
--gate is copied there first. The output of a step that did not pass is in STEP.log beside the two files: that of parity,
memcheck and racecheck, and of the first two other steps.

Exit codes: 0, all steps passed; 1, a step failed ("failed: ...") or was skipped or unfinished ("incomplete: ...", as without
compute-sanitizer); 5, no GPU. A speed target that is not met is printed first and does not change the exit code. With --only
the file's `complete` is false, and 0 means that the named steps passed. --rehearse runs the same steps on the CPU with the
embedded model and small numbers, to try the script itself.

A machine with a GPU needs no cargo: --pack DIR on another machine makes stripped programs and compiled kernels, and --gate
and --parity name the programs. GPU_CHECK_COMMIT names the commit where the tree has no git.
"""
import argparse
import contextlib
import datetime
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import machine
import parity
import programs
import report
import serving
from facts import Facts
from logs import Logs
from steps import Step, Steps
from targets import targets

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Seconds; 8B reads most.
MODELS = {"qwen3-0.6b": 20, "qwen3-1.7b": 25, "qwen3-4b": 30, "qwen3-8b": 40, "qwen3.5-4b": 30}
# The same without programmatic dependent launch.
IN_ORDER = "roofline qwen3-4b in order"
ROOFLINES = [*(f"roofline {model}" for model in MODELS), IN_ORDER]
# Seconds.
TIMED = {"qwen3-0.6b": 15, "qwen3-4b": 20}
KERNELS = [f"kernels {model}" for model in TIMED]
STEPS = [
    "facts", "compile", "parity", "goldens", "goldens hybrid", "goldens in order", *ROOFLINES, "roofline embedded", *KERNELS,
    "cold start",
    "from files", "mixed requests", "facts after", "memcheck", "racecheck",
]
# What cargo builds, and its name.
GATE = (["--bin", "gate"], "gate")
PARITY = (["--test", "gpu"], "gpu")
# Of nine minutes, what writing and ending take.
BUDGET_S = 530


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target/gpu-check", help="where the two files go")
    parser.add_argument("--gate", type=program, help="a built gate; without it, cargo builds one")
    parser.add_argument("--parity", type=program, help="the built test program gpu; without it, cargo builds it")
    parser.add_argument(
        "--only", action="append", default=[], choices=STEPS, metavar="STEP",
        help="this step alone (repeatable): %(choices)s",
    )
    parser.add_argument(
        "--pack", type=pathlib.Path, metavar="DIR",
        help="only put both programs and compiled kernels into DIR, for a machine without cargo",
    )
    parser.add_argument("--arch", default="sm_90", help="what --pack compiles kernels for, as sm_90,sm_100 [%(default)s]")
    parser.add_argument("--rehearse", action="store_true", help="try the script without a GPU")
    options = parser.parse_args()
    on_gpu = ["compile", *ROOFLINES, *KERNELS]
    other = set(options.only) & set(on_gpu if options.rehearse else ["roofline embedded"])
    if other:
        where = "not in a rehearsal" if options.rehearse else "with --rehearse alone"
        parser.error(f"{', '.join(sorted(other))}: {where}")
    return options


def program(text):
    path = pathlib.Path(text).resolve()
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"no program: {path}")
    if not os.access(path, os.X_OK):
        raise argparse.ArgumentTypeError(f"a copy may have dropped its mode, so that it does not run: chmod +x {path}")
    return path


def main():
    options = arguments()
    if options.pack:
        return pack(options)
    gpu = machine.gpu()
    if gpu is None and not options.rehearse:
        print("gpu-check: no NVIDIA GPU answers on this machine (libcuda.so.1): nothing was checked", file=sys.stderr)
        return 5
    # Asked to end, it ends what it started: those programs have sessions of their own.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    machine.find_libraries()
    gate = options.gate or build(*GATE)
    tests = options.parity or build(*PARITY)
    options.out.mkdir(parents=True, exist_ok=True)
    facts = Facts()
    planned = plan(gate, tests, gpu, facts, options.rehearse)
    chosen = [step for step in planned if not options.only or step.name in options.only]
    about = {"rehearsal": options.rehearse, "only": options.only, "gpu": gpu, "cpu": machine.cpu(), **commit()}
    about["facts"] = facts.found
    begun = time.monotonic()
    steps = Steps(chosen, BUDGET_S, Logs(options.out, STEPS), lambda: write(options.out, about, steps, begun))
    with kernel_cache(gate.parent / "kernels"):
        steps.run()
    print(write(options.out, about, steps, begun))
    return 0 if steps.outcome() == "passed" else 1


@contextlib.contextmanager
def kernel_cache(packed):
    """The directory of compiled kernels for all programs, with a copy of the packed ones, which may be read-only."""
    with tempfile.TemporaryDirectory() as folder:
        cache = pathlib.Path(os.environ.get("INFERGATE_KERNEL_CACHE") or folder)
        os.environ["INFERGATE_KERNEL_CACHE"] = str(cache)
        cache.mkdir(parents=True, exist_ok=True)
        for entry in packed.glob("*.kernels"):
            # A pack may come from elsewhere: a link could name any file.
            is_plain = entry.is_file() and not entry.is_symlink()
            if is_plain and not (cache / entry.name).exists():
                shutil.copyfile(entry, cache / entry.name)
        yield


def plan(gate, tests, gpu, facts, rehearse):
    """The shares add up to 528 of the 530 seconds; the sanitizers are last and have what the others leave, beside their own."""
    backend, on_gpu = ("cpu", lambda _: None) if rehearse else ("cuda", lambda model: model)
    models = {"embedded": 25} if rehearse else MODELS
    config = ROOT / ("gates/models/tiny-qwen3/config.json" if rehearse else "src/engine/synthetic/qwen3-0.6b.json")

    def roofline(model):
        return lambda limit: programs.roofline(gate, backend, on_gpu(model), limit)

    def in_order(limit):
        return programs.roofline(gate, backend, "qwen3-4b", limit, INFERGATE_CUDA_IN_ORDER="1")

    def kernels(model):
        return lambda limit: programs.kernels(gate, model, limit)

    compiling = Step("compile", 30, lambda limit: programs.compile_kernels(gate, gpu["arch"], limit))
    return [
        Step("facts", 10, facts.before),
        *([] if rehearse else [compiling]),
        Step("parity", 60, lambda limit: parity.run(tests, ROOT, limit, rehearse)),
        Step("goldens", 20, lambda limit: serving.goldens(gate, backend, ROOT, limit)),
        Step("goldens hybrid", 14, lambda limit: serving.goldens(gate, backend, ROOT, limit, "tiny-qwen3.5")),
        Step("goldens in order", 15, lambda limit: serving.goldens_in_order(gate, backend, ROOT, limit)),
        *(Step(f"roofline {model}", share, roofline(model)) for model, share in models.items()),
        *([] if rehearse else [Step(IN_ORDER, 24, in_order)]),
        *(Step(f"kernels {model}", share, kernels(model)) for model, share in TIMED.items() if not rehearse),
        Step("cold start", 35, lambda limit: serving.cold_start(gate, backend, on_gpu("qwen3-4b"), limit)),
        Step("from files", 30, lambda limit: serving.from_files(gate, backend, ROOT, config, limit)),
        Step("mixed requests", 40, lambda limit: serving.mixed(gate, backend, on_gpu("qwen3-0.6b"), limit)),
        Step("facts after", 6, facts.after),
        *(
            Step(tool, 32, lambda limit, tool=tool: programs.sanitize(tests, ROOT, tool, limit, rehearse))
            for tool in ["memcheck", "racecheck"]
        ),
    ]


def write(out, about, steps, begun):
    """Both files as things stand: what is cut off leaves what it had, and says that it is not complete."""
    outcome = steps.outcome()
    result = {
        "format": "infergate-gpu-check/2",
        **about,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "seconds": round(time.monotonic() - begun, 1),
        "outcome": outcome + (f" (only {', '.join(about['only'])})" if about["only"] else ""),
        "passed": outcome == "passed",
        "complete": not steps.open() and not about["only"],
        "targets": targets(steps.results, about["rehearsal"]),
        "steps": steps.results,
    }
    (out / "gpu-check.json").write_text(json.dumps(result, indent=2) + "\n")
    text = report.markdown(result)
    (out / "gpu-check.md").write_text(text)
    return text


def pack(options):
    """Both programs without their debug information, five sixths of them, and compiled kernels."""
    folder = options.pack
    folder.mkdir(parents=True, exist_ok=True)
    for built, (target, name) in ((options.gate, GATE), (options.parity, PARITY)):
        subprocess.run(["strip", "-o", folder / name, built or build(target, name)], check=True)
    machine.find_libraries()
    programs.pack_kernels((folder / "gate").resolve(), options.arch, folder / "kernels")
    print(f"bash scripts/gpu-check --gate {folder}/gate --parity {folder}/gpu")
    return 0


def build(target, name):
    """Builds with cargo and gives the executable's path."""
    if shutil.which("cargo") is None:
        raise SystemExit("gpu-check: no cargo on this machine; --pack on one with it makes what --gate and --parity take")
    command = ["cargo", "build", "--release", "--locked", "--message-format=json", *target]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    for line in done.stdout.splitlines():
        artifact = json.loads(line)
        if artifact.get("executable") and artifact["target"]["name"] == name:
            return pathlib.Path(artifact["executable"])
    raise SystemExit(f"gpu-check: cargo built no {name}")


def commit():
    """What is checked: the commit, and whether files differ from it (None where git does not say)."""
    head, changes = git("rev-parse", "HEAD"), git("status", "--porcelain")
    named = head or os.environ.get("GPU_CHECK_COMMIT", "unknown")
    return {"commit": named, "dirty": None if head is None else bool(changes)}


def git(*words):
    try:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


if __name__ == "__main__":
    sys.exit(main())
