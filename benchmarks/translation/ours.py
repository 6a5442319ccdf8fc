"""Ours, by its command line, for so many minutes.

python benchmarks/translation/ours.py DATA OUT --minutes 30 --rate 1.5e-3
"""

import json
import shutil
import subprocess
import sys
import time

from common import arguments, keep, read

from transformer_lib.loss import evaluate
from transformer_lib.tokenization import make_batch
from transformer_lib.translator import Translator

# For half an hour, which is two epochs here: small batches, nothing dropped,
# and no mean of checkpoints, as the rate ends at zero anyway.
CHOSEN = ["--tokens", 1024, "--set", "p_drop=0", "--average", 1]


def main() -> None:
    args = arguments(__doc__)
    folder = args.out / "run"
    shutil.rmtree(folder, ignore_errors=True)
    words = ["--corpus", "tatoeba", "--config", "small", *CHOSEN]
    words += ["--minutes", args.minutes, "--rate", args.rate]
    words += ["--out", folder]
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
    said = {
        "parameters": sum(p.numel() for p in translator.model.parameters()),
        "rate": args.rate,
        "minutes": round(seconds / 60, 2),
        "steps": len(steps),
        "tokens a second": round(sum(s["tokens"] for s in steps) / seconds),
        "precision": settings["precision"],
        "valid": round(evaluate(translator.model, batches)["nll"], 4),
    }
    lines = None
    if not args.no_test:
        cases = json.loads((args.data / "test.json").read_text("utf-8"))
        lines = translator([case["source"] for case in cases], beam=4)
    keep(args.out, said, lines)


if __name__ == "__main__":
    main()
