"""Names what changed: chapters, one `NN_topic` a line, and `house`.

    python tools/changed.py

A chapter has changed when its text, notebook, module, tests, metrics or
perturbations differ, committed or not, from the last commit that is also
on origin's main branch (without an origin: from the last commit). The
house is what serves every chapter: tools, their tests, the project files.
"""

from __future__ import annotations

import subprocess

from chapters import PACKAGE, ROOT, Chapter, all_chapters


def git(*words: str) -> list[str] | None:
    """Git's answer as lines; None where there is no repository."""
    try:
        done = subprocess.run(
            ["git", *words], capture_output=True, text=True, cwd=ROOT
        )
    except FileNotFoundError:
        return None
    return done.stdout.splitlines() if done.returncode == 0 else None


def files_of(chapter: Chapter) -> set[str]:
    stem = chapter.md.stem
    metrics = [*chapter.metrics(".py"), *chapter.metrics(".json")]
    return {
        *(path.relative_to(ROOT).as_posix() for path in metrics),
        f"notebooks/{stem}.md",
        f"notebooks/{stem}.ipynb",
        f"{PACKAGE}/{chapter.topic}.py",
        f"tests/test_{chapter.topic}.py",
        f"tests/perturbations/{stem}.toml",
    }


def is_of_the_house(file: str) -> bool:
    return file.startswith("tools/") or file in (
        "Makefile",
        "constraints.txt",
        "pyproject.toml",
        "notebooks/conftest.py",
        "tests/conftest.py",
        "tests/nbval_sanitize.cfg",
        "tests/test_export.py",
        "tests/test_metrics.py",
        "tests/test_notebooks.py",
        "tests/test_wheel.py",
    )


def changed() -> list[str]:
    """What differs from what was last shared; all without a repository."""
    base = (git("merge-base", "HEAD", "origin/HEAD") or ["HEAD"])[0]
    differing = git("diff", "--name-only", base)
    untracked = git("ls-files", "--others", "--exclude-standard")
    if differing is None or untracked is None:
        return ["house", *(c.md.stem for c in all_chapters())]
    files = {*differing, *untracked}
    house = ["house"] if any(map(is_of_the_house, files)) else []
    return house + [c.md.stem for c in all_chapters() if files & files_of(c)]


if __name__ == "__main__":
    print("\n".join(changed()))
