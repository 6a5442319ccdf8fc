"""The directive `formula-index`: every formula, where it is and who tests it.

Read from book/formulas.toml; tests/test_appendices.py holds every label,
function and test it names to exist. A formula's chapter is that of its first
label.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

FORMULAS = Path(__file__).resolve().parent.parent / "formulas.toml"
LABEL = re.compile(r"^\$\$ \(([\w-]+)\)$", re.MULTILINE)


def formulas() -> list[dict[str, Any]]:
    return tomllib.loads(FORMULAS.read_text(encoding="utf-8"))["formula"]


def chapters(notebooks: Path) -> dict[str, Path]:
    """The chapter of every labelled equation."""
    return {
        label: path
        for path in sorted(notebooks.glob("[0-9][0-9]*_*.md"))
        for label in LABEL.findall(path.read_text(encoding="utf-8"))
    }


class FormulaIndex(SphinxDirective):
    """Writes the table as Markdown and lets the page's parser read it."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(FORMULAS))
        where = chapters(Path(self.env.srcdir, "notebooks"))
        lines = ["| | what it says, and where | code, and its tests |"]
        lines += ["|---|---|---|"]
        for f in formulas():
            chapter = where.get(f["labels"][0])
            if chapter is None:
                lost = f"formula {f['number']}: no equation {f['labels'][0]}"
                raise self.error(f"{FORMULAS.name}: {lost}")
            number = chapter.stem.partition("_")[0].lstrip("0")
            link = f"[chapter {number}](/notebooks/{chapter.stem}.ipynb)"
            equations = ", ".join(f"{{eq}}`{label}`" for label in f["labels"])
            code = [f"{{py:obj}}`~transformer_lib.{c}`" for c in f["code"]]
            tests = [name.partition("::")[0] for name in f["tests"]]
            tests = [f"`{name}`" for name in dict.fromkeys(tests)]
            tests = ", ".join([*code, *tests, "the chapter's checks"])
            statement = f["statement"].replace("|", "\\|")
            lines.append(
                f"| **{f['number']}** | {statement} {link}: {equations} | "
                f"{tests} |"
            )
        box = nodes.container(classes=["formula-index"])
        source = StringList(lines, source=self.env.docname)
        self.state.nested_parse(source, self.content_offset, box)
        return [box]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("formula-index", FormulaIndex)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
