"""The encoder.

Two sub-layers make a layer, six layers make a stack, and the whole
equals PyTorch's to twelve digits.

Chapter 13; generated from
notebooks/13_encoder.md by `make export`: edit the chapter.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from jaxtyping import Float
from torch import Tensor, nn

from transformer_lib.attention import Mask
from transformer_lib.multi_head_attention import head_width
from transformer_lib.seq2seq import PAD

__all__ = ["Encoder", "EncoderLayer", "Stack", "TransformerConfig"]


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network; :eq:`encoder-layer`.

    Vaswani et al. 2017, §3.1. Each ``around`` is called as around(x,
    sublayer): PostNorm makes the paper's layer, PreNorm the variant of
    :eq:`encoder-layer-pre`.
    """

    def __init__(
        self,
        self_attention: nn.Module,
        feed_forward: nn.Module,
        around_attention: nn.Module,
        around_feed_forward: nn.Module,
    ):
        super().__init__()
        self.self_attention = self_attention
        self.feed_forward = feed_forward
        self.around_attention = around_attention
        self.around_feed_forward = around_feed_forward

    def forward(
        self, x: Float[Tensor, "B S D"], mask: Mask = None
    ) -> Float[Tensor, "B S D"]:
        """True = may attend: which tokens each one reads, (B|1, S|1, S)."""
        attention = self.self_attention
        x = self.around_attention(x, lambda y: attention(y, y, mask))
        return self.around_feed_forward(x, self.feed_forward)


class Stack(nn.Module):
    """Layers one after the other, and a final norm where one is given.

    A post-LN stack needs none, and the paper's has none; a pre-LN stack
    needs one. Raises ValueError if two layers are one object or share a
    parameter.
    """

    def __init__(
        self,
        layers: Iterable[nn.Module],
        final_norm: nn.Module | None = None,
    ):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.final_norm = nn.Identity() if final_norm is None else final_norm
        _check_distinct(self.layers)

    def forward(
        self, x: Float[Tensor, "B n D"], *reads: Mask | Tensor
    ) -> Float[Tensor, "B n D"]:
        """x through every layer; each is given ``reads`` as well."""
        for layer in self.layers:
            x = layer(x, *reads)
        return self.final_norm(x)


def _check_distinct(layers: nn.ModuleList) -> None:
    places: dict[int, str] = {}
    whole = ((str(i), layer) for i, layer in enumerate(layers))
    parameters = layers.named_parameters(remove_duplicate=False)
    for name, part in [*whole, *parameters]:
        first = places.setdefault(id(part), name)
        if first != name:
            raise ValueError(
                f"layers.{first} and layers.{name} are one object, which "
                "would start equal and stay equal: build every layer anew"
            )


class Encoder(Stack):
    """encoder(x, mask) calls each layer so; True = may attend."""


@dataclass(frozen=True)
class TransformerConfig:
    """The sizes of a Transformer; by default those of the paper's base.

    Raises ValueError for a value that no model can have, and TypeError
    for a name that is unknown or missing.
    """

    vocab_size: int
    d_model: int = 512
    d_ff: int = 2048
    n_heads: int = 8
    n_encoder_layers: int = 6
    n_decoder_layers: int = 6
    p_drop: float = 0.1
    max_len: int = 4096
    pad: int = PAD

    def __post_init__(self):
        for name, value in asdict(self).items():
            least = 0 if name == "pad" else 1
            whole = type(value) is int and value >= least
            if name != "p_drop" and not whole:
                raise ValueError(f"{name}={value!r} is no int from {least} on")
        if not 0 <= self.p_drop < 1 or self.pad >= self.vocab_size:
            raise ValueError(
                f"p_drop={self.p_drop} must lie in [0, 1), and pad={self.pad} "
                f"in the vocabulary of {self.vocab_size}"
            )
        head_width(self.d_model, self.n_heads)

    @classmethod
    def base(cls, vocab_size: int, **changes) -> "TransformerConfig":
        return cls(vocab_size, **changes)

    @classmethod
    def big(cls, vocab_size: int, **changes) -> "TransformerConfig":
        big = {"d_model": 1024, "d_ff": 4096, "n_heads": 16, "p_drop": 0.3}
        return cls(vocab_size, **big | changes)

    @classmethod
    def tiny(cls, vocab_size: int, **changes) -> "TransformerConfig":
        """For tests and pages: trains while one waits, without dropout."""
        tiny = {"d_model": 32, "d_ff": 64, "n_heads": 4, "p_drop": 0.0}
        layers = {"n_encoder_layers": 2, "n_decoder_layers": 2}
        return cls(vocab_size, **tiny | layers | changes)

    def to_dict(self) -> dict[str, int | float]:
        """For JSON; ``from_dict`` is the inverse."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict) -> "TransformerConfig":
        return cls(**values)
