"""One change at a time: the paper's Table 3 and the articles' claims, small.

The unchanged model is the paper's in miniature: post-LN, 2 + 2 layers of
width 64, 4 heads, ReLU, sinusoids, one matrix for all words. Each row changes
one thing. All learn the same corner of the grammar, English to French, from
the same batches of their seed. Kept: parameters, seconds of one processor a
step (which other work on the machine hardly moves), and on 300 held-out
sentences the loss and the right tokens, and how many come out right.
"""

import time
from functools import cache

import torch
import torch.nn.functional as F
from torch import nn

from transformer_lib.__main__ import (
    Settings,
    examples,
    held_out,
    judge,
    training_run,
)
from transformer_lib.attention import ScaledDotProductAttention
from transformer_lib.decoder import Decoder
from transformer_lib.embedding import TokenEmbedding
from transformer_lib.encoder import TransformerConfig
from transformer_lib.grammar import corpus, pairs
from transformer_lib.loss import evaluate
from transformer_lib.multi_head_attention import MultiHeadAttention
from transformer_lib.normalization import BatchNorm, PreNorm
from transformer_lib.positional_encoding import (
    LearnedPositionalEncoding,
    NoPosition,
)
from transformer_lib.residual import NoResidual
from transformer_lib.tokenization import make_batch
from transformer_lib.training import train_until
from transformer_lib.transformer import Transformer
from transformer_lib.translator import Translator

SEEDS = [0, 1, 2, 3]
STEPS, PROBE = 600, 300
CORNER = ["agreement", "elision", "negation"]
SIZES = {"d_model": 64, "d_ff": 256, "n_heads": 4, "p_drop": 0.0}
SIZES |= {"n_encoder_layers": 2, "n_decoder_layers": 2, "max_len": 128}


class Nothing(nn.Module):
    """A network that is not there: it adds 0 to the residual sum."""

    def forward(self, x):
        return torch.zeros_like(x)


class Unscaled(ScaledDotProductAttention):
    """softmax(q kᵀ) v."""

    def scores(self, q, k):
        return q @ k.mT

    def forward(self, q, k, v, mask=None):
        return F.scaled_dot_product_attention(q, k, v, mask, scale=1.0)


class PlainEmbedding(TokenEmbedding):
    """The rows themselves, not √d_model times."""

    def forward(self, ids):
        return F.embedding(ids, self.weight)


class Unmasked(Decoder):
    """Sees the whole target while it learns."""

    def forward(self, x, memory, mask, memory_mask=None):
        return super().forward(x, memory, None, memory_mask)


