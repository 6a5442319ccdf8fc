"""Attention.

Every token asks all tokens and takes the weighted mean of their
answers: as a loop, as one matrix formula, behind a mask.

Chapter 7; generated from
notebooks/07_attention.md by `make export`: edit the chapter.
"""

import functools
import math
from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

__all__ = [
    "AdditiveAttention",
    "Attention",
    "BilinearAttention",
    "Keys",
    "Mask",
    "Means",
    "Pairs",
    "Queries",
    "ScaledDotProductAttention",
    "Values",
    "causal_mask",
    "check_mask",
    "check_qkv",
    "check_width",
    "combine_masks",
    "masked_softmax",
    "padding_mask",
]


Queries = Float[Tensor, "*B T d_q"]
Keys = Float[Tensor, "*B S d_k"]
Values = Float[Tensor, "*B S d_v"]
Pairs = Float[Tensor, "*B T S"]  # scores or weights, one a pair
Means = Float[Tensor, "*B T d_v"]
Mask = Bool[Tensor, "..."] | None  # True = may attend, None = to all


def masked_softmax(
    scores: Float[Tensor, "... S"], mask: Mask = None
) -> Float[Tensor, "... S"]:
    """True = may attend: the softmax of each row over its allowed keys.

    :eq:`masked-softmax`. A row with no True gives zeros, in values and
    gradients. Raises as ``check_mask`` does.
    """
    if mask is None:
        return scores.softmax(dim=-1)
    check_mask(mask, scores.shape)
    empty = ~mask.any(dim=-1, keepdim=True)
    scores = scores.masked_fill(~mask, -math.inf)
    scores = scores.masked_fill(empty, 0.0)  # −∞ alone would give NaN
    return scores.softmax(dim=-1).masked_fill(empty, 0.0)


def _mask_shape(mask: Tensor) -> tuple[int, ...]:
    """True = may attend: its shape; TypeError if it is no boolean tensor."""
    kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
    if kind != torch.bool:
        raise TypeError(
            f"a mask of {kind}, but True = may attend asks for a tensor of "
            "torch.bool: mask.bool() if 1 means keep, mask == 0 if 0 does"
        )
    return tuple(mask.shape)


