"""What the benchmarks' pages say is what their results say."""

import json
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.house

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks/translation"


@pytest.fixture
def compare(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    yield __import__("compare")
    for name in ("compare", "run"):
        sys.modules.pop(name, None)


def test_the_translation_benchmark_shows_its_results(compare):
    report = json.loads((FOLDER / "results.json").read_text("utf-8"))
    readme = (FOLDER / "README.md").read_text("utf-8")
    assert compare.table(report) in readme
    assert "nrefs:" in report["signature"]
    for name, system in report["systems"].items():
        assert f"| `{name}` |" in readme, "its row says what it is"
        assert system["minutes"] <= 31
