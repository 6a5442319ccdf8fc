"""Brings notebooks/NN_topic.ipynb up to date with NN_topic.md.

    python tools/notebooks.py            execute what is stale
    python tools/notebooks.py 06         the same for this chapter only
    python tools/notebooks.py --again 06     execute it in any case
    python tools/notebooks.py --check    only say what is out of date

A chapter is stale when its code, or the library code behind it, is not
what its outputs were made by. A change of prose executes nothing. When
the .ipynb holds edits that the .md lacks, nothing is overwritten.
"""

from __future__ import annotations

import argparse
import enum
import os
import re
import sys

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbformat import NotebookNode
from tqdm import tqdm

from chapters import (
    METADATA,
    NOTEBOOKS,
    ROOT,
    Chapter,
    ChapterError,
    as_text,
    choose,
    code_digest,
    sha,
    write_atomically,
)

KEY = "derived"  # our corner of the notebook's metadata


class State(enum.Enum):
    FRESH = "up to date"
    PROSE = "its text changed, its code did not"
    STALE = "its outputs are of other code"
    MISSING = "it has never been executed"
    EDITED = "the .ipynb holds edits that the .md lacks"


def load(chapter: Chapter) -> NotebookNode | None:
    """The stored notebook, or None when there is none."""
    if not chapter.ipynb.is_file():
        return None
    try:
        return nbformat.read(chapter.ipynb, as_version=4)
    except Exception as error:
        raise ChapterError(
            f"notebooks/{chapter.ipynb.name} cannot be read ({error}); "
            f"`python tools/adopt.py md {chapter.number}` keeps a copy "
            f"and starts again from the .md"
        ) from None


def state(chapter: Chapter, stored: NotebookNode | None) -> State:
    """How the stored notebook stands to the chapter's text."""
    if stored is None:
        return State.MISSING
    text = chapter.read()
    record = stored.metadata.get(KEY, {})
    ours, theirs = as_text(text), as_text(stored)
    if ours != theirs and sha(theirs) != record.get("text"):
        return State.EDITED
    if code_digest(text, chapter) != record.get("code"):
        return State.STALE
    if ours != theirs or sha(ours) != record.get("text"):
        return State.PROSE
    return State.FRESH


def assemble(chapter: Chapter) -> NotebookNode:
    """The chapter's text as a notebook with ids that never wander."""
    nb = chapter.read()
    seen: dict[str, int] = {}
    for cell in nb.cells:
        name = sha(f"{cell.cell_type}\0{cell.source}")[:8]
        seen[name] = seen.get(name, 0) + 1
        cell.id = name if seen[name] == 1 else f"{name}-{seen[name]}"
    nb.metadata = nbformat.from_dict(METADATA)
    nb.metadata[KEY] = {
        "text": sha(as_text(nb)),
        "code": code_digest(nb, chapter),
    }
    return nb


def carry_outputs(stored: NotebookNode, nb: NotebookNode) -> None:
    """Gives the code cells of `nb` the outputs of the same cells stored."""
    old = [c for c in stored.cells if c.cell_type == "code"]
    new = [c for c in nb.cells if c.cell_type == "code"]
    for before, after in zip(old, new, strict=True):
        after.outputs = before.outputs
        after.execution_count = before.execution_count


def execute(chapter: Chapter, nb: NotebookNode) -> None:
    """Runs every cell in a fresh kernel, in the folder of the notebooks."""
    bar = tqdm(
        total=len(nb.cells), desc=str(chapter), unit="cell", file=sys.stderr
    )
    client = NotebookClient(
        nb,
        timeout=None,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        # Its warning about unencrypted TCP is about this machine alone.
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
        resources={"metadata": {"path": str(NOTEBOOKS)}},
        on_cell_complete=lambda **_: bar.update(),
    )
    try:
        client.execute(env={**os.environ, "PYTHONHASHSEED": "0"})
    except CellExecutionError as error:
        said = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
        raise ChapterError(
            f"{where(chapter, nb)}: this cell fails; nothing was written\n"
            f"{said}"
        ) from None
    except DeadKernelError:
        raise ChapterError(
            f"{chapter}: the kernel died (out of memory?); nothing was written"
        ) from None
    finally:
        bar.close()
    for cell in nb.cells:
        cell.metadata.pop("execution", None)