def _fits(given: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    if len(given) != len(wanted) or given[-1:] != wanted[-1:]:
        return False
    return all(m in (1, s) for m, s in zip(given, wanted, strict=True))


def check_mask(mask: Tensor, shape: tuple[int, ...]) -> None:
    """True = may attend: refuses a mask unfit for scores of this shape.

    Raises TypeError unless it is boolean, and ValueError unless it has the
    scores' axes, each of them equal or 1, the last (the keys) equal.
    """
    given, wanted = _mask_shape(mask), tuple(shape)
    if not _fits(given, wanted):
        raise ValueError(
            f"a mask of shape {given} for scores of shape {wanted}: give it "
            "as many axes and as many keys (the last axis), and every other "
            "axis the same size or 1 (an axis too few: mask.unsqueeze(1) for "
            "heads; keys too few: causal_mask(T, start) for cached keys)"
        )


def padding_mask(ids: Int[Tensor, "B S"], pad: int) -> Bool[Tensor, "B 1 S"]:
    """True = may attend: every key that is not the padding id."""
    if ids.dim() != 2:
        raise ValueError(f"ids of shape {tuple(ids.shape)}, but asks (B, S)")
    return (ids != pad).unsqueeze(-2)


def causal_mask(
    T: int, start: int = 0, device: torch.device | str | None = None
) -> Bool[Tensor, "1 T S"]:
    """True = may attend: the keys at or before each query's position.

    Queries stand at start … start + T − 1 and keys at 0 … start + T − 1,
    so a cache of ``start`` earlier keys is seen in full by every query.
    """
    if T < 0 or start < 0:
        raise ValueError(f"causal_mask({T}, {start}): neither may be negative")
    allowed = torch.ones(1, T, start + T, dtype=torch.bool, device=device)
    return allowed.tril(diagonal=start)


def combine_masks(*masks: Mask) -> Mask:
    """True = may attend: the pairs that every mask allows; None allows all.

    Raises TypeError unless all are boolean, and ValueError if they fit no
    common scores, as ``check_mask`` understands it.
    """
    given = [mask for mask in masks if mask is not None]
    shapes = [_mask_shape(mask) for mask in given]
    axes = zip(*shapes, strict=False)
    wanted = tuple(max(axis, key=lambda n: (n != 1, n)) for axis in axes)
    if not all(_fits(shape, wanted) for shape in shapes):
        raise ValueError(f"these masks fit no common scores: shapes {shapes}")
    return functools.reduce(torch.logical_and, given) if given else None


def check_qkv(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Raises ValueError unless leading axes and k's and v's lengths agree."""
    given = f"q, k, v of shapes {[tuple(x.shape) for x in (q, k, v)]}"
    if min(q.dim(), k.dim(), v.dim()) < 2:
        raise ValueError(f"{given}: each needs two axes or more")
    if not q.shape[:-2] == k.shape[:-2] == v.shape[:-2]:
        raise ValueError(f"{given}: leading axes differ, expand any of 1")
    if k.size(-2) != v.size(-2):
        raise ValueError(
            f"{k.size(-2)} keys and {v.size(-2)} values: every key needs "
            "exactly one value, so project both from the same sequence"
        )


def check_width(name: str, x: Tensor, width: int) -> None:
    """Raises ValueError unless x has this width, naming both."""
    if x.size(-1) != width:
        raise ValueError(
            f"{name} has width {x.size(-1)}, but is compared at width "
            f"{width}: project it, or build the attention for its width"
        )


class Attention(nn.Module, ABC):
    """Weighted means of v: the masked softmax of scores(q, k), times v.

    A subclass defines the scores. In training a weight is dropped with
    probability p_drop, and the others are divided by 1 − p_drop.
    """

    def __init__(self, p_drop: float = 0.0):
        super().__init__()
        if not 0 <= p_drop <= 1:
            raise ValueError(f"p_drop = {p_drop}: a probability, no width")
        self.dropout = nn.Dropout(p_drop)

    @abstractmethod
    def scores(self, q: Queries, k: Keys) -> Pairs:
        """One number for each pair of a query and a key."""

    def weights(self, q: Queries, k: Keys, mask: Mask = None) -> Pairs:
        """True = may attend: each query's weights, before any dropout."""
        check_qkv(q, k, k)
        return masked_softmax(self.scores(q, k), mask)

    def forward(
        self, q: Queries, k: Keys, v: Values, mask: Mask = None
    ) -> Means:
        """True = may attend: each query's weighted mean of the values."""
        check_qkv(q, k, v)
        return self.dropout(self.weights(q, k, mask)) @ v


class ScaledDotProductAttention(Attention):
    """softmax(q kᵀ / √d_k) v: Vaswani et al. 2017, eq. 1; :eq:`attention`.

    Computed by PyTorch's fused kernel but where that is slow, on a CPU in
    training on few keys; ``weights`` is the plain form.
    """

    FEW_KEYS = 64

    def scores(self, q: Queries, k: Keys) -> Pairs:
        check_width("q", q, k.size(-1))
        return q / math.sqrt(k.size(-1)) @ k.mT

    def forward(
        self, q: Queries, k: Keys, v: Values, mask: Mask = None
    ) -> Means:
        """True = may attend: each query's weighted mean of the values."""
        check_qkv(q, k, v)
        few = torch.is_grad_enabled() and k.size(-2) <= self.FEW_KEYS
        if few and q.device.type == "cpu":
            return super().forward(q, k, v, mask)
        check_width("q", q, k.size(-1))
        if mask is not None:
            check_mask(mask, (*q.shape[:-1], k.size(-2)))
        p_drop = self.dropout.p if self.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, mask, p_drop)


class BilinearAttention(Attention):
    """Scores q W kᵀ: Luong et al. 2015, "general"; :eq:`bilinear`.

    W starts normal with deviation 1 / √(d_q d_k), so that q and k of
    variance 1 start with scores of variance 1.
    """

    def __init__(self, d_q: int, d_k: int, *, p_drop: float = 0.0):
        super().__init__(p_drop=p_drop)
        self.w = nn.Parameter(torch.randn(d_q, d_k) / math.sqrt(d_q * d_k))

    def scores(self, q: Queries, k: Keys) -> Pairs:
        check_width("q", q, self.w.size(0))
        check_width("k", k, self.w.size(1))
        return q @ self.w @ k.mT


class AdditiveAttention(Attention):
    """Scores tanh(q W_q + k W_k) w: Bahdanau et al. 2015; :eq:`additive`.

    Parameters start normal, with deviations 1/√(2 d_q), 1/√(2 d_k) and
    1/√d_attn: q and k of variance 1 start with scores of variance below 1.
    """

    def __init__(
        self, d_q: int, d_k: int, d_attn: int, *, p_drop: float = 0.0
    ):
        super().__init__(p_drop=p_drop)
        self.w_q = nn.Parameter(torch.randn(d_q, d_attn) / math.sqrt(2 * d_q))
        self.w_k = nn.Parameter(torch.randn(d_k, d_attn) / math.sqrt(2 * d_k))
        self.w = nn.Parameter(torch.randn(d_attn, 1) / math.sqrt(d_attn))

    def scores(self, q: Queries, k: Keys) -> Pairs:
        check_width("q", q, self.w_q.size(0))
        check_width("k", k, self.w_k.size(0))
        queries = (q @ self.w_q).unsqueeze(-2)  # (*B, T, 1, d_attn)
        keys = (k @ self.w_k).unsqueeze(-3)  # (*B, 1, S, d_attn)
        return (torch.tanh(queries + keys) @ self.w).squeeze(-1)
