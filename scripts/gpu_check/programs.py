"""Steps that run a program to its end: the kernels' compiler, the roofline, the sanitizers."""
import json
import os
import re
import subprocess

import machine
import processes
from processes import demand

# The summary of a tool that found nothing.
CLEAN = {"memcheck": "ERROR SUMMARY: 0 errors", "racecheck": "RACECHECK SUMMARY: 0 hazards"}

# Exit codes of `gate kernels build`, whose message says the rest: all compiled and one spills registers; no NVRTC.
SPILLS, MISSING = 1, 5

# A tool says so where a machine does not let it see the GPU, as under gVisor.
REFUSAL = re.compile(
    r"device not supported|not supported on this|(unable|failed) to .*debugger|insufficient permission"
    r"|does not have permission",
    re.IGNORECASE,
)

# The tests that compare kernels with their twins.
PARITY = "kernel_parity::"

# Tests that a tool need not see: cuBLASLt's own kernels, many and not ours, and tests that start no kernel.
SKIPPED = ["products::library_products", "refusals::", "through_the_driver::"]
# racecheck looks at shared memory; the kernels of these tests have none.
SKIPPED_BY = {
    "memcheck": [],
    "racecheck": [
        f"elementwise::{test}"
        for test in ["biases", "conversions", "embedding", "gates", "page_copies", "swiglu", "synthetic_numbers"]
    ],
}


def compile_kernels(gate, arch, limit):
    """Fills the cache that all later steps read. Packed kernels of this NVRTC are not compiled again."""
    done = finished([gate, "kernels", "build", "--arch", arch, "--format", "json"], limit)
    built = json.loads(done.output)
    counts = re.findall(r"(\d+) files compiled, (\d+) from the cache", done.errors)
    compiled, cached = (sum(int(count[column]) for count in counts) for column in (0, 1))
    found = {"nvrtc": built["nvrtc"], "kernels": len(built["kernels"])}
    return {**found, "files_compiled": compiled, "files_from_the_cache": cached}


def pack_kernels(gate, arch, folder):
    """Compiles kernels so that the machine with the GPU need not."""
    command = [gate, "kernels", "build", "--arch", arch, "--output", folder, "--format", "json"]
    code = subprocess.run(command, stdout=subprocess.DEVNULL).returncode
    if code not in (0, SPILLS, MISSING):
        raise SystemExit(f"gpu-check: the kernels were not packed: gate kernels build ended with {code}")
    if code == MISSING:
        print("gpu-check: no kernels packed: the machine with the GPU compiles them", flush=True)


def tests(command, root, limit, **environment):
    """Runs tests; errors are in the output beside the test that they belong to."""
    environment = {**os.environ, **environment}
    return processes.limited(command, limit, cwd=root, stderr=subprocess.STDOUT, env=environment)


def ran_on_gpu(output, rehearse):
    # The tests say so themselves, within a line of the runner's.
    elsewhere = "): emulated" in output or "SKIPPED:" in output
    demand(rehearse or not elsewhere, "kernels did not run on the GPU", output)


def roofline(gate, backend, model, limit, **environment):
    command = [gate, "roofline", "--backend", backend, "--format", "json"]
    if model is None:
        command += ["--context", "1,64", "--prefill", "64", "--repeats", "2", "--threads", "1"]
    else:
        command += ["--synthetic", model, "--context", "1,1024,8192", "--prefill", "128,1024,8192"]
    return figures(command, limit, **environment)


def kernels(gate, model, limit):
    """By itself: the roofline's own figures must not hang on the events that time kernels."""
    command = [gate, "roofline", "--backend", "cuda", "--format", "json", "--synthetic", model, "--kernels"]
    said = figures([*command, "--context", "1024", "--prefill", "128", "--repeats", "3"], limit)
    return {"model": said["model"], "kernels": said["kernels"], "beside": said["decode"]}


def figures(command, limit, **environment):
    return json.loads(finished(command, limit, **environment).output)


def finished(command, limit, **environment):
    done = processes.limited(command, limit, env={**os.environ, **environment})
    demand(done.code is not None, f"not done in {limit:.0f} s", done.errors)
    demand(done.code == 0, f"ended with {done.code}", done.errors)
    return done


def sanitize(parity, root, tool, limit, rehearse):
    """One data type and one test at a time: each test loads all kernels, and the tool patches each of them."""
    sanitizer = machine.sanitizer()
    if sanitizer is None:
        return {"skipped": "compute-sanitizer is not installed"}
    skips = [word for test in [*SKIPPED, *SKIPPED_BY[tool]] for word in ("--skip", test)]
    ours = [PARITY, *skips, "--nocapture", "--test-threads", "1"]
    # The engine reports driver calls that fail, and libraries probe for what may not exist.
    about = ["--tool", tool, "--error-exitcode", "9", "--report-api-errors", "no"]
    only = {} if rehearse else {"KERNEL_PARITY_ON_GPU": "bf16"}
    done = tests([sanitizer, *about, parity, *ours], root, limit, **only)
    lines = done.output.splitlines()
    refusal = next((line for line in lines if line.startswith("====") and REFUSAL.search(line)), None)
    if refusal is not None:
        return {"skipped": refusal.lstrip("= "), "output": done.output}
    ran_on_gpu(done.output, rehearse)
    if done.code is None:
        # What it had seen by then stands; a report of an error fails all the same.
        found = any(("Invalid" in line or "hazard" in line) and CLEAN[tool] not in line for line in lines)
        demand(not found, f"findings, and not done in {limit:.0f} s", done.output)
        # With a test's own lines between, its end stands on a line of its own.
        passed = sum(line == "ok" or line.endswith("... ok") for line in lines)
        return {"unfinished": f"{passed} tests without a finding in {limit:.0f} s", "output": done.output}
    demand(done.code == 0, f"ended with {done.code}", done.output)
    # A tool that never saw the tests ends with 0 as well.
    summaries = [line for line in lines if "SUMMARY" in line]
    clean = summaries and all(CLEAN[tool] in line for line in summaries)
    demand(clean, f"it does not say {CLEAN[tool]!r}", done.output)
    return {"summary": summaries[0]}
