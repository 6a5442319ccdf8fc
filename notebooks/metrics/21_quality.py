"""Four systems at equal parameters and equal steps, French to English.

The three recurrent translators and the Transformer learn the whole grammar
from the same batches of their seed, at two rates each: the chapter takes the
better one by the loss on sentences kept for that. Kept: seconds of one
processor a step; that loss; and on held-out sentences, ordinary ones and
longer ones than any learned from, for each source length how many words come
out right behind the right prefix and how many sentences come out right, and
the latter for each phenomenon.
"""

import time
from collections import Counter
from functools import cache

import torch

from transformer_lib.__main__ import (
    Settings,
    examples,
    held_out,
    judge,
    training_run,
)
from transformer_lib.grammar import PHENOMENA, corpus, pairs
from transformer_lib.loss import evaluate
from transformer_lib.seq2seq import PAD, shift
from transformer_lib.tokenization import make_batch
from transformer_lib.training import train_until

SEEDS = [0, 1, 2]
RATES = [2e-3, 5e-3]
STEPS = 1200
SYSTEMS = {  # about 309 000 parameters each, with 1200 word pieces
    "simple-rnn": {"d_embed": 64, "d_hidden": 180},
    "context-rnn": {"d_embed": 64, "d_hidden": 142},
    "attention-rnn": {"d_embed": 64, "d_hidden": 130},
    "transformer": {
        "d_model": 64,
        "d_ff": 256,
        "n_encoder_layers": 2,
        "n_decoder_layers": 2,
    },
}
KEYS = [
    f"{system} | {rate} | {seed}"
    for seed in SEEDS
    for system in SYSTEMS
    for rate in RATES
]


def settings(seed, system="transformer", rate=RATES[0]):
    return Settings(
        model=system,
        sizes=SYSTEMS[system] | {"p_drop": 0.0},
        source="fr",
        sentences=60_000,
        vocab=1200,
        steps=STEPS,
        tokens=1024,
        rate=rate,
        warmup=100,
        smoothing=0.0,
        seed=seed,
    )


@cache
def data(seed):
    s = settings(seed)
    found = examples(s)
    return found, training_run(s, found)[0].tokenizer


def padded(encode, some):
    sides = zip(
        *[(encode(p.source), encode(p.target)) for p in some], strict=True
    )
    return make_batch(*map(list, sides))


@torch.no_grad()
def by_length(translator, part, count):
    """Words and sentences by source words; sentences by phenomenon."""
    cases = held_out(translator, count, 99, part)
    judge(translator, cases, beam=1)
    encode = translator.tokenizer.encode
    some = pairs(corpus(count, 99, part), "fr")
    hits, of = [], []
    for start in range(0, count, 100):
        src, tgt = padded(encode, some[start : start + 100])
        tgt_in, labels = shift(tgt)
        real = labels != PAD
        right = (translator.model(src, tgt_in).argmax(-1) == labels) & real
        hits += right.sum(1).tolist()
        of += real.sum(1).tolist()
    found = {"lengths": {}, "phenomena": {}}
    for case, hit, n in zip(cases, hits, of, strict=True):
        length = len(case["source"].split())
        row = found["lengths"].setdefault(length, [0, 0, 0, 0])
        for i, add in enumerate((hit, n, int(case["right"]), 1)):
            row[i] += add
    for name in PHENOMENA:
        tally = Counter(c["right"] for c in cases if name in c["tags"])
        found["phenomena"][name] = [tally[True], tally.total()]
    found["lengths"] = dict(sorted(found["lengths"].items()))
    return found


def run(key):
    torch.set_num_threads(1)
    system, rate, seed = key.split(" | ")
    s = settings(int(seed), system, float(rate))
    translator, training, batches = training_run(s, *data(int(seed)))
    begun = time.process_time()
    losses = [r["loss"] for r in train_until(training, batches, STEPS)]
    seconds = (time.process_time() - begun) / STEPS
    model = translator.model.eval()
    own = padded(
        translator.tokenizer.encode, pairs(corpus(300, 7, "nouns"), "fr")
    )
    found = {
        "parameters": sum(p.numel() for p in model.parameters()),
        "seconds": round(seconds, 4),
        "curve": [
            round(sum(losses[i : i + 20]) / 20, 4) for i in range(0, STEPS, 20)
        ],
        "nll": round(evaluate(model, [own])["nll"], 4),
    }
    begun = time.process_time()
    found["test"] = by_length(translator, "test", 1000)
    found["length"] = by_length(translator, "length", 300)
    found["reading"] = round(time.process_time() - begun, 1)
    return found
