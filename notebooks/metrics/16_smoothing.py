"""How sure a translator is and how right, trained with ε = 0, 0.1 and 0.3.

Small pre-LN Transformers learn a corner of the grammar, English to French.
Kept for the tokens of held-out sentences, after the right prefix: in ten
bins of the largest probability, how many there are, the sum of those
probabilities, and how many are right; the unsmoothed loss; and the share of
sentences that come out right when the model writes alone.
"""

import torch

from transformer_lib.__main__ import (
    Settings,
    examples,
    held_out,
    judge,
    training_run,
)
from transformer_lib.grammar import corpus, pairs
from transformer_lib.loss import evaluate
from transformer_lib.tokenization import PAD, make_batch
from transformer_lib.training import train_until

SEEDS = [0, 1, 2]
SMOOTHINGS = [0.0, 0.1, 0.3]
KEYS = [f"{smoothing} | {seed}" for smoothing in SMOOTHINGS for seed in SEEDS]
STEPS, BINS = 400, 10
CORNER = ["agreement", "elision", "negation"]
SIZES = {"d_model": 64, "d_ff": 128, "n_heads": 4, "p_drop": 0.0}
SIZES |= {"n_encoder_layers": 2, "n_decoder_layers": 2, "max_len": 128}


def run(key):
    torch.set_num_threads(1)
    smoothing, seed = key.split(" | ")
    s = Settings(
        source="en",
        phenomena=CORNER,
        sentences=20_000,
        sizes=SIZES,
        steps=STEPS,
        tokens=768,
        rate=3e-3,
        warmup=40,
        smoothing=float(smoothing),
        seed=int(seed),
    )
    translator, training, batches = training_run(s, examples(s))
    for _ in train_until(training, batches, STEPS):
        pass
    encode, model = translator.tokenizer.encode, translator.model.eval()
    new = pairs(corpus(600, 99, "test", CORNER), "en")
    sides = zip(
        *[(encode(p.source), encode(p.target)) for p in new], strict=True
    )
    src, tgt = make_batch(*map(list, sides))
    with torch.no_grad():
        shares = model(src, tgt[:, :-1]).softmax(-1)
    real = tgt[:, 1:] != PAD
    sure, said = shares[real].max(-1)
    right = said == tgt[:, 1:][real]
    place = (sure * BINS).long().clamp(max=BINS - 1)
    cases = held_out(translator, 300, 99, phenomena=CORNER)
    judge(translator, cases, beam=1)
    return {
        "count": [int((place == b).sum()) for b in range(BINS)],
        "sure": [round(sure[place == b].sum().item(), 3) for b in range(BINS)],
        "right": [int(right[place == b].sum()) for b in range(BINS)],
        "nll": round(evaluate(model, [(src, tgt)])["nll"], 4),
        "exact": sum(case["right"] for case in cases) / len(cases),
    }
