"""Attention maps.

Attention weights can be drawn; what such a picture shows, and what only
an intervention can prove.

Chapter 20; generated from
notebooks/20_attention_maps.md by `make export`: edit the chapter.
"""

import contextlib
import math
from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from transformer_lib.attention import Attention, Mask

__all__ = ["draw", "record"]


class _Recorder(Attention):
    """An attention that is what ``plain`` is, and keeps its weights."""

    def __init__(self, plain: Attention, name: str, maps: dict[str, Tensor]):
        super().__init__()
        self.plain, self.name, self.maps = plain, name, maps
        self.own = getattr(plain, "own", plain)  # if recorded twice at once

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return self.plain.scores(q, k)

    def weights(self, q: Tensor, k: Tensor, mask: Mask = None) -> Tensor:
        """True = may attend: the weights, of which a copy is kept."""
        return self.keep(self.plain.weights(q, k, mask))

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask = None
    ) -> Tensor:
        """True = may attend: the output of ``plain``, bit for bit."""
        with torch.no_grad():
            self.keep(self.own.weights(q, k, mask))
        return self.plain(q, k, v, mask)

    def keep(self, weights: Tensor) -> Tensor:
        new = weights.detach()
        new = new.unsqueeze(1) if new.dim() == 3 else new  # one head
        old = self.maps.get(self.name, new[..., :0, :])
        self.maps[self.name] = _joined(old, new)
        return weights


def _joined(
    old: Float[Tensor, "_ _ _ _"], new: Float[Tensor, "_ _ _ _"]
) -> Float[Tensor, "_ _ _ _"]:
    """The queries of new below those of old, whose keys may be fewer."""
    if old.shape[:2] != new.shape[:2]:
        raise ValueError(
            f"maps of {tuple(old.shape)[:2]}, then {tuple(new.shape)[:2]} "
            "sentences and heads: record model(src, tgt_in), one forced pass"
        )
    S = max(old.size(-1), new.size(-1))
    wide = [F.pad(rows, (0, S - rows.size(-1))) for rows in (old, new)]
    return torch.cat(wide, dim=-2)


@contextlib.contextmanager
def record(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Maps (B, H, T, S) by the name of the module that attends.

    Filled while the model runs, in the order of first use; calls one
    after another add queries. Raises ValueError for a model without any
    Attention, and when the number of sentences changes on the way.
    """
    places = [
        (f"{name}.{key}".removesuffix(".attention"), owner, key, part)
        for name, owner in model.named_modules()
        for key, part in owner.named_children()
        if isinstance(part, Attention) and not isinstance(owner, Attention)
    ]
    if not places:
        raise ValueError(f"there is no Attention in {type(model).__name__}")
    maps: dict[str, Tensor] = {}
    try:
        for name, owner, key, part in places:
            setattr(owner, key, _Recorder(part, name or key, maps))
        yield maps
    finally:
        for _, owner, key, part in places:
            setattr(owner, key, part)


def draw(
    weights: Float[Tensor, "*H T S"],
    rows: Sequence[str],
    columns: Sequence[str],
    across: int = 4,
):
    """A matplotlib Figure of a map, or of several heads' maps in a grid.

    Rows are queries, the first on top; columns are keys. It is not shown:
    close it when it is not needed any more. Raises ValueError unless the
    labels fit the weights of one sentence.
    """
    import matplotlib.pyplot as plt

    if weights.dim() not in (2, 3):
        raise ValueError(
            f"weights of shape {tuple(weights.shape)}, expected (T, S) or "
            "(heads, T, S): choose one sentence, weights[0]"
        )
    heads = weights.detach().reshape(-1, *weights.shape[-2:]).float().cpu()
    H, T, S = heads.shape
    for name, labels, n in [("rows", rows, T), ("columns", columns, S)]:
        if len(labels) != n:
            raise ValueError(f"{len(labels)} labels for {n} {name}")
    across = min(across, H)
    down = math.ceil(H / across)
    size = min(across * (0.3 * S + 0.4) + 1.4, 7.5)
    tall = (size - 1.4) / across * T / S * down + 0.3 * down + 1
    fig, axes = plt.subplots(
        down, across, squeeze=False, figsize=(size, tall), layout="constrained"
    )
    for i, ax in enumerate(axes.flat):
        if i >= H:
            ax.axis("off")
            continue
        image = ax.imshow(heads[i].numpy(), vmin=0, vmax=heads.max().item())
        ax.set_xticks(range(S), columns, rotation=90, parse_math=False)
        ax.set_yticks(range(T), rows, parse_math=False)
        ax.tick_params(labelbottom=i + across >= H, labelleft=i % across == 0)
        ax.set_title(f"head {i}" if H > 1 else "")
        ax.grid(False)
    fig.supxlabel("keys")
    fig.supylabel("queries")
    fig.colorbar(image, ax=axes, label="weight")
    return fig
