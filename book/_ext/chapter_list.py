"""The directive `chapter-list`: every part, chapter and its summary.

The list is read from the table of contents and from the first lines of
the notebooks, so that it is right whenever the site is built.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


def opening(notebook: Path) -> tuple[str, str]:
    """A chapter's title and the paragraph below it."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    first = "".join(cells[0]["source"]) if cells else ""
    match = re.match(r"# (.+)\n\s*\n(.+(?:\n.+)*)", first)
    return (match[1], match[2]) if match else (notebook.stem, "")


class ChapterList(SphinxDirective):
    """Writes the list as Markdown and lets the page's parser read it."""

    def run(self) -> list[nodes.Node]:
        lines: list[str] = []
        for part in self.config.external_site_map.root.subtrees:
            chapters = []
            for docname in part.items:
                path = Path(self.env.srcdir, f"{docname}.ipynb")
                number = re.match(r"0*(\d+[a-z]?)_", path.name)
                if number and path.is_file():
                    self.env.note_dependency(str(path))
                    title, summary = opening(path)
                    link = f"[{number[1]} {title}](/{docname}.ipynb)"
                    summary = " ".join(summary.split())
                    chapters += [link, f": {summary}", ""]
            if chapters:
                lines += [f"**Part {part.caption}**", "", *chapters]
        box = nodes.container(classes=["chapter-list"])
        source = StringList(lines, source=self.env.docname)
        self.state.nested_parse(source, self.content_offset, box)
        return [box]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("chapter-list", ChapterList)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
