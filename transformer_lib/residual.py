"""Residual connections.

A layer that adds to its input, instead of replacing it, leaves a
straight road for the signal and for the error.

Chapter 11; generated from
notebooks/11_residual.md by `make export`: edit the chapter.
"""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["NoResidual", "Residual"]


class Residual(nn.Module):
    """x + dropout(sublayer(x)): He et al. 2016; :eq:`residual`.

    Dropout acts on the sub-layer's output before the sum, as in Vaswani
    et al. 2017, §5.4. Raises ValueError for an output of another shape.
    """

    def __init__(self, p_drop: float = 0.0):
        super().__init__()
        self.dropout = nn.Dropout(p_drop)

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
        self.dropout = nn.Dropout(p_drop)

    def forward(
        self, x: Tensor, sublayer: Callable[[Tensor], Tensor]
    ) -> Tensor:
        return self.dropout(sublayer(x))
