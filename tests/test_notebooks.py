"""Outputs are those of the code beside them; no edit is ever lost."""

import configparser
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jupytext
import nbformat
import pytest

pytestmark = pytest.mark.house

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9][0-9]*_*.ipynb"))
RANDOM = 3  # the code cell that prints a new uuid each time


def outputs(path):
    nb = nbformat.read(path, as_version=4)
    return [c.outputs for c in nb.cells if c.cell_type == "code"]


def edit_cell(path, old, new):
    """As JupyterLab without jupytext, or any other editor, would."""
    nb = nbformat.read(path, as_version=4)
    for cell in nb.cells:
        cell.source = cell.source.replace(old, new)
    nbformat.write(nb, path)


def test_an_up_to_date_book_is_left_alone(made):
    path = made.notebook(made.first)
    before = path.stat().st_mtime_ns
    assert made.run("notebooks", "--check").returncode == 0
    assert made.run("notebooks").returncode == 0
    assert path.stat().st_mtime_ns == before


def test_changed_prose_executes_nothing(made):
    path = made.notebook(made.first)
    before = outputs(path)
    made.edit(made.first, "double a number.", "double any number.")
    check = made.run("notebooks", "--check")
    assert check.returncode == 1
    assert "`make notebooks`" in check.stderr
    assert made.run("notebooks").returncode == 0
    assert "any number" in path.read_text(encoding="utf-8")
    assert outputs(path) == before
    assert made.run("notebooks", "--check").returncode == 0


def test_changed_code_is_stale_until_it_is_executed(made):
    path = made.notebook(made.first)
    made.edit(made.first, "print(double(4))", "print(double(5))")
    check = made.run("notebooks", "--check")
    assert check.returncode == 1
    assert "01_doubling" in check.stderr
    assert "`make notebooks`" in check.stderr
    assert made.run("notebooks").returncode == 0
    assert outputs(path)[2][0].text == "10\n"


def test_changed_library_code_makes_the_chapters_on_it_stale(made):
    made.edit(made.first, "return 2 * x", "return x + x")
    made.run("export")
    check = made.run("notebooks", "--check")
    assert "02_quadrupling.md: its outputs are of other code" in check.stderr


def test_a_docstring_of_the_library_makes_no_chapter_on_it_stale(made):
    made.edit(made.first, "Twice x.", "Two times x.")
    made.run("export")
    check = made.run("notebooks", "--check")
    assert "02_quadrupling" not in check.stderr


def test_executing_an_unchanged_chapter_again_gives_no_diff(made):
    path = made.notebook(made.second)
    before = path.read_bytes()
    assert made.run("notebooks", "--again", "02").returncode == 0
    assert path.read_bytes() == before


def test_only_ignored_outputs_differ_after_a_second_execution(made):
    path = made.notebook(made.first)
    before = json.loads(path.read_text(encoding="utf-8"))
    assert made.run("notebooks", "--again", "doubling").returncode == 0
    after = json.loads(path.read_text(encoding="utf-8"))
    for nb in (before, after):
        code = [c for c in nb["cells"] if c["cell_type"] == "code"]
        code[RANDOM]["outputs"] = []
    assert after == before


def test_edits_saved_in_the_notebook_alone_stop_the_tools(made):
    path = made.notebook(made.first)
    edit_cell(path, "print(double(4))", "print(double(7))")
    before = path.read_bytes(), made.first.read_bytes()
    for words in (
        ["notebooks"],
        ["notebooks", "--again", "01"],
        ["notebooks", "--check"],
        ["lab"],
    ):
        done = made.run(*words)
        assert done.returncode == 1
        assert "make adopt FROM=ipynb CHAPTER=01" in done.stderr
        assert "make adopt FROM=md CHAPTER=01" in done.stderr
    assert (path.read_bytes(), made.first.read_bytes()) == before


def test_edits_on_both_sides_stop_the_tools(made):
    edit_cell(made.notebook(made.first), "double(4)", "double(7)")
    made.edit(made.first, "double(4)", "double(8)")
    done = made.run("notebooks")
    assert done.returncode == 1
    assert "make adopt" in done.stderr


