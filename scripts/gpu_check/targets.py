"""What was asked of the CUDA engine, and whether it was reached."""

TPOT_TIMES_FLOOR, PREFILL_SHARE, READY_S = 1.15, 0.70, 1.5
MET, NOT_MET, NOT_MEASURED = "met", "not met", "not measured"


def targets(steps, rehearsal):
    """One row a target. On a CPU none of them is measured."""
    steps = {} if rehearsal else steps
    large = steps.get("roofline qwen3-4b", {})
    return [
        row("TPOT, 4B, context 1,024", f"at most {TPOT_TIMES_FLOOR} times the floor", tpot(large), True),
        row("prefill of 1,024 tokens, 4B", f"at least {PREFILL_SHARE:.0%} of the matrix rate", prefill(large), True),
        row("cold start, 4B, compiled kernels", f"ready within {READY_S} s", ready(steps.get("cold start", {})), True),
        row("500 mixed requests", "no leak", by_step(steps.get("mixed requests"), "growth")),
        row("kernels against their f64 twins", "all pass", by_step(steps.get("parity"), "summary")),
        row("goldens over HTTP", "all equal up to a near-tie", by_step(steps.get("goldens"), "cases")),
        row("memcheck", "no finding", by_step(steps.get("memcheck"), "summary")),
        row("racecheck", "no finding", by_step(steps.get("racecheck"), "summary")),
    ]


def row(target, asked, found, speed=False):
    measured, result = found
    return {"target": target, "asked": asked, "measured": measured, "result": result, "speed": speed}


def at_1024(rows):
    return next((row for row in rows if row["tokens"] == 1024), None)


def tpot(large):
    decode = at_1024(large.get("decode", []))
    if decode is None:
        return None, NOT_MEASURED
    times = decode["times_floor"]
    text = f"{times:.3f} times the floor ({decode['measured_ms']['median']:.4g} ms)"
    return text, MET if times <= TPOT_TIMES_FLOOR else NOT_MET


def prefill(large):
    prompt = at_1024(large.get("prefill", []))
    if prompt is None:
        return None, NOT_MEASURED
    done = prompt["floor"]["operations"] / (prompt["measured_ms"]["median"] / 1e3)
    share = done / large["machine"]["operations_per_second"]
    return f"{share:.1%} ({prompt['measured_ms']['median']:.4g} ms)", MET if share >= PREFILL_SHARE else NOT_MET


def ready(cold_start):
    """From the start of the process to its line with the port."""
    start = cold_start.get("starts", {}).get("compiled kernels")
    if start is None:
        return None, NOT_MEASURED
    seconds = start["ready, from outside"] / 1e3
    return f"{seconds:.2f} s", MET if seconds <= READY_S else NOT_MET


def by_step(step, key):
    if step is None or step["passed"] is None:
        return (step or {}).get("unfinished") or (step or {}).get("skipped"), NOT_MEASURED
    return (step[key], MET) if step["passed"] else (step["failed"].splitlines()[0][:200], NOT_MET)
