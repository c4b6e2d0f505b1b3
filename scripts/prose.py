#!/usr/bin/env python3
"""Counts words, and turns of phrase that read as translated, in documents and in messages.

    python3 scripts/prose.py [COMMIT ...]     # a column each, and the working tree
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# From the first audit of the documents; each has a plainer word.
PHRASES = [
    r"stands?", r"is told", r"are told", r"so many", r"whatever", r"whoever", r"borne?", r"mend(?:s|ed|ing)?",
    r"none of ours", r"what is there", r"is said", r"nobody knows", r"right here are", r"of one's own", r"as is",
]
PATTERN = re.compile(r"\b(" + "|".join(PHRASES) + r")\b", re.IGNORECASE)
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
KINDS = ["README", "docs", "decisions", "help", "messages"]


def kind_of(path: str) -> str | None:
    if path == "README.md":
        return "README"
    if path == "docs/cli.md":
        return "help"
    if path.startswith("docs/decisions/"):
        return "decisions"
    if path.startswith("docs/") and path.endswith(".md"):
        return "docs"
    if path.startswith("src/") and path.endswith(".rs"):
        return "messages"
    return None


def files(commit: str | None):
    listed = ["git", "ls-files"] if commit is None else ["git", "ls-tree", "-r", "--name-only", commit]
    for path in subprocess.run(listed, cwd=ROOT, text=True, capture_output=True, check=True).stdout.splitlines():
        kind = kind_of(path)
        if kind is None:
            continue
        if commit is None:
            text = (ROOT / path).read_text() if (ROOT / path).is_file() else ""
        else:
            shown = ["git", "show", f"{commit}:{path}"]
            text = subprocess.run(shown, cwd=ROOT, text=True, capture_output=True, check=True).stdout
        if kind == "messages":
            # Strings of several words, tests left out.
            text = text.split("#[cfg(test)]")[0]
            strings = (match.group(1) for match in STRING.finditer(text))
            text = "\n".join(string for string in strings if string.count(" ") >= 2)
        yield kind, text


def counts(commit: str | None) -> dict[str, tuple[int, int]]:
    found = {kind: (0, 0) for kind in KINDS}
    for kind, text in files(commit):
        words, phrases = found[kind]
        found[kind] = (words + len(text.split()), phrases + len(PATTERN.findall(text)))
    return found


def main() -> int:
    columns = [*sys.argv[1:], None]
    names = [name or "working tree" for name in columns]
    found = [counts(commit) for commit in columns]
    print(f"{'words, phrases':<16}" + "".join(f"{name:>18}" for name in names))
    for kind in KINDS:
        cells = (f"{of[kind][0]}, {of[kind][1]}" for of in found)
        print(f"{kind:<16}" + "".join(f"{cell:>18}" for cell in cells))
    return 0


if __name__ == "__main__":
    sys.exit(main())
