"""Writes transformer_lib/topic.py from the cells tagged `export`.

    python tools/export.py            write what differs
    python tools/export.py --check    only say what differs

Nothing of a chapter is executed. The same text gives the same module.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import textwrap
from pathlib import Path

import jupytext
from nbformat.v4 import new_code_cell, new_notebook

from chapters import (
    LIBRARY,
    ROOT,
    Chapter,
    ChapterError,
    all_chapters,
    keep,
    tags,
    write_atomically,
)

BY_HAND = {"__init__.py", "__main__.py"}
MEND = "make export"


def parse_cell(chapter: Chapter, position: int, source: str) -> ast.Module:
    """The cell's tree; refuses whatever a module cannot hold."""
    where = f"{chapter}, export cell {position}"
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        line = source.splitlines()[(error.lineno or 1) - 1].strip()
        raise ChapterError(
            f"{where}: `{line}` is not plain Python ({error.msg}); what "
            f"only a notebook understands (a magic, a `!` line) belongs in "
            f"a cell without the tag `export`"
        ) from None
    for node in tree.body:
        if (
            position > 1
            and isinstance(node, ast.ImportFrom)
            and node.module == "__future__"
        ):
            raise ChapterError(
                f"{where}: `from __future__ import …` must stand in the "
                f"first export cell"
            )
    return tree


def public_names(tree: ast.Module) -> list[str]:
    """What the module defines at its top level for others.

    Sorted as ruff wants it: constants, classes, functions.
    """
    names = set()
    for node in tree.body:
        if isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        ):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                names |= {
                    n.id for n in ast.walk(target) if isinstance(n, ast.Name)
                }
        elif isinstance(node, ast.AnnAssign) and isinstance(
            node.target, ast.Name
        ):
            names.add(node.target.id)
    public = [n for n in names if not n.startswith("_")]
    return sorted(public, key=lambda n: (not n.isupper(), n.islower(), n))


def module_text(chapter: Chapter) -> str | None:
    """The module a chapter exports; None when it exports nothing."""
    cells = [
        c.source
        for c in chapter.read().cells
        if c.cell_type == "code" and "export" in tags(c)
    ]
    if not cells:
        return None
    trees = [parse_cell(chapter, i, s) for i, s in enumerate(cells, 1)]
    nb = new_notebook(cells=[new_code_cell(s) for s in cells])
    nb.metadata = {
        "jupytext": {
            "notebook_metadata_filter": "-all",
            "cell_metadata_filter": "-all",
        }
    }
    code = jupytext.writes(nb, fmt="py:nomarker").strip("\n")
    tree = ast.parse(code)
    wanted = [ast.dump(n) for t in trees for n in t.body]
    if [ast.dump(n) for n in tree.body] != wanted:
        raise ChapterError(
            f"{chapter}: an export cell reads like a notebook command and "
            f"would reach the module as a comment; write it in plain Python"
        )
    return formatted(chapter, insert_header(chapter, code, tree))


def insert_header(chapter: Chapter, code: str, tree: ast.Module) -> str:
    """Docstring first, then `__future__`, `__all__` below the imports."""
    title, summary = chapter.head()
    doc = "\n".join(
        [
            f'"""{title}.',
            "",
            *textwrap.wrap(summary, 72),
            "",
            f"Chapter {chapter.number.lstrip('0')}; generated from",
            f"notebooks/{chapter.md.name} by `{MEND}`: edit the chapter.",
            '"""',
        ]
    )
    imports = [
        n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)
    ]
    after = max((n.end_lineno or 0 for n in imports), default=0)
    lines = code.splitlines()
    exported = f"__all__ = {public_names(tree)!r}"
    return "\n".join(
        [doc, "", *lines[:after], "", exported, "", *lines[after:], ""]
    )


def formatted(chapter: Chapter, text: str) -> str:
    """The text as ruff formats it, free of undefined or doubled names."""
    ruff = [sys.executable, "-m", "ruff"]
    name = f"{chapter.topic}.py"
    done = subprocess.run(
        [*ruff, "format", "--stdin-filename", name, "-"],
        input=text, capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    if done.returncode:
        raise ChapterError(f"{chapter}: {done.stderr.strip()}")
    lint = subprocess.run(
        [
            *ruff, "check", "--select", "F821,F811,E402",
            "--output-format", "concise", "--stdin-filename", name, "-",
        ],
        input=done.stdout, capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    if lint.returncode:
        found = "\n  ".join(lint.stdout.strip().splitlines()[:-1])
        raise ChapterError(
            f"{chapter}: the export cells alone are not a module:\n"
            f"  {found}\n"
            f"  (a name defined only in a cell without the tag `export`, "
            f"defined twice, or imported below the first cell)"
        )
    return done.stdout


def wanted_modules() -> tuple[dict[Path, str], list[Chapter], list[str]]:
    """Every module by path; the chapters that give none; what is wrong."""
    modules: dict[Path, str] = {}
    broken: list[Chapter] = []
    problems: list[str] = []
    for chapter in all_chapters():
        try:
            text = module_text(chapter)
            if chapter.module in modules:
                raise ChapterError(
                    f"{chapter}: another chapter already exports "
                    f"{chapter.module.name}; one topic, one module"
                )
        except ChapterError as error:
            problems.append(str(error))
            broken.append(chapter)
            continue
        if text is not None:
            modules[chapter.module] = text
    return modules, broken, problems


def replace(path: Path, text: str) -> None:
    """Writes a module; what git could not bring back is kept first."""
    if path.is_file() and not _committed(path):
        print(f"export: what stood there before is kept in {keep(path)}")
    write_atomically(path, text)


def _committed(path: Path) -> bool:
    """Whether the file is as the last commit has it."""
    try:
        done = subprocess.run(
            ["git", "status", "--porcelain", "--ignored", "--", str(path)],
            capture_output=True, text=True, cwd=ROOT,
        )  # fmt: skip
    except FileNotFoundError:
        return False
    return done.returncode == 0 and not done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    wanted, broken, problems = wanted_modules()
    for problem in problems:
        print(f"export: {problem}", file=sys.stderr)
    have = {p for p in LIBRARY.glob("*.py") if p.name not in BY_HAND}
    drift = [
        p
        for p, text in wanted.items()
        if not p.is_file() or p.read_text(encoding="utf-8") != text
    ]
    orphans = sorted(have - wanted.keys() - {c.module for c in broken})
    for path in drift:
        if check:
            print(
                f"export: {path.relative_to(ROOT)} is not what its chapter "
                f"exports. Modules are generated: make sure that the "
                f"change stands in the chapter's .md, then run `{MEND}`",
                file=sys.stderr,
            )
        else:
            replace(path, wanted[path])
            print(f"export: wrote {path.relative_to(ROOT)}")
    for path in orphans:
        print(
            f"export: no chapter exports {path.relative_to(ROOT)}: write its "
            f"chapter or remove it (`git rm {path.relative_to(ROOT)}`)",
            file=sys.stderr,
        )
    return 1 if problems or orphans or (check and drift) else 0


if __name__ == "__main__":
    sys.exit(main())
