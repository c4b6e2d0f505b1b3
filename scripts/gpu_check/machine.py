"""The machine: its GPU or processor, the libraries beside it, the memory in use."""
import ctypes
import os
import pathlib
import platform
import shutil
import sys

import processes


# Attributes of the compute capability, as the driver numbers them.
MAJOR, MINOR = 75, 76


def gpu():
    """The first GPU's name and architecture, and the driver's CUDA version; or None where none answers."""
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
    major, minor = (attribute(cuda, device, which) for which in (MAJOR, MINOR))
    version = f"{version.value // 1000}.{version.value % 1000 // 10}"
    return {"name": name.value.decode(), "arch": f"sm_{major}{minor}", "cuda": version}


def attribute(cuda, device, which):
    value = ctypes.c_int()
    cuda.cuDeviceGetAttribute(ctypes.byref(value), which, device)
    return value.value


def cpu():
    """The processor's name and how many cores there are."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {"name": names[0] if names else platform.machine(), "cores": os.cpu_count()}


def find_libraries():
    """Adds the folders of NVIDIA's Python packages, and of a toolkit, to the path of libraries."""
    folders = [str(lib) for path in sys.path if path for lib in pathlib.Path(path).glob("nvidia/*/lib")]
    toolkits = [os.environ.get("CUDA_HOME"), "/usr/local/cuda"]
    folders += [f"{toolkit}/lib64" for toolkit in toolkits if toolkit]
    given = os.environ.get("LD_LIBRARY_PATH")
    os.environ["LD_LIBRARY_PATH"] = ":".join([*([given] if given else []), *folders])


def sanitizer():
    toolkit = pathlib.Path("/usr/local/cuda/bin/compute-sanitizer")
    return shutil.which("compute-sanitizer") or (str(toolkit) if toolkit.exists() else None)


def used_bytes():
    """GPU memory in use, or None where nvidia-smi does not say."""
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    try:
        return int(processes.limited(command, 10).output.splitlines()[0]) << 20
    except (OSError, ValueError, IndexError):
        return None
