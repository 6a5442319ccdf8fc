"""The decoder.

Three sub-layers, a mask that hides the future, and a cache that makes
one more word cost one word.

Chapter 14; generated from
notebooks/14_decoder.md by `make export`: edit the chapter.
"""

import copy
from dataclasses import dataclass, field, replace

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lib.attention import Mask, causal_mask, check_mask
from transformer_lib.encoder import Stack

__all__ = ["Cache", "Decoder", "DecoderLayer", "DecoderState"]


_Tokens = Float[Tensor, "B n D"]
_Memory = Float[Tensor, "B S d_kv"]


@dataclass(eq=False)
class Cache:
    """Keys and values of the tokens so far, in memory that doubles.

    Copies share it. What is written never changes: the first copy to
    append goes on there, any other moves to memory of its own.
    """

    memory: tuple[Tensor, ...] = ()  # (B, H, capacity, d) each
    length: int = 0
    written: list[int] = field(default_factory=lambda: [0])  # in the memory

    def append(self, *new: Float[Tensor, "B H n _"]) -> tuple[Tensor, ...]:
        """All keys and all values, these being the last."""
        start, end = self.length, self.length + new[0].size(2)
        # Autograd forbids to write where it will look back, be it for the
        # queries' sake alone, and inference mode to write after it.
        watched = torch.is_grad_enabled()
        inference = torch.is_inference_mode_enabled()
        frozen = any(m.is_inference() and not inference for m in self.memory)
        taken = watched or self.written[0] > start
        if not self.memory:
            self.memory, self.written = new, [end]
        elif taken or frozen or self.memory[0].size(2) < end:
            kept = (rows[:, :, :start] for rows in self.memory)
            both = (torch.cat(kv, 2) for kv in zip(kept, new, strict=True))
            room = 0 if watched else end
            self.memory = tuple(F.pad(kv, (0, 0, 0, room)) for kv in both)
            self.written = [end]
        else:
            for rows, last in zip(self.memory, new, strict=True):
                rows[:, :, start:end] = last
        self.length = self.written[0] = end
        return tuple(rows[:, :, :end] for rows in self.memory)

    def select(self, rows: Int[Tensor, " R"]) -> "Cache":
        """These sentences, in memory of their own."""
        memory = tuple(m.index_select(0, rows) for m in self.memory)
        return Cache(memory, self.length, [self.length])


class DecoderLayer(nn.Module):
    """Self-attention, cross-attention, feed-forward; :eq:`decoder-layer`.

    Vaswani et al. 2017, §3.1; each ``around`` as in the EncoderLayer.
    """

    def __init__(
        self,
        self_attention: nn.Module,
        cross_attention: nn.Module,
        feed_forward: nn.Module,
        around_self: nn.Module,
        around_cross: nn.Module,
        around_feed_forward: nn.Module,
    ):
        super().__init__()
        self.self_attention = self_attention
        self.cross_attention = cross_attention
        self.feed_forward = feed_forward
        self.around_self = around_self
        self.around_cross = around_cross
        self.around_feed_forward = around_feed_forward

    def forward(
        self, x: _Tokens, memory: _Memory, mask: Mask, memory_mask: Mask = None
    ) -> _Tokens:
        """True = may attend: mask is x's own, memory_mask the memory's."""
        cross = self.cross_attention.keys_values(memory)
        return self.extend(x, Cache(), cross, mask, memory_mask)

    def extend(self, x: _Tokens, cache: Cache, cross, mask, memory_mask):
        """The same behind the tokens in the cache, to which it adds x's."""
        own, other = self.self_attention, self.cross_attention
        x = self.around_self(
            x,
            lambda y: own.attend(y, *cache.append(*own.keys_values(y)), mask),
        )
        x = self.around_cross(
            x, lambda y: other.attend(y, *cross, memory_mask)
        )
        return self.around_feed_forward(x, self.feed_forward)


@dataclass(frozen=True, eq=False)
class DecoderState:
    """What a decoder keeps: of B prefixes, and of what it translates."""

    own: tuple[Cache, ...]  # keys and values of the prefixes, a layer each
    cross: tuple[tuple[Tensor, Tensor], ...]  # of the memory, a layer each
    memory_mask: Mask
    length: int = 0  # tokens in the prefix

    def select(self, rows: Int[Tensor, " R"]) -> "DecoderState":
        """The state of these rows, in this order, repeated or dropped."""

        def chosen(t):
            return None if t is None else t.index_select(0, rows)

        own = tuple(cache.select(rows) for cache in self.own)
        cross = tuple((chosen(k), chosen(v)) for k, v in self.cross)
        return DecoderState(own, cross, chosen(self.memory_mask), self.length)


class Decoder(Stack):
    """decoder(x, memory, mask, memory_mask); True = may attend.

    ``start`` and ``extend`` do it causally, in chunks; :eq:`decoder-cache`.
    """

    def start(self, memory: _Memory, memory_mask: Mask = None) -> DecoderState:
        """True = may attend, (B|1, 1, S). Reads the memory, once."""
        B, S = memory.shape[:2]
        if memory_mask is not None:
            check_mask(memory_mask, (B, 1, S))
            memory_mask = memory_mask.expand(B, 1, S)
        read = [layer.cross_attention.keys_values for layer in self.layers]
        cross = tuple(keys_values(memory) for keys_values in read)
        return DecoderState(tuple(Cache() for _ in read), cross, memory_mask)

    def extend(
        self, x: _Tokens, state: DecoderState
    ) -> tuple[_Tokens, DecoderState]:
        """The outputs for the next n tokens; the old state stays valid."""
        own = tuple(copy.copy(cache) for cache in state.own)
        mask = causal_mask(x.size(1), state.length, x.device)
        for layer, *kept in zip(self.layers, own, state.cross, strict=True):
            x = layer.extend(x, *kept, mask, state.memory_mask)
        length = state.length + x.size(1)
        return self.final_norm(x), replace(state, own=own, length=length)
