"""Checks that every relative link in the Markdown files points at a file (and heading) that exists.

Input: all *.md files that git tracks. Output: one line a broken link; exit 1 if there is any.
Command: python3 scripts/check_links.py
"""

import re
import subprocess
import sys
from pathlib import Path

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
# Paths named in backticks as files of the repository: docs that name files which are gone are worse than none.
NAMED = re.compile(r"`((?:src|docs|gates|scripts|tests|benches|\.ci)/[\w./-]+)`")


def slug(heading):
    """GitHub's anchor of a heading."""
    text = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return text.replace(" ", "-")


def anchors(path):
    return {slug(line.lstrip("#")) for line in path.read_text().splitlines() if line.startswith("#")}


def broken_in(path):
    text = path.read_text()
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name) if name else path
        if not file.exists():
            yield f"{path}: {target} does not exist"
        elif anchor and file.suffix == ".md" and anchor not in anchors(file):
            yield f"{path}: {target} has no such heading"
    for name in NAMED.findall(text):
        if not Path(name.rstrip("/.")).exists():
            yield f"{path}: `{name}` does not exist"


def main():
    files = subprocess.check_output(["git", "ls-files", "*.md"], text=True).split()
    broken = [line for file in files for line in broken_in(Path(file))]
    print("\n".join(broken) or f"{len(files)} files, no broken link")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
