"""What is checked by running a program to its end: parity, by itself and under a sanitizer; the roofline."""
import json

import machine
import processes


def run_parity(parity, root, limit, rehearse):
    done = processes.limited([parity, "--nocapture"], limit, cwd=root)
    output = done.output + done.errors
    assert done.code is not None, f"not done in {limit:.0f} s: {output[-2500:]}"
    assert done.code == 0, output[-3000:]
    ran_on_gpu(output, rehearse)
    return {"summary": next((line for line in output.splitlines() if line.startswith("test result:")), output[-300:])}


def ran_on_gpu(output, rehearse):
    # The tests say so themselves, within a line of the runner's.
    elsewhere = "): emulated" in output or "SKIPPED:" in output
    assert rehearse or not elsewhere, f"kernels did not run on the GPU: {output[-2900:]}"


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
    assert done.code is not None, f"not done in {limit:.0f} s: {done.errors[-2500:]}"
    assert done.code == 0, done.errors[-3000:]
    return json.loads(done.output)


def sanitize(parity, root, tool, limit, rehearse):
    sanitizer = machine.sanitizer()
    if sanitizer is None:
        return {"skipped": "compute-sanitizer is not installed"}
    # The library's products are not ours to check, and many.
    ours = ["--skip", "library_products", "--nocapture", "--test-threads", "1"]
    # A call of the driver that fails is the engine's to tell, and libraries probe for what may not be there.
    about = ["--tool", tool, "--error-exitcode", "9", "--report-api-errors", "no"]
    command = [sanitizer, *about, parity, *ours]
    done = processes.limited(command, limit, cwd=root)
    output = done.output + done.errors
    ran_on_gpu(output, rehearse)
    if done.code is None:
        # What it had seen by then stands; a report of an error fails all the same.
        assert "Invalid" not in output and "hazard" not in output, output[-3000:]
        # With a test's own lines between, its end stands on a line of its own.
        passed = sum(line == "ok" or line.endswith("... ok") for line in output.splitlines())
        return {"unfinished": f"{passed} tests without a finding in {limit:.0f} s"}
    assert done.code == 0, output[-3000:]
    return {"summary": next((line for line in output.splitlines() if "SUMMARY" in line), "no finding")}
