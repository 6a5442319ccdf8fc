"""Positional encoding.

Attention sees a bag of words; a vector added to each embedding tells it
where every word stands.

Chapter 6; generated from
notebooks/06_positional_encoding.md by `make export`: edit the chapter.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

__all__ = [
    "LearnedPositionalEncoding",
    "NoPosition",
    "SinusoidalPositionalEncoding",
    "frequencies",
    "sinusoids",
]


def frequencies(d_model: int) -> Float[Tensor, " pairs"]:
    """10000^(-2i/d), radians per position, in float64 on the CPU.

    See :eq:`pe`. Raises ValueError unless d_model is 2, 4, 6, ….
    """
    if d_model < 2 or d_model % 2:
        rule = "even" if d_model % 2 else "at least 2"
        raise ValueError(
            f"d_model must be {rule}, got {d_model}: every frequency takes "
            f"a sine and a cosine, so use 2, 4, 6, …"
        )
    even = torch.arange(0, d_model, 2, dtype=torch.float64, device="cpu")
    return 10000.0 ** (-even / d_model)


def sinusoids(
    n: int,
    d_model: int,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Float[Tensor, "n d_model"]:
    """The codes of positions 0 … n − 1, a position a row.

    Vaswani et al. 2017, §3.5; :eq:`pe`. Computed in float64 and cast last;
    dtype and device default to torch's. Raises ValueError for an odd
    d_model and a negative n, TypeError for a dtype of integers.
    """
    if n < 0:
        raise ValueError(f"n must be at least 0 positions, got {n}")
    dtype = torch.get_default_dtype() if dtype is None else dtype
    if not dtype.is_floating_point:
        raise TypeError(f"dtype must be a floating-point type, got {dtype}")
    pos = torch.arange(n, dtype=torch.float64, device="cpu")
    angles = pos[:, None] * frequencies(d_model)
    table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
    # The dtype first: not every accelerator has float64.
    table = table.to(dtype)
    return table.to(torch.get_default_device() if device is None else device)


def _rows(
    table: Float[Tensor, "N D"], x: Float[Tensor, "B T D"], start: int
) -> Float[Tensor, "T D"]:
    """The rows of `table` for T tokens that follow `start` others."""
    max_len, d_model = table.shape
    if not x.is_floating_point():
        raise TypeError(f"x is {x.dtype}: pass embeddings, not token ids")
    if x.dim() != 3 or x.size(2) != d_model:
        hint = "build the encoding with the d_model of the embeddings"
        if x.dim() == 2:
            hint = "add the batch axis, as in x[None]"
        elif x.dim() != 3:
            hint = "x takes three axes, batch, tokens and features"
        raise ValueError(
            f"x has shape {tuple(x.shape)}, expected (B, T, {d_model}): {hint}"
        )
    _check_start(start)
    end = start + x.size(1)
    if end > max_len:
        raise ValueError(
            f"a sequence of {end} positions, but max_len is {max_len}: "
            f"build the encoding with max_len={end} or more"
        )
    return table[start:end]


def _check_start(start: int) -> None:
    if not hasattr(start, "__index__"):
        raise TypeError(f"start must be a whole number, got {start!r}")
    if start < 0:
        raise ValueError(
            f"start must be at least 0, got {start}: it is the number of "
            f"positions already read"
        )


class SinusoidalPositionalEncoding(nn.Module):
    """Adds sin and cos of pos / 10000^(2i/d) to embeddings.

    Vaswani et al. 2017, §3.5; derived in :eq:`pe`. `start` is the number
    of positions already read. The result has the dtype of x. Raises
    ValueError for an odd d_model, a sequence longer than max_len, a
    negative start and a width other than d_model; TypeError for token ids
    and a start that is no whole number.
    """

    def __init__(self, d_model: int, max_len: int = 4096):
        super().__init__()
        wide = torch.promote_types(torch.get_default_dtype(), torch.float32)
        table = sinusoids(max_len, d_model, dtype=wide)
        self.register_buffer("table", table, persistent=False)

    def forward(
        self, x: Float[Tensor, "B T D"], start: int = 0
    ) -> Float[Tensor, "B T D"]:
        return (x + _rows(self.table, x, start)).to(x.dtype)

    def _apply(self, fn, recurse=True):
        # half(), to() and to_empty() pass here: rebuild the table exactly.
        super()._apply(fn, recurse)
        old = self.table
        wide = torch.promote_types(old.dtype, torch.float32)
        self.table = sinusoids(*old.shape, dtype=wide, device=old.device)
        return self


class LearnedPositionalEncoding(nn.Module):
    """Adds a learned vector per position to embeddings.

    Gehring et al. 2017; gradient in :eq:`learned-gradient`. Starts with
    entries of variance ½, the size of :eq:`pe-norm`. `start` is the number
    of positions already read. The result has the dtype of x. Raises
    ValueError for a negative size, a sequence longer than max_len, a
    negative start and a width other than d_model; TypeError for token ids
    and a start that is no whole number.
    """

    def __init__(self, d_model: int, max_len: int):
        super().__init__()
        if d_model < 1 or max_len < 0:
            raise ValueError(
                f"a table of max_len {max_len} rows and d_model {d_model} "
                f"columns: use max_len ≥ 0 and d_model ≥ 1"
            )
        self.table = nn.Parameter(torch.empty(max_len, d_model))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.table, std=0.5**0.5)

    def forward(
        self, x: Float[Tensor, "B T D"], start: int = 0
    ) -> Float[Tensor, "B T D"]:
        return (x + _rows(self.table, x, start)).to(x.dtype)


class NoPosition(nn.Module):
    """Returns x as it is: the ablation.

    Raises ValueError for start < 0, TypeError if it is no whole number.
    """

    def forward(
        self, x: Float[Tensor, "B T D"], start: int = 0
    ) -> Float[Tensor, "B T D"]:
        _check_start(start)
        return x
