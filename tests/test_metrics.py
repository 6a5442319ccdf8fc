"""Long runs survive an interruption; results are of the code beside them."""

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.house

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import metrics  # noqa: E402
from conftest import Book  # noqa: E402

MODULE = '''"""Doubling."""


def double(x):
    """Twice x."""
    return 2 * x
'''
SCRIPT = '''"""Doubles random numbers."""

import random
from pathlib import Path

from transformer_lib.doubling import double

KEYS = ["one", "two", "three"]
SEEDS = [0]


def run(key):
    if key == "two" and Path("interrupt").is_file():
        raise KeyboardInterrupt
    with Path("log").open("a") as log:
        log.write(f"{key} ")
    return {"drawn": double(random.random())}
'''


def add_script(book: Book) -> Book:
    """Gives a book's first chapter a script of three runs."""
    book.module.write_text(MODULE, encoding="utf-8")
    book.script = book.root / "notebooks/metrics/01_long.py"
    book.script.parent.mkdir()
    book.script.write_text(SCRIPT, encoding="utf-8")
    book.results = book.script.with_suffix(".json")
    book.partial = book.script.with_name(".01_long.partial.json")
    return book


@pytest.fixture
def long(book):
    """A script that nobody has run."""
    return add_script(book)


@pytest.fixture(scope="module")
def ran_once(tmp_path_factory):
    book = add_script(Book(tmp_path_factory.mktemp("ran") / "book"))
    done = book.run("metrics", "01")
    assert done.returncode == 0, done.stderr
    return book


@pytest.fixture
def ran(ran_once, long):
    """The same script and its results."""
    shutil.copy(ran_once.results, long.results)
    return long


def runs(book) -> list[str]:
    """The runs made so far, in their order."""
    log = book.root / "log"
    return log.read_text().split() if log.is_file() else []


def interrupt(book) -> subprocess.CompletedProcess:
    """Runs the script and presses Ctrl-C in its second run."""
    stop = book.root / "interrupt"
    stop.touch()
    done = book.run("metrics", "01")
    stop.unlink()
    return done


def test_the_results_say_how_they_were_made(ran_once):
    made = json.loads(ran_once.results.read_text(encoding="utf-8"))
    assert made["command"] == "make metrics CHAPTER=01"
    assert set(made["versions"]) == {"python", "torch", "transformer_lib"}
    assert made["threads"] >= 1
    assert made["seeds"] == [0]
    assert list(made["results"]) == ["one", "two", "three"]
    assert not ran_once.partial.exists()


def test_results_up_to_date_are_left_alone_unless_again_is_said(ran):
    before = ran.results.read_bytes()
    done = ran.run("metrics", "01")
    assert "01_long.json is up to date" in done.stdout
    assert runs(ran) == []
    assert ran.run("metrics", "--again", "01").returncode == 0
    assert runs(ran) == ["one", "two", "three"]
    assert ran.results.read_bytes() == before


def test_an_interrupted_call_keeps_its_runs_and_the_next_goes_on(long):
    both = "[random.random(), torch.rand(1).item()]"
    long.edit(long.script, "random.random()", both)
    long.edit(long.script, "import random\n", "import random\nimport torch\n")
    done = interrupt(long)
    assert done.returncode == 130
    assert "`make metrics CHAPTER=01` goes on from there" in done.stderr
    kept = json.loads(long.partial.read_text(encoding="utf-8"))
    assert list(kept["results"]) == ["one"]
    assert not long.results.exists()
    assert long.run("metrics", "01").returncode == 0
    assert runs(long) == ["one", "two", "three"]
    resumed = long.results.read_bytes()
    assert not long.partial.exists()
    long.run("metrics", "--again", "01")
    assert long.results.read_bytes() == resumed


def test_runs_kept_of_other_code_are_not_mixed_in(long):
    interrupt(long)
    long.edit(long.script, "double(random", "3 * double(random")
    done = long.run("metrics", "01")
    assert done.returncode == 1
    assert "1 finished runs, made with digest" in done.stderr
    assert "`make metrics CHAPTER=01 ARGS=--again`" in done.stderr
    assert runs(long) == ["one"]
    assert long.run("metrics", "--again", "01").returncode == 0
    assert runs(long) == ["one", "one", "two", "three"]
    (kept,) = (long.root / ".saved").glob(".01_long.partial.*.json")
    assert list(json.loads(kept.read_text())["results"]) == ["one"]


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("script", "double(random", "3 * double(random"),
        ("module", "return 2 * x", "return x + x"),
    ],
)
def test_other_code_makes_results_stale(ran, name, old, new):
    ran.edit(getattr(ran, name), old, new)
    check = ran.run("metrics", "--check")
    assert check.returncode == 0
    assert "warning: notebooks/metrics/01_long.json" in check.stderr
    assert "is of other code; run `make metrics CHAPTER=01`" in check.stderr


