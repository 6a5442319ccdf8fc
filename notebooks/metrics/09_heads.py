"""One head against many, at equal parameters, on what *it* refers to.

English sentences with *because it was …* into French, where *it* is il or
elle by the gender of the noun that the adjective can be said of. The models
differ in the number of heads alone; those of one seed get the same batches.
"""

from dataclasses import asdict

import torch

from transformer_lib.__main__ import (
    Settings,
    examples,
    held_out,
    judge,
    scores,
    training_run,
)
from transformer_lib.training import train_until

HEADS = [1, 2, 4, 8]
SEEDS = [0, 1, 2]
KEYS = [f"{h} heads, seed {seed}" for seed in SEEDS for h in HEADS]
PHENOMENA = ["agreement", "elision", "negation", "coreference"]


def settings(n_heads, seed):
    sizes = {"d_model": 32, "d_ff": 64, "n_heads": n_heads, "p_drop": 0.0}
    sizes |= {"n_encoder_layers": 2, "n_decoder_layers": 1, "max_len": 64}
    return Settings(
        source="en",
        phenomena=PHENOMENA,
        sentences=20_000,
        vocab=1200,
        sizes=sizes,
        steps=900,
        tokens=1024,
        rate=8e-3,
        warmup=100,
        smoothing=0.0,
        seed=seed,
    )


def run(key):
    torch.set_num_threads(1)
    n_heads, seed = int(key.split()[0]), int(key.split()[-1])
    s = settings(n_heads, seed)
    data = [pair for pair in examples(s) if "because" in pair.source]
    translator, training, batches = training_run(s, data, no_bar=True)
    cases = held_out(translator, 1500, 99, "test", PHENOMENA)
    cases = [case for case in cases if "coreference" in case["tags"]]
    curve = []

    def look(training):
        if training.step % 100 == 0:
            training.model.eval()
            few = cases[:100]
            judge(translator, few, beam=1)
            found = scores(few)["pronouns"]
            curve.append({"step": training.step, **found})

    training.after_step = look
    history = train_until(training, batches, s.steps)
    judge(translator, cases, beam=1)
    parameters = sum(p.numel() for p in translator.model.parameters())
    return {
        "settings": asdict(s),
        "parameters": parameters,
        "pairs": len(data),
        "curve": curve,
        "loss": [round(record["loss"], 5) for record in history],
        "exact_match": scores(cases)["exact_match"],
        "pronouns": scores(cases)["pronouns"],
    }
