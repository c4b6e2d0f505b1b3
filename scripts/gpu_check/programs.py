"""What is checked by running a program to its end: the kernels' compiler, parity, the roofline, the sanitizers."""
import json
import subprocess

import machine
import processes
from processes import demand

# What a tool ends with where it found nothing.
CLEAN = {"memcheck": "ERROR SUMMARY: 0 errors", "racecheck": "RACECHECK SUMMARY: 0 hazards"}

# Of the program's tests, the kernels' against their twins.
PARITY = "kernel_parity::"


def compile_kernels(gate, arch, limit):
    """Into the cache that all later steps read."""
    built = figures([gate, "kernels", "build", "--arch", arch, "--format", "json"], limit)
    return {"nvrtc": built["nvrtc"], "compiled": len(built["kernels"])}


def run_parity(parity, root, limit, rehearse):
    done = tests([parity, PARITY, "--nocapture"], root, limit)
    demand(done.code is not None, f"not done in {limit:.0f} s", done.output)
    demand(done.code == 0, f"ended with {done.code}", done.output)
    ran_on_gpu(done.output, rehearse)
    results = (line for line in done.output.splitlines() if line.startswith("test result:"))
    return {"summary": next(results, done.output[-300:])}


def tests(command, root, limit):
    """What went wrong stands beside the test that it went wrong in."""
    return processes.limited(command, limit, cwd=root, stderr=subprocess.STDOUT)


def ran_on_gpu(output, rehearse):
    # The tests say so themselves, within a line of the runner's.
    elsewhere = "): emulated" in output or "SKIPPED:" in output
    demand(rehearse or not elsewhere, "kernels did not run on the GPU", output)


def roofline(gate, backend, model, limit):
    command = [gate, "roofline", "--backend", backend, "--format", "json"]
    if model is None:
        command += ["--context", "1,64", "--prefill", "64", "--repeats", "2", "--threads", "1"]
    else:
        command += ["--synthetic", model, "--context", "1,1024,8192", "--prefill", "128,1024,8192"]
    return figures(command, limit)


def kernels(gate, model, limit):
    """By itself: the roofline's own figures must not hang on the events that time kernels."""
    command = [gate, "roofline", "--backend", "cuda", "--format", "json", "--synthetic", model, "--kernels"]
    said = figures([*command, "--context", "1024", "--prefill", "128", "--repeats", "3"], limit)
    return {"model": said["model"], "kernels": said["kernels"], "beside": said["decode"]}


def figures(command, limit):
    done = processes.limited(command, limit)
    demand(done.code is not None, f"not done in {limit:.0f} s", done.errors)
    demand(done.code == 0, f"ended with {done.code}", done.errors)
    return json.loads(done.output)


def sanitize(parity, root, tool, limit, rehearse):
    sanitizer = machine.sanitizer()
    if sanitizer is None:
        return {"skipped": "compute-sanitizer is not installed"}
    # The library's products are not ours to check, and many.
    ours = [PARITY, "--skip", "library_products", "--nocapture", "--test-threads", "1"]
    # A call of the driver that fails is the engine's to tell, and libraries probe for what may not be there.
    about = ["--tool", tool, "--error-exitcode", "9", "--report-api-errors", "no"]
    done = tests([sanitizer, *about, parity, *ours], root, limit)
    lines = done.output.splitlines()
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
