"""Programs with a time limit: each in a session of its own, so that its children end with it.

A program ends with this script however that ends: the GPU that it would hold is another's next.
"""
import collections
import contextlib
import ctypes
import functools
import os
import signal
import subprocess

Ended = collections.namedtuple("Ended", "code output errors")

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


def start(command, **named):
    tied = functools.partial(end_with, os.getpid())
    return subprocess.Popen(command, text=True, errors="replace", start_new_session=True, preexec_fn=tied, **named)


def end_with(parent):
    """In the new process: it is killed when this script ends, even by SIGKILL."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def end(process, sign=signal.SIGKILL):
    """Ends a process that `start` made, and its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, sign)


def limited(command, limit_s, **named):
    """What a program wrote; its code is None where it was not done in time."""
    process = start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **named)
    try:
        return ended(process, limit_s)
    except BaseException:
        end(process)
        process.wait()
        raise


def ended(process, limit_s):
    try:
        output, errors = process.communicate(timeout=limit_s)
        return Ended(process.returncode, output, errors)
    except subprocess.TimeoutExpired:
        end(process)
        # Whatever left the session may hold the pipes for ever.
        output, errors = process.communicate(timeout=10)
        return Ended(None, output, errors)
