"""The GPU, the libraries beside it, and the table that is made of what was measured."""
import ctypes
import os
import pathlib
import shutil
import subprocess
import sys


def gpu():
    """The first GPU's name and driver, or None where none answers."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    count, device, name, version = ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(100), ctypes.c_int()
    if cuda.cuInit(0) != 0 or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return None
    cuda.cuDeviceGet(ctypes.byref(device), 0)
    cuda.cuDeviceGetName(name, 100, device)
    cuda.cuDriverGetVersion(ctypes.byref(version))
    return {"name": name.value.decode(), "cuda": f"{version.value // 1000}.{version.value % 1000 // 10}"}


def find_libraries():
    """Adds the folders of NVIDIA's Python packages to the path of libraries: a machine may have no toolkit."""
    folders = [str(lib) for path in sys.path if path for lib in pathlib.Path(path).glob("nvidia/*/lib")]
    given = os.environ.get("LD_LIBRARY_PATH")
    os.environ["LD_LIBRARY_PATH"] = ":".join([*([given] if given else []), *folders])


def sanitizer():
    toolkit = pathlib.Path("/usr/local/cuda/bin/compute-sanitizer")
    return shutil.which("compute-sanitizer") or (str(toolkit) if toolkit.exists() else None)


def used_bytes():
    """GPU memory in use, or None."""
    try:
        command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return int(done.stdout.splitlines()[0]) << 20
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None


def markdown(result):
    name = result["gpu"]["name"] if result["gpu"] else "no GPU (rehearsal on the CPU)"
    lines = [f"{name}, {result['date'][:10]}, commit {result['commit'][:9]}, {result['seconds']:.0f} s:", ""]
    steps = result["steps"]
    lines += rates(steps)
    lines += roofline_rows(steps)
    lines += ["", "| step | result |", "|---|---|"]
    for step, said in steps.items():
        if not step.startswith("roofline") or not said["passed"]:
            lines.append(f"| {step} | {words(said)} |")
    return "\n".join(lines) + "\n"


def rates(steps):
    machines = [said["machine"] for said in steps.values() if "machine" in said]
    if not machines:
        return []
    moved = max(machine["bytes_per_second"] for machine in machines) / 1e9
    done = max(machine["operations_per_second"] for machine in machines) / 1e12
    return [f"Memory ({machines[0]['memory']}) {moved:.0f} GB/s, products {done:.2f} TFLOP/s.", ""]


def roofline_rows(steps):
    lines = ["| model | what | tokens | floor, ms | measured, ms | times the floor |", "|---|---|---|---|---|---|"]
    for said in steps.values():
        for what, rows in [("TPOT", said.get("decode", [])), ("TTFT", said.get("prefill", []))]:
            for row in rows:
                spread, floor = row["measured_ms"], row["floor"]["milliseconds"]
                lines.append(
                    f"| {said['model']['name']} | {what} | {row['tokens']} | {floor:.4g} | {spread['median']:.4g} "
                    f"({spread['least']:.4g} to {spread['greatest']:.4g}) | **{row['times_floor']:.2f}** |"
                )
    return lines


def words(said):
    rest = {key: value for key, value in said.items() if key not in ("passed", "seconds")}
    text = "; ".join(f"{key}: {value}" for key, value in rest.items())
    mark = {True: "passed", False: "**failed**", None: "not run"}[said["passed"]]
    return f"{mark}: {text}".replace("|", "/").replace("\n", " ")[:600]
