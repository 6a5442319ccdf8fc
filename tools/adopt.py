"""Settles a chapter whose .md and .ipynb disagree.

    python tools/adopt.py ipynb 06    the notebook's sources win
    python tools/adopt.py md 06       the text wins

Whatever loses is kept as a copy in .saved/.
"""

from __future__ import annotations

import argparse
import sys

from chapters import (
    Chapter,
    ChapterError,
    as_text,
    choose,
    keep,
    write_atomically,
)
from notebooks import load


def adopt_notebook(chapter: Chapter) -> None:
    """Makes the notebook's sources the chapter's text."""
    stored = load(chapter)
    if stored is None:
        raise ChapterError(
            f"there is no notebooks/{chapter.ipynb.name} to adopt"
        )
    text = as_text(stored)
    if chapter.md.read_text(encoding="utf-8") == text:
        print(f"adopt: {chapter} already says what its notebook says")
        return
    print(f"adopt: the text before is kept in {keep(chapter.md)}")
    write_atomically(chapter.md, text)
    print(f"adopt: wrote {chapter}; now run `make export notebooks`")


def adopt_text(chapter: Chapter) -> None:
    """Sets the notebook aside, so that it is made again from the text."""
    if not chapter.ipynb.is_file():
        print(f"adopt: there is no notebooks/{chapter.ipynb.name} to replace")
        return
    print(f"adopt: the notebook before is kept in {keep(chapter.ipynb)}")
    chapter.ipynb.unlink()
    print("adopt: now run `make notebooks`")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("source", help="ipynb or md: what wins")
    parser.add_argument("chapter", help="06, attention, …")
    args = parser.parse_args()
    if args.source not in ("ipynb", "md") or not args.chapter:
        print(
            "adopt: say what wins and in which chapter: "
            "`make adopt FROM=ipynb CHAPTER=06` keeps the notebook's "
            "sources, FROM=md the text's",
            file=sys.stderr,
        )
        return 1
    action = adopt_notebook if args.source == "ipynb" else adopt_text
    try:
        for chapter in choose([args.chapter]):
            action(chapter)
    except ChapterError as error:
        print(f"adopt: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
