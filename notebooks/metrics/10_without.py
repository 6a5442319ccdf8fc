"""A translator with its feed-forward networks, and four without.

Small pre-LN Transformers learn a corner of the grammar, English to French,
in the same steps: as they are; with the ReLU taken out; with no feed-forward
network, at equal depth, and deeper or wider until there are as many
parameters. Kept: loss and right tokens on held-out sentences, and the share
of those that come out as one of their right translations.
"""

import torch
from torch import nn

from transformer_lib.__main__ import (
    Settings,
    examples,
    held_out,
    judge,
    training_run,
)
from transformer_lib.encoder import TransformerConfig
from transformer_lib.grammar import corpus, pairs
from transformer_lib.loss import evaluate
from transformer_lib.normalization import PreNorm
from transformer_lib.tokenization import make_batch
from transformer_lib.training import train_until
from transformer_lib.transformer import Transformer
from transformer_lib.translator import Translator

SEEDS = [0, 1, 2]
STEPS = 500
CORNER = ["agreement", "elision", "negation"]


class Nothing(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)


def straight(config):
    """Two linear maps and no ReLU between them."""
    both = [
        nn.Linear(config.d_model, config.d_ff),
        nn.Linear(config.d_ff, config.d_model),
    ]
    for w in both:
        nn.init.xavier_uniform_(w.weight)
        nn.init.zeros_(w.bias)
    return nn.Sequential(*both)


def nothing(config):
    return Nothing()


MODELS = {  # sizes, and the parts that differ
    "full": ({}, {}),
    "no ReLU": ({}, {"feed_forward": straight}),
    "none": ({}, {"feed_forward": nothing}),
    "none, deeper": (
        {"n_encoder_layers": 6, "n_decoder_layers": 4},
        {"feed_forward": nothing},
    ),
    "none, wider": ({"d_model": 92}, {"feed_forward": nothing}),
}
KEYS = [f"{name} | {seed}" for name in MODELS for seed in SEEDS]
SIZES = {"d_model": 64, "d_ff": 256, "n_heads": 4, "p_drop": 0.0}
SIZES |= {"n_encoder_layers": 2, "n_decoder_layers": 2, "max_len": 128}


def run(key):
    torch.set_num_threads(1)
    name, seed = key.split(" | ")
    s = Settings(
        source="en",
        phenomena=CORNER,
        sentences=20_000,
        sizes=SIZES,
        steps=STEPS,
        tokens=768,
        rate=3e-3,
        warmup=50,
        smoothing=0.0,
        seed=int(seed),
    )
    translator, training, batches = training_run(s, examples(s))
    sizes, parts = MODELS[name]
    torch.manual_seed(int(seed))
    config = TransformerConfig(
        translator.tokenizer.vocab_size, **SIZES | sizes
    )
    model = Transformer.from_config(config, around=PreNorm, **parts)
    training.model = model
    training.optimizer = torch.optim.Adam(
        model.parameters(), lr=s.rate, betas=(0.9, 0.98), eps=1e-9, fused=True
    )
    for _ in train_until(training, batches, STEPS):
        pass
    encode = translator.tokenizer.encode
    new = pairs(corpus(300, 99, "test", CORNER), "en")
    sides = zip(
        *[(encode(p.source), encode(p.target)) for p in new], strict=True
    )
    found = evaluate(model.eval(), [make_batch(*map(list, sides))])
    trained = Translator(model, translator.tokenizer, translator.config)
    cases = held_out(trained, 300, 99, phenomena=CORNER)
    judge(trained, cases, beam=1)
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "nll": round(found["nll"], 4),
        "accuracy": round(found["accuracy"], 4),
        "right": sum(case["right"] for case in cases) / len(cases),
    }
