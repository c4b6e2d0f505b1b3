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

# A program that is late is asked to end, so that it writes what it still holds, and then killed. Seconds for each; one
# that hangs in the GPU's driver, or left its session with the pipes, is waited for no longer.
ASKED_S, KILLED_S = 2, 6

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


class Failed(Exception):
    """What went wrong, all that the program wrote, and what else belongs in the step's result."""

    def __init__(self, what, output, **found):
        super().__init__(what)
        self.output, self.found = output, found


def demand(holds, what, output):
    if not holds:
        raise Failed(what, output)


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


def limited(command, limit_s, *, stderr=subprocess.PIPE, **named):
    """What a program wrote; its code is None where it was not done in time."""
    process = start(command, stdout=subprocess.PIPE, stderr=stderr, **named)
    try:
        return ended(process, limit_s)
    except BaseException:
        kill(process)
        raise


def kill(process):
    end(process)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(KILLED_S)


def ended(process, limit_s):
    try:
        output, errors = process.communicate(timeout=limit_s)
        return Ended(process.returncode, output, errors)
    except subprocess.TimeoutExpired:
        pass
    for sign, wait_s in [(signal.SIGTERM, ASKED_S), (signal.SIGKILL, KILLED_S)]:
        end(process, sign)
        try:
            return Ended(None, *process.communicate(timeout=wait_s))
        except subprocess.TimeoutExpired as error:
            late = error
    return Ended(None, text(late.stdout), text(late.stderr))


def text(written):
    return (written or b"").decode(errors="replace")
