"""The page made of the measurements."""
import facts
from steps import short


def markdown(result):
    steps = result["steps"]
    blocks = [
        [f"**Not met: {row['target']}: {row['measured']}, asked {row['asked']}**" for row in missed(result)],
        [f"**{result['outcome']}**"],
        [headline(result)],
        table(["target", "asked", "measured", ""], target_rows(result["targets"])),
        *machine_facts(result["facts"]),
        rates(steps),
        launches(steps),
        table(["model", "what", "tokens", "floor, ms", "measured, ms", "times the floor"], roofline_rows(steps)),
        *dependent_launch(steps),
        *kernels(steps),
        cold_start({name: start for said in steps.values() for name, start in said.get("starts", {}).items()}),
        table(["step", "result"], [[name, words(said)] for name, said in steps.items() if told(name, said)]),
        *parity(steps.get("parity", {})),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def missed(result):
    return [row for row in result["targets"] if row["speed"] and row["result"] == "not met"]


def headline(result):
    if result["rehearsal"]:
        on = f"{result['cpu']['name']}, {result['cpu']['cores']} cores (rehearsal on the CPU)"
    else:
        on = result["gpu"]["name"]
    changed = " with changes" if result["dirty"] else ""
    return f"{on}, {result['date'][:10]}, commit {result['commit'][:9]}{changed}, {result['seconds']:.0f} s:"


def table(heads, rows):
    lines = [heads, ["---"] * len(heads), *rows]
    return ["| " + " | ".join(clean(cell) for cell in line) + " |" for line in lines] if rows else []


def clean(cell):
    return str(cell).replace("|", "/").replace("\n", " ")


def target_rows(targets):
    return [[row["target"], row["asked"], row["measured"] or "–", row["result"]] for row in targets]


def machine_facts(found):
    """Versions and the runtime, then the GPU before and after what is timed."""
    if not found:
        return []
    said = [f"{name}: {version}" for name, version in found.get("libraries", {}).items()]
    said += [found["runtime"]] if "runtime" in found else []
    states = {when: found[when] for when in ("before", "after") if when in found}
    said += dict.fromkeys(state["missing"] for state in states.values() if "missing" in state)
    states = {when: state for when, state in states.items() if "missing" not in state}
    said += dict.fromkeys(f"driver {state['Driver Version']}" for state in states.values())
    brief = {when: facts.brief(state) for when, state in states.items()}
    names = dict.fromkeys(name for of in brief.values() for name in of)
    rows = [[name, *(of[name] for of in brief.values())] for name in names]
    return [[f"{'; '.join(said)}."], table(["GPU", *brief], rows), throttled(**states)]


def throttled(before=None, after=None):
    counted = facts.throttled_ms(before, after) if before and after else None
    if counted is None:
        return []
    said = ", ".join(f"{name} {ms:.0f} ms" for name, ms in counted.items() if ms) or "never"
    return [f"Throttled between the two readings: {said}."]


def rates(steps):
    machines = [said["machine"] for said in steps.values() if "machine" in said]
    if not machines:
        return []
    best = max(machines, key=lambda machine: machine["bytes_per_second"])
    done = max(machine["operations_per_second"] for machine in machines) / 1e12
    return [f"Memory ({best['memory']}) {best['bytes_per_second'] / 1e9:.0f} GB/s, products {done:.2f} TFLOP/s."]


def launches(steps):
    """What a decoded token starts, where steps are recorded."""
    counted = {said["model"]["name"]: said["launches_per_token"] for said in steps.values() if "launches_per_token" in said}
    counts = ", ".join(f"{model} {count}" for model, count in counted.items() if count is not None)
    return [f"Kernels, copies and fills a decoded token: {counts}."] if counts else []


def roofline_rows(steps):
    return [
        roofline_row(said["model"]["name"], what, row)
        for name, said in steps.items()
        if not name.endswith(" in order")
        for what, rows in timed(said)
        for row in rows
    ]


def timed(said):
    return [("TPOT", said.get("decode", [])), ("TTFT", said.get("prefill", []))]


def dependent_launch(steps):
    """The same model with and without programmatic dependent launch."""
    for name, in_order in steps.items():
        first = steps.get(name.removesuffix(" in order"), {})
        if name.endswith(" in order") and "decode" in first and "decode" in in_order:
            heads = [f"{first['model']['name']}, tokens", "what", "ms", "in order, ms", "in order takes"]
            both = zip(timed(first), timed(in_order))
            rows = [in_order_row(what, *pair) for (what, rows), (_, others) in both for pair in zip(rows, others)]
            yield table(heads, [*rows, *boundary_row(first["machine"], in_order["machine"])])


def boundary_row(first, in_order):
    """From one small kernel of a CUDA graph to the next."""
    us, other_us = (machine.get("kernel_us") for machine in (first, in_order))
    if us and other_us:
        yield ["", "a small kernel", f"{us / 1e3:.4g}", f"{other_us / 1e3:.4g}", f"{other_us / us - 1:+.1%}"]


def in_order_row(what, row, other):
    ms, other_ms = (of["measured_ms"]["median"] for of in (row, other))
    return [row["tokens"], what, f"{ms:.4g}", f"{other_ms:.4g}", f"{other_ms / ms - 1:+.1%}"]


def roofline_row(model, what, row):
    spread = row["measured_ms"]
    measured = f"{spread['median']:.4g} ({spread['least']:.4g} to {spread['greatest']:.4g})"
    floor = f"{row['floor']['milliseconds']:.4g}"
    return [model, what, row["tokens"], floor, measured, f"**{row['times_floor']:.2f}**"]


def kernels(steps):
    """A table a model: where a decoded token's time goes."""
    return [kernel_table(said["model"]["name"], *said["kernels"], *said["beside"]) for said in steps.values() if "beside" in said]


def kernel_table(model, times, beside):
    """Each kernel by itself, with an event behind it. The last row is the token as it is decoded without events, what the
    host takes between two steps counted in."""
    heads = [f"{model}, {times['tokens']} tokens", "size", "a token", "each, µs", "a token, µs"]
    rows = [
        [of["kernel"], "×".join(map(str, of["size"])), f"{of['starts']:.1f}", f"{of['us_each']:.2f}", f"{of['us']:.1f}"]
        for of in times["kernels"]
    ]
    whole = f"{times['starts_per_token']:.1f}"
    events = ["(an event alone)", "", "", f"{times['mark_us']:.2f}", ""]
    together = ["together", "", whole, "", f"{times['us_per_token']:.1f}"]
    without = ["decoded without events, the host's part counted in", "", "", "", f"{beside['measured_ms']['median'] * 1e3:.1f}"]
    return table(heads, [*rows, events, together, without])


def cold_start(starts):
    """A row a stage, a column a start."""
    if not starts:
        return []
    names = list(dict.fromkeys(name for start in starts.values() for name in start))
    rows = [[name, *(f"{start[name]:.1f}" if name in start else "–" for start in starts.values())] for name in names]
    return table(["cold start, ms", *starts], rows)


def parity(said):
    """Each failing test by itself, and the numbers that are wrong."""
    yield table(["test that did not pass", "by itself, in order"], said.get("alone", {}).items())
    yield table(["error"], [[line] for line in said.get("errors", [])])


def told(name, said):
    return said["passed"] is not True or not name.startswith(("roofline", "kernels", "cold start", "facts"))


# In the file alone, or in tables of their own.
DETAILS = {"passed", "seconds", "starts", "alone", "errors", "seen"}


def words(said):
    rest = {key: value for key, value in said.items() if key not in DETAILS}
    text = "; ".join(f"{key}: {value}" for key, value in rest.items())
    mark = {True: "passed", False: "**failed**", None: "**incomplete**"}[said["passed"]]
    return short(f"{mark}: {text}", 1500)
