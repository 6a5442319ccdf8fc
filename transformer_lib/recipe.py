"""A recipe for real sentences.

What a run depends on, written down: data, sizes, rate, precision; and
whether two directions want two models.

Chapter 20c; generated from
notebooks/20c_recipe.md by `make export`: edit the chapter.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from transformer_lib.corpus import Pair
from transformer_lib.grammar import PHENOMENA, corpus, pairs
from transformer_lib.loss import Batches, cross_entropy, mean_gradient
from transformer_lib.models import SIZES, build
from transformer_lib.real_corpus import KNOWN, cut_corpus, fetch, heard, taught
from transformer_lib.tokenization import Tokenizer, make_batch, token_batches
from transformer_lib.training import Training, linear_rate
from transformer_lib.translator import Translator, normalise

__all__ = [
    "GRAMMAR",
    "PRECISIONS",
    "Settings",
    "examples",
    "lessons",
    "parts",
    "training_run",
]


GRAMMAR = "grammar"
PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Settings:
    """What a run depends on: equal settings give equal translators."""

    model: str = "transformer"
    sizes: dict[str, Any] = field(default_factory=dict)
    source: str = "fr"
    target: str = ""  # the other one of fr and en
    corpus: str = GRAMMAR  # or one of KNOWN, or a tab-separated file
    columns: list[str] = field(default_factory=list)  # languages of a file's
    phenomena: list[str] = field(default_factory=lambda: [*PHENOMENA])
    sentences: int = 100_000  # pairs to learn from, at most
    longest: int = 50  # words of a side
    vocab: int = 1200
    steps: int = 10_000
    tokens: int = 4096  # a batch, padding included
    accumulate: int = 1  # batches a step
    rate: float = 1e-3  # the peak, at the end of the warm-up
    warmup: int = 0  # steps; 0: a tenth of them
    smoothing: float = 0.1
    precision: str = "float32"  # of matrix products, or "bfloat16"
    average: int = 1  # checkpoints, of which the mean is kept
    seed: int = 0

    def __post_init__(self) -> None:
        other = {"fr": "en", "en": "fr"}.get(self.source, "")
        target = self.target or other
        known = KNOWN.get(self.corpus)
        columns = known.languages if known else (self.source, target)
        for name, value in [
            ("target", target),
            ("columns", [*(self.columns or columns)]),
            ("warmup", self.warmup or max(1, self.steps // 10)),
            ("sizes", SIZES.get(self.model, {}) | self.sizes),
        ]:
            object.__setattr__(self, name, value)
        _check(self)


def _check(settings: Settings) -> None:
    s = settings
    for name in ("sentences", "longest", "steps", "tokens", "warmup",
                 "accumulate", "average"):  # fmt: skip
        if getattr(s, name) < 1:
            raise ValueError(f"{name} is {getattr(s, name)}, expected >= 1")
    if s.warmup > s.steps:
        raise ValueError(f"warmup is {s.warmup}, and there are {s.steps=}")
    if not (s.rate > 0 and 0 <= s.smoothing < 1):
        raise ValueError(f"{s.rate=}, {s.smoothing=}: expected > 0, in [0, 1)")
    if s.precision not in PRECISIONS:
        raise ValueError(f"{s.precision=}: expected {', '.join(PRECISIONS)}")
    if not s.target or s.source == s.target:
        raise ValueError(f"{s.source} to {s.target!r}: name another --target")
    if s.corpus == GRAMMAR and {s.source, s.target} != {"fr", "en"}:
        raise ValueError(
            f"{s.source} to {s.target}: the grammar has fr and en; name a "
            "file of pairs as --corpus, or one of them as --source"
        )


def parts(settings: Settings, odd: dict | None = None) -> list[list[Pair]]:
    """Pairs to learn from, to choose by, and to test with, of a file.

    As `cut_corpus` gives them, of those to learn from `sentences` at most.
    """
    s = settings
    path = fetch(s.corpus) if s.corpus in KNOWN else s.corpus
    where = path, s.columns, s.source, s.target
    train, valid, test = cut_corpus(*where, s.longest, odd)
    if len(train) > s.sentences:
        some = random.Random(s.seed).sample(range(len(train)), s.sentences)
        train = [train[i] for i in sorted(some)]
    return [train, valid, test]


def lessons(pairs: Sequence[Pair], settings: Settings) -> list[Pair]:
    """The pairs as taught; for two ways, then as many turned round."""
    both = settings.model == "two-way"
    back = [Pair(p.target, p.source) for p in pairs] if both else []
    return taught(pairs, settings.source) + taught(back, settings.target)


def examples(settings: Settings) -> list[Pair]:
    """The pairs that a run learns from, as its translator reads and says."""
    s = settings
    if s.corpus != GRAMMAR:
        return lessons(parts(s)[0], s)
    some = {"phenomena": s.phenomena, "again": True}
    plain = [
        Pair(normalise(p.source, s.source), normalise(p.target, s.target))
        for p in pairs(corpus(s.sentences, s.seed, **some), s.source)
    ]
    kept = [
        p for p in plain if all(0 < len(t.split()) <= s.longest for t in p)
    ]
    if not kept:
        raise ValueError(f"{s.corpus} has no pair of {s.longest=} words")
    return lessons(kept, s)


def training_run(
    settings: Settings,
    data: Sequence[Pair],
    tokenizer: Tokenizer | None = None,
    device: torch.device | str = "cpu",
    **parts: Any,
) -> tuple[Translator, Training, Callable[[int], Batches]]:
    """A translator, the run that teaches it, and the batches of an epoch.

    The data is as `lessons` gives it, or a two-way model raises ValueError.
    `parts` are those of Training; train_until(run, batches, steps) goes on.
    """
    s = settings
    if tokenizer is None:
        texts = (text for pair in data for text in pair)
        tokenizer = Tokenizer.train(texts, s.vocab)
    torch.manual_seed(s.seed)
    sizes = s.sizes | {"vocab_size": tokenizer.vocab_size}
    model = build(s.model, **sizes).to(device)
    config = {"model": s.model, "sizes": sizes}
    config |= {"source": s.source, "target": s.target}
    if s.corpus != GRAMMAR:
        config["text"] = "heard"
    translator = Translator(model, tokenizer, config)
    optimizer = torch.optim.Adam(
        model.parameters(), lr=s.rate, betas=(0.9, 0.98), eps=1e-9, fused=True
    )
    rate = partial(linear_rate, peak=s.rate, warmup=s.warmup, steps=s.steps)
    loss = partial(cross_entropy, smoothing=s.smoothing)
    usual = {"loss": loss, "accumulate": s.accumulate}
    usual["gradient"] = partial(mean_gradient, dtype=PRECISIONS[s.precision])
    run = Training(model, optimizer, rate, **usual | parts)
    return translator, run, _batches(s, data, translator)


def _batches(
    settings: Settings, data: Sequence[Pair], translator: Translator
) -> Callable[[int], Batches]:
    encode = translator.tokenizer.encode
    marks, half = [translator.mark] * len(data), len(data) // 2
    if translator.mark:
        marks[half:] = [translator.turned().mark] * (len(data) - half)
        back = [heard(pair.target, settings.target) for pair in data[:half]]
        if back != [pair.source for pair in data[half:]]:
            raise ValueError("two ways want both of each pair: see `lessons`")
    both = zip(marks, data, strict=True)
    src = [[*mark, *encode(pair.source)] for mark, pair in both]
    tgt = [encode(pair.target) for pair in data]
    lengths = [max(map(len, two)) + 1 for two in zip(src, tgt, strict=True)]
    if max(lengths) > translator.limit:
        raise ValueError(
            f"a sentence of {max(lengths)} tokens, and the model reads "
            f"{translator.limit}: raise max_len, or lower --longest"
        )

    def batches(epoch: int) -> Iterator:
        drawn = settings.seed * 1_000_003 + epoch
        for rows in token_batches(lengths, settings.tokens, drawn):
            yield make_batch([src[i] for i in rows], [tgt[i] for i in rows])

    return batches
