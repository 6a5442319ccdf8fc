"""Leaves the fields of named tuples out of the API pages.

What they mean stands in the class's docstring; of its own accord autodoc
would give each a line "Alias for field number 3".
"""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx


def skip(
    app: Sphinx, what: str, name: str, member: Any, skipped: bool, options: Any
) -> bool | None:
    doc = getattr(member, "__doc__", None) or ""
    return True if doc.startswith("Alias for field number") else None


def setup(app: Sphinx) -> dict[str, Any]:
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
