"""The library is what the chapters' cells tagged `export` say."""

import ast
import subprocess
import sys

import pytest

pytestmark = pytest.mark.house


def test_a_module_holds_the_exported_cells_and_nothing_else(book):
    assert book.run("export").returncode == 0
    text = book.module.read_text(encoding="utf-8")
    assert text.startswith('"""Doubling.\n\nHow to double a number.\n\n')
    assert "notebooks/01_doubling.md" in text
    assert '__all__ = ["HALF", "double"]' in text
    assert "uuid" not in text
    assert "jupytext" not in text
    assert [
        n.name for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)
    ] == ["double", "_circle"]


def test_exporting_twice_changes_nothing(book):
    book.run("export")
    before = book.module.read_bytes()
    again = book.run("export")
    assert again.returncode == 0
    assert again.stdout == ""
    assert book.module.read_bytes() == before


def test_nothing_is_executed(book):
    book.edit(book.first, "HALF = 1 / 2", "HALF = 1 / 0")
    assert book.run("export").returncode == 0


def test_a_module_changed_by_hand_is_named_with_the_command(book):
    book.run("export")
    book.edit(book.module, "2 * x", "3 * x")
    check = book.run("export", "--check")
    assert check.returncode == 1
    assert "transformer_lib/doubling.py" in check.stderr
    assert "`make export`" in check.stderr
    assert "3 * x" in book.module.read_text(encoding="utf-8")


def test_a_module_changed_by_hand_is_kept_when_it_is_replaced(book):
    book.run("export")
    book.edit(book.module, "2 * x", "3 * x")
    assert book.run("export").returncode == 0
    (kept,) = (book.root / ".saved").glob("doubling.*.py")
    assert "3 * x" in kept.read_text(encoding="utf-8")
    assert "2 * x" in book.module.read_text(encoding="utf-8")


def test_a_missing_module_is_drift(book):
    assert book.run("export", "--check").returncode == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%matplotlib inline", "`%matplotlib inline` is not plain Python"),
        ("listing = !echo hi", "`listing = !echo hi` is not plain Python"),
        ("!ls", "`!ls` is not plain Python"),
        ("double?", "`double?` is not plain Python"),
        ("print((1)", "'(' was never closed"),
        ("from __future__ import annotations", "first export cell"),
        ("import os\n\nhere = os.getcwd()", "E402"),
        ("def double(x):\n    return x", "F811"),
        ("print(uuid)", "Undefined name `uuid`"),
    ],
)  # O35
def test_what_no_module_can_hold_is_refused_by_name(book, line, said):
    book.edit(book.first, "HALF = 1 / 2", line)
    done = book.run("export")
    assert done.returncode == 1
    assert said in done.stderr
    assert "notebooks/01_doubling.md" in done.stderr
    assert not book.module.exists()


def test_a_string_that_reads_like_a_magic_stays_a_string(book):
    book.edit(book.first, "HALF = 1 / 2", 'HELP = """\n%timeit double(1)\n"""')
    done = book.run("export")
    if done.returncode == 0:
        names = {"__name__": "doubling"}
        exec(book.module.read_text(encoding="utf-8"), names)
        assert names["HELP"] == "\n%timeit double(1)\n"
    else:
        assert "reads like a notebook command" in done.stderr


def test_a_module_without_a_chapter_is_named(book):
    book.run("export")
    (book.root / "transformer_lib/stray.py").touch()
    check = book.run("export", "--check")
    assert check.returncode == 1
    assert "no chapter exports transformer_lib/stray.py" in check.stderr


def test_a_chapter_without_a_summary_is_refused(book):
    book.edit(book.first, "\nHow to double a number.\n", "## Start\n")
    done = book.run("export")
    assert done.returncode == 1
    assert "summary" in done.stderr


def test_a_letter_behind_the_number_reaches_the_module(book):
    book.second.rename(book.second.with_name("01b_quadrupling.md"))
    assert book.run("export").returncode == 0
    module = book.root / "transformer_lib/quadrupling.py"
    assert "\nChapter 1b; generated from\n" in module.read_text()
    assert "\nChapter 1; generated from\n" in book.module.read_text()


def test_the_exported_module_imports_on_its_own(book):
    book.run("export")
    done = subprocess.run(
        [sys.executable, "-c", "import transformer_lib.quadrupling as q; "
         "print(q.quadruple(3), q.__all__)"],
        cwd=book.root, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == "12 ['quadruple']\n", done.stderr
