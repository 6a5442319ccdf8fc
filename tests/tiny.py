"""Translators so small that a test can build and train them in a blink."""

import torch
from torch import nn


class Tiny(nn.Module):
    """Logits from the source's mean and the word just read, in float64.

    The library has never heard of it, and it can only be called.
    """

    def __init__(self, p_drop: float = 0.0):
        super().__init__()
        self.read = nn.Embedding(11, 6, dtype=torch.float64)
        self.drop = nn.Dropout(p_drop)
        self.say = nn.Linear(6, 11, dtype=torch.float64)

    def forward(self, src, tgt_in):
        real = (src != 0)[..., None]
        mean = (self.read(src) * real).sum(1) / real.sum(1)
        return self.say(self.drop(self.read(tgt_in) + mean[:, None]))


_TINY = {
    "d_model": 16, "d_ff": 32, "n_heads": 2, "n_encoder_layers": 1,
    "n_decoder_layers": 2, "max_len": 64,
}  # fmt: skip
SMALL = {  # of the library's, by their names
    "transformer": _TINY,
    "two-way": _TINY,
    "simple-rnn": {"d_embed": 8, "d_hidden": 8},
    "context-rnn": {"d_embed": 8, "d_hidden": 8},
    "attention-rnn": {"d_embed": 8, "d_hidden": 8},
}
