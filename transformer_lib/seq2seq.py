"""The black box.

A translator is a conditional distribution over sentences, and three
methods are all that training and decoding ever ask of it.

Chapter 1; generated from
notebooks/01_seq2seq.md by `make export`: edit the chapter.
"""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

__all__ = ["BOS", "EOS", "PAD", "Seq2Seq", "State", "log_prob", "shift"]


PAD, BOS, EOS = 0, 1, 2


@runtime_checkable
class State(Protocol):
    """What a model remembers between steps, one row a sentence."""

    def select(self, rows: Int[Tensor, " R"]) -> "State":
        """The state of these rows, in this order, repeated or dropped.

        What a later step writes to either state the other never sees.
        """
        ...


@runtime_checkable
class Seq2Seq(Protocol):
    """P(y | x), one token at a time: :eq:`factorisation`.

    All three must agree: the t-th of the logits of a call is what the
    t-th step returns after the same tokens.
    """

    def __call__(
        self, src: Int[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Logits of the token after each prefix of tgt_in (BOS first)."""
        ...

    def start(self, src: Int[Tensor, "B S"]) -> State:
        """Reads the source, once."""
        ...

    def step(
        self, token: Int[Tensor, " B"], state: State
    ) -> tuple[Float[Tensor, "B V"], State]:
        """Appends a token (BOS first); logits of the one after it."""
        ...


def shift(
    tgt: Int[Tensor, "B n"],
) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]:
    """What the decoder reads, and what it is asked for: T = n − 1 each.

    Raises ValueError unless tgt has two axes and at least BOS in a row.
    """
    if tgt.dim() != 2 or tgt.size(1) < 1:
        raise ValueError(
            f"targets of shape {tuple(tgt.shape)}, expected (B, T + 1): "
            "BOS first, then the sentence with its EOS, then padding"
        )
    return tgt[:, :-1], tgt[:, 1:]


def log_prob(
    model: Seq2Seq,
    src: Int[Tensor, "B S"],
    tgt: Int[Tensor, "B n"],
    pad: int = PAD,
) -> Float[Tensor, " B"]:
    """log P(y | x) of each target, natural logarithm, in one forced pass.

    :eq:`log-factorisation`, summed over the labels other than pad; half
    precision in float32. Raises ValueError for a label outside the
    model's vocabulary.
    """
    tgt_in, labels = shift(tgt)
    logits = model(src, tgt_in)
    V = logits.size(-1)
    outside = (labels < 0) | (labels >= V)
    if not outside.is_meta and outside.any():
        row, column = outside.nonzero()[0].tolist()
        raise ValueError(
            f"label {int(labels[row, column])} at row {row}, column "
            f"{column} is outside the vocabulary of {V} (ids 0 … {V - 1}); "
            "was the text encoded with another tokenizer?"
        )
    wide = torch.promote_types(logits.dtype, torch.float32)
    logp = logits.log_softmax(dim=-1, dtype=wide)
    each = logp.gather(-1, labels[..., None])[..., 0]
    return each.masked_fill(labels == pad, 0.0).sum(dim=1)
