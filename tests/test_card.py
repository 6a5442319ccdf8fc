"""The model card of the translator of real sentences: chapter 20e."""

import csv
import re
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.house

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import card  # noqa: E402

TEXT = card.CARD.read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (.*?)(?: †)? \| (.*?) \| (.*?) \|$", TEXT, re.M)


def test_the_card_is_what_the_results_say(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "argv", ["card.py", "--check"])
    assert card.main() == 0
    monkeypatch.setattr(card, "ROOT", tmp_path)
    monkeypatch.setattr(card, "CARD", tmp_path / "README.md")
    assert card.main() == 1
    assert "run `python tools/card.py`" in capsys.readouterr().err
    assert not card.CARD.exists()
    monkeypatch.setattr(sys, "argv", ["card.py"])
    assert card.main() == 0
    assert card.CARD.read_text(encoding="utf-8") == TEXT


def test_the_card_shows_the_fifty_sentences_both_ways():
    path = ROOT / "benchmarks/translation/everyday.tsv"
    with path.open(encoding="utf-8", newline="") as file:
        pairs = [tuple(row) for row in csv.reader(file, delimiter="\t")]
    assert len(pairs) == 50
    shown = [(source, ours) for source, _, ours in ROWS]
    assert set(pairs) < set(shown)
    assert {(english, french) for french, english in pairs} < set(shown)


def test_the_card_says_data_licence_command_and_limits():
    for words in (
        card.CREDIT,
        "creativecommons.org/licenses/by/2.0/fr",
        "python -m transformer_lib train --corpus tatoeba",
        "## Limits",
        "BLEU",
    ):
        assert words in TEXT


def test_a_command_is_broken_so_that_a_shell_reads_it_whole():
    command = "run --one 1 2 3 --two 4 --three 5"
    broken = card.wrapped(command, width=20)
    assert max(map(len, broken.splitlines())) <= 22
    assert broken.replace("\\\n", " ").split() == command.split()