def test_adopting_the_notebook_brings_its_edits_into_the_text(made):
    edit_cell(made.notebook(made.first), "double(4)", "double(7)")
    before = made.first.read_text(encoding="utf-8")
    assert made.run("adopt", "ipynb", "01").returncode == 0
    assert "double(7)" in made.first.read_text(encoding="utf-8")
    (kept,) = (made.root / ".saved").glob("01_doubling.*.md")
    assert kept.read_text(encoding="utf-8") == before
    made.make()
    assert made.run("notebooks", "--check").returncode == 0


def test_adopting_the_text_keeps_a_copy_of_the_notebook(made):
    path = made.notebook(made.first)
    edit_cell(path, "double(4)", "double(7)")
    edited = path.read_bytes()
    assert made.run("adopt", "md", "01").returncode == 0
    (kept,) = (made.root / ".saved").glob("01_doubling.*.ipynb")
    assert kept.read_bytes() == edited
    made.make()
    assert outputs(path)[2][0].text == "8\n"


def test_a_failing_cell_leaves_the_notebook_as_it_was(made):
    path = made.notebook(made.first)
    before = path.read_bytes()
    made.edit(made.first, "print(double(4))", "print(1 / 0)")
    done = made.run("notebooks")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert path.read_bytes() == before


def test_a_figure_without_alternative_text_is_named(made):
    figure = """```{code-cell} ipython3
---
mystnb:
  image:
    alt: One dot
---
from IPython.display import SVG

SVG("<svg xmlns='http://www.w3.org/2000/svg'/>")
```
"""
    text = made.second.read_text(encoding="utf-8")
    made.second.write_text(f"{text}\n{figure}", encoding="utf-8")
    made.make()
    assert made.run("notebooks", "--check").returncode == 0
    made.edit(made.second, "    alt: One dot\n", "    width: 50%\n")
    made.make()
    check = made.run("notebooks", "--check")
    assert check.returncode == 1
    assert "02_quadrupling" in check.stderr
    assert "a figure has no alternative text" in check.stderr
    assert "`mystnb: image: alt:`" in check.stderr


def test_a_failing_cell_is_named_by_its_line(made):
    made.edit(made.first, "print(double(4))", "print(1 / 0)")
    line = made.first.read_text(encoding="utf-8").split("import uuid")[0]
    done = made.run("notebooks")
    number = line.count("\n") + 1
    assert f"01_doubling.md:{number}: this cell fails" in done.stderr
    assert "\x1b" not in done.stderr


def test_adopting_needs_to_be_told_what_wins(made):
    done = made.run("adopt", "", "")
    assert done.returncode == 1
    assert "make adopt FROM=ipynb CHAPTER=06" in done.stderr


def test_what_an_editor_adds_to_a_cell_is_no_edit(made):
    path = made.notebook(made.first)
    nb = nbformat.read(path, as_version=4)
    nb.cells[1].metadata["vscode"] = {"languageId": "python"}
    nbformat.write(nb, path)
    assert made.run("notebooks", "--check").returncode == 0


def test_an_unknown_chapter_is_named_with_those_there_are(made):
    done = made.run("notebooks", "99")
    assert done.returncode == 1
    assert "'99'; the book has 01, 02" in done.stderr


def test_a_letter_behind_the_number_makes_another_chapter(made):
    middle = made.first.with_name("01b_tripling.md")
    text = made.second.read_text(encoding="utf-8")
    text = text.replace("quadruple", "triple").replace("Quadr", "Tr")
    middle.write_text(text, encoding="utf-8")
    assert made.run("export").returncode == 0
    order = ["01_doubling", "01b_tripling", "02_quadrupling"]
    assert made.run("changed").stdout.split() == ["house", *order]
    done = made.run("notebooks", "--again", "01")
    assert done.stdout == "notebooks: wrote notebooks/01_doubling.ipynb\n"
    for name in ("1b", "01b", "tripling"):
        done = made.run("notebooks", "--again", name)
        assert done.stdout == "notebooks: wrote notebooks/01b_tripling.ipynb\n"
    edit_cell(made.notebook(middle), "triple(3)", "triple(5)")
    said = made.run("lab").stderr
    assert "make adopt FROM=ipynb CHAPTER=01b" in said
    assert made.run("adopt", "ipynb", "01b").returncode == 0
    assert "triple(5)" in middle.read_text(encoding="utf-8")
    done = made.run("notebooks", "99")
    assert "'99'; the book has 01, 01b, 02" in done.stderr


