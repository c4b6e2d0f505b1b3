"""Facts that explain the numbers: clocks, power, throttling and temperature of the GPU, versions, the machine's runtime.

Main type: `Facts`. A tool that is missing or fails leaves a line in its place, and fails no step.
"""
import json
import pathlib
import sys
import time

import processes

# gVisor's constant version of its kernel.
GVISOR_BUILD = "#1 SMP Sun Jan 10 15:06:54 PST 2016"


class Facts:
    """Both readings of the GPU, before and after what is timed."""

    def __init__(self):
        self.found = {}

    def before(self, limit):
        end = time.monotonic() + limit
        self.found["before"] = gpu_state(limit)
        self.found["runtime"] = runtime(left(end))
        self.found["libraries"] = libraries(left(end))
        return {}

    def after(self, limit):
        self.found["after"] = gpu_state(limit)
        return {}


def left(end):
    return max(0.0, end - time.monotonic())


def said_by(command, limit):
    """A program's output, or a line about why there is none: one of the two is None."""
    try:
        done = processes.limited(command, limit)
    except OSError as error:
        return None, f"{command[0]}: {error.strerror}"
    if done.code == 0:
        return done.output, None
    lines = (done.output + done.errors).strip().splitlines()
    how = f"not done in {limit:.0f} s" if done.code is None else f"ended with {done.code}"
    return None, f"{command[0]}: {how} {lines[-1][:200] if lines else ''}".rstrip()


def gpu_state(limit):
    """The first GPU's sections as nvidia-smi names them, and the driver's version."""
    output, missing = said_by(["nvidia-smi", "-q", "-d", "CLOCK,POWER,PERFORMANCE,TEMPERATURE"], limit)
    if output is None:
        return {"missing": missing}
    tree = sections(output)
    gpus = [said for name, said in tree.items() if name.startswith("GPU ") and isinstance(said, dict)]
    return {"Driver Version": tree.get("Driver Version"), **gpus[0]} if gpus else {"missing": "nvidia-smi: it names no GPU"}


def sections(text):
    """Lines `name : value` below the headings that they are indented under."""
    root = {}
    headings = [(-1, root)]
    for line in text.splitlines():
        if not line.strip() or line.startswith("="):
            continue
        indent = len(line) - len(line.lstrip())
        while headings[-1][0] >= indent:
            headings.pop()
        name, colon, value = line.partition(" : ")
        if colon:
            headings[-1][1][name.strip()] = value.strip()
        else:
            headings[-1][1][name.strip()] = below = {}
            headings.append((indent, below))
    return root


def section(state, *names):
    """A section by its names in newer and older drivers; empty where the GPU does not have it."""
    return next((state[name] for name in names if isinstance(state.get(name), dict)), {})


def value(of, *names):
    return next((of[name] for name in names if name in of), "unknown")


def brief(state):
    """The few facts that a reader looks at first."""
    power = section(state, "GPU Power Readings", "Power Readings")
    draw = value(power, "Instantaneous Power Draw", "Average Power Draw", "Power Draw")
    clocks, most = section(state, "Clocks"), section(state, "Max Clocks")
    reasons = section(state, "Clocks Event Reasons", "Clocks Throttle Reasons")
    active = [name for name, is_active in reasons.items() if is_active == "Active" and name != "Idle"]
    return {
        "SM clock": f"{value(clocks, 'SM')} of {value(most, 'SM')}",
        "memory clock": f"{value(clocks, 'Memory')} of {value(most, 'Memory')}",
        "power": f"{draw} of {value(power, 'Current Power Limit', 'Power Limit')}",
        "temperature": value(section(state, "Temperature"), "GPU Current Temp"),
        "throttled by": ", ".join(active) or ("nothing" if reasons else "unknown"),
    }


def throttled_ms(before, after):
    """Milliseconds that each reason throttled for between the readings, by the driver's counters; None without them."""
    counts = [section(state, "Clocks Event Reasons Counters") for state in (before, after)]
    if not all(counts):
        return None
    first, last = ({name: microseconds(text) for name, text in count.items()} for count in counts)
    return {name: (last[name] - first[name]) / 1e3 for name in last if None not in (last[name], first.get(name))}


def microseconds(text):
    number, _, unit = text.partition(" ")
    return int(number) if unit == "us" and number.isdigit() else None


def runtime(limit):
    """What the machine runs in, and its kernel's version."""
    version = read("/proc/version")
    boot, _ = said_by(["dmesg"], limit)
    said = f"{version}\n{read('/proc/cmdline')}\n{boot or ''}"
    if "gvisor" in said.lower() or GVISOR_BUILD in version:
        name = "gVisor"
    elif "firecracker" in said.lower() or "FIRECK" in said or "-fc-" in version:
        name = "Firecracker"
    else:
        name = "a virtual machine" if " hypervisor" in read("/proc/cpuinfo") else "no virtual machine"
    return f"{name} ({' '.join(version.split()[:3]) or 'kernel unknown'})"


def read(path):
    try:
        return pathlib.Path(path).read_text()
    except OSError:
        return ""


def libraries(limit):
    output, missing = said_by([sys.executable, str(pathlib.Path(__file__).with_name("libraries.py"))], limit)
    return {"missing": missing} if output is None else json.loads(output.splitlines()[-1])
