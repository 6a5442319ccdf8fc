"""BLEU of each, and a paired bootstrap against the best of the others.

python benchmarks/translation/compare.py DATA RUNS
"""

import argparse
import itertools
import json
import os
import platform
import re
from importlib.metadata import version
from pathlib import Path

import torch
from common import read
from run import RATES
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

HERE = Path(__file__).parent
BEGIN, END = "<!-- results -->", "<!-- end of results -->"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=Path)
    args = parser.parse_args()
    cases = json.loads((args.data / "test.json").read_text())
    lists = itertools.zip_longest(*[case["references"] for case in cases])
    references = [[*one] for one in lists]
    corpus = sum(len(ids) + 1 for ids in read(args.data / "train.target"))
    said, found = {}, []
    for name in RATES:
        stats = args.runs / name / "stats.json"
        if not stats.is_file():
            continue
        said[name] = row = json.loads(stats.read_text())
        seen = row["tokens a second"] * row["minutes"] * 60
        row["tokens a step"] = round(seen / row["steps"])
        row["epochs"] = round(seen / corpus, 2)
        text = (args.runs / name / "hypotheses.txt").read_text("utf-8")
        row["different lines"] = len({*text.splitlines()})
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
    report = {
        "processor": processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count(),
        "torch": version("torch"),
        "signature": str(signature["BLEU"]),
        "systems": said,
    }
    path = HERE / "results.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(table(report))
    readme = HERE / "README.md"
    before, rest = readme.read_text("utf-8").split(BEGIN)
    after = rest.split(END)[1]
    text = f"{before}{BEGIN}\n{table(report)}\n{END}{after}"
    readme.write_text(text, encoding="utf-8")


def processor() -> str:
    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.is_file() else ""
    found = re.search(r"model name\s*:\s*(.+)", text)
    return found[1] if found else platform.processor()


def table(report: dict) -> str:
    """The results for the README, which a test holds to results.json."""
    heads = ["", "BLEU", "±", "p", "steps", "tokens/step", "tokens/s"]
    heads += ["epochs", "minutes", "rate"]
    lines = [heads, ["---"] + ["--:"] * (len(heads) - 1)]
    for name, row in report["systems"].items():
        p = "" if row["p"] is None else f"{row['p']:.4f}"
        figures = [f"{row['BLEU']:.2f}", f"{row['95 %']:.2f}", p]
        figures += [row["steps"], row["tokens a step"], row["tokens a second"]]
        figures += [row["epochs"], f"{row['minutes']:.1f}", row["rate"]]
        lines.append([f"`{name}`", *map(str, figures)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main()