class Rereader(nn.Module):
    """Writes with a model that has no valid cache: the prefix anew."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def start(self, src):
        return Prefix(src, src[:, :0])

    def step(self, token, state):
        read = torch.cat([state.written, token[:, None]], dim=1)
        return self.model(state.src, read)[:, -1], Prefix(state.src, read)


class Prefix:
    def __init__(self, src, written):
        self.src, self.written = src, written

    def select(self, rows):
        return Prefix(self.src[rows], self.written[rows])


def heads(**sizes):
    return {"attention": lambda c: MultiHeadAttention(64, 4, **sizes)}


def layers(n):
    return {"n_encoder_layers": n, "n_decoder_layers": n}


ROWS = {  # name: sizes, parts, smoothing
    "unchanged": ({}, {}, 0.0),
    "A: 1 head": ({"n_heads": 1}, {}, 0.0),
    "A: 2 heads": ({"n_heads": 2}, {}, 0.0),
    "A: 8 heads": ({"n_heads": 8}, {}, 0.0),
    "A: 16 heads": ({"n_heads": 16}, {}, 0.0),
    "B: d_k 8": ({}, heads(d_k=8, d_v=16), 0.0),
    "B: d_k 4": ({}, heads(d_k=4, d_v=16), 0.0),
    "C: 1 + 1 layers": (layers(1), {}, 0.0),
    "C: 4 + 4 layers": (layers(4), {}, 0.0),
    "C: width 32": ({"d_model": 32}, {}, 0.0),
    "C: width 128": ({"d_model": 128}, {}, 0.0),
    "C: d_ff 64": ({"d_ff": 64}, {}, 0.0),
    "C: d_ff 1024": ({"d_ff": 1024}, {}, 0.0),
    "D: dropout 0.1": ({"p_drop": 0.1}, {}, 0.0),
    "D: dropout 0.2": ({"p_drop": 0.2}, {}, 0.0),
    "D: smoothing 0.1": ({}, {}, 0.1),
    "D: smoothing 0.2": ({}, {}, 0.2),
    "E: learned positions": (
        {},
        {"positional": lambda c: LearnedPositionalEncoding(64, c.max_len)},
        0.0,
    ),
    "pre-LN": ({}, {"around": PreNorm}, 0.0),
    "no feed-forward": ({}, {"feed_forward": lambda c: Nothing()}, 0.0),
    "no position": ({}, {"positional": lambda c: NoPosition()}, 0.0),
    "no residual": ({}, {"residual": lambda c: NoResidual()}, 0.0),
    "no norm": ({}, {"norm": lambda c: nn.Identity()}, 0.0),
    "BatchNorm": ({}, {"norm": lambda c: BatchNorm(64)}, 0.0),
    "no mask": ({}, {"decoder": Unmasked}, 0.0),
    "no scale": ({}, heads(attention=Unscaled()), 0.0),
    "no √d_model": (
        {},
        {"embedding": lambda c: PlainEmbedding(c.vocab_size, 64)},
        0.0,
    ),
}
KEYS = [f"{row} | {seed}" for seed in SEEDS for row in ROWS]


def settings(seed, smoothing=0.0):
    return Settings(
        source="en",
        phenomena=CORNER,
        sentences=20_000,
        sizes=SIZES | {"norm": "post"},
        steps=STEPS,
        tokens=768,
        rate=3e-3,
        warmup=100,
        smoothing=smoothing,
        seed=seed,
    )


@cache
def data(seed):
    s = settings(seed)
    pairs = examples(s)
    return pairs, training_run(s, pairs)[0].tokenizer


def probe(encode):
    new = pairs(corpus(PROBE, 99, "test", CORNER), "en")
    sides = zip(
        *[(encode(p.source), encode(p.target)) for p in new], strict=True
    )
    return make_batch(*map(list, sides))


def run(key):
    torch.set_num_threads(1)
    name, seed = key.split(" | ")
    sizes, parts, smoothing = ROWS[name]
    s = settings(int(seed), smoothing)
    translator, training, batches = training_run(s, *data(int(seed)))
    torch.manual_seed(int(seed))
    vocabulary = translator.tokenizer.vocab_size
    model = Transformer.from_config(
        TransformerConfig(vocabulary, **SIZES | sizes), **parts
    )
    training.model = model
    training.optimizer = torch.optim.Adam(
        model.parameters(), lr=s.rate, betas=(0.9, 0.98), eps=1e-9, fused=True
    )
    begun = time.process_time()
    losses = [r["loss"] for r in train_until(training, batches, STEPS)]
    seconds = (time.process_time() - begun) / STEPS
    found = evaluate(model.eval(), [probe(translator.tokenizer.encode)])
    writer = Rereader(model) if name == "no mask" else model
    trained = Translator(writer, translator.tokenizer, translator.config)
    cases = held_out(trained, PROBE, 99, phenomena=CORNER)
    judge(trained, cases, beam=1)
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "seconds": round(seconds, 4),
        "loss": round(sum(losses[-20:]) / 20, 4),
        "nll": round(found["nll"], 4),
        "accuracy": round(found["accuracy"], 4),
        "right": sum(case["right"] for case in cases) / len(cases),
    }
