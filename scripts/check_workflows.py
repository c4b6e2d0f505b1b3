#!/usr/bin/env python3
"""Checks every workflow and action: schema, zizmor's audits (persona auditor), and shellcheck on each `run:` block.

Needs zizmor, check-jsonschema and shellcheck on the PATH; scripts/requirements-ci.txt names their versions.
"""
import pathlib
import subprocess
import sys

from ruamel.yaml import YAML

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORKFLOWS = [*sorted((ROOT / ".github/workflows").glob("*.yml")), ROOT / "docs/scaling/gate-fleet.yml"]
ACTIONS = [ROOT / "action.yml", *sorted((ROOT / ".github/actions").glob("*/action.yml"))]
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
SCRIPTS = [
    ROOT / ".ci/run",
    *sorted(p for p in (ROOT / "scripts").glob("*") if p.is_file() and p.suffix == ""),
    *sorted(p for p in (ROOT / ".github/actions").glob("*/*") if p.suffix == ""),
]


def steps(file: pathlib.Path):
    """Every step of a file that runs a script, as (place, script)."""
    document = YAML(typ="safe").load(file)
    jobs = document.get("jobs") or {"action": document.get("runs", {})}
    for job, body in jobs.items():
        for number, step in enumerate(body.get("steps", []), start=1):
            if "run" in step:
                name = step.get("name", f"step {number}")
                yield f"{file.relative_to(ROOT)}, {job}, {name}", step["run"]


def shellcheck(place: str, script: str) -> bool:
    if "${{" in script:
        print(f"{place}: a script with an expression in it: hand it over in `env:`")
        return False
    # The shell that Actions gives a step: bash -e -o pipefail.
    text = "#!/usr/bin/env bash\nset -eo pipefail\n" + script
    done = subprocess.run(["shellcheck", "-s", "bash", "-"], input=text, text=True, capture_output=True)
    if done.returncode != 0:
        print(f"{place}:\n{done.stdout}{done.stderr}")
    return done.returncode == 0


def run(*command: str) -> bool:
    return subprocess.run(command, cwd=ROOT).returncode == 0


def main() -> int:
    if not WORKFLOWS or not ACTIONS:
        print("no workflows found")
        return 1
    good = run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *map(str, WORKFLOWS))
    good &= run("check-jsonschema", "--builtin-schema", "vendor.github-actions", *map(str, ACTIONS))
    good &= run("zizmor", "--offline", "--quiet", "--persona=auditor", ".github", "action.yml", "docs/scaling/gate-fleet.yml")
    for form in FORMS:
        document = YAML(typ="safe").load(form)
        if not {"name", "description", "body"} <= document.keys():
            print(f"{form.relative_to(ROOT)}: an issue form needs name, description and body")
            good = False
    good &= run("shellcheck", *map(str, SCRIPTS))
    found = [step for file in WORKFLOWS + ACTIONS for step in steps(file)]
    results = [shellcheck(place, script) for place, script in found]
    print(f"{len(WORKFLOWS)} workflows, {len(ACTIONS)} actions, {len(found)} scripts in steps, {len(SCRIPTS)} in files")
    return 0 if good and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
