"""Multi-head attention.

Several small attentions look at the same sentence side by side, and one
matrix mixes what they found.

Chapter 9; generated from
notebooks/09_multi_head_attention.md by `make export`: edit the chapter.
"""

from jaxtyping import Float
from torch import Tensor, nn

from transformer_lib.attention import (
    Attention,
    Mask,
    ScaledDotProductAttention,
    check_mask,
)

__all__ = ["MultiHeadAttention", "head_width", "merge_heads", "split_heads"]


def head_width(width: int, n_heads: int) -> int:
    """width / n_heads; raises ValueError where the heads do not divide."""
    if n_heads < 1 or width % n_heads:
        raise ValueError(
            f"{n_heads} heads cannot share a width of {width} equally: "
            f"choose a number of heads that divides {width}, or give d_k"
        )
    return width // n_heads


def split_heads(
    x: Float[Tensor, "B T D"], n_heads: int
) -> Float[Tensor, "B {n_heads} T D//{n_heads}"]:
    """Cuts each token's vector into n_heads equal pieces; :eq:`split`.

    Head h gets features h·d … (h + 1)·d − 1 of every token. Raises
    ValueError where the heads do not divide the width, or axes are not 3.
    """
    if x.dim() != 3:
        raise ValueError(f"x has shape {tuple(x.shape)}, expected (B, T, H·d)")
    d = head_width(x.size(-1), n_heads)
    return x.unflatten(-1, (n_heads, d)).transpose(1, 2)


def merge_heads(x: Float[Tensor, "B H T d"]) -> Float[Tensor, "B T H*d"]:
    """Lines each token's pieces up again: the inverse of split_heads."""
    return x.transpose(1, 2).flatten(2)


class _Projections(nn.Module):
    """The four matrices; weights start Xavier-uniform, biases at 0."""

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        d_k: int | None = None,
        d_v: int | None = None,
        d_kv: int | None = None,
        bias: bool = False,
        attention: Attention | None = None,
    ):
        super().__init__()
        d_k = head_width(d_model, n_heads) if d_k is None else d_k
        d_v = d_k if d_v is None else d_v
        d_kv = d_model if d_kv is None else d_kv
        self.n_heads = n_heads
        self.w_q = nn.Linear(d_model, n_heads * d_k, bias)
        self.w_k = nn.Linear(d_kv, n_heads * d_k, bias)
        self.w_v = nn.Linear(d_kv, n_heads * d_v, bias)
        self.w_o = nn.Linear(n_heads * d_v, d_model, bias)
        if attention is None:
            attention = ScaledDotProductAttention()
        self.attention = attention
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for w in (self.w_q, self.w_k, self.w_v, self.w_o):
            nn.init.xavier_uniform_(w.weight)
            if w.bias is not None:
                nn.init.zeros_(w.bias)


class MultiHeadAttention(_Projections):
    """W^O mixes what n_heads attentions find; :eq:`mha`.

    Vaswani et al. 2017, §3.2.2; no biases by default. d_k = d_v =
    d_model / n_heads unless given; d_kv is the memory's width where it is
    not d_model. Every head goes through the same ``attention``.
    """

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B S d_kv"],
        mask: Mask = None,
    ) -> Float[Tensor, "B T D"]:
        """True = may attend: x asks, memory answers; (B|1, T|1, S)."""
        return self.attend(x, *self.keys_values(memory), mask)

    def keys_values(
        self, memory: Float[Tensor, "B S d_kv"]
    ) -> tuple[Float[Tensor, "B H S d_k"], Float[Tensor, "B H S d_v"]]:
        """The memory's keys and values, which a decoder may keep."""
        _check_width("memory", memory, self.w_k.in_features)
        k, v = self.w_k(memory), self.w_v(memory)
        return split_heads(k, self.n_heads), split_heads(v, self.n_heads)

    def attend(
        self,
        x: Float[Tensor, "B T D"],
        k: Float[Tensor, "B H S d_k"],
        v: Float[Tensor, "B H S d_v"],
        mask: Mask = None,
    ) -> Float[Tensor, "B T D"]:
        """True = may attend: the rest of forward, from given keys."""
        heads = self.attention(self._queries(x), k, v, _headed(mask, x, k))
        return self.w_o(merge_heads(heads))

    def weights(
        self,
        x: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B S d_kv"],
        mask: Mask = None,
    ) -> Float[Tensor, "B H T S"]:
        """True = may attend: every head's weights, before any dropout."""
        k, _ = self.keys_values(memory)
        return self.attention.weights(self._queries(x), k, _headed(mask, x, k))

    def _queries(self, x: Float[Tensor, "B T D"]):
        _check_width("x", x, self.w_q.in_features)
        return split_heads(self.w_q(x), self.n_heads)


def _headed(mask: Mask, x: Tensor, k: Tensor) -> Mask:
    """The mask with an axis for the heads, all of which it binds."""
    if mask is None:
        return None
    check_mask(mask, (x.size(0), x.size(1), k.size(2)))
    return mask.unsqueeze(1)


def _check_width(name: str, x: Tensor, width: int) -> None:
    if x.dim() != 3 or x.size(-1) != width:
        raise ValueError(
            f"{name} has shape {tuple(x.shape)}, expected (batch, tokens, "
            f"{width}): build the attention with the width of its inputs"
        )
