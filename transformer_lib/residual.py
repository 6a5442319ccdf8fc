"""Residual connections.

A layer that adds to its input, instead of replacing it, leaves a
straight road for the signal and for the error.

Chapter 11; generated from
notebooks/11_residual.md by `make export`: edit the chapter.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["Dropout", "NoResidual", "Residual"]


class Dropout(nn.Dropout):
    """Each entry is 0 with probability p, else divided by 1 − p.

    :eq:`dropout-mean`; in evaluation nothing. On a CPU 16 random bits
    decide on an entry. 1 / (1 − p) is what x's dtype holds nearest to it,
    and p is made to fit it, so that the mean is kept.
    """

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        if not (self.training and 0 < self.p < 1 and x.device.type == "cpu"):
            return super().forward(x)
        scale = torch.tensor(1 / (1 - self.p), dtype=x.dtype).item()
        numbers = torch.empty(x.numel() // 4 + 1, dtype=torch.int64)
        numbers.random_(-(2**63), None)  # from a number on: all 64 bits
        bits = numbers.view(torch.int16)[: x.numel()].view(x.shape)
        kept = bits >= round(2**16 * (1 - 1 / scale)) - 2**15
        return x * kept.to(x.dtype).mul_(scale)


class Residual(nn.Module):
    """x + dropout(sublayer(x)): He et al. 2016; :eq:`residual`.

    Dropout acts on the sub-layer's output before the sum, as in Vaswani
    et al. 2017, §5.4. Raises ValueError for an output of another shape.
    """

    def __init__(self, p_drop: float = 0.0):
        super().__init__()
        self.dropout = Dropout(p_drop)

    def forward(
        self,
        x: Float[Tensor, "*shape"],
        sublayer: Callable[[Tensor], Tensor],
    ) -> Float[Tensor, "*shape"]:
        change = sublayer(x)
        if change.shape != x.shape:
            raise ValueError(
                f"x has shape {tuple(x.shape)}, but its sub-layer returned "
                f"{tuple(change.shape)}: a residual sum needs the same shape"
            )
        return x + self.dropout(change)


class NoResidual(nn.Module):
    """dropout(sublayer(x)) in place of the sum: the ablation."""

    def __init__(self, p_drop: float = 0.0):
        super().__init__()
        self.dropout = Dropout(p_drop)

    def forward(
        self, x: Tensor, sublayer: Callable[[Tensor], Tensor]
    ) -> Tensor:
        return self.dropout(sublayer(x))
