"""Opens the chapters in JupyterLab, as readers see them.

    python tools/lab.py [any option of jupyter lab]

Stops first when a chapter's .md and .ipynb disagree, since JupyterLab
would show the one and overwrite the other.
"""

from __future__ import annotations

import os
import subprocess
import sys

from chapters import NOTEBOOKS, ROOT, ChapterError, all_chapters
from notebooks import State, load, refuse_edited, state


def main() -> int:
    problems = []
    for chapter in all_chapters():
        try:
            if state(chapter, load(chapter)) is State.EDITED:
                problems.append(refuse_edited(chapter))
        except ChapterError as error:
            problems.append(str(error))
    for problem in problems:
        print(f"lab: {problem}", file=sys.stderr)
    if problems:
        return 1
    ours = [str(p) for p in sorted(NOTEBOOKS.glob("*.ipynb"))]
    jupyter = [sys.executable, "-m", "jupyter"]
    # Untrusted notebooks show a drawing's name instead of the drawing.
    subprocess.run([*jupyter, "trust", *ours], check=True, cwd=ROOT)
    options = ["--LabApp.default_url=/lab/tree/notebooks"]
    os.chdir(ROOT)
    os.execv(
        sys.executable, [*jupyter, "lab", *options, *sys.argv[1:], str(ROOT)]
    )


if __name__ == "__main__":
    sys.exit(main())
