"""Tokenization.

Text becomes numbers by merging frequent neighbours, from bytes up, and
comes back exactly; sentences of like length share a batch.

Chapter 3; generated from
notebooks/03_tokenization.md by `make export`: edit the chapter.
"""

import itertools
import json
import operator
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor

from transformer_lib.seq2seq import BOS, EOS, PAD

__all__ = ["Tokenizer", "collate", "make_batch", "token_batches"]


_MARKS = {PAD: "<pad>", BOS: "<bos>", EOS: "<eos>"}  # shown, never read
_Sentences = Sequence[Sequence[int]]
_Device = torch.device | str | None


def _id(i) -> int:
    try:
        return operator.index(i)
    except TypeError:
        raise TypeError(f"{i!r} is no id: ids are whole numbers") from None


class Tokenizer:
    """Text to ids and back, by byte-level BPE; every text comes back as is.

    No text has ids 0, 1, 2: PAD, BOS, EOS. `vocab_size` counts them, too.
    """

    def __init__(self, bpe):
        self.bpe = bpe  # of the library `tokenizers`: our ids less 3
        self.vocab_size = len(_MARKS) + bpe.get_vocab_size()

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int) -> "Tokenizer":
        """Merges until there are vocab_size ids or no pair occurs twice."""
        return cls(_train(texts, vocab_size))

    def encode(self, text: str) -> list[int]:
        """Ids of the text's pieces. Refuses half a surrogate pair."""
        text.encode("utf-8")  # its own error says which character
        return [i + len(_MARKS) for i in self.bpe.encode(text).ids]

    def decode(self, ids: Iterable, skip_special: bool = True) -> str:
        """The text of ids; bytes that make no character become U+FFFD."""
        ids = [_id(i) for i in ids]
        ids = [i for i in ids if not (skip_special and i in _MARKS)]
        if ids and not 0 <= min(ids) <= max(ids) < self.vocab_size:
            raise ValueError(
                f"ids {min(ids)} … {max(ids)}, but the vocabulary has 0 … "
                f"{self.vocab_size - 1}: encoded with another tokenizer?"
            )
        return "".join(
            self.bpe.decode([i - len(_MARKS) for i in run])
            if mark is None
            else mark * len(list(run))
            for mark, run in itertools.groupby(ids, _MARKS.get)
        )

    def save(self, path: str | Path) -> None:
        self.bpe.save(str(path))

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Raises ValueError for a file that save did not write."""
        return cls(_load(Path(path)))


def _train(texts: Iterable[str], vocab_size: int):
    from tokenizers import Tokenizer, decoders, models, trainers
    from tokenizers.pre_tokenizers import ByteLevel

    size = vocab_size - len(_MARKS)
    if size < 256:
        raise ValueError(f"vocab_size {vocab_size}: marks and bytes are 259")
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size, min_frequency=2, initial_alphabet=ByteLevel.alphabet()
    )
    trainer.show_progress = False
    texts = [texts] if isinstance(texts, str) else texts
    bpe.train_from_iterator(texts, trainer)
    return bpe


def _load(path: Path):
    plain, content = _train([], len(_MARKS) + 256), path.read_bytes()
    try:
        bpe = type(plain).from_buffer(content)
    except Exception as error:  # the library raises nothing narrower
        raise ValueError(f"{path} holds no tokenizer: {error}") from None
    theirs, vocab = _settings(bpe), bpe.get_vocab()
    odd = [k for k, v in _settings(plain).items() if theirs.get(k) != v]
    if plain.get_vocab().keys() - vocab.keys():
        odd.append("a vocabulary without all bytes")
    if sorted(vocab.values()) != list(range(len(vocab))):
        odd.append(f"ids that are not 0 … {len(vocab) - 1}, each once")
    if odd:
        kind = "a tokenizer of another kind; not as ours"
        raise ValueError(f"{path} holds {kind}: {', '.join(odd)}")
    return bpe


def _settings(bpe) -> dict:
    """All that save writes but the vocabulary and its merges."""
    saved = json.loads(bpe.to_str())
    model = {f"model.{k}": v for k, v in saved.pop("model").items()}
    return saved | model | {"model.vocab": None, "model.merges": None}


def collate(
    sentences: _Sentences, pad: int = PAD, device: _Device = None
) -> Int[Tensor, "B L"]:
    """The sentences as rows, padded on the right to the longest."""
    longest = max(map(len, sentences), default=0)
    rows = [[*map(_id, s), *[pad] * (longest - len(s))] for s in sentences]
    return torch.tensor(rows, device=device).long().view(len(rows), longest)


def make_batch(
    sources: _Sentences, targets: _Sentences, device: _Device = None
) -> tuple[Int[Tensor, "B S"], Int[Tensor, "B n"]]:
    """src, each row ending in EOS, and tgt, from BOS to EOS; padded."""
    if len(sources) != len(targets):
        raise ValueError(f"{len(sources)} sources, {len(targets)} targets")
    if any(i in _MARKS for ids in (*sources, *targets) for i in ids):
        raise ValueError("ids 0, 1, 2 are marks, which make_batch adds itself")
    src = [[*ids, EOS] for ids in sources]
    tgt = [[BOS, *ids, EOS] for ids in targets]
    return collate(src, PAD, device), collate(tgt, PAD, device)


def token_batches(
    lengths: Sequence[int], max_tokens: int, seed: int
) -> list[list[int]]:
    """Each index once, in batches of like lengths, in an order by seed.

    :eq:`budget`: rows times the longest row never exceed max_tokens. A
    sentence that alone does is a ValueError. Lengths include the marks.
    """
    for i, length in enumerate(lengths):
        if not 0 <= length <= max_tokens:
            raise ValueError(
                f"sentence {i} has {length} tokens, but a batch has room for "
                f"{max_tokens}: raise max_tokens, or leave the sentence out"
            )
    rng, order = random.Random(seed), list(range(len(lengths)))
    rng.shuffle(order)
    order.sort(key=lengths.__getitem__)  # equal lengths stay shuffled
    batches = [[]] if order else []
    for i in order:
        if (len(batches[-1]) + 1) * lengths[i] > max_tokens:
            batches.append([])
        batches[-1].append(i)
    rng.shuffle(batches)
    return batches
