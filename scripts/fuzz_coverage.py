"""Which lines hostile input reaches: a table of what is read, its cases a second, and the share of its lines that ran.

    python3 scripts/fuzz_coverage.py [TIMES]

Builds the tests with counters beside the ordinary ones (`-C instrument-coverage`, dev build) and runs `fuzz::` with
INFERGATE_FUZZ=TIMES (10). Needs `rustup component add llvm-tools`.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

# What reads the text of each target, below src/.
READERS = {
    "streams": ["client/response/", "client/samples/"],
    "gate files": ["verdict/plan/gates/", "verdict/plan/read", "verdict/plan/settings/", "verdict/plan/source/"],
    "records": ["verdict/record/", "verdict/judge/"],
    "imports": [f"gate/import/{name}" for name in ("aiperf", "guidellm", "vllm", "samples", "parse", "request")],
    "suites": ["gate/import/junit"],
    "models": ["engine/config/", "engine/loader", "engine/weights", "engine/files", "engine/text/", "engine/model.rs"],
    "bodies": ["engine/server/"],
}


def output(command, **environment):
    run = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit(f"{' '.join(map(str, command[:4]))} …: exit code {run.returncode}\n{run.stdout[-2000:]}")
    return run.stdout


def counted(folder, times):
    """Runs the tests with counters; their output, and the programs that hold the counters' names."""
    wrapper = folder / "wrapper"
    wrapper.write_text('#!/bin/sh\nexec "$@" -C instrument-coverage\n')
    wrapper.chmod(0o755)
    test = ["cargo", "test", "--locked", "--test", "it"]
    # Packages of others are compiled as ever. What runs while these are compiled counts nothing.
    build = {"RUSTC_WORKSPACE_WRAPPER": str(wrapper), "LLVM_PROFILE_FILE": str(folder / "building")}
    messages = output([*test, "--no-run", "--message-format", "json"], **build)
    programs = [json.loads(line).get("executable") for line in messages.splitlines() if line.startswith("{")]
    said = output(
        [*test, "--", "fuzz::", "--nocapture"],
        RUSTC_WORKSPACE_WRAPPER=str(wrapper),
        LLVM_PROFILE_FILE=str(folder / "%m-%p.profraw"),
        INFERGATE_FUZZ=times,
    )
    return said, [program for program in programs if program]


def tools():
    library = output(["rustc", "--print", "target-libdir"]).strip()
    folder = pathlib.Path(library).parent / "bin"
    if not (folder / "llvm-cov").exists():
        sys.exit(f"{folder}/llvm-cov is not there: rustup component add llvm-tools")
    return folder


def lines(tools, folder, programs):
    """Lines that ran and all lines of each file, by its path below src/."""
    merged = folder / "merged"
    output([tools / "llvm-profdata", "merge", "--sparse", *folder.glob("*.profraw"), "-o", merged])
    objects = [part for program in programs for part in ("--object", program)]
    export = output([tools / "llvm-cov", "export", "--summary-only", "--instr-profile", merged, *objects])
    sources = f"{ROOT / 'src'}/"
    files = json.loads(export)["data"][0]["files"]
    files = [file for file in files if file["filename"].startswith(sources)]
    return {file["filename"].removeprefix(sources): file["summary"]["lines"] for file in files}


def main():
    found = tools()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        said, programs = counted(folder, sys.argv[1] if len(sys.argv) > 1 else "10")
        files = lines(found, folder, programs)
    print("| what is read | cases | accepted | a second, with counters | lines that ran | of |")
    print("|---|---|---|---|---|---|")
    for name, paths in READERS.items():
        cases = re.search(rf"\b{name}: (\d+) cases, (\d+) accepted, (\d+) a second", said)
        read = [count for file, count in files.items() if any(file.startswith(path) for path in paths)]
        ran, all_lines = (sum(count[key] for count in read) for key in ("covered", "count"))
        numbers = [f"{int(number):,}" for number in cases.groups()]
        print(f"| {name} | {' | '.join(numbers)} | {100 * ran / all_lines:.0f} % | {all_lines:,} |")


if __name__ == "__main__":
    main()
