"""MkDocs hook: makes a site of files that are written for GitHub.

README.md becomes the home page, and the decisions get a page that lists them. Links to files outside docs/ go to the
repository on GitHub; where the environment does not name it, only their text stays. Links to nothing are for MkDocs to report.
"""
import os
import re
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
DECISIONS = "decisions/index.md"
FENCE = re.compile(r"(^```.*?^```$)", re.M | re.S)
ITEM = re.compile(r"^(- |\d\. ).*\n(?:(?:  .*)?\n)*", re.M)
CODE_IN_ROW = re.compile(r"^\|.*", re.M), re.compile(r"`[^`]*`")
LINK = re.compile(r"(\[[^\]]*\])\(([^)\s]+)\)")


def on_config(config):
    server, repository = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_REPOSITORY")
    if server and repository:
        config.repo_url, config.repo_name = f"{server}/{repository}", "GitHub"


def on_files(files, config):
    pages = sorted((f for f in files.documentation_pages() if f.src_uri.startswith("decisions/")), key=lambda f: f.src_uri)
    rows = [f"- [{page.content_string.splitlines()[0].lstrip('# ')}]({Path(page.src_uri).name})\n" for page in pages]
    files.append(File.generated(config, DECISIONS, content="# Decisions\n\n" + "".join(rows)))
    files.append(File.generated(config, "index.md", abs_src_path=str(ROOT / "README.md")))


def on_page_markdown(markdown, page, config, files):
    parts = FENCE.split(markdown)  # every second one is a block of code
    parts[::2] = [LINK.sub(lambda m: link(*m.groups(), page.file.src_uri, config), plain(part)) for part in parts[::2]]
    return "".join(parts)


def plain(text):
    """GitHub's Markdown as Python-Markdown reads it: items continue at four columns, bars in a table's code are not escaped."""
    row, code = CODE_IN_ROW
    text = row.sub(lambda r: code.sub(lambda c: c[0].replace(r"\|", "|"), r[0]), text)
    return ITEM.sub(item, text)


def item(match):
    text = match[0].replace("\n" + " " * len(match[1]), "\n    ")
    return text + "\n" if "\n\n " in text else text  # or the next item would belong to this one's last paragraph


def link(text, target, page, config):
    """A link of a page as the site has it."""
    path, mark, anchor = target.partition("#")
    file = normpath(join(dirname("README.md" if page == "index.md" else f"docs/{page}"), path))
    if not path or ":" in path or not (ROOT / file).exists():
        return f"{text}({target})"
    inside = {"README.md": "index.md", "docs/decisions": DECISIONS}.get(file, file.removeprefix("docs/"))
    if inside != file and (inside == DECISIONS or (ROOT / file).is_file()):
        return f"{text}({relpath(inside, dirname(page) or '.')}{mark}{anchor})"
    return f"{text}({config.repo_url}/blob/main/{file}{mark}{anchor})" if config.repo_url else text[1:-1]