def test_what_jupyterlab_saves_is_what_the_tools_accept(made):
    """Opened and saved through jupytext's own contents manager."""
    from jupytext import TextFileContentsManager

    manager = TextFileContentsManager()
    manager.root_dir = str(made.root)
    # After `git clone` any of the two may be the younger one.
    os.utime(made.first, (0, 0))
    text = made.first.read_text(encoding="utf-8")
    model = manager.get("notebooks/01_doubling.ipynb")
    manager.save(model, "notebooks/01_doubling.ipynb")
    assert made.first.read_text(encoding="utf-8") == text
    assert made.run("notebooks", "--check").returncode == 0
    model["content"].cells[-1].source = "print('mine')"
    manager.save(model, "notebooks/01_doubling.ipynb")
    assert "print('mine')" in made.first.read_text(encoding="utf-8")
    done = made.run("notebooks")
    assert done.returncode == 0, done.stderr
    assert outputs(made.notebook(made.first))[-1][0].text == "mine\n"


def nbval(book, path):
    return subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
            "--nbval", "--nbval-current-env", "--nbval-sanitize-with",
            "tests/nbval_sanitize.cfg", str(path),
        ],
        cwd=book.root, capture_output=True, text=True,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(book.root)},
    )  # fmt: skip


def test_one_changed_stored_output_fails_with_the_command(made):
    path = made.notebook(made.first)
    assert nbval(made, path).returncode == 0
    made.edit(path, '"8\\n"', '"9\\n"')
    done = nbval(made, path)
    assert done.returncode == 1
    assert done.stdout.count("make notebooks CHAPTER=01\n") == 1
    letter = path.rename(path.with_name("01b_doubling.ipynb"))
    assert "make notebooks CHAPTER=01b\n" in nbval(made, letter).stdout


def sanitise(text: str) -> str:
    rules = configparser.ConfigParser(interpolation=None)
    rules.read(ROOT / "tests/nbval_sanitize.cfg")
    for name in rules.sections():
        text = re.sub(rules[name]["regex"], rules[name]["replace"], text)
    return text


def test_addresses_are_sanitised_and_figure_sizes_are_not():  # O34
    assert sanitise("<object at 0x7f3a2b1c>") == "<object at ADDRESS>"
    assert sanitise("<Figure size 640x480>") == "<Figure size 640x480>"
    assert sanitise("tensor([0.0900, 0.2447, 0.6652])") == (
        "tensor([0.0900, 0.2447, 0.6652])"
    )


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
class TestEveryNotebook:
    def test_is_executed_and_without_errors(self, path):
        nb = nbformat.read(path, as_version=4)
        code = [c for c in nb.cells if c.cell_type == "code"]
        assert code
        assert all(c.execution_count for c in code), "make notebooks"
        kinds = {o.output_type for c in code for o in c.outputs}
        assert "error" not in kinds
        assert any(c.outputs for c in code)

    def test_figures_stay_small(self, path):
        for cell in nbformat.read(path, as_version=4).cells:
            for output in cell.get("outputs", []):
                svg = output.get("data", {}).get("image/svg+xml", "")
                assert len(svg) < 300_000, cell.source

    def test_no_heading_stands_twice(self, path):
        cells = nbformat.read(path, as_version=4).cells
        prose = [c.source for c in cells if c.cell_type == "markdown"]
        headings = re.findall(r"^#+ .*$", "\n".join(prose), re.MULTILINE)
        assert headings
        assert len(headings) == len(set(headings))

    def test_no_code_is_wider_than_a_page(self, path):
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "code":
                widest = max(cell.source.splitlines(), key=len, default="")
                assert len(widest) <= 79, widest

    def test_stores_no_widget_and_no_path_of_this_machine(self, path):
        text = path.read_text(encoding="utf-8")
        assert "application/vnd.jupyter.widget" not in text
        assert str(ROOT) not in text
        assert str(Path.home()) + "/" not in text

    def test_round_trips_through_its_text(self, path):
        nb = nbformat.read(path, as_version=4)
        md = jupytext.read(path.with_suffix(".md"), fmt="md:myst")
        assert [c.source for c in nb.cells] == [c.source for c in md.cells]
