"""Builds the site into book/_build/html.

    python tools/book.py

Any warning fails the build: a broken reference must not reach a reader.
Sphinx keeps quiet about pages it has read before, so the site is built
afresh when anything it is made of has changed, and not at all when
nothing has. A build that fails leaves no site behind.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import yaml

from chapters import ROOT, all_chapters
from notebooks import check

BOOK = ROOT / "book"
BUILD = BOOK / "_build"
SITE = BUILD / "html"
STAMP = BUILD / "made_of"
PACKAGES = ("jupyter-book", "myst-nb", "sphinx", "sphinx-book-theme")


def pages() -> list[str]:
    """The pages in the table of contents, as paths without suffix."""
    toc = yaml.safe_load((BOOK / "_toc.yml").read_text(encoding="utf-8"))
    found, todo = [], [toc]
    while todo:
        entry = todo.pop(0)
        found += [entry[key] for key in ("root", "file") if key in entry]
        for key in ("parts", "chapters", "sections"):
            todo += entry.get(key, [])
    return found


def problems() -> list[str]:
    """What keeps the site from being built, each with its remedy."""
    found = []
    listed = pages()
    for chapter in all_chapters():
        page = f"notebooks/{chapter.md.stem}"
        if page not in listed:
            found.append(
                f"{page}.md is not in book/_toc.yml: add `- file: {page}` "
                f"to its part"
            )
    for page in listed:
        path = ROOT / page
        if any(path.with_suffix(s).is_file() for s in (".ipynb", ".rst")):
            continue
        if not path.with_suffix(".md").is_file():
            found.append(
                f"book/_toc.yml names {page}, which does not exist: write "
                f"it or take its line out"
            )
    for chapter in all_chapters():
        found += filter(None, [check(chapter)])
    return found


def made_of() -> str:
    """One short string for everything the site is made of."""
    digest = hashlib.sha256()
    for name in PACKAGES:
        digest.update(f"{name} {importlib.metadata.version(name)}\0".encode())
    files = [p for p in BOOK.rglob("*") if BUILD not in p.parents]
    files += ROOT.glob("notebooks/*.ipynb")
    files += ROOT.glob("transformer_lib/**/*.py")
    files.append(Path(__file__).resolve())
    for path in sorted(files):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(ROOT)}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def up_to_date(now: str) -> bool:
    return (
        STAMP.is_file()
        and STAMP.read_text() == now
        and all((SITE / f"{page}.html").is_file() for page in pages())
        and (SITE / "index.html").is_file()
    )


def build() -> tuple[int, str]:
    """Runs Jupyter Book; its status, and what it said."""
    command = [
        sys.executable, "-c", "from jupyter_book.cli.main import main; main()",
        "build", str(ROOT), "--path-output", str(BOOK),
        "--config", str(BOOK / "_config.yml"),
        "--toc", str(BOOK / "_toc.yml"),
        "-n", "-W", "--keep-going", "-q",
    ]  # fmt: skip
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        cwd=ROOT,
    )
    return done.returncode, re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)


def in_text(match: re.Match[str]) -> str:
    """A place in a notebook as the line of the .md that an author edits.

    MyST-NB gives 10000 times the cell, counted from 1, plus the line.
    """
    cell, line = divmod(int(match[2]), 10_000)
    path = ROOT / f"{match[1]}.ipynb"
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        source = "".join(notebook["cells"][cell - 1]["source"])
        text = path.with_suffix(".md").read_text(encoding="utf-8")
        before = text[: text.index(source)]
    except (OSError, ValueError, LookupError):
        return f"{match[1]}.md, cell {cell}:"
    return f"{match[1]}.md:{before.count(chr(10)) + max(line - 1, 1)}:"


def warnings_in(said: str) -> list[str]:
    """The warnings of a build, one line each, with the place to mend."""
    lines = [
        re.sub(r"(notebooks/\w+)\.ipynb:(\d+):", in_text, line)
        for line in said.replace(f"{ROOT}/", "").splitlines()
        if re.search(r"\b(WARNING|ERROR|CRITICAL|SEVERE)\b", line)
    ]
    return list(dict.fromkeys(lines))


def main() -> int:
    found = problems()
    for problem in found:
        print(f"book: {problem}", file=sys.stderr)
    if found:
        return 1
    now, start = made_of(), time.monotonic()
    where = f"{SITE.relative_to(ROOT)}/index.html"
    if up_to_date(now):
        print(f"book: nothing has changed; the site is {where}")
        return 0
    print(f"book: building {len(pages())} pages", flush=True)
    shutil.rmtree(BUILD, ignore_errors=True)
    try:
        status, said = build()
        warnings = warnings_in(said)
        if status == 0 and not warnings and (SITE / "index.html").is_file():
            STAMP.write_text(now)
    finally:
        if not STAMP.is_file():
            shutil.rmtree(SITE, ignore_errors=True)
    if STAMP.is_file():
        print(f"book: built {where} in {time.monotonic() - start:.0f} s")
        return 0
    for line in warnings or said.splitlines():
        print(f"book: {line}", file=sys.stderr)
    print(
        "book: there is no site until this is mended: edit the places named "
        "above, then `make book` (after a chapter: `make notebooks book`)",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
