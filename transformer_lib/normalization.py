"""Normalization.

Layer norm brings each token to one scale; where it stands beside the
residual sum decides how the gradient flows.

Chapter 12; generated from
notebooks/12_normalization.md by `make export`: edit the chapter.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

__all__ = ["BatchNorm", "LayerNorm", "PostNorm", "PreNorm"]


def _check_width(x: Tensor, d_model: int) -> None:
    if x.size(-1) != d_model:
        raise ValueError(
            f"x has width {x.size(-1)}, but this norm was built with "
            f"d_model={d_model}"
        )


def _check_real(real: Tensor, x: Tensor) -> None:
    if real.dtype != torch.bool or real.shape != x.shape[:2]:
        raise ValueError(
            f"real is {real.dtype} of shape {tuple(real.shape)}, expected "
            f"torch.bool of shape {tuple(x.shape[:2])}: True = a token"
        )


class LayerNorm(nn.Module):
    """Each token to mean 0 and variance 1, then γ and β; :eq:`layer-norm`.

    Ba et al. 2016: biased variance, eps inside the root, computed by
    PyTorch's fused kernel. γ is ``weight`` and β ``bias``, as in
    nn.LayerNorm: state dicts go both ways.
    """

    def __init__(self, d_model: int, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        _check_width(x, len(self.weight))
        shape = self.weight.shape
        return F.layer_norm(x, shape, self.weight, self.bias, self.eps)


class BatchNorm(nn.Module):
    """Each feature to mean 0 and variance 1 over tokens; :eq:`batch-norm`.

    Ioffe and Szegedy 2015. In training the statistics are those of the
    batch's real tokens; in evaluation, running means of those. True in
    ``real`` marks a token, False padding, which counts for nothing and
    comes out as 0. Raises ValueError for fewer than 2 tokens in training.
    """

    def __init__(self, d_model: int, eps: float = 1e-5, momentum: float = 0.1):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        real: Bool[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        _check_width(x, len(self.weight))
        if real is None:
            return self._tokens(x.flatten(0, 1)).view_as(x)
        _check_real(real, x)
        out = torch.zeros_like(x)
        out[real] = self._tokens(x[real])
        return out

    def _tokens(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        if self.training and len(x) < 2:
            raise ValueError(
                f"{len(x)} real tokens in a training batch: the variance "
                "that BatchNorm divides by needs at least 2"
            )
        return F.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias,
            self.training, self.momentum, self.eps,
        )  # fmt: skip


class PostNorm(nn.Module):
    """norm(x + dropout(sublayer(x))), the paper's; :eq:`post-norm`."""

    def __init__(self, norm: nn.Module, residual: nn.Module):
        super().__init__()
        self.norm = norm
        self.residual = residual

    def forward(
        self, x: Tensor, sublayer: Callable[[Tensor], Tensor]
    ) -> Tensor:
        return self.norm(self.residual(x, sublayer))


class PreNorm(nn.Module):
    """x + dropout(sublayer(norm(x))): Xiong et al. 2020; :eq:`pre-norm`."""

    def __init__(self, norm: nn.Module, residual: nn.Module):
        super().__init__()
        self.norm = norm
        self.residual = residual

    def forward(
        self, x: Tensor, sublayer: Callable[[Tensor], Tensor]
    ) -> Tensor:
        return self.residual(x, lambda y: sublayer(self.norm(y)))
