"""Numbers a chapter by its file name: `07_attention` is 7, `02b_…` is 2b.

Sphinx counts chapters by their place in the table of contents. Titles,
sections, equations, figures, theorems and exercises all get their first
number from what it counts there, so it is put right in one place: after
the sections are numbered and before the figures are.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.environment.collectors.toctree import TocTreeCollector

number_figures = TocTreeCollector.assign_figure_numbers


def number_in_name(docname: str) -> str | None:
    """The number that a page's file name begins with, or None."""
    match = re.match(r"0*(\d+[a-z]?)_", docname.rsplit("/", 1)[-1])
    return match[1] if match else None


def renumber(env: BuildEnvironment) -> None:
    """Gives every numbered page the number in its file name."""
    for docname, numbers in env.toc_secnumbers.items():
        chapter = number_in_name(docname)
        if chapter is None:
            continue
        for anchor, number in numbers.items():
            if number:
                numbers[anchor] = (chapter, *number[1:])
        entries = env.tocs[docname].findall(nodes.reference)
        for node in [*entries, env.titles[docname]]:
            if node.get("secnumber"):
                node["secnumber"] = [chapter, *node["secnumber"][1:]]


def assign_figure_numbers(
    collector: TocTreeCollector, env: BuildEnvironment
) -> list[str]:
    renumber(env)
    return number_figures(collector, env)


def setup(app: Sphinx) -> dict[str, Any]:
    TocTreeCollector.assign_figure_numbers = assign_figure_numbers
    return {"parallel_read_safe": True, "parallel_write_safe": True}
