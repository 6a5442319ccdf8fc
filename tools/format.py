"""Puts the chapters' text in its one form.

    python tools/format.py            rewrite what differs
    python tools/format.py 06         of this chapter only
    python tools/format.py --check    only say what differs

The form is jupytext's own, so that saving a chapter in JupyterLab changes
no line the author did not touch; the code in cells is as ruff writes it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from chapters import (
    ROOT,
    Chapter,
    ChapterError,
    as_text,
    choose,
    write_atomically,
)


def formatted_code(sources: list[str]) -> list[str]:
    """Each cell as ruff formats it; a cell it cannot parse stays."""
    done = []
    for source in sources:
        run = subprocess.run(
            [
                sys.executable, "-m", "ruff", "format", "-",
                "--stdin-filename", "cell.py",
            ],
            input=source, capture_output=True, text=True, cwd=ROOT,
        )  # fmt: skip
        done.append(run.stdout.rstrip("\n") if not run.returncode else source)
    return done


def wanted(chapter: Chapter) -> str:
    nb = chapter.read()
    cells = [c for c in nb.cells if c.cell_type == "code"]
    sources = formatted_code([c.source for c in cells])
    for cell, source in zip(cells, sources, strict=True):
        cell.source = source
    return as_text(nb)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("chapter", nargs="*", help="06, attention, …")
    args = parser.parse_args()
    check, drift = args.check, 0
    try:
        chapters = choose(args.chapter)
    except ChapterError as error:
        print(f"format: {error}", file=sys.stderr)
        return 1
    for chapter in chapters:
        text = wanted(chapter)
        if chapter.md.read_text(encoding="utf-8") == text:
            continue
        drift += 1
        if check:
            print(
                f"format: {chapter} is not in the book's form; run "
                f"`make format`",
                file=sys.stderr,
            )
        else:
            write_atomically(chapter.md, text)
            print(f"format: wrote {chapter}")
    return 1 if check and drift else 0


if __name__ == "__main__":
    sys.exit(main())
