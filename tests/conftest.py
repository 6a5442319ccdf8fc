"""What tests share: float64, and a small book of their own to break."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parent.parent

HEADER = """---
jupytext:
  formats: ipynb,md:myst
  notebook_metadata_filter: -jupytext.text_representation.jupytext_version
  text_representation:
    extension: .md
    format_name: myst
    format_version: 0.13
kernelspec:
  display_name: Python 3 (ipykernel)
  language: python
  name: python3
---

"""

FIRST = '''# Doubling

How to double a number.

```{code-cell} ipython3
:tags: [export]

import math


def double(x):
    """Twice x."""
    return 2 * x
```

```{code-cell} ipython3
:tags: [export]

HALF = 1 / 2


def _circle(r):
    return double(math.pi * r)
```

```{code-cell} ipython3
import uuid

print(double(4))
```

```{code-cell} ipython3
:tags: [nbval-ignore-output]

print(uuid.uuid4())
```
'''

SECOND = """# Quadrupling

How to double twice.

```{code-cell} ipython3
:tags: [export]

from transformer_lib.doubling import double


def quadruple(x):
    return double(double(x))
```

```{code-cell} ipython3
quadruple(3)
```
"""


@pytest.fixture
def in_float64():
    """Seeded, and every new tensor in double precision."""
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


class Book:
    """A copy of the tools with two tiny chapters, in a folder of its own."""

    def __init__(self, root: Path):
        self.root = root
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "tools", root / "tools", ignore=ignore)
        shutil.copy(ROOT / "pyproject.toml", root)
        (root / "transformer_lib").mkdir(parents=True)
        (root / "transformer_lib/__init__.py").touch()
        (root / "notebooks").mkdir()
        for name in ("matplotlibrc", "conftest.py"):
            shutil.copy(ROOT / "notebooks" / name, root / "notebooks")
        (root / "tests").mkdir()
        shutil.copy(ROOT / "tests/nbval_sanitize.cfg", root / "tests")
        self.first = root / "notebooks/01_doubling.md"
        self.first.write_text(HEADER + FIRST, encoding="utf-8")
        self.second = root / "notebooks/02_quadrupling.md"
        self.second.write_text(HEADER + SECOND, encoding="utf-8")

    @property
    def module(self) -> Path:
        return self.root / "transformer_lib/doubling.py"

    def notebook(self, chapter: Path) -> Path:
        return chapter.with_suffix(".ipynb")

    def run(self, *words: str) -> subprocess.CompletedProcess:
        """`python tools/WORD …` with this book's own library first."""
        env = {**os.environ, "PYTHONPATH": str(self.root)}
        return subprocess.run(
            [sys.executable, f"tools/{words[0]}.py", *words[1:]],
            cwd=self.root, env=env, capture_output=True, text=True,
        )  # fmt: skip

    def make(self) -> None:
        """`make export notebooks`, which has to succeed."""
        for tool in ("export", "notebooks"):
            done = self.run(tool)
            assert done.returncode == 0, done.stderr

    def edit(self, path: Path, old: str, new: str) -> None:
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.fixture
def book(tmp_path) -> Book:
    """Two chapters nobody has exported or executed."""
    return Book(tmp_path / "book-of-tests")


@pytest.fixture(scope="session")
def _made(tmp_path_factory) -> Path:
    book = Book(tmp_path_factory.mktemp("made") / "book")
    book.make()
    return book.root


@pytest.fixture
def made(_made, book) -> Book:
    """The same two chapters, exported and executed."""
    for folder in ("transformer_lib", "notebooks"):
        shutil.copytree(_made / folder, book.root / folder, dirs_exist_ok=True)
    return book
