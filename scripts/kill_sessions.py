"""Kills `gate check` by SIGKILL at random moments, resumes it, and looks for what was lost or left.

After each kill: no process of the session lives on, every finished launch is there as it was, and the next
`--resume` goes on. A session that comes to its end is judged, and a new one begins.
Output: a line per session, and the counts; exit 1 where anything was lost or left.
Needs: a built gate, no Python package.
Command: python3 scripts/kill_sessions.py target/release/gate --kills 200
"""

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
# Far beyond what the end of a process takes.
PATIENCE_S = 20.0
SESSION = ["check", "--gate", "tpot", "--profile", "quick"]
RESULT = "result"


def project(folder, gate):
    """This repository's gates with an engine that is not built."""
    shutil.copytree(REPOSITORY / "gates", folder / "gates")
    config = folder / "gates" / "gate.toml"
    text = config.read_text()
    text = re.sub(r"\[engine\.build\].*?(?=\n# Numbers of blocks)", "", text, flags=re.DOTALL)
    config.write_text(text.replace("{artifact}", str(gate)))


def living(mark):
    """Processes that were started from the project's folder or work in it."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            place = os.readlink(entry / "cwd")
        except OSError:
            continue
        if mark.encode() in command or place.startswith(mark):
            found.append(entry.name)
    return found


def finished(result):
    """Hashes of the launches that are kept, by position: each in a file of its own, and at the end in the record."""
    files = (result / "launches").glob("[0-9][0-9][0-9].json")
    launches = [json.loads(file.read_text())["launch"] for file in files]
    record = result / "run.json"
    if record.exists():
        launches += json.loads(record.read_text())["launches"]
    digest = lambda launch: hashlib.sha256(json.dumps(launch, sort_keys=True).encode()).hexdigest()
    return {launch["position"]: digest(launch) for launch in launches}


class Counts:
    def __init__(self):
        self.kills = self.sessions = self.refused = 0
        self.wrong = []


def kill_after(command, seconds, environment, folder):
    """Starts it, kills it after that time; its exit code where it had ended by itself, else None."""
    with open(folder / "said.txt", "wb") as said:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=said, stderr=said)
        try:
            return process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            return None


def wait_until_gone(mark):
    begun = time.monotonic()
    while time.monotonic() - begun < PATIENCE_S:
        left = living(mark)
        if not left:
            return []
        time.sleep(0.02)
    return left


def session(gate, folder, environment, draw, counts, most):
    """One session, killed until it ends or the kills are used up."""
    result = folder / RESULT
    kept = {}
    while True:
        fresh = not result.exists()
        command = [gate, *SESSION, "--out", RESULT] if fresh else [gate, "check", "--resume", RESULT]
        last = counts.kills >= most
        code = kill_after(command, 600 if last else draw.uniform(0.0, 9.0), environment, folder)
        left = wait_until_gone(str(folder))
        said = (folder / "said.txt").read_text(errors="replace")
        if left:
            counts.wrong.append(f"processes {left} live on after kill {counts.kills}")
        if code is None:
            counts.kills += 1
            now = finished(result)
            for position, digest in kept.items():
                if now.get(position) != digest:
                    counts.wrong.append(f"launch {position} is lost or changed after kill {counts.kills}")
            kept = now
            continue
        record = result / "run.json"
        if record.exists() and code in (0, 1, 3, 4):
            judged = subprocess.run([gate, "report", RESULT], cwd=folder, env=environment, capture_output=True, check=False)
            if judged.returncode != code:
                counts.wrong.append(f"judged anew: exit {judged.returncode}, not {code}")
            counts.sessions += 1
            print(f"session {counts.sessions}: exit {code}, {len(kept)} launches before the last start, {counts.kills} kills so far", flush=True)
        elif fresh or "nothing" in said or not kept:
            # Killed before anything was written: there is nothing to go on with, which is said.
            counts.refused += 1
        else:
            counts.wrong.append(f"exit {code} with {len(kept)} launches kept: {said[-600:]}")
        shutil.rmtree(result, ignore_errors=True)
        return


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gate", type=Path)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    counts, draw = Counts(), random.Random(arguments.seed)
    with tempfile.TemporaryDirectory(prefix="gate-kills-") as place:
        folder = Path(place).resolve() / "project"
        temporary = Path(place).resolve() / "tmp"
        temporary.mkdir()
        folder.mkdir()
        gate = folder / "gate"
        shutil.copy(arguments.gate, gate)
        project(folder, gate)
        environment = {**os.environ, "TMPDIR": str(temporary)}
        while counts.kills < arguments.kills:
            session(str(gate), folder, environment, draw, counts, arguments.kills)
        left = [str(path.relative_to(temporary)) for path in temporary.rglob("*")]
    print(f"{counts.kills} kills, {counts.sessions} sessions ended, {counts.refused} had nothing to go on with")
    print(f"left in the temporary folder: {left or 'nothing'}")
    for line in counts.wrong:
        print(f"WRONG: {line}")
    return 1 if counts.wrong or left else 0


if __name__ == "__main__":
    sys.exit(main())
