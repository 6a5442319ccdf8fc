"""BLEU of each, and a paired bootstrap against the best of the others.

python benchmarks/translation/compare.py DATA RUNS
"""

import argparse
import itertools
import json
import platform
from importlib.metadata import version
from pathlib import Path

import torch
from run import RATES
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=Path)
    args = parser.parse_args()
    cases = json.loads((args.data / "test.json").read_text())
    lists = itertools.zip_longest(*[case["references"] for case in cases])
    references = [[*one] for one in lists]
    said, found = {}, []
    for name in RATES:
        stats = args.runs / name / "stats.json"
        if not stats.is_file():
            continue
        said[name] = json.loads(stats.read_text())
        text = (args.runs / name / "hypotheses.txt").read_text("utf-8")
        found.append((name, text.splitlines()))
    test = PairedTest(
        found, {"BLEU": BLEU(lowercase=True, references=references)},
        references=None, test_type="bs", n_samples=1000,
    )  # fmt: skip
    signature, scores = test()
    for name, result in zip(scores["System"], scores["BLEU"], strict=True):
        name = name.removeprefix("Baseline: ")
        said[name]["BLEU"] = round(result.score, 2)
        said[name]["p"] = result.p_value
        said[name]["95 %"] = round(result.ci, 2)
    print(f"{'':14}{'BLEU':>7}{'±':>6}{'p':>8}{'steps':>8}{'tokens/s':>10}"
          f"{'min':>7}{'rate':>9}{'parameters':>12}")  # fmt: skip
    for name, row in said.items():
        p = "" if row["p"] is None else f"{row['p']:.4f}"
        print(f"{name:14}{row['BLEU']:7.2f}{row['95 %']:6.2f}{p:>8}"
              f"{row['steps']:8}{row['tokens a second']:10}"
              f"{row['minutes']:7.1f}{row['rate']:9}"
              f"{row['parameters']:12,}")  # fmt: skip
    report = {
        "machine": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": version("torch"),
        "signature": str(signature["BLEU"]),
        "systems": said,
    }
    path = Path(__file__).with_name("results.json")
    path.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
