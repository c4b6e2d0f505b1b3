"""`gate serve` and llama.cpp side by side: one random model of Qwen3-0.6B's shape, the same machine and threads.

Inputs:  a built `gate`; a C++ compiler, since llama.cpp is built from source for this processor; some 5 GB of disk.
Outputs: a table on stdout; under target/compare/ a virtual environment and the models, which later runs use again.
Command: python3 scripts/compare/llama_cpp.py --threads 2 --gate target/release/gate [--repeats 5] [--types bf16 f16]

What is timed, and by whom:
- ours over HTTP, by the engine's own clock (`timings`): decoding from the first token to the last, a prompt from
  the start of its prefill to its first token. The choice of each token is within.
- theirs in this process, through the C functions that llama-cpp-python binds (`llama_decode`, then
  `llama_get_logits_ith`, which waits for the result), with perf_counter around the two calls. The choice of each
  token (argmax) is outside and shown apart; what Python adds to a call, measured on calls that do nothing, too.
Both engines stay loaded and take turns, so that a change of the machine's speed meets both; the ratio is taken
within each turn. Other work on the same cores does not slow both alike: llama.cpp's threads wait for one another
after each operation and spin meanwhile. Measure on a quiet machine.
"""

import argparse
import hashlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "target/compare"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")

# Every vector instruction that this processor has, llama.cpp's own matrix products, its threads by OpenMP.
BUILD = "-DGGML_NATIVE=ON -DGGML_BLAS=OFF -DGGML_OPENMP=ON -DLLAVA_BUILD=OFF -DLLAMA_BUILD_TOOLS=OFF"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of each engine; by default one a core")
    parser.add_argument("--gate", type=Path, default=ROOT / "target/release/gate", help="the built binary")
    parser.add_argument("--repeats", type=int, default=5, help="turns of each engine")
    parser.add_argument("--types", nargs="+", choices=["bf16", "f16"], default=["bf16", "f16"], help="of the weights")
    args = parser.parse_args()
    if args.threads < 1 or args.repeats < 1:
        fail("--threads and --repeats must be 1 or more")
    return args


def fail(why):
    sys.exit(f"error: {why}")


def environment():
    """The Python of a virtual environment that has what requirements.txt pins; made on the first run."""
    home = WORK / "venv"
    python, made = home / "bin/python", home / "made-for"
    recipe = hashlib.sha256(f"{REQUIREMENTS.read_text()}{BUILD}".encode()).hexdigest()
    if made.is_file() and made.read_text() == recipe:
        return home, python
    if not any(shutil.which(compiler) for compiler in ("c++", "g++", "clang++")):
        fail("llama.cpp is built from source, and there is no C++ compiler: install g++ or clang")
    WORK.mkdir(parents=True, exist_ok=True)
    log = WORK / "install.log"
    print(f"building llama.cpp, once (minutes; the log is {log})", file=sys.stderr)
    # Without the cache: a wheel in it may have been built with other flags.
    install = [python, "-m", "pip", "install", "--no-cache-dir", "--no-binary", "llama-cpp-python", "-r", REQUIREMENTS, "-v"]
    with log.open("w") as out:
        for command in ([sys.executable, "-m", "venv", "--clear", home], install):
            done = subprocess.run(command, env={**os.environ, "CMAKE_ARGS": BUILD}, stdout=out, stderr=out)
            if done.returncode != 0:
                fail(f"`{' '.join(map(str, command))}` failed; the reason is at the end of {log}")
    made.write_text(recipe)
    return home, python


def main():
    args = arguments()
    if not os.access(args.gate, os.X_OK) or not args.gate.is_file():
        fail(f"{args.gate} is not a program: build it with `cargo build --release` or name it with --gate")
    home, python = environment()
    if Path(sys.prefix).resolve() != home.resolve():
        os.execv(python, [python, __file__, *sys.argv[1:]])
    # This file's folder comes first by default, and this file has the name of the package that is wanted.
    sys.path[0] = str(ROOT)
    from scripts.compare import turns

    # So that the server is ended on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    turns.run(args.gate.resolve(), args.threads, args.repeats, args.types, WORK)


if __name__ == "__main__":
    main()
