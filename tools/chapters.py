"""Where the chapters are, and how their text becomes cells."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import jupytext
from nbformat import NotebookNode, from_dict

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"
METRICS = NOTEBOOKS / "metrics"
LIBRARY = ROOT / "transformer_lib"
PACKAGE = LIBRARY.name

# What JupyterLab or an execution adds to a cell and no author wrote.
VOLATILE = {"execution", "collapsed", "scrolled", "trusted", "vscode"}
VOLATILE |= {"ExecuteTime"}

# What every notebook says of itself, and its text says in its header.
METADATA = {
    "jupytext": {
        "formats": "ipynb,md:myst",
        "notebook_metadata_filter": (
            "-jupytext.text_representation.jupytext_version"
        ),
    },
    "kernelspec": {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    },
    "language_info": {"name": "python", "pygments_lexer": "ipython3"},
}


class ChapterError(Exception):
    """Something in a chapter its author has to mend."""


@dataclass(frozen=True)
class Chapter:
    """One chapter: `NN_topic.md`, its notebook and its module.

    A letter behind the number, as in `02b_lexicon.md`, makes it one of
    the rooms that a long chapter opens into.
    """

    md: Path

    @property
    def number(self) -> str:
        return self.md.stem.partition("_")[0]

    @property
    def topic(self) -> str:
        return self.md.stem.partition("_")[2]

    @property
    def ipynb(self) -> Path:
        return self.md.with_suffix(".ipynb")

    @property
    def module(self) -> Path:
        return LIBRARY / f"{self.topic}.py"

    def metrics(self, suffix: str) -> list[Path]:
        """The chapter's files `NN_name` in notebooks/metrics/."""
        return sorted(METRICS.glob(f"{self.number}_*{suffix}"))

    def __str__(self) -> str:
        return f"notebooks/{self.md.name}"

    def read(self) -> NotebookNode:
        """The chapter's text as a notebook without outputs."""
        return jupytext.read(self.md, fmt="md:myst")

    def head(self) -> tuple[str, str]:
        """The chapter's title and its one-sentence summary."""
        cells = self.read().cells
        first = cells[0].source if cells else ""
        match = re.match(r"# (.+)\n\s*\n(.+(?:\n.+)*)", first)
        if not match:
            raise ChapterError(
                f"{self}: the first cell must be a line `# Title` and "
                f"below it a paragraph of one sentence, the summary"
            )
        title, summary = match[1].strip(), " ".join(match[2].split())
        if len(summary) > 150 or re.search(r"[$`{}\[\]*_\\]", summary):
            raise ChapterError(
                f"{self}: the summary below the title has "
                f"{len(summary)} characters; it must be plain text "
                f"(no markup, no math) of at most 150"
            )
        return title, summary


def all_chapters() -> list[Chapter]:
    """Every chapter there is, in the order of the book."""
    found = (Chapter(md) for md in NOTEBOOKS.glob("[0-9][0-9]*_*.md"))
    return sorted(found, key=lambda chapter: chapter.number)


def choose(names: list[str]) -> list[Chapter]:
    """The chapters named by number, stem or path; all when none is."""
    chapters = all_chapters()
    if not names:
        return chapters
    chosen = []
    for name in names:
        stem = Path(name).stem
        found = [
            c
            for c in chapters
            if stem in (c.number, c.number.lstrip("0"), c.topic, c.md.stem)
        ]
        if not found:
            have = ", ".join(c.number for c in chapters)
            raise ChapterError(
                f"there is no chapter {name!r}; the book has {have}"
            )
        chosen += found
    return chosen


def tags(cell: NotebookNode) -> list[str]:
    return list(cell.metadata.get("tags", []))


def as_text(nb: NotebookNode) -> str:
    """A notebook's sources as the one text that stands for them.

    Outputs, ids, execution counts and whatever an editor adds to the
    metadata are left out, so two notebooks have the same text exactly
    when an author would call them the same.
    """
    plain = NotebookNode(nb)
    plain.metadata = from_dict(METADATA)
    plain.cells = []
    for cell in nb.cells:
        copy = NotebookNode(cell)
        copy.metadata = NotebookNode(
            {k: v for k, v in cell.metadata.items() if k not in VOLATILE}
        )
        plain.cells.append(copy)
    return jupytext.writes(plain, fmt="md:myst").rstrip("\n") + "\n"


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def code_alone(source: str) -> str:
    """Python source without comments, docstrings and line numbers."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if (
            isinstance(body, list)
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
            and isinstance(body[0].value.value, str)
        ):
            del body[0]
    return ast.dump(tree)


def _imported_modules(source: str) -> set[str]:
    """Names of our own modules that Python source imports."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            base = node.module or ""
            names = [base] + [f"{base}.{a.name}" for a in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == PACKAGE:
                found.add(parts[1] if len(parts) > 1 else "__init__")
    return {m for m in found if (LIBRARY / f"{m}.py").is_file()}


def modules_behind(sources: list[str]) -> list[str]:
    """Our modules that the sources import, directly or through others.

    A source that does not parse (a cell with a magic) names none.
    """
    todo, seen = list(sources), set()
    while todo:
        source = todo.pop()
        try:
            new = _imported_modules(source) - seen
        except SyntaxError:
            continue
        seen |= new
        todo += [(LIBRARY / f"{m}.py").read_text() for m in sorted(new)]
    return sorted(seen)


def library_behind(sources: list[str]) -> list[str]:
    """Name and code of each of our modules behind the sources."""
    parts = []
    for module in modules_behind(sources):
        parts += [module, code_alone((LIBRARY / f"{module}.py").read_text())]
    return parts


def code_digest(nb: NotebookNode, chapter: Chapter) -> str:
    """What the outputs of a chapter depend on, as one short string.

    Its code cells, the library modules behind them (comments and
    docstrings left out), the figure style, and its metrics files.
    """
    sources = [c.source for c in nb.cells if c.cell_type == "code"]
    parts = [*sources, *library_behind(sources)]
    parts.append((NOTEBOOKS / "matplotlibrc").read_text())
    for path in chapter.metrics(".json"):
        parts += [path.name, path.read_text()]
    return sha("\0".join(parts))


def write_atomically(path: Path, text: str) -> None:
    """Replaces a file in one step: a kill leaves the old one whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def keep(path: Path) -> Path:
    """Copies a file about to be replaced to .saved/, never over another."""
    folder = ROOT / ".saved"
    folder.mkdir(exist_ok=True)
    stamp = time.strftime("%Y%m%dT%H%M%S")
    kept = folder / f"{path.stem}.{stamp}{path.suffix}"
    count = 1
    while kept.exists():
        count += 1
        kept = folder / f"{path.stem}.{stamp}-{count}{path.suffix}"
    shutil.copy2(path, kept)
    return kept.relative_to(ROOT)
