"""Writes the README's picture, a figure of chapter 7 as it is stored.

python tools/picture.py            write it where it differs
python tools/picture.py --check    only say whether it does
"""

from __future__ import annotations

import argparse
import sys

from chapters import ROOT, choose, write_atomically
from notebooks import load

CHAPTER, FIGURE = "attention", "fig-attention-six"
PICTURE = ROOT / "book/_static/attention.svg"


def drawing() -> str | None:
    """The stored SVG of the figure; None when there is none."""
    (chapter,) = choose([CHAPTER])
    stored = load(chapter)
    for cell in stored.cells if stored else []:
        figure = cell.metadata.get("mystnb", {}).get("figure", {})
        if figure.get("name") == FIGURE:
            for output in cell.outputs:
                svg = output.get("data", {}).get("image/svg+xml")
                if svg:
                    return svg.rstrip("\n") + "\n"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    svg, name = drawing(), PICTURE.relative_to(ROOT)
    if svg is None:
        print(
            f"picture: no executed cell of chapter {CHAPTER} draws {FIGURE}; "
            f"run `make notebooks`, or name another figure here",
            file=sys.stderr,
        )
        return 1
    if PICTURE.is_file() and PICTURE.read_text(encoding="utf-8") == svg:
        return 0
    if check:
        print(
            f"picture: {name} is not what chapter {CHAPTER} draws; run "
            f"`make notebooks`",
            file=sys.stderr,
        )
        return 1
    write_atomically(PICTURE, svg)
    print(f"picture: wrote {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
