"""Finds a Chromium for the site's tests, or gets one.

    python tools/browser.py    makes sure that one is there

Looks at $CHROMIUM, then on the PATH; else installs Debian's package
(as root, where there is apt-get), else Playwright's own download.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome")
# A browser that reaches nothing but this machine.
FLAGS = [
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, "
    "EXCLUDE localhost",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
HELP = (
    "no Chromium was found and none could be installed; install one (on "
    "Debian: `apt-get install chromium`) or name yours: "
    "CHROMIUM=/path/to/chromium make test"
)


class BrowserError(Exception):
    """There is no browser to be had here."""


def named() -> str | None:
    """What $CHROMIUM names, when it is set."""
    name = os.environ.get("CHROMIUM")
    if not name:
        return None
    path = shutil.which(name)
    if path is None:
        raise BrowserError(
            f"CHROMIUM names {name!r}, which is not a program here; "
            f"correct it or unset it"
        )
    return path


def on_path() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


def playwrights() -> str | None:
    """The browser Playwright has downloaded before."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if os.path.exists(path) else None


def from_debian() -> str | None:
    """Installs the package `chromium`, where we may."""
    if os.name != "posix" or os.geteuid() or not shutil.which("apt-get"):
        return None
    print("browser: installing the package chromium", file=sys.stderr)
    quiet = {
        "stdout": subprocess.DEVNULL,
        "env": {**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
    }
    apt = ["apt-get", "-qq", "-o", "Dpkg::Use-Pty=0"]
    subprocess.run([*apt, "update"], **quiet)
    install = [*apt, "install", "-y", "--no-install-recommends", "chromium"]
    subprocess.run(install, **quiet)
    return on_path()


def from_playwright() -> str | None:
    """Lets Playwright download its own."""
    print("browser: downloading Playwright's Chromium", file=sys.stderr)
    command = [sys.executable, "-m", "playwright", "install", "chromium"]
    subprocess.run(command, stdout=subprocess.DEVNULL)
    return playwrights()


def find() -> str:
    """The path of a Chromium; BrowserError when there is none."""
    for source in (
        named, on_path, playwrights, from_debian, from_playwright,
    ):  # fmt: skip
        path = source()
        if path is not None:
            return path
    raise BrowserError(HELP)


def flags() -> list[str]:
    """FLAGS, and what root needs on top."""
    root = os.name == "posix" and os.geteuid() == 0
    return [*FLAGS, "--no-sandbox"] if root else FLAGS


@contextmanager
def launch() -> Iterator[Browser]:
    """A running headless Chromium, closed at the end."""
    from playwright.sync_api import sync_playwright

    path = find()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=flags()
        )
        try:
            yield browser
        finally:
            browser.close()


def main() -> int:
    try:
        with launch() as browser:
            print(f"browser: Chromium {browser.version}")
    except BrowserError as error:
        print(f"browser: {error}", file=sys.stderr)
        return 1
    except Exception as error:
        print(
            f"browser: {find()} does not start; try another one with "
            f"CHROMIUM=/path/to/chromium\n{error}",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
