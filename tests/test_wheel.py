"""The built package, installed where nothing else of the book is."""

import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.house,
    pytest.mark.xdist_group("wheel"),  # built and installed once
]

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "transformer_lib"


def succeed(*command: str | Path, cwd: Path) -> str:
    """What a command prints, run without this process's own settings."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = ["-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    succeed(sys.executable, *build, cwd=ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def fresh(wheel, tmp_path_factory) -> Path:
    """The Python of a new environment that holds the wheel.

    What the package depends on is found where the tests have it. A
    folder named in a .pth file comes last, and the .pth files in it are
    not read: the tests' editable install of the package stays out.
    """
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder)
    python = folder / "bin/python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install"]
    quiet = ["-q", "--disable-pip-version-check"]
    succeed(*pip, *quiet, "--no-index", "--no-deps", wheel, cwd=folder)
    ours = [p for p in sys.path if Path(p).name == "site-packages"]
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text("\n".join(ours) + "\n")
    return python


def test_the_wheel_holds_every_file_of_the_package(wheel):
    files = {
        path.relative_to(ROOT).as_posix()
        for path in LIBRARY.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = set(zipfile.ZipFile(wheel).namelist())
    info = {name for name in packed if re.match(r"[^/]+\.dist-info/", name)}
    assert packed - info == files


def test_the_package_is_imported_from_the_environment(fresh, tmp_path):
    code = "import transformer_lib as t; print(t.__file__, *t.__all__)"
    home, *names = succeed(fresh, "-c", code, cwd=tmp_path).split()
    assert Path(home).is_relative_to(fresh.parent.parent)
    import transformer_lib

    assert names == transformer_lib.__all__


def test_the_package_translates_a_sentence(fresh, tmp_path):
    command = ["-m", "transformer_lib", "translate", "je suis étudiant"]
    said = succeed(fresh, *command, cwd=tmp_path)
    assert said == "I'm a student.\n"
