"""One matrix at both ends, started and scaled in three ways.

A small post-LN Transformer learns English to French; the first loss, the
curve (means of 20 steps) and the loss on held-out sentences, for three
seeds each. The way without the factor runs with a larger rate, too.
"""

import math

import torch
import torch.nn.functional as F

from transformer_lib.__main__ import Settings, examples, training_run
from transformer_lib.embedding import TokenEmbedding
from transformer_lib.grammar import corpus, pairs
from transformer_lib.loss import evaluate
from transformer_lib.tokenization import make_batch
from transformer_lib.training import train_until

SEEDS = [0, 1, 2]
WAYS = {  # deviation of the entries times √d, factor at the input, rate
    "1/√d, times √d": (1.0, "root", 3e-3),
    "1/√d, no factor": (1.0, "one", 3e-3),
    "1/√d, no factor, rate × 3": (1.0, "one", 9e-3),
    "1, no factor": (8.0, "one", 3e-3),
}
KEYS = [f"{way} | {seed}" for way in WAYS for seed in SEEDS]
CORNER = ["agreement", "elision", "negation"]
SIZES = {"d_model": 64, "d_ff": 128, "n_heads": 4, "p_drop": 0.0}
SIZES |= {"n_encoder_layers": 1, "n_decoder_layers": 1, "max_len": 128}


class Unscaled(TokenEmbedding):
    """The row as it is."""

    def forward(self, ids):
        return F.embedding(ids, self.weight)


def started(model, way):
    """The model with another start of its matrix, or another input."""
    wide, factor, _ = WAYS[way]
    with torch.no_grad():
        model.src_embedding.weight.mul_(wide)
    if factor == "one":
        model.src_embedding.__class__ = Unscaled
    return model


def row_norm(model):
    weight = model.src_embedding.weight.detach()
    scaled = not isinstance(model.src_embedding, Unscaled)
    factor = math.sqrt(weight.size(1)) if scaled else 1.0
    return factor * weight.norm(dim=1).median().item()


def run(key):
    torch.set_num_threads(1)
    way, seed = key.split(" | ")
    s = Settings(
        source="en",
        phenomena=CORNER,
        sentences=20_000,
        vocab=1200,
        sizes=SIZES | {"norm": "post"},
        steps=600,
        tokens=768,
        rate=WAYS[way][2],
        warmup=100,
        smoothing=0.0,
        seed=int(seed),
    )
    translator, training, batches = training_run(s, examples(s))
    started(translator.model, way)
    encode = translator.tokenizer.encode
    new = pairs(corpus(300, 99, "test", CORNER), "en")
    test = [
        make_batch(
            [encode(p.source) for p in new], [encode(p.target) for p in new]
        )
    ]
    before = row_norm(translator.model)
    first = evaluate(translator.model.eval(), test)["nll"]
    history = train_until(training, batches, s.steps)
    found = evaluate(translator.model.eval(), test)
    losses = [record["loss"] for record in history]
    means = [sum(losses[i : i + 20]) / 20 for i in range(0, s.steps, 20)]
    return {
        "first": round(first, 4),
        "curve": [round(mean, 4) for mean in means],
        "nll": round(found["nll"], 4),
        "accuracy": round(found["accuracy"], 4),
        "norms": [round(before, 3), round(row_norm(translator.model), 3)],
    }
