"""Each chapter's checks notice a small wrong change of its formulas.

tests/perturbations/NN_topic.toml lists the changes. A chapter's code
cells are run in order with one of them applied, and a cell tagged `check`
or `solution` must object. Cells tagged `figure` or `live` (those that train
or translate for long) are left out; nbval runs them.
"""

import re
import sys
import tomllib
import types
from dataclasses import dataclass
from pathlib import Path

import jupytext
import pytest
import torch

pytestmark = pytest.mark.perturbation

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = sorted((ROOT / "notebooks").glob("[0-9][0-9]*_*.md"))
OBJECTORS = {"check", "solution"}


@dataclass(frozen=True)
class Cell:
    source: str
    tags: frozenset[str]


def code_cells(chapter: Path) -> list[Cell]:
    """The code cells that neither draw nor take long."""
    nb = jupytext.read(chapter, fmt="md:myst")
    cells = [
        Cell(c.source, frozenset(c.metadata.get("tags", [])))
        for c in nb.cells
        if c.cell_type == "code"
    ]
    return [c for c in cells if not {"figure", "live"} & c.tags]


def listed(chapter: Path) -> dict:
    path = ROOT / "tests/perturbations" / f"{chapter.stem}.toml"
    if not path.is_file():
        return {"perturbation": []}
    return tomllib.loads(path.read_text(encoding="utf-8"))


def run(chapter: Path, cells: list[Cell]) -> tuple[Cell, Exception] | None:
    """Runs the cells as one program; the first that fails, and how."""
    name = f"chapter_{chapter.stem}"
    module = types.ModuleType(name)
    sys.modules[name] = module
    torch.manual_seed(0)
    try:
        for number, cell in enumerate(cells, 1):
            code = compile(cell.source, f"{name}, cell {number}", "exec")
            try:
                exec(code, module.__dict__)
            except Exception as error:
                return cell, error
    finally:
        del sys.modules[name]
    return None


@pytest.fixture(autouse=True)
def as_in_the_notebooks_folder(monkeypatch):
    """Cells find what stands beside them; nothing they set remains."""
    monkeypatch.chdir(ROOT / "notebooks")
    dtype = torch.get_default_dtype()
    yield
    torch.set_default_dtype(dtype)
    torch.set_printoptions(profile="default")


@pytest.fixture(params=CHAPTERS, ids=lambda path: path.stem)
def chapter(request) -> Path:
    return request.param


def test_every_check_holds_unperturbed(chapter):
    failure = run(chapter, code_cells(chapter))
    assert failure is None, failure


def test_every_labelled_equation_is_perturbed_or_excused(chapter):
    text = chapter.read_text(encoding="utf-8")
    labels = set(re.findall(r"^\$\$ \(([\w-]+)\)$", text, re.MULTILINE))
    entries = listed(chapter)
    tried = {e["equation"] for e in entries["perturbation"]}
    excused = {e["equation"]: e["why"] for e in entries.get("unchecked", [])}
    # A page without equations of its own, as the errata, names statements.
    assert not labels or tried | excused.keys() == labels, (
        "add a [[perturbation]] for each labelled equation, or an "
        "[[unchecked]] entry (equation, why) where there is nothing to check"
    )
    assert not tried & excused.keys()
    assert all(excused.values())


ALL = [
    pytest.param(chapter, entry, id=f"{chapter.stem}-{i}-{entry['equation']}")
    for chapter in CHAPTERS
    for i, entry in enumerate(listed(chapter)["perturbation"], 1)
]


@pytest.mark.parametrize(("chapter_of", "entry"), ALL)
def test_a_check_notices(chapter_of, entry):
    cells = code_cells(chapter_of)
    hits = [i for i, c in enumerate(cells) if entry["find"] in c.source]
    count = sum(c.source.count(entry["find"]) for c in cells)
    assert count == 1, f"{entry['find']!r} occurs {count} times, not once"
    (hit,) = hits
    source = cells[hit].source.replace(entry["find"], entry["replace"])
    cells[hit] = Cell(source, cells[hit].tags)
    failure = run(chapter_of, cells)
    assert failure is not None, f"no check notices: {entry['why']}"
    cell, error = failure
    assert isinstance(error, AssertionError), error
    assert cell.tags & OBJECTORS, f"noticed outside a check:\n{cell.source}"
