"""The Transformer.

All parts joined: one matrix for words going in and coming out, 63
million parameters counted by hand, and a model equal to PyTorch's.

Chapter 15; generated from
notebooks/15_transformer.md by `make export`: edit the chapter.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_lib.attention import causal_mask, padding_mask
from transformer_lib.decoder import Decoder, DecoderLayer
from transformer_lib.embedding import TokenEmbedding
from transformer_lib.encoder import Encoder, EncoderLayer, TransformerConfig
from transformer_lib.feed_forward import FeedForward
from transformer_lib.multi_head_attention import MultiHeadAttention
from transformer_lib.normalization import LayerNorm, PostNorm, PreNorm
from transformer_lib.positional_encoding import SinusoidalPositionalEncoding
from transformer_lib.residual import Dropout, Residual
from transformer_lib.seq2seq import PAD, State

__all__ = ["Parts", "Transformer"]


_Made = Callable[[TransformerConfig], nn.Module]


@dataclass(frozen=True)
class Parts:
    """How each part is made from a config: pass another to replace it.

    ``around`` is given a norm and a residual, ``decoder`` its layers and
    a final norm. Stacks end with one where around makes a PreNorm.
    """

    embedding: _Made = lambda c: TokenEmbedding(c.vocab_size, c.d_model)
    positional: _Made = lambda c: SinusoidalPositionalEncoding(
        c.d_model, c.max_len
    )
    attention: _Made = lambda c: MultiHeadAttention(c.d_model, c.n_heads)
    feed_forward: _Made = lambda c: FeedForward(c.d_model, c.d_ff)
    norm: _Made = lambda c: LayerNorm(c.d_model)
    residual: _Made = lambda c: Residual(c.p_drop)
    around: Callable[[nn.Module, nn.Module], nn.Module] = PostNorm
    decoder: Callable[..., nn.Module] = Decoder

    def stack(self, kind, n_layers, layer, n_attentions, config):
        """n_layers new layers, each of which shares nothing with another."""
        c, layers = config, []
        for _ in range(n_layers):
            inner = [self.attention(c) for _ in range(n_attentions)]
            inner.append(self.feed_forward(c))
            outer = [
                self.around(self.norm(c), self.residual(c)) for _ in inner
            ]
            layers.append(layer(*inner, *outer))
        final = self.norm(c) if isinstance(outer[0], PreNorm) else None
        return kind(layers, final)


class _Network(nn.Module):
    """The parts of a Transformer, and what each is joined to."""

    def __init__(
        self,
        src_embedding: nn.Module,
        positional: nn.Module,
        encoder: nn.Module,
        decoder: nn.Module,
        tgt_embedding: nn.Module | None = None,
        output: nn.Module | None = None,
        p_drop: float = 0.0,
        pad: int = PAD,
    ):
        super().__init__()
        self.src_embedding, self.tgt_embedding = src_embedding, tgt_embedding
        self.positional, self.dropout = positional, Dropout(p_drop)
        self.encoder, self.decoder = encoder, decoder
        self.output, self.pad = output, pad

    def encode(
        self, src: Int[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "B S D"], Bool[Tensor, "B 1 S"]]:
        """The memory, and which of it is no padding."""
        mask = padding_mask(src, self.pad)
        x = self.dropout(self.positional(self.src_embedding(src)))
        return self.encoder(x, mask), mask

    def _target(self, tokens, start=0):
        embedding = self.tgt_embedding or self.src_embedding
        return self.dropout(self.positional(embedding(tokens), start))

    def _logits(self, x):
        embedding = self.tgt_embedding or self.src_embedding
        return self.output(x) if self.output else embedding.logits(x)


class Transformer(_Network):
    """P(y | x) by attention alone, a Seq2Seq; :eq:`transformer`.

    Vaswani et al. 2017, §3. Without ``tgt_embedding`` and ``output`` one
    matrix serves the source, the target and the logits.
    """

    @classmethod
    def from_config(
        cls, config: TransformerConfig, *, device=None, **parts
    ) -> "Transformer":
        """A model of these sizes; ``parts`` by name, as in Parts."""
        make, c = Parts(**parts), config
        n, m = config.n_encoder_layers, config.n_decoder_layers
        device = torch.get_default_device() if device is None else device
        with torch.device(device):
            encoder = make.stack(Encoder, n, EncoderLayer, 1, c)
            decoder = make.stack(make.decoder, m, DecoderLayer, 2, c)
            ends = make.embedding(c), make.positional(c)
            return cls(*ends, encoder, decoder, p_drop=c.p_drop, pad=c.pad)

    def forward(
        self, src: Int[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        """Logits of the token after each prefix of tgt_in, BOS first."""
        memory, memory_mask = self.encode(src)
        mask = causal_mask(tgt_in.size(1), device=tgt_in.device)
        x = self.decoder(self._target(tgt_in), memory, mask, memory_mask)
        return self._logits(x)

    def start(self, src: Int[Tensor, "B S"]) -> State:
        """Reads the sources, once."""
        return self.decoder.start(*self.encode(src))

    def extend(
        self, tokens: Int[Tensor, "B n"], state: State
    ) -> tuple[Float[Tensor, "B n V"], State]:
        """Appends n tokens, BOS first; logits of the one after each."""
        x = self._target(tokens, state.length)
        x, state = self.decoder.extend(x, state)
        return self._logits(x), state

    def step(
        self, token: Int[Tensor, " B"], state: State
    ) -> tuple[Float[Tensor, "B V"], State]:
        """Appends one token; logits of the one after it."""
        logits, state = self.extend(token.unsqueeze(1), state)
        return logits.squeeze(1), state
