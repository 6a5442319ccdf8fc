"""JupyterLab, as `make lab` opens it, shows what the site shows."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import nbformat
import pytest

pytestmark = [
    pytest.mark.house,
    pytest.mark.lab,
    pytest.mark.xdist_group("lab"),  # one JupyterLab for all
]

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
# These two use every kind of figure, equation, box and folded solution.
NOTEBOOKS = [
    ROOT / "notebooks/06_positional_encoding.ipynb",
    ROOT / "notebooks/07_attention.ipynb",
]
SETTINGS = {
    # Off-screen cells are drawn too, and no news are asked for.
    "notebook-extension/tracker": {"windowingMode": "none"},
    "apputils-extension/notification": {"fetchNews": "false"},
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The address of a JupyterLab on a copy of the chapters."""
    root = tmp_path_factory.mktemp("lab")
    for folder in ("notebooks", "tools", "transformer_lib"):
        shutil.copytree(ROOT / folder, root / folder)
    shutil.copy(ROOT / "pyproject.toml", root)
    for name, values in SETTINGS.items():
        path = root / f"settings/@jupyterlab/{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable, str(root / "tools/lab.py"), "--no-browser",
        "--ip=127.0.0.1", f"--port={port}", "--allow-root",
        "--IdentityProvider.token=",
    ]  # fmt: skip
    env = {**os.environ, "JUPYTERLAB_SETTINGS_DIR": str(root / "settings")}
    with (root / "log").open("w") as log:
        server = subprocess.Popen(
            command, env=env, cwd=root, stdout=log, stderr=log
        )
        try:
            address = f"http://127.0.0.1:{port}"
            for _ in range(240):
                assert server.poll() is None, (root / "log").read_text()
                try:
                    urllib.request.urlopen(f"{address}/api")
                    break
                except (urllib.error.URLError, ConnectionError):
                    time.sleep(0.5)
            yield address
        finally:
            server.terminate()
            server.wait(30)


@pytest.fixture(scope="module")
def browser():
    from browser import launch

    with launch() as running:
        yield running


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def chapter(request, lab, browser):
    """A chapter's stored notebook and the page that shows it."""
    nb = nbformat.read(request.param, as_version=4)
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(f"{lab}/lab/tree/notebooks/{request.param.name}?reset")
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=120_000)
    last = ".jp-Notebook .jp-Cell >> nth=-1"
    page.wait_for_selector(last, state="attached", timeout=60_000)
    page.wait_for_function(
        "n => document.querySelectorAll('.jp-Notebook .jp-Cell').length >= n",
        arg=len(nb.cells),
        timeout=120_000,
    )
    yield nb, page
    page.close()


def test_shows_figures_equations_and_folded_solutions(chapter):
    nb, page = chapter
    labels = sum(
        len(re.findall(r"^\$\$ \(", c.source, re.MULTILINE))
        for c in nb.cells
        if c.cell_type == "markdown"
    )
    page.wait_for_function(
        "n => document.querySelectorAll("
        "'.jp-Notebook .katex-display').length >= n",
        arg=labels,
        timeout=120_000,
    )
    drawn = sum(
        any(kind.startswith("image/") for kind in output.get("data", {}))
        for cell in nb.cells
        for output in cell.get("outputs", [])
    )
    figures = page.locator(
        ".jp-OutputArea-output.jp-RenderedSVG, "
        ".jp-OutputArea-output.jp-RenderedImage"
    )
    assert figures.count() == drawn
    for problem in (".katex-error", ".myst-error", ".jp-RenderedSVG pre"):
        assert page.locator(f".jp-Notebook {problem}").count() == 0, problem
    text = page.locator(".jp-Notebook").inner_text()
    assert not re.search(r"\{(eq|cite|numref|prf:ref)\}`", text)
    folded = sum(
        bool(c.metadata.get("jupyter", {}).get("source_hidden"))
        for c in nb.cells
    )
    assert folded > 0
    assert page.locator(".jp-Notebook .jp-InputPlaceholder").count() == folded
