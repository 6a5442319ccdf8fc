"""The run at the end of chapter 17, from five seeds.

Each seed has sentences, a tokenizer, first weights and an order of its own.
The translators are kept beside this file, in 17_seeds/: chapter 20 opens
them.
"""

from dataclasses import asdict
from pathlib import Path

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

SEEDS = [0, 1, 2, 3, 4]
KEYS = [f"seed {seed}" for seed in SEEDS]
CORNER = ["agreement", "elision", "negation", "clitics", "coreference"]
SIZES = {"d_model": 64, "d_ff": 128, "n_heads": 4, "p_drop": 0.0}
SIZES |= {"n_encoder_layers": 2, "n_decoder_layers": 1, "max_len": 128}


def settings(seed):
    return Settings(
        source="en",
        phenomena=CORNER,
        sentences=60_000,
        vocab=2400,
        sizes=SIZES,
        steps=1500,
        tokens=768,
        rate=5e-3,
        warmup=100,
        smoothing=0.0,
        seed=seed,
    )


def right(cases):
    """How many are right, and how many pronouns."""
    found = scores(cases)
    return {name: found[name] for name in ("exact_match", "pronouns")}


def run(key):
    torch.set_num_threads(1)
    seed = int(key.split()[1])
    s = settings(seed)
    translator, training, batches = training_run(s, examples(s))
    few, curve = held_out(translator, 150, 99, "test", CORNER), []

    def look(training):
        if training.step % 100 == 0:
            training.model.eval()
            judge(translator, few, beam=1)
            curve.append({"step": training.step, **right(few)})

    training.after_step = look
    history = train_until(training, batches, s.steps)
    translator.save(Path(__file__).with_suffix("") / str(seed), half=True)
    found = {"settings": asdict(s), "curve": curve}
    found["loss"] = [record["loss"] for record in history]
    for part in ("test", "nouns"):
        cases = held_out(translator, 1000, 99, part, CORNER)
        judge(translator, cases)
        found[part] = scores(cases)
        wrong = [case for case in cases if not case["right"]]
        found[part]["wrong"] = [
            {name: case[name] for name in ("source", "translation")}
            for case in wrong
        ]
    return found
