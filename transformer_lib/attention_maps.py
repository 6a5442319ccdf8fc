"""Attention maps.

Attention weights can be drawn; what such a picture shows, and what only
an intervention can prove.

Chapter 20; generated from
notebooks/20_attention_maps.md by `make export`: edit the chapter.
"""

import contextlib
import copy
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
        mode, own = plain.training, getattr(plain, "own", plain)
        vars(self).update(plain=plain, own=own)  # not as parts: same keys
        super().__init__()
        self.name, self.maps, self.training = name, maps, mode
        for held in ("_parameters", "_buffers", "_modules"):
            vars(self)[held] = vars(plain)[held]
        self._non_persistent_buffers_set = plain._non_persistent_buffers_set

    @property
    def training(self) -> bool:
        return self.plain.training

    @training.setter
    def training(self, mode: bool) -> None:
        self.plain.training = mode

    def __deepcopy__(self, memo: dict) -> Attention:
        return copy.deepcopy(self.plain, memo)  # nobody records a copy

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


def _without(part: nn.Module, mine: _Recorder) -> nn.Module:
    """Recorders inside each other, with one of them taken out."""
    if part is mine:
        return mine.plain
    if isinstance(part, _Recorder):
        vars(part)["plain"] = _without(part.plain, mine)
    return part


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
    ours = [
        (owner, key, _Recorder(part, name or key, maps))
        for name, owner, key, part in places
    ]
    try:
        for owner, key, mine in ours:
            setattr(owner, key, mine)
        yield maps
    finally:
        for owner, key, mine in ours:
            setattr(owner, key, _without(getattr(owner, key), mine))


def draw(
    weights: Float[Tensor, "*H T S"],
    rows: Sequence[str],
    columns: Sequence[str],
    across: int = 4,
):
    """A matplotlib Figure of a map, or of several heads' maps in a grid.

    Rows are queries, the first on top; columns are keys. It is not shown:
    close it when it is not needed any more. Raises ValueError unless the
    labels fit the weights of one sentence, and for a map without cells.
    """
    import matplotlib.pyplot as plt

    if weights.dim() not in (2, 3):
        raise ValueError(
            f"weights of shape {tuple(weights.shape)}, expected (T, S) or "
            "(heads, T, S): choose one sentence, weights[0]"
        )
    heads = weights.detach().float().cpu()
    heads = heads if heads.dim() == 3 else heads[None]
    H, T, S = heads.shape
    if min(H, T, S, across) < 1:
        raise ValueError(
            f"{H} heads, {T} queries, {S} keys, {across=}: a picture needs "
            "one of each or more"
        )
    for name, labels, n in [("rows", rows, T), ("columns", columns, S)]:
        if len(labels) != n:
            raise ValueError(f"{len(labels)} labels for {n} {name}")
    rows, columns = (
        [
            str(label).encode("utf-8", "backslashreplace").decode()
            for label in n
        ]
        for n in (rows, columns)
    )  # a lone surrogate can be neither drawn nor saved
    across = min(across, H)
    down = math.ceil(H / across)
    size = min(across * (0.3 * S + 0.4) + 1.4, 7.5)
    tall = min((size - 1.4) / across * T / S * down, 20) + 0.3 * down + 1
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
