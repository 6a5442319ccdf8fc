"""The Transformer of 2017, as its chapters derive it.

Each module is exported from the notebook of the same name.
"""

from transformer_lib.attention import (
    AdditiveAttention,
    Attention,
    BilinearAttention,
    ScaledDotProductAttention,
    causal_mask,
    combine_masks,
    masked_softmax,
    padding_mask,
)
from transformer_lib.positional_encoding import (
    LearnedPositionalEncoding,
    NoPosition,
    SinusoidalPositionalEncoding,
    sinusoids,
)

__all__ = [
    "AdditiveAttention",
    "Attention",
    "BilinearAttention",
    "LearnedPositionalEncoding",
    "NoPosition",
    "ScaledDotProductAttention",
    "SinusoidalPositionalEncoding",
    "causal_mask",
    "combine_masks",
    "masked_softmax",
    "padding_mask",
    "sinusoids",
]
