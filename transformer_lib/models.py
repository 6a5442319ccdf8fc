"""Models by name.

A name and sizes make a model; and one of the models translates both
ways.

Chapter 20a; generated from
notebooks/20a_models.md by `make export`: edit the chapter.
"""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transformer_lib.attention import AdditiveAttention, padding_mask
from transformer_lib.embedding import TokenEmbedding
from transformer_lib.encoder import TransformerConfig
from transformer_lib.normalization import PostNorm, PreNorm
from transformer_lib.rnn import AttentionRNN, ContextRNN, SimpleRNN
from transformer_lib.seq2seq import Seq2Seq
from transformer_lib.transformer import Transformer

__all__ = ["MODELS", "SIZES", "TwoWays", "build"]


class TwoWays(Transformer):
    """A Transformer of two languages, told which of them to write.

    The first id of a source says it: V or V + 1, for a vocabulary of V. Its
    vector is added to every word behind it; :eq:`two-ways`. Raises
    ValueError for another id there.
    """

    def __init__(self, src_embedding, *parts, **more):
        super().__init__(src_embedding, *parts, **more)
        self.languages = TokenEmbedding(2, src_embedding.weight.size(1))

    def encode(
        self, src: Int[Tensor, "B n"]
    ) -> tuple[Float[Tensor, "B S D"], Bool[Tensor, "B 1 S"]]:
        """The memory of the S = n − 1 words behind the mark, and its mask."""
        V = self.src_embedding.weight.size(0)
        marks, words = src[:, :1] - V, src[:, 1:]
        unseen = src.is_meta or torch.compiler.is_compiling()
        if not unseen and ((marks < 0) | (marks > 1)).any():
            first = src[:, 0].tolist()
            raise ValueError(
                f"sources begin with {first[:8]}, expected {V} or {V + 1} for "
                "the language to write: put Translator.mark before the ids"
            )
        mask = padding_mask(words, self.pad)
        x = self.src_embedding(words) + self.languages(marks)
        return self.encoder(self.dropout(self.positional(x)), mask), mask


_TRANSFORMER = {
    "d_model": 128,
    "d_ff": 512,
    "n_heads": 4,
    "n_encoder_layers": 3,
    "n_decoder_layers": 3,
    "p_drop": 0.1,
    "max_len": 512,
    "pad": 0,
    "norm": "pre",
}
_RNN = {"d_embed": 128, "d_hidden": 256, "p_drop": 0.1}
SIZES = {  # of what build makes, where it is told no other
    "transformer": _TRANSFORMER,
    "two-way": _TRANSFORMER,
    "simple-rnn": _RNN,
    "context-rnn": _RNN,
    "attention-rnn": _RNN,
}


def _transformer(
    norm: str, kind: type[Transformer] = Transformer, **sizes
) -> Transformer:
    around = {"pre": PreNorm, "post": PostNorm}.get(norm)
    if around is None:
        raise ValueError(f"norm is {norm!r}, expected 'pre' or 'post'")
    return kind.from_config(TransformerConfig(**sizes), around=around)


def _attention_rnn(d_hidden: int, **sizes) -> AttentionRNN:
    attention = AdditiveAttention(d_hidden, d_hidden, d_hidden)
    return AttentionRNN(d_hidden=d_hidden, attention=attention, **sizes)


MODELS: dict[str, Callable[..., Seq2Seq]] = {
    "transformer": _transformer,
    "two-way": partial(_transformer, kind=TwoWays),
    "simple-rnn": SimpleRNN,
    "context-rnn": ContextRNN,
    "attention-rnn": _attention_rnn,
}


def build(name: str, *, vocab_size: int, **sizes) -> Seq2Seq:
    """A new model by its name in MODELS; sizes not named are as in SIZES.

    Raises ValueError for what there is not, and says what there is.
    """
    if name not in MODELS:
        raise ValueError(f"model {name!r}: there are {', '.join(MODELS)}")
    if odd := sizes.keys() - SIZES[name].keys():
        known = ", ".join(["vocab_size", *SIZES[name]])
        raise ValueError(f"{name} has no size {min(odd)!r}; it has {known}")
    return MODELS[name](vocab_size=vocab_size, **SIZES[name] | sizes)
