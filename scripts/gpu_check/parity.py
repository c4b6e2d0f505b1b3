"""The step that compares kernels with their f64 twins.

Main function: `run`. Tests share one CUDA context, so a fault in one fails all that follow. After a failure each failing
test runs again by itself, in order: then the fault names its kernel.
"""
import collections
import os
import re
import time

from processes import Failed, demand
from programs import PARITY, ran_on_gpu, tests

# The share of the limit that is for all tests together. The rest is for failing tests by themselves.
TOGETHER = 0.8
# Seconds for one test by itself.
ALONE_S = 10
# Error lines in the result, and characters of each.
MOST_ERRORS, MOST_CHARACTERS = 40, 200


def run(parity, root, limit, rehearse):
    end = time.monotonic() + limit
    # The same numbers in each run: a test that passes by itself does not pass for better numbers.
    seed = os.environ.get("KERNEL_PARITY_SEED", str(time.time_ns()))
    together = limit * TOGETHER
    done = tests([parity, PARITY, "--nocapture"], root, together, KERNEL_PARITY_SEED=seed)
    if done.code != 0:
        alone, written = by_themselves(parity, root, failing(parity, root, done, end), end, seed)
        output = done.output + written
        how = f"not done in {together:.0f} s" if done.code is None else f"ended with {done.code}"
        raise Failed(how + in_short(alone), output, alone=alone, errors=errors(output))
    ran_on_gpu(done.output, rehearse)
    passed = re.search(r"^test result: ok\. [1-9]\d* passed.*", done.output, re.MULTILINE)
    demand(passed, "no test has run", done.output)
    return {"summary": passed[0]}


def failing(parity, root, done, end):
    """The tests that failed; where the program did not say so, as when it crashed, all that did not pass."""
    listed = re.findall(r"^failures:\n((?:    \S+\n)+)", done.output, re.MULTILINE)
    if listed:
        return listed[-1].split()
    passed = set(re.findall(r"test (\S+) \.\.\. ok", done.output))
    known = tests([parity, PARITY, "--list"], root, left(end)).output
    return [test for test in re.findall(r"^(\S+): test$", known, re.MULTILINE) if test not in passed]


def by_themselves(parity, root, names, end, seed):
    """How each test ends by itself, and what it wrote."""
    ends, written = {}, []
    for name in names:
        limit = min(ALONE_S, left(end))
        if limit < 1:
            ends[name] = "not run"
            continue
        in_order = {"CUDA_LAUNCH_BLOCKING": "1", "INFERGATE_CUDA_IN_ORDER": "1", "KERNEL_PARITY_SEED": seed}
        done = tests([parity, name, "--exact", "--nocapture"], root, limit, **in_order)
        ends[name] = "passes alone" if done.code == 0 else f"fails alone: {cause(done, limit)}"
        written.append(f"\n=== {name} by itself\n{done.output}")
    return ends, "".join(written)


def left(end):
    return max(0.0, end - time.monotonic())


def cause(done, limit):
    if done.code is None:
        return f"not done in {limit:.0f} s"
    lines = done.output.splitlines()
    said = [after for line, after in zip(lines, lines[1:]) if "panicked at" in line]
    return said[0][:MOST_CHARACTERS] if said else f"ended with {done.code}"


def in_short(alone):
    if not alone:
        return ""
    counts = collections.Counter(how.partition(":")[0] for how in alone.values())
    return f"; {len(alone)} tests did not pass, " + ", ".join(f"{how}: {count}" for how, count in counts.items())


def errors(output):
    """Lines as `gemv: 1.0 where 2.0 is wanted, at 3`, each once."""
    lines = [line.strip()[:MOST_CHARACTERS] for line in output.splitlines()]
    wrong = [line for line in lines if re.search(r" where .* is wanted", line)]
    return list(dict.fromkeys(wrong))[:MOST_ERRORS]
