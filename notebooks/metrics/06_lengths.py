"""Trained on at most 10 words, tried on up to 16: three positional codes.

The task is to write a row of random words backwards, which needs to know
where every word stands. Models of one seed differ in the code alone and get
the same batches.
"""

import torch
from torch.nn.functional import cross_entropy

from transformer_lib.encoder import TransformerConfig
from transformer_lib.positional_encoding import (
    LearnedPositionalEncoding,
    NoPosition,
)
from transformer_lib.seq2seq import BOS, EOS, shift
from transformer_lib.transformer import Transformer

CODES = {
    "sinusoids": {},
    "learned": {
        "positional": lambda c: LearnedPositionalEncoding(c.d_model, c.max_len)
    },
    "none": {"positional": lambda c: NoPosition()},
}
SEEDS = [0, 1, 2]
KEYS = [f"{code}, seed {seed}" for seed in SEEDS for code in CODES]
LONGEST, STEPS = 10, 900
LENGTHS = [2, 4, 6, 8, 10, 11, 12, 14, 16]


def backwards(n_words, n_sentences, rng):
    """Random words 3 … 22, and the same from the end."""
    words = torch.randint(3, 23, (n_sentences, n_words), generator=rng)
    bos, eos = (torch.full((n_sentences, 1), i) for i in (BOS, EOS))
    src = torch.cat([words, eos], dim=1)
    return src, torch.cat([bos, words.flip(1), eos], dim=1)


def right(model, n_words):
    """By target position, the share of right words, gold ones before."""
    rng = torch.Generator().manual_seed(99)
    src, tgt = backwards(n_words, 200, rng)
    tgt_in, labels = shift(tgt)
    with torch.no_grad():
        hits = model(src, tgt_in).argmax(dim=-1) == labels
    return [round(x, 4) for x in hits.double().mean(dim=0).tolist()]


def run(key):
    torch.set_num_threads(1)
    code, seed = key.split(", seed ")
    torch.manual_seed(int(seed))
    config = TransformerConfig(
        23, 32, 64, 4, 2, 2, p_drop=0.0, max_len=LENGTHS[-1] + 2
    )
    model = Transformer.from_config(config, **CODES[code])
    adam = torch.optim.Adam(model.parameters(), lr=3e-3)
    rng = torch.Generator().manual_seed(int(seed))
    losses = []
    for step in range(1, STEPS + 1):
        for group in adam.param_groups:
            falling = (STEPS - step) / 300 + 0.02
            group["lr"] = 3e-3 * min(step / 100, falling, 1)
        n_words = int(torch.randint(1, LONGEST + 1, (1,), generator=rng))
        tgt_in, labels = shift((pair := backwards(n_words, 64, rng))[1])
        loss = cross_entropy(model(pair[0], tgt_in).mT, labels)
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(round(loss.item(), 4))
    model.eval()
    return {"loss": losses, "right": {n: right(model, n) for n in LENGTHS}}
