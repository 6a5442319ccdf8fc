"""Writes what all four learn from: lines of pieces, and the test as text.

python benchmarks/translation/data.py DATA
"""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path

from transformer_lib.__main__ import cases_of
from transformer_lib.minutes import CONFIGS
from transformer_lib.real_corpus import heard, taught
from transformer_lib.recipe import Settings, parts
from transformer_lib.tokenization import Tokenizer

TESTED = 1000  # from all over the test, which is sorted by length


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    folder = parser.parse_args().data
    folder.mkdir(parents=True, exist_ok=True)
    settings = Settings(corpus="tatoeba", **CONFIGS["small"])
    train, valid, test = parts(settings)
    plain = taught(train, "fr")
    texts = (text for pair in plain for text in pair)
    tokenizer = Tokenizer.train(texts, settings.vocab)
    tokenizer.save(folder / "tokenizer.json")
    for name, pairs in [("train", plain), ("valid", taught(valid, "fr"))]:
        for side in ("source", "target"):
            ids = [tokenizer.encode(getattr(p, side)) for p in pairs]
            write(folder / f"{name}.{side}", ids)
    cases = cases_of(test, TESTED)
    sources = [heard(case["source"], "fr") for case in cases]
    write(folder / "test.source", map(tokenizer.encode, sources))
    text = json.dumps(cases, ensure_ascii=False, indent=1)
    (folder / "test.json").write_text(text + "\n", encoding="utf-8")
    print(
        f"{len(train)} pairs, {len(valid)} to choose by, {len(cases)} tested"
    )


def write(path: Path, lines: Iterable[list[int]]) -> None:
    """A sentence a line, its pieces as numbers."""
    text = "".join(" ".join(map(str, ids)) + "\n" for ids in lines)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
