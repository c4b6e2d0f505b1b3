"""Programs with a time limit: each in a session of its own, so that its children end with it."""
import collections
import contextlib
import os
import signal
import subprocess

Ended = collections.namedtuple("Ended", "code output errors")


def start(command, **named):
    return subprocess.Popen(command, text=True, errors="replace", start_new_session=True, **named)


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
