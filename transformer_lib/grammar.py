"""A grammar of two languages.

Millions of right pairs, each with all its translations, parted so that
a test tests.

Chapter 2f; generated from
notebooks/02f_grammar.md by `make export`: edit the chapter.
"""

import random
import re
import zlib
from collections.abc import Collection, Sequence
from typing import NamedTuple

from transformer_lib.clauses import spell
from transformer_lib.corpus import Pair
from transformer_lib.patterns import PATTERNS
from transformer_lib.plans import CONTEXTS, Plan

__all__ = [
    "LONGEST",
    "PARTS",
    "PHENOMENA",
    "Sentence",
    "corpus",
    "make",
    "pairs",
    "part_of",
    "pronoun_of",
    "references",
]


PHENOMENA = (
    "agreement",
    "adjectives",
    "elision",
    "negation",
    "clitics",
    "questions",
    "numbers",
    "relatives",
    "coordination",
    "coreference",
)
PARTS = ("train", "test", "nouns", "length")
LONGEST = 24  # English words of the longest sentence to learn from
_PATIENCE = 100_000  # draws without a new sentence
_SIDES = ("fr", "en")
_DRAWN = [pattern for pattern, n in PATTERNS.items() for _ in range(n)]


class Sentence(NamedTuple):
    """A sentence in both languages, and what is to be seen in it."""

    french: str
    english: str
    tags: frozenset[str]
    nouns: tuple[tuple[str, str], ...]  # pairs of nouns in one clause
    number: int


def make(number: int) -> Sentence:
    """The sentence of a number, the same one everywhere.

    Raises ValueError for a number that is not in 0 … 2^64 - 1.
    """
    if not 0 <= number < 1 << 64:
        raise ValueError(f"number {number}: sentences have 0 … 2^64 - 1")
    planned, context = divmod(number, len(CONTEXTS))
    plan = Plan(planned, CONTEXTS[context])
    fr, english = plan.of(_DRAWN)(plan)
    french = spell(fr)
    plan.tags |= {"elision"} if french != fr.replace("*", "") else set()
    tags, nouns = frozenset(plan.tags), tuple(plan.nouns)
    return Sentence(french, english, tags, nouns, number)


def references(sentence: Sentence, source: str) -> set[str]:
    """All translations the grammar has of its "fr" or "en" side.

    They are what the same plan says in the contexts that leave the source
    as it is, by :eq:`references`.
    """
    side = _side(source)
    first = sentence.number - sentence.number % len(CONTEXTS)
    others = [make(first + i) for i in range(len(CONTEXTS))]
    return {s[1 - side] for s in others if s[side] == sentence[side]}


def _side(source: str) -> int:
    if source not in _SIDES:
        raise ValueError(f"source {source!r}: expected one of {_SIDES}")
    return _SIDES.index(source)


def part_of(sentence: Sentence) -> str:
    """The part a sentence belongs to, by its words and not its number."""
    if len(sentence.english.split()) > LONGEST:
        return "length"
    if any(_hash(" ".join(pair)) % 20 == 0 for pair in sentence.nouns):
        return "nouns"
    return "test" if _hash(sentence.english) % 50 == 0 else "train"


def _hash(text: str) -> int:
    return zlib.crc32(text.encode())


def corpus(
    n: int,
    seed: int,
    part: str = "train",
    phenomena: Collection[str] = PHENOMENA,
    again: bool = False,
) -> list[Sentence]:
    """n different sentences of a part, drawn by seed; `again`: not only
    different ones, but each as often as it is drawn.

    "train" to learn from; "test" has other sentences, "nouns" other pairs
    of nouns, "length" longer sentences. No part shares an English
    sentence with another. All have no other phenomena than these. Raises
    ValueError for what there is not, and where there are not so many.
    """
    if part not in PARTS:
        raise ValueError(f"part {part!r}: expected one of {PARTS}")
    if n < 0:
        raise ValueError(f"{n} sentences: expected 0 or more")
    if odd := set(phenomena) - set(PHENOMENA):
        raise ValueError(f"{min(odd)!r}: expected some of {PHENOMENA}")
    wanted = frozenset(phenomena)
    rng, found, seen, vain = random.Random(seed), [], set(), 0
    while len(found) < n:
        sentence, vain = make(rng.getrandbits(48)), vain + 1
        if vain > _PATIENCE:
            raise ValueError(f"no more than {len(found)} of {n} sentences")
        if wanted >= sentence.tags and part_of(sentence) == part:
            if again or sentence[:2] not in seen:
                vain = 0
                seen.add(sentence[:2])
                found.append(sentence)
    return found


def pairs(sentences: Sequence[Sentence], source: str) -> list[Pair]:
    """Pairs to learn from, out of "fr" or "en"."""
    side = _side(source)
    return [Pair(s[side], s[1 - side]) for s in sentences]


def pronoun_of(french: str) -> str | None:
    """The "il" or "elle" of the first "parce qu'il était", if any."""
    found = re.search(r"parce qu'(il|elle) était", french)
    return found and found[1]
