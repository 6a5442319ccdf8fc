"""One translator for both directions of Tatoeba, or one for each.

Needs the file, as 02g_tatoeba.py does. All have the same width, layers and
joint vocabulary; "both ways" adds the vector of the wanted language to every
word of the source, as in 26_onward.py, and takes as many steps as the two
others together. Kept: seconds of one processor, the loss a token, and BLEU of
greedy search on 1000 sentences held out to choose by.
"""

import runpy
import time
from functools import cache, partial
from pathlib import Path

import torch

from transformer_lib.__main__ import cases_of, judge, scores
from transformer_lib.encoder import TransformerConfig
from transformer_lib.loss import evaluate
from transformer_lib.real_corpus import taught
from transformer_lib.recipe import Settings, parts, training_run
from transformer_lib.tokenization import make_batch, token_batches
from transformer_lib.training import train_until
from transformer_lib.translator import Translator

ONWARD = runpy.run_path(str(Path(__file__).with_name("26_onward.py")))

SEEDS = [0]
WAYS = ["fr-en", "en-fr", "both ways"]
KEYS = [f"{way} | {seed}" for seed in SEEDS for way in WAYS]
STEPS, TOKENS = 1000, 3072
SIZES = {"d_model": 128, "d_ff": 512, "n_heads": 4, "p_drop": 0.1}
SIZES |= {"n_encoder_layers": 2, "n_decoder_layers": 2, "max_len": 512}


def settings(source="fr", seed=0, steps=STEPS):
    return Settings(
        corpus="tatoeba",
        source=source,
        sizes=SIZES,
        vocab=4000,
        sentences=1_000_000,
        steps=steps,
        tokens=TOKENS,
        rate=2e-3,
        seed=seed,
    )


@cache
def data(source):
    """Pairs to learn from, and pairs to choose by."""
    train, valid, _ = parts(settings(source))
    return taught(train, source), valid


@cache
def tokenizer():
    return training_run(settings(), data("fr")[0])[0].tokenizer


def rows(source, mark=()):
    encode = tokenizer().encode
    return [
        ([*mark, *encode(p.source)], encode(p.target)) for p in data(source)[0]
    ]


def drawn(some, seed, epoch):
    lengths = [max(map(len, two)) + 1 for two in some]
    for batch in token_batches(lengths, TOKENS, seed * 1_000_003 + epoch):
        yield make_batch(*zip(*[some[i] for i in batch], strict=True))


def quality(translator, source, mark=()):
    encode, valid = translator.tokenizer.encode, data(source)[1]
    plain = [
        ([*mark, *encode(p.source)], encode(p.target))
        for p in taught(valid, source)
    ]
    batches = [
        make_batch(*zip(*plain[i : i + 100], strict=True))
        for i in range(0, len(plain), 100)
    ]
    found = evaluate(translator.model, batches)
    cases = cases_of(valid, 1000)
    judge(translator, cases, beam=1)
    bleu, _ = scores(cases, cased=True)["BLEU"]
    return {"nll": round(found["nll"], 4), "BLEU": round(bleu, 2)}


def run(key):
    torch.set_num_threads(1)
    way, seed = key.split(" | ")
    seed, both = int(seed), "both" in way
    source = "fr" if both else way[:2]
    s = settings(source, seed, STEPS * (2 if both else 1))
    translator, training, _ = training_run(
        s, data(source)[0], tokenizer(), no_bar=True
    )
    if both:
        size = tokenizer().vocab_size + 2
        torch.manual_seed(seed)
        training.model = ONWARD["both_ways"](TransformerConfig(size, **SIZES))
        training.optimizer = torch.optim.Adam(
            training.model.parameters(), lr=s.rate, betas=(0.9, 0.98),
            eps=1e-9, fused=True,
        )  # fmt: skip
    marks = ONWARD["marks"](tokenizer())
    some = rows("fr", [marks["en"]]) if both else rows(source)
    if both:
        some += rows("en", [marks["fr"]])
    begun = time.process_time()
    train_until(training, partial(drawn, some, seed), s.steps)
    said = {
        "parameters": sum(p.numel() for p in training.model.parameters()),
        "seconds": round(time.process_time() - begun),
    }
    training.model.eval()
    for one in ("fr", "en") if both else (source,):
        config = translator.config | {"source": one}
        config["target"] = {"fr": "en", "en": "fr"}[one]
        kind = ONWARD["Marked"] if both else Translator
        trained = kind(training.model, tokenizer(), config)
        mark = [marks[config["target"]]] if both else []
        trained.mark = mark[0] if both else 0
        found = quality(trained, one, mark)
        said[f"{one}-{config['target']}"] = found
    return said