def test_other_prose_makes_no_results_stale(ran):
    ran.edit(ran.script, "Doubles random numbers.", "Draws, then doubles.")
    ran.edit(ran.module, "Twice x.", "Two times x.")
    assert ran.run("metrics", "--check").stderr == ""


def test_results_make_their_own_chapter_stale_and_no_other(made):
    made.second.rename(made.second.with_name("01b_quadrupling.md"))
    made.run("notebooks", "01b")
    for number, stale in (("01", "01_doubling"), ("01b", "01b_quadrupling")):
        path = made.root / f"notebooks/metrics/{number}_long.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}", encoding="utf-8")
        said = made.run("notebooks", "--check", "01", "01b").stderr
        assert f"{stale}.md: its outputs are of other code" in said
        assert said.count("of other code") == 1
        path.unlink()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("SEEDS = [0]\n", "", "01_long.py lacks SEEDS: it must define"),
        ('"three"', '"two"', "01_long.py lacks KEYS: it must define"),
        ("def run(", "def walk(", "01_long.py lacks run: it must define"),
        ("import random\n", "import rnd\n", "No module named 'rnd'"),
        ("KEYS = [", "KEYS = [[", "01_long.py:8: '[' was never closed"),
        ('return {"drawn"', 'return 1 / 0, {"drawn"', "ZeroDivisionError"),
        ("double(random.random())", "{1}", "set is not JSON serializable"),
        ("return {", "return 3, {", "TypeError: not a dict: (3, {"),
    ],
)
def test_a_bad_script_is_named(long, old, new, said):
    long.edit(long.script, old, new)
    done = long.run("metrics")
    assert done.returncode == 1
    assert "notebooks/metrics/01_long.py" in done.stderr
    assert said in done.stderr
    assert not long.results.exists()


def test_a_failing_run_keeps_the_runs_before_it(long):
    long.edit(long.script, "    with", "    assert key != 'three'\n    with")
    done = long.run("metrics", "01")
    assert "run('three') fails; the runs before it are kept" in done.stderr
    kept = json.loads(long.partial.read_text(encoding="utf-8"))
    assert list(kept["results"]) == ["one", "two"]


def test_a_chapter_without_a_script_is_told_how_to_write_one(long):
    done = long.run("metrics", "02")
    assert done.returncode == 1
    assert "write notebooks/metrics/02_name.py" in done.stderr


def test_files_of_no_chapter_and_of_no_script_are_named(long):
    long.script.rename(long.script.with_name("07_long.py"))
    long.results.write_text("{}")
    check = long.run("metrics", "--check")
    assert "07_long.py belongs to no chapter" in check.stderr
    assert "01_long.json belongs to no script" in check.stderr


def test_the_books_own_results_are_of_its_code_or_are_listed_with_a_why():
    scripts, _ = metrics.choose_scripts([])
    assert not metrics.orphans()
    older = tomllib.loads((metrics.METRICS / "older.toml").read_text("utf-8"))
    assert older["why"].strip()
    stale = {s.path.stem: s for s in scripts if metrics.out_of_date(s)}
    assert older["digests"].keys() == stale.keys()
    for script in scripts:
        made = json.loads(script.results.read_text(encoding="utf-8"))
        stored = older["digests"].get(script.path.stem, made["digest"])
        assert made["digest"] == stored
        assert made["command"] == script.command
        assert set(made["versions"]) == {"python", "torch", "transformer_lib"}
        assert made["threads"] >= 1
        assert isinstance(made["seeds"], list)
        assert made["results"]
        assert all(made["results"].values())


def test_git_leaves_unfinished_runs_out():
    names = ["notebooks/metrics/.01_long.partial.json"]
    names += ["notebooks/metrics/01_long.json"]
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", *names],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == names[:1]
