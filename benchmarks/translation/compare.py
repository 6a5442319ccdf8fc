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
    report = {
        "machine": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
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


def table(report: dict) -> str:
    """The results for the README, which a test holds to results.json."""
    heads = ["", "BLEU", "±", "p", "steps", "tokens/s", "minutes", "rate"]
    lines = [heads, ["---"] + ["--:"] * (len(heads) - 1)]
    for name, row in report["systems"].items():
        p = "" if row["p"] is None else f"{row['p']:.4f}"
        figures = [f"{row['BLEU']:.2f}", f"{row['95 %']:.2f}", p]
        figures += [row["steps"], row["tokens a second"]]
        figures += [f"{row['minutes']:.1f}", row["rate"]]
        lines.append([f"`{name}`", *map(str, figures)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main()
