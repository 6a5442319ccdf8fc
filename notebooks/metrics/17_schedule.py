"""One peak, five plans: with and without the rise, with and without the fall.

A small post-LN Transformer, the paper's order, learns English to French for
400 steps; the mean loss of every 20 steps and the loss on held-out sentences
at the end, for three seeds.
"""

from functools import partial

import torch

from transformer_lib.__main__ import Settings, examples, training_run
from transformer_lib.grammar import corpus, pairs
from transformer_lib.loss import evaluate
from transformer_lib.tokenization import make_batch
from transformer_lib.training import learning_rate, linear_rate, train_until

SEEDS = [0, 1, 2]
WIDTH, STEPS, RISE, PEAK = 64, 400, 60, 6e-3


def flat(step, warmup):
    return PEAK * min(1.0, step / warmup)


def papers(step, warmup):
    """The paper's, times the factor that gives it the same peak."""
    factor = PEAK * (WIDTH * warmup) ** 0.5
    return learning_rate(step, WIDTH, warmup, factor)


linear = partial(linear_rate, peak=PEAK, steps=STEPS)
PLANS = {
    "rise, line to 0": partial(linear, warmup=RISE),
    "rise, root (paper)": partial(papers, warmup=RISE),
    "rise, flat": partial(flat, warmup=RISE),
    "no rise, line to 0": partial(linear, warmup=1),
    "no rise, flat": partial(flat, warmup=1),
}
KEYS = [f"{plan} | {seed}" for plan in PLANS for seed in SEEDS]
CORNER = ["agreement", "elision", "negation"]
SIZES = {"d_model": WIDTH, "d_ff": 128, "n_heads": 4, "p_drop": 0.0}
SIZES |= {"n_encoder_layers": 2, "n_decoder_layers": 2, "max_len": 128}


def run(key):
    torch.set_num_threads(1)
    plan, seed = key.split(" | ")
    s = Settings(
        source="en",
        phenomena=CORNER,
        sentences=20_000,
        vocab=1200,
        sizes=SIZES | {"norm": "post"},
        steps=STEPS,
        tokens=768,
        rate=PEAK,
        warmup=RISE,
        smoothing=0.0,
        seed=int(seed),
    )
    translator, training, batches = training_run(s, examples(s))
    training.schedule = PLANS[plan]
    encode = translator.tokenizer.encode
    new = pairs(corpus(300, 99, "test", CORNER), "en")
    sides = zip(
        *[(encode(p.source), encode(p.target)) for p in new], strict=True
    )
    test = [make_batch(*map(list, sides))]
    losses = [r["loss"] for r in train_until(training, batches, STEPS)]
    found = evaluate(translator.model.eval(), test)
    means = [sum(losses[i : i + 20]) / 20 for i in range(0, STEPS, 20)]
    return {
        "curve": [round(mean, 4) for mean in means],
        "nll": round(found["nll"], 4),
        "accuracy": round(found["accuracy"], 4),
    }
