"""Runs the recipes one after the other, each alone.

    python benchmarks/translation/run.py DATA RUNS --minutes 5 --try
    python benchmarks/translation/run.py DATA RUNS --minutes 30

With --try each runs at its two rates, and RUNS/rates.json keeps the better;
without it each runs at that rate and translates the test. What is there
already is left.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
RATES = {
    "ours": [1.5e-3, 3e-3],
    "torch": [3e-4, 1e-3],
    "marian": [5e-4, 1.5e-3],
    "joey": [0.2, 0.5],
    "torch-as-ours": [3e-4, 1e-3],
}


def call(name: str, data: Path, out: Path, minutes: int, rate: float, test):
    if name == "ours":
        words = ["ours.py", data, out]
    elif name == "joey":
        words = ["joey.py", data, out]
    else:
        words = ["peers.py", name, data, out]
    more = ["--minutes", minutes, "--rate", rate]
    more += [] if test else ["--no-test"]
    line = [sys.executable, HERE / words[0], *words[1:], *more]
    subprocess.run([*map(str, line)], check=True)
    return json.loads((out / "stats.json").read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--minutes", type=int, default=30)
    parser.add_argument("--try", dest="tried", action="store_true")
    parser.add_argument("--only", nargs="+", choices=RATES, default=[*RATES])
    args = parser.parse_args()
    args.runs.mkdir(parents=True, exist_ok=True)
    kept = args.runs / "rates.json"
    best = json.loads(kept.read_text()) if kept.is_file() else {}
    for name in args.only:
        if args.tried:
            found = {}
            for rate in RATES[name]:
                out = args.runs / f"{name}-{rate}"
                stats = out / "stats.json"
                if stats.is_file():
                    said = json.loads(stats.read_text())
                else:
                    said = call(name, args.data, out, args.minutes, rate, 0)
                found[rate] = said["valid"]
            best[name] = min(found, key=found.get)
            kept.write_text(json.dumps(best, indent=1) + "\n")
        elif not (args.runs / name / "stats.json").is_file():
            out = args.runs / name
            call(name, args.data, out, args.minutes, best[name], 1)


if __name__ == "__main__":
    main()
