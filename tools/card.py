"""Writes the model card of the translator of real sentences.

    python tools/card.py            write it
    python tools/card.py --check    only say whether it is as it would be

Out of what was found by notebooks/metrics/20e_tatoeba.py.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from transformer_lib.real_corpus import HELD_OUT, KNOWN

from chapters import METRICS, ROOT, write_atomically

RESULTS = METRICS / "20e_tatoeba.json"
CARD = ROOT / "transformer_lib/pretrained/tatoeba/README.md"
WAYS = {"fr-en": "French to English", "en-fr": "English to French"}
CREDIT = KNOWN["tatoeba"].credit


def wrapped(command: str, width: int = 74) -> str:
    """The command broken before options, as a shell reads it."""
    first, *options = command.split(" --")
    lines = [first]
    for option in options:
        if len(f"{lines[-1]} --{option}") > width:
            lines[-1] += " \\"
            lines.append("   ")
        lines[-1] += f" --{option}"
    return "\n".join(lines)


def table(*rows: list[Any]) -> str:
    head, *rest = rows
    lines = [head, ["---"] * len(head), *rest]
    return "".join(
        "| " + " | ".join(map(str, line)) + " |\n" for line in lines
    )


def measures(found: dict[str, Any]) -> list[Any]:
    right, of = found["exact_match"]["right"], found["exact_match"]["of"]
    scores = (f"{found[name]:.1f}" for name in ("BLEU", "chrF"))
    return [of, *scores, f"{right / of:.1%}"]


def worth(results: dict[str, Any]) -> str:
    rows = [["", "sentences", "BLEU", "chrF", "exact match"]]
    for way, says in WAYS.items():
        rows.append([f"**{says}**", *measures(results[way]["test"])])
        for length, found in results[way]["by length"].items():
            rows.append([f"{length} words", *measures(found)])
    return table(*rows)


def everyday(found: dict[str, Any], says: str) -> str:
    rows = [["source", "the model", "one of us"]]
    for each in found["each"]:
        dagger = " †" if each["learned from"] else ""
        row = each["source"] + dagger, each["translation"]
        rows.append([*row, each["reference"]])
    _, bleu, chrf, share = measures(found)
    return (
        f"### {says}\n\nBLEU {bleu}, chrF {chrf} on these fifty; {share} are "
        f"what one of us wrote, to the letter.\n\n{table(*rows)}\n"
    )


def card(results: dict[str, Any]) -> str:
    learned = results["learning"]
    forth = results["fr-en"]
    first = forth["test"]
    named = forth["with Tom or Mary"] / first["exact_match"]["of"]
    step = learned["watched"][-1]["step"]
    text = f"""# The translator of real sentences

One Transformer that translates between French and English, either way, for
sentences as people write them. `Translator.load("fr-en")` and
`Translator.load("en-fr")` both are this model (chapters 20a and 20e of *The
Transformer, derived*).

## Data and licence

It learned from
{CREDIT}
(<https://creativecommons.org/licenses/by/2.0/fr/>): whoever passes the
weights on should pass that credit on. Of the pairs, cut as in chapter 2g,
{HELD_OUT} were kept to choose by and {HELD_OUT} to test with; none of them
shares a sentence with the rest. The weights, like the book's code, are under
the MIT licence.

## How it was made

```sh
{wrapped(learned["trained by"])}
```

That is {step:,} steps and {learned["tokens"] / 1e6:.0f} million tokens of
target text, {learned["hours"]:.1f} hours on two processor cores with other
work beside it. It was the first run with these settings. What is here is the
mean of its last four checkpoints, in half precision.

## What it is worth

On all sentences of the pairs held out to test with, with a beam of four. A
good translation that is none of the references counts as wrong in *exact
match*. BLEU and chrF are sacrebleu's, in lower case:

```
{first["signature"]}
```

{worth(results)}
## Limits

It learned from short sentences; {named:.0%} of the test is about Tom or Mary.
Give it one sentence at a time: of several it makes one, and the longer a
sentence, the worse. A word that it has seldom read it builds from pieces,
often wrongly, and what is no sentence (a symbol, a word in capitals, another
language) it answers with one that it makes up. It changes names, numbers and
times of day, and leaves parts of a sentence out. It knows nothing of what was
said before: at *you* it chooses *tu* or *vous* by what is usual, and *il*
becomes *it* or *he* by the sentence alone. Nobody has looked through what it
says of groups of people. Do not use it where a mistake does harm.

## Fifty everyday sentences

Written for this card without a look at the corpus, with the translations that
one of us would give. A dagger (†) marks a sentence that was learned from all
the same, perhaps with other punctuation.

"""
    text += "".join(
        everyday(results[way]["everyday"], says) for way, says in WAYS.items()
    )
    return text.rstrip() + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    found = json.loads(RESULTS.read_text(encoding="utf-8"))["results"]
    text = card(found)
    old = CARD.read_text(encoding="utf-8") if CARD.is_file() else ""
    if old == text:
        return 0
    if check:
        print(
            f"card: {CARD.relative_to(ROOT)} is not what the "
            "results say: run `python tools/card.py`",
            file=sys.stderr,
        )
        return 1
    write_atomically(CARD, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
