"""The package's imports follow the book; its files agree on packages."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib import import_module, metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

pytestmark = pytest.mark.house

ROOT = Path(__file__).resolve().parent.parent
ORDER = {
    p.stem.partition("_")[2]: p.stem.partition("_")[0]
    for p in (ROOT / "notebooks").glob("[0-9][0-9]*_*.md")
}
MODULES = sorted(
    p
    for p in (ROOT / "transformer_lib").glob("*.py")
    if not p.stem.startswith("__")
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def name(requirement: str) -> str:
    return re.split(r"[\[<>=!~; ]", requirement.strip())[0].lower()


def is_class(module, name: str) -> bool:
    return getattr(getattr(module, name), "__module__", "") == (
        module.__name__
    ) and isinstance(getattr(module, name), type)


def imported(path: Path) -> set[str]:
    """The modules of ours that a module imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "write imports in full"
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for dotted in names:
            if dotted.split(".")[0] == "transformer_lib":
                assert "." in dotted, f"{path.name}: import from the module"
                found.add(dotted.split(".")[1])
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
def test_modules_import_from_earlier_chapters_only(path):
    later = {m for m in imported(path) if ORDER[m] >= ORDER[path.stem]}
    assert not later, f"{path.name} imports from a later chapter: {later}"


def is_table(node: ast.stmt) -> bool:
    """Whether a statement only gives a literal a name."""
    if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
        return False
    try:
        ast.literal_eval(node.value)
    except ValueError:
        return False
    return True


def lines_of_code(text: str) -> int:
    """The lines of code: no blanks, comments, docstrings or tables."""
    tree = ast.parse(text)
    other = [node for node in tree.body if is_table(node)]
    other += [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]
    skipped = {
        number
        for node in other
        for number in range(node.lineno, (node.end_lineno or 0) + 1)
    }
    return sum(
        bool(line.strip()) and line.strip()[0] != "#" and number not in skipped
        for number, line in enumerate(text.splitlines(), 1)
    )


def test_tables_comments_and_docstrings_are_no_lines_of_code():
    table = 'A = {\n    "one": (1, -2),\n}\nB: str = """\nx\n\ny\n"""\n'
    assert lines_of_code(table) == 0
    assert lines_of_code('"""Doc.\n\nMore.\n"""\n\n# why\nimport re\n') == 1
    assert lines_of_code("A = [\n    len(b)\n    for b in C\n]\n") == 4
    assert lines_of_code("def f():\n    a = {\n        1\n    }\n") == 4


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
def test_every_module_is_short_enough_to_read(path):
    lines = lines_of_code(path.read_text(encoding="utf-8"))
    assert lines <= 150, f"{lines} lines of code: a chapter of its own?"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.stem)
def test_every_public_name_says_what_it_is(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(
            node, ast.FunctionDef | ast.ClassDef
        ) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{node.name} has no docstring"


def test_the_public_names_are_exported_by_their_modules():
    import transformer_lib

    modules = [import_module(f"transformer_lib.{p.stem}") for p in MODULES]
    exported = {name: m for m in modules for name in m.__all__}
    for public in transformer_lib.__all__:
        home = exported[public]
        assert getattr(transformer_lib, public) is getattr(home, public)


def test_every_class_is_a_public_name():
    import transformer_lib

    for path in MODULES:
        module = import_module(f"transformer_lib.{path.stem}")
        classes = {n for n in module.__all__ if is_class(module, n)}
        assert classes <= set(transformer_lib.__all__)


def test_importing_costs_little_beyond_torch():
    code = (
        "import time, torch; t = time.perf_counter();"
        "import transformer_lib; print(time.perf_counter() - t);"
        "import sys; print('matplotlib' in sys.modules)"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True, text=True, check=True,
        ).stdout.split()
        for _ in range(3)
    ]  # fmt: skip
    assert min(float(seconds) for seconds, _ in runs) < 0.2
    assert {drawing for _, drawing in runs} == {"False"}


def needed(requirement: str, seen: set[str]) -> None:
    """Adds a requirement and all that it requires, as installed here."""
    wanted = Requirement(requirement)
    key = canonicalize_name(wanted.name)
    for extra in wanted.extras or {""}:
        if f"{key}[{extra}]" in seen:
            continue
        seen.add(f"{key}[{extra}]")
        for line in metadata.requires(wanted.name) or []:
            marker = Requirement(line).marker
            if marker is None or marker.evaluate({"extra": extra}):
                needed(line, seen)


def test_constraints_pin_everything_the_project_needs():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line)
    pins = {canonicalize_name(name): v for name, v in pins.items()}
    seen: set[str] = set()
    needed("transformer-derived[dev]", seen)
    packages = {key.split("[")[0] for key in seen}
    assert len(packages) > 100
    for key in packages - {"transformer-derived"}:
        version = metadata.version(key).split("+")[0]
        assert pins.get(key) == version, f"{key}=={version} is not pinned"


def test_environment_names_what_readers_look_for_and_nothing_unknown():
    conda = yaml.safe_load((ROOT / "environment.yml").read_text())
    *named, last = conda["dependencies"]
    assert last == {"pip": ["-e .[dev]"]}
    names = {name(n) for n in named} - {"python", "pip", "make"}
    wanted = {
        "jupyterlab", "pytorch-cpu", "matplotlib", "seaborn", "nbval",
        "jupytext",
    }  # fmt: skip
    assert wanted <= names
    ours = [PROJECT["dependencies"]]
    ours += PROJECT["optional-dependencies"].values()
    known = {name(r) for group in ours for r in group}
    conda_only = {"pytorch-cpu": "torch"}
    assert {conda_only.get(n, n) for n in names} <= known


def test_every_module_has_its_tests_and_every_chapter_its_perturbations():
    for path in MODULES:
        assert (ROOT / f"tests/test_{path.stem}.py").is_file()
    for chapter in (ROOT / "notebooks").glob("[0-9][0-9]*_*.md"):
        listed = ROOT / "tests/perturbations" / f"{chapter.stem}.toml"
        assert listed.is_file()


def test_every_command_the_readme_names_exists():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\bmake ([a-z]+)\b", readme))
    assert {"book", "test"} <= named
    for command in named:
        assert re.search(rf"^{command}:.* ## ", makefile, re.MULTILINE)
