"""Embedding.

A word becomes a row of a matrix: what that row means, how it learns,
and why the same matrix also gives the output.

Chapter 4; generated from
notebooks/04_embedding.md by `make export`: edit the chapter.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

__all__ = ["TokenEmbedding", "check_ids"]


class TokenEmbedding(nn.Module):
    """√d_model times rows of one matrix, which also gives the logits.

    Vaswani et al. 2017, §3.4; :eq:`scaled-lookup`, :eq:`tied-logits`. One
    module used at both ends is the tie: one Parameter. It starts normal
    with variance 1 / d_model, for logits of variance 1. Raises as
    ``check_ids`` does, and ValueError for a wrong width.
    """

    def __init__(self, vocab_size: int, d_model: int):
        super().__init__()
        if vocab_size < 1 or d_model < 1:
            raise ValueError(
                f"vocab_size {vocab_size} and d_model {d_model} must both "
                "be at least 1"
            )
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=self.weight.size(1) ** -0.5)

    def forward(self, ids: Int[Tensor, "*B"]) -> Float[Tensor, "*B D"]:
        """Each token's vector: its row times √d_model."""
        vocab_size, d_model = self.weight.shape
        check_ids(ids, vocab_size)
        return F.embedding(ids, self.weight) * math.sqrt(d_model)

    def logits(self, h: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        """Each word's score, h · its row: the output layer, no factor."""
        vocab_size, d_model = self.weight.shape
        if h.size(-1) != d_model:
            raise ValueError(
                f"h has width {h.size(-1)}, but the rows of the {vocab_size} "
                f"words have width {d_model}: project it first"
            )
        return F.linear(h, self.weight)


def check_ids(ids: Tensor, vocab_size: int, name: str = "token id") -> None:
    """Refuses what is not an id of the vocabulary: 0 … vocab_size − 1.

    Raises TypeError unless ids are int64 or int32, and ValueError that
    names the first id outside and its place. Meta tensors and traced
    ones have no values to look at.
    """
    if ids.dtype not in (torch.int64, torch.int32):
        raise TypeError(
            f"a {name} of {ids.dtype}: ids are torch.int64 or torch.int32; "
            "convert them with .long() if they are whole numbers"
        )
    if ids.is_meta or torch.compiler.is_compiling():
        return
    outside = (ids < 0) | (ids >= vocab_size)
    if outside.any():
        place = tuple(outside.nonzero()[0].tolist())
        raise ValueError(
            f"{name} {int(ids[place])} at {_named(place)} is outside the "
            f"vocabulary of {vocab_size} (ids 0 … {vocab_size - 1}); was the "
            "text encoded with another tokenizer?"
        )


def _named(place: tuple[int, ...]) -> str:
    if len(place) == 2:
        return f"row {place[0]}, column {place[1]}"
    return f"index {', '.join(map(str, place)) or 0}"
