"""Ours, by its command line, for so many minutes.

    python benchmarks/translation/ours.py DATA OUT --minutes 30 --rate 1.5e-3
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

from transformer_lib.checkpoints import load_checkpoint
from transformer_lib.loss import evaluate
from transformer_lib.tokenization import make_batch
from transformer_lib.translator import Translator

from peers import read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=int, default=30)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--no-test", action="store_true")
    args = parser.parse_args()
    shutil.rmtree(args.out, ignore_errors=True)
    args.out.mkdir(parents=True)
    folder = args.out / "run"
    words = ["--corpus", "tatoeba", "--config", "small", "--out", folder]
    words += ["--minutes", args.minutes, "--rate", args.rate]
    line = [sys.executable, "-m", "transformer_lib", "train", *words]
    begun = time.perf_counter()
    subprocess.run([*map(str, line)], check=True)
    seconds = time.perf_counter() - begun
    log = (folder / "log.jsonl").read_text().splitlines()
    steps = [json.loads(line) for line in log]
    translator = Translator.load(folder)
    sides = [read(args.data / f"valid.{s}") for s in ("source", "target")]
    pairs = [*zip(*sides, strict=True)]
    batches = [
        make_batch(*zip(*pairs[i : i + 100], strict=True))
        for i in range(0, len(pairs), 100)
    ]
    settings = json.loads((folder / "run.json").read_text())["settings"]
    weights = load_checkpoint(folder / "model.safetensors")[1]["model"]
    said = {
        "parameters": sum({id(w): w.numel() for w in weights.values()}.values()),
        "rate": args.rate,
        "minutes": round(seconds / 60, 2),
        "steps": len(steps),
        "tokens a second": round(sum(s["tokens"] for s in steps) / seconds),
        "precision": settings["precision"],
        "valid": round(evaluate(translator.model, batches)["nll"], 4),
    }
    if not args.no_test:
        cases = json.loads((args.data / "test.json").read_text())
        found = translator([case["source"] for case in cases], beam=4)
        text = "".join(line + "\n" for line in found)
        (args.out / "hypotheses.txt").write_text(text, encoding="utf-8")
    (args.out / "stats.json").write_text(json.dumps(said, indent=1) + "\n")
    print(said)


if __name__ == "__main__":
    main()
