"""What the benchmarks' pages say is what their results say."""

import importlib
import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.house

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks/translation"


def test_the_translation_benchmark_shows_its_results(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    compare = importlib.import_module("compare")
    report = json.loads((FOLDER / "results.json").read_text("utf-8"))
    readme = (FOLDER / "README.md").read_text("utf-8")
    before, shown = readme.split(compare.BEGIN)
    assert shown.split(compare.END)[0].strip() == compare.table(report)
    assert "case:lc" in report["signature"]
    assert "tok:13a" in report["signature"]
    for name, system in report["systems"].items():
        assert f"| `{name}` |" in before, "the first table says what it is"
        assert system["minutes"] <= 31
