#!/usr/bin/env python3
"""Checks and times the CUDA engine on this machine's GPU; writes gpu-check.json and gpu-check.md.

Steps, each with its share of nine minutes (cargo's build comes before): kernels are compiled; they are held against their
f64 twins; goldens of the embedded model over HTTP, one by one, all at once, and where no kernel begins before the one ahead
has ended; roofline and prefill of 0.6B, 1.7B, 4B and 8B with random weights; what each kernel of a decoded token takes, of
0.6B and 4B; the cold start by stage of 4B, whose weights are made on the GPU, without and with compiled kernels at hand; the
start of 0.6B from files, held against the CPU; 500 mixed requests, a fifth of them cancelled, without growth of memory or
captures; compute-sanitizer's memcheck and racecheck.

Compiled kernels are kept in a directory of this run's own, or in INFERGATE_KERNEL_CACHE. What was written by a step that
did not pass is in STEP.log beside the two files: of parity, memcheck and racecheck, and of the first two others.

Ends with 0 where all passed, 1 where a step failed ("failed: ...") or was skipped or unfinished ("incomplete: ..."; so
where compute-sanitizer is not installed), 5 where there is no GPU to check. A speed that was asked for and not reached
is said first and does not change the exit code. With --only the file's `complete` is false, and 0 means those steps.
With --rehearse it goes through the same steps on the CPU with the embedded model and small numbers: for trying the
script itself. A GPU machine needs no cargo: --pack DIR makes both programs small elsewhere, and --gate and --parity name
them there. GPU_CHECK_COMMIT names the commit where the tree has no git.
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
import programs
import report
import serving
from logs import Logs
from steps import Step, Steps
from targets import targets

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Seconds; 8B reads most.
MODELS = {"qwen3-0.6b": 25, "qwen3-1.7b": 30, "qwen3-4b": 35, "qwen3-8b": 45}
ROOFLINES = [f"roofline {model}" for model in MODELS]
# Seconds.
TIMED = {"qwen3-0.6b": 15, "qwen3-4b": 20}
KERNELS = [f"kernels {model}" for model in TIMED]
STEPS = [
    "compile", "parity", "goldens", "goldens in order", *ROOFLINES, "roofline embedded", *KERNELS, "cold start",
    "from files", "mixed requests", "memcheck", "racecheck",
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
        "--pack", type=pathlib.Path, metavar="DIR", help="only build both programs into DIR, for a machine without cargo",
    )
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
        return pack(options.pack)
    gpu = machine.gpu()
    if gpu is None and not options.rehearse:
        print("gpu-check: no NVIDIA GPU answers on this machine (libcuda.so.1): nothing was checked", file=sys.stderr)
        return 5
    # Asked to end, it ends what it started: those programs have sessions of their own.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    machine.find_libraries()
    gate = options.gate or build(*GATE)
    parity = options.parity or build(*PARITY)
    options.out.mkdir(parents=True, exist_ok=True)
    planned = plan(gate, parity, gpu, options.rehearse)
    chosen = [step for step in planned if not options.only or step.name in options.only]
    about = {"rehearsal": options.rehearse, "only": options.only, "gpu": gpu, "cpu": machine.cpu(), **commit()}
    begun = time.monotonic()
    steps = Steps(chosen, BUDGET_S, Logs(options.out, STEPS), lambda: write(options.out, about, steps, begun))
    with kernel_cache():
        steps.run()
    print(write(options.out, about, steps, begun))
    return 0 if steps.outcome() == "passed" else 1


@contextlib.contextmanager
def kernel_cache():
    """What is compiled once every program finds, whether there is a home directory or not."""
    with tempfile.TemporaryDirectory() as folder:
        if not os.environ.get("INFERGATE_KERNEL_CACHE"):
            os.environ["INFERGATE_KERNEL_CACHE"] = folder
        yield


def plan(gate, parity, gpu, rehearse):
    """The shares add up to the budget; the sanitizers are last and have what the others leave, beside their own."""
    backend, on_gpu = ("cpu", lambda _: None) if rehearse else ("cuda", lambda model: model)
    models = {"embedded": 25} if rehearse else MODELS
    config = ROOT / ("gates/models/tiny-qwen3/config.json" if rehearse else "src/engine/synthetic/qwen3-0.6b.json")

    def roofline(model):
        return lambda limit: programs.roofline(gate, backend, on_gpu(model), limit)

    def kernels(model):
        return lambda limit: programs.kernels(gate, model, limit)

    compiling = Step("compile", 45, lambda limit: programs.compile_kernels(gate, gpu["arch"], limit))
    return [
        *([] if rehearse else [compiling]),
        Step("parity", 50, lambda limit: programs.run_parity(parity, ROOT, limit, rehearse)),
        Step("goldens", 25, lambda limit: serving.goldens(gate, backend, ROOT, limit)),
        Step("goldens in order", 20, lambda limit: serving.goldens_in_order(gate, backend, ROOT, limit)),
        *(Step(f"roofline {model}", share, roofline(model)) for model, share in models.items()),
        *(Step(f"kernels {model}", share, kernels(model)) for model, share in TIMED.items() if not rehearse),
        Step("cold start", 45, lambda limit: serving.cold_start(gate, backend, on_gpu("qwen3-4b"), limit)),
        Step("from files", 30, lambda limit: serving.from_files(gate, backend, ROOT, config, limit)),
        Step("mixed requests", 45, lambda limit: serving.mixed(gate, backend, on_gpu("qwen3-0.6b"), limit)),
        *(
            Step(tool, 50, lambda limit, tool=tool: programs.sanitize(parity, ROOT, tool, limit, rehearse))
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


def pack(folder):
    """Both programs without what only debuggers read, which is five sixths of them."""
    folder.mkdir(parents=True, exist_ok=True)
    for target, name in (GATE, PARITY):
        subprocess.run(["strip", "-o", folder / name, build(target, name)], check=True)
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
