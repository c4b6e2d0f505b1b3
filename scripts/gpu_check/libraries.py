"""Prints version and path of NVIDIA's libraries as JSON, found through LD_LIBRARY_PATH as `gate` finds them.

A program of its own: LD_LIBRARY_PATH counts only when a process starts.
"""
import ctypes
import json
import pathlib


def load(stem):
    """The first library that exists, by the names that `gate` tries."""
    for ending in ["so", "so.13", "so.12", "so.1"]:
        try:
            return ctypes.CDLL(f"lib{stem}.{ending}")
        except OSError:
            pass
    return None


def path(stem):
    lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
    return next((line[line.index("/") :] for line in lines if f"/lib{stem}.so" in line), "an unknown path")


def cuda(library):
    version = ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(version))
    return f"{version.value // 1000}.{version.value % 1000 // 10}"


def nvrtc(library):
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"


def cublaslt(library):
    library.cublasLtGetVersion.restype = ctypes.c_size_t
    version = library.cublasLtGetVersion()
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


def about(stem, version):
    library = load(stem)
    if library is None:
        return "not found"
    try:
        return f"{version(library)} ({path(stem)})"
    except (AttributeError, OSError) as error:
        return str(error)


LIBRARIES = {"CUDA": ("cuda", cuda), "NVRTC": ("nvrtc", nvrtc), "cuBLASLt": ("cublasLt", cublaslt)}

if __name__ == "__main__":
    print(json.dumps({name: about(*how) for name, how in LIBRARIES.items()}))
