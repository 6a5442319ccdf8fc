"""Names the chapters that changed, one `NN_topic` a line.

    python tools/changed.py

A chapter has changed when its text, notebook, module, tests or
perturbations differ, committed or not, from the last commit that is also
on origin's main branch (without an origin: from the last commit).
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
    return {
        f"notebooks/{stem}.md",
        f"notebooks/{stem}.ipynb",
        f"{PACKAGE}/{chapter.topic}.py",
        f"tests/test_{chapter.topic}.py",
        f"tests/perturbations/{stem}.toml",
    }


def changed() -> list[Chapter]:
    """The chapters that differ from what was last shared; else all."""
    base = (git("merge-base", "HEAD", "origin/HEAD") or ["HEAD"])[0]
    differing = git("diff", "--name-only", base)
    untracked = git("ls-files", "--others", "--exclude-standard")
    if differing is None or untracked is None:
        return all_chapters()
    files = {*differing, *untracked}
    return [c for c in all_chapters() if files & files_of(c)]


if __name__ == "__main__":
    for chapter in changed():
        print(chapter.md.stem)
