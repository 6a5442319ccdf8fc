"""Runs the experiments that take too long for a cell of a chapter.

    python tools/metrics.py            run what is not up to date
    python tools/metrics.py 08         the same for this chapter only
    python tools/metrics.py --again 08     run it from the start
    python tools/metrics.py --check    only say what is out of date

A script notebooks/metrics/08_name.py defines

    KEYS: list[str]     a name for each of its runs
    SEEDS: list[int]    the seeds they use; [] where nothing is random
    run(key) -> dict    makes one run; returns what JSON can hold

and 08_name.json beside it holds what the runs returned: the chapter reads
that file. Each finished run is kept at once in .08_name.partial.json; the
next call goes on from there. Results are stale when the script's code, or
the library code behind it, is not what they were made by.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import random
import sys
import traceback
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

from tqdm import tqdm

from chapters import (
    METRICS,
    PACKAGE,
    ROOT,
    ChapterError,
    all_chapters,
    choose,
    code_alone,
    keep,
    library_behind,
    sha,
    write_atomically,
)


@dataclass(frozen=True)
class Script:
    """One file `NN_name.py` in notebooks/metrics/ and its results."""

    path: Path

    @property
    def command(self) -> str:
        return f"make metrics CHAPTER={self.path.stem.partition('_')[0]}"

    @property
    def results(self) -> Path:
        return self.path.with_suffix(".json")

    @property
    def partial(self) -> Path:
        return self.path.with_name(f".{self.path.stem}.partial.json")

    def __str__(self) -> str:
        return str(self.path.relative_to(ROOT))

    def digest(self) -> str:
        """What the results depend on, as one short string."""
        source = self.path.read_text(encoding="utf-8")
        try:
            parts = [code_alone(source), *library_behind([source])]
        except SyntaxError as error:
            raise ChapterError(f"{self}:{error.lineno}: {error.msg}") from None
        return sha("\0".join(parts))

    def load(self) -> ModuleType:
        """The script as a module that defines what it must."""
        spec = importlib.util.spec_from_file_location(
            f"metrics_{self.path.stem}", self.path
        )
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        try:
            spec.loader.exec_module(module)
        except Exception:
            raise ChapterError(
                f"{self} cannot be imported\n{traceback.format_exc()}"
            ) from None
        keys = getattr(module, "KEYS", None)
        seeds = getattr(module, "SEEDS", None)
        right = {
            "KEYS": _is_list(keys, str) and 0 < len(keys) == len(set(keys)),
            "SEEDS": _is_list(seeds, int),
            "run": callable(getattr(module, "run", None)),
        }
        wrong = ", ".join(name for name, holds in right.items() if not holds)
        if wrong:
            raise ChapterError(
                f"{self} lacks {wrong}: it must define KEYS, a list of "
                f"different strings; SEEDS, a list of integers ([] where "
                f"nothing is random); and run(key), which returns a dict"
            )
        return module


def _is_list(value: Any, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(x, kind) for x in value)


def made_by(script: Script, digest: str, seeds: list[int]) -> dict[str, Any]:
    """What a results file says of its making."""
    import torch  # here, so that --check need not wait for it

    return {
        "command": script.command,
        "versions": {
            "python": platform.python_version(),
            "torch": version("torch"),
            PACKAGE: version("transformer-derived"),
        },
        "threads": torch.get_num_threads(),
        "seeds": seeds,
        "digest": digest,
    }


def finished(script: Script, making: dict[str, Any]) -> dict[str, dict]:
    """The runs kept by an interrupted call, by key."""
    if not script.partial.is_file():
        return {}
    kept = json.loads(script.partial.read_text(encoding="utf-8"))
    for name, now in making.items():
        if kept[name] != now:
            raise ChapterError(
                f"{script.partial.relative_to(ROOT)} holds "
                f"{len(kept['results'])} finished runs, made with {name} "
                f"{kept[name]}; now it is {now}. Go on as they were made, "
                f"or start again: `{script.command} ARGS=--again`"
            )
    return kept["results"]


def write(path: Path, making: dict[str, Any], results: dict) -> None:
    content = {**making, "results": results}
    text = json.dumps(content, indent=1, ensure_ascii=False)
    write_atomically(path, text + "\n")


def result(script: Script, module: ModuleType, key: str) -> dict:
    """What one run returns; it draws the same after an interruption."""
    import torch

    random.seed(0)
    torch.manual_seed(0)
    try:
        returned = module.run(key)
        if not isinstance(returned, dict):
            raise TypeError(f"not a dict: {returned!r}")
        json.dumps(returned)
    except Exception:
        raise ChapterError(
            f"{script}: run({key!r}) fails; the runs before it are kept\n"
            f"{traceback.format_exc()}"
        ) from None
    return returned


def execute(script: Script, again: bool) -> None:
    """Makes the runs that are not finished, then writes the results."""
    digest = script.digest()
    module = script.load()
    keys, making = module.KEYS, made_by(script, digest, module.SEEDS)
    if again and script.partial.is_file():
        print(f"metrics: the runs before are kept in {keep(script.partial)}")
        script.partial.unlink()
    results = finished(script, making)
    bar = tqdm(
        total=len(keys),
        initial=len(results),
        desc=str(script),
        unit="run",
        file=sys.stderr,
    )
    with bar:
        for key in keys:
            if key not in results:
                bar.set_postfix_str(key)
                results[key] = result(script, module, key)
                write(script.partial, making, results)
                bar.update()
    write(script.results, making, {key: results[key] for key in keys})
    script.partial.unlink()
    print(
        f"metrics: wrote {script.results.relative_to(ROOT)}; now run "
        f"`make notebooks`"
    )


def out_of_date(script: Script) -> str | None:
    """Why the stored results are none of this code; None if they are."""
    name = script.results.relative_to(ROOT)
    if not script.results.is_file():
        return f"{name} does not exist; run `{script.command}`"
    try:
        stored = json.loads(script.results.read_text(encoding="utf-8"))
        digest = stored["digest"]
    except (ValueError, KeyError, TypeError):
        return f"{name} cannot be read; run `{script.command}`"
    if digest != script.digest():
        return f"{name} is of other code; run `{script.command}`"
    return None


def choose_scripts(names: list[str]) -> tuple[list[Script], list[str]]:
    """The scripts of the chapters named, or all; and what is wrong."""
    scripts, problems = [], []
    for chapter in choose(names):
        paths = chapter.metrics(".py")
        scripts += map(Script, paths)
        if names and not paths:
            problems.append(
                f"{chapter} has no script: write "
                f"notebooks/metrics/{chapter.number}_name.py as "
                f"tools/metrics.py says"
            )
    return scripts, problems


def orphans() -> list[str]:
    """Scripts of no chapter, and results of no script."""
    scripts = {p for c in all_chapters() for p in c.metrics(".py")}
    results = {p.with_suffix(".json") for p in scripts}
    have = {*METRICS.glob("*.py"), *METRICS.glob("[!.]*.json")}
    return [
        f"{path.relative_to(ROOT)} belongs to no "
        f"{'chapter' if path.suffix == '.py' else 'script'}; give it the "
        f"number and name of one, or remove it"
        for path in sorted(have - scripts - results)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("chapter", nargs="*", help="08, attention, …")
    args = parser.parse_args()
    os.chdir(ROOT)
    try:
        scripts, problems = choose_scripts(args.chapter)
    except ChapterError as error:
        print(f"metrics: {error}", file=sys.stderr)
        return 1
    problems += [] if args.chapter else orphans()
    for script in scripts:
        try:
            stale = out_of_date(script)
            if args.check:
                problems += filter(None, [stale])
            elif stale or args.again:
                execute(script, args.again)
            else:
                print(
                    f"metrics: {script.results.relative_to(ROOT)} is up to "
                    f"date; `{script.command} ARGS=--again` runs it anew"
                )
        except ChapterError as error:
            problems.append(str(error))
        except KeyboardInterrupt:
            print(
                f"\nmetrics: stopped; finished runs are kept, and "
                f"`{script.command}` goes on from there",
                file=sys.stderr,
            )
            return 130
    for problem in problems:
        warning = "warning: " if args.check else ""
        print(f"metrics: {warning}{problem}", file=sys.stderr)
    return 1 if problems and not args.check else 0


if __name__ == "__main__":
    sys.exit(main())