def where(chapter: Chapter, nb: NotebookNode) -> str:
    """The chapter and the line of the cell that failed last."""
    failed = [
        cell.source
        for cell in nb.cells
        if any(o.output_type == "error" for o in cell.get("outputs", []))
    ]
    before, found, _ = chapter.md.read_text(encoding="utf-8").partition(
        failed[-1] if failed else "\0"
    )
    return f"{chapter}:{before.count(chr(10)) + 1}" if found else str(chapter)


def save(chapter: Chapter, nb: NotebookNode) -> None:
    nbformat.validate(nb)
    write_atomically(chapter.ipynb, nbformat.writes(nb) + "\n")
    print(f"notebooks: wrote notebooks/{chapter.ipynb.name}")


def refuse_edited(chapter: Chapter) -> str:
    return (
        f"notebooks/{chapter.ipynb.name} holds edits that {chapter.md.name} "
        f"lacks. Nothing was touched. To keep the notebook's edits:\n"
        f"    make adopt FROM=ipynb CHAPTER={chapter.number}\n"
        f"  to keep the text's (a copy of the notebook stays in .saved/):\n"
        f"    make adopt FROM=md CHAPTER={chapter.number}"
    )


def update(chapter: Chapter, forced: bool) -> None:
    """Writes the chapter's notebook where it is out of date."""
    stored = load(chapter)
    now = state(chapter, stored)
    if now is State.EDITED:
        raise ChapterError(refuse_edited(chapter))
    if now is State.FRESH and not forced:
        return
    nb = assemble(chapter)
    if now is State.PROSE and stored is not None and not forced:
        carry_outputs(stored, nb)
    else:
        execute(chapter, nb)
    save(chapter, nb)


def check(chapter: Chapter) -> str | None:
    """What is out of date, and the command that mends it."""
    stored = load(chapter)
    now = state(chapter, stored)
    if now is State.EDITED:
        return refuse_edited(chapter)
    if now is not State.FRESH:
        return f"{chapter}: {now.value}; run `make notebooks`"
    silent = [
        c.source.splitlines()[0]
        for c in stored.cells
        if c.cell_type == "code" and c.source and not c.execution_count
    ]
    if silent:
        return (
            f"{chapter}: a cell was never executed (`{silent[0]}`); "
            f"run `make notebooks CHAPTER={chapter.number}`"
        )
    for cell in stored.cells:
        if drawn(cell) and not alternative_text(cell):
            return (
                f"{chapter}: a figure has no alternative text; give the cell "
                f"of `{cell.source.splitlines()[0]}` a `mystnb: image: alt:`, "
                f"then run `make notebooks`"
            )
    return None


def drawn(cell: NotebookNode) -> bool:
    """Whether the cell's outputs hold a picture."""
    kinds = [k for o in cell.get("outputs", []) for k in o.get("data", {})]
    return any(kind.startswith("image/") for kind in kinds)


def alternative_text(cell: NotebookNode) -> str:
    """What the cell's metadata say for readers who cannot see it."""
    book = cell.metadata.get("mystnb") or {}
    return (book.get("image") or {}).get("alt") or ""


def orphans() -> list[str]:
    """Notebooks whose chapter has no text."""
    return [
        f"notebooks/{p.name} has no .md beside it: "
        f"`jupytext --to md:myst notebooks/{p.name}`, or remove it"
        for p in sorted(NOTEBOOKS.glob("*.ipynb"))
        if not p.with_suffix(".md").is_file()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("chapter", nargs="*", help="06, attention, …")
    args = parser.parse_args()
    os.chdir(ROOT)
    problems = [] if args.chapter else orphans()
    try:
        chapters = choose(args.chapter)
    except ChapterError as error:
        print(f"notebooks: {error}", file=sys.stderr)
        return 1
    for chapter in chapters:
        try:
            if args.check:
                problem = check(chapter)
            else:
                problem = update(chapter, forced=args.again)
        except ChapterError as error:
            problem = str(error)
        if problem:
            problems.append(problem)
    for problem in problems:
        print(f"notebooks: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
