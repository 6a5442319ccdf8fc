"""What the recipes have in common: how they are called, what they leave."""

import argparse
import json
from pathlib import Path

from transformer_lib.tokenization import Tokenizer


def arguments(about: str, *first: str) -> argparse.Namespace:
    """DATA, OUT, minutes and rate, behind arguments of one's own."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    for name in first:
        parser.add_argument(name)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=int, default=30)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--no-test", action="store_true")
    args = parser.parse_args()
    args.data, args.out = args.data.resolve(), args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    return args


def read(path: Path) -> list[list[int]]:
    """The pieces of each line, as numbers."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [[int(i) for i in line.split()] for line in lines]


def texts(data: Path, sentences: list[list[int]]) -> list[str]:
    decode = Tokenizer.load(data / "tokenizer.json").decode
    return [" ".join(decode(ids).split()) for ids in sentences]


def keep(out: Path, said: dict, lines: list[str] | None) -> None:
    """stats.json, the mark of a finished run, is written last."""
    if lines is not None:
        text = "".join(line + "\n" for line in lines)
        (out / "hypotheses.txt").write_text(text, encoding="utf-8")
    (out / "stats.json").write_text(json.dumps(said, indent=1) + "\n")
    print(said)
