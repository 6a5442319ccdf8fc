"""The same translator trained with the causal mask and without it.

Small pre-LN Transformers learn a corner of the grammar, English to French.
Kept: the training loss, means of ten steps; on held-out sentences, the loss
a token when the right answer is read, the weight that the decoder's heads
lay on the next input (where the answer stands), and what comes out when the
model writes alone: the share of right sentences and of right first words,
and three translations.
"""

import torch

from transformer_lib.__main__ import (
    Settings,
    examples,
    held_out,
    training_run,
)
from transformer_lib.attention_maps import record
from transformer_lib.decoder import Decoder
from transformer_lib.encoder import TransformerConfig
from transformer_lib.grammar import corpus, pairs
from transformer_lib.loss import evaluate
from transformer_lib.normalization import PreNorm
from transformer_lib.tokenization import BOS, EOS, make_batch
from transformer_lib.training import train_until
from transformer_lib.transformer import Transformer
from transformer_lib.translator import exact_match

SEEDS = [0, 1, 2]
STEPS, LONGEST = 500, 30
CORNER = ["agreement", "elision", "negation"]
SIZES = {"d_model": 64, "d_ff": 128, "n_heads": 4, "p_drop": 0.0}
SIZES |= {"n_encoder_layers": 2, "n_decoder_layers": 2, "max_len": 128}


class Unmasked(Decoder):
    def forward(self, x, memory, mask, memory_mask=None):
        return super().forward(x, memory, None, memory_mask)


DECODERS = {"with the mask": Decoder, "without": Unmasked}
KEYS = [f"{name} | {seed}" for name in DECODERS for seed in SEEDS]


def write(model, src):
    """Greedily, and the whole prefix again at every step."""
    tgt = torch.full((len(src), 1), BOS)
    for _ in range(LONGEST):
        last = model(src, tgt)[:, -1].argmax(dim=-1)
        tgt = torch.cat([tgt, last[:, None]], dim=1)
    rows = [[*row, EOS] for row in tgt[:, 1:].tolist()]
    return [row[: row.index(EOS)] for row in rows]


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
    torch.manual_seed(int(seed))
    config = TransformerConfig(translator.tokenizer.vocab_size, **SIZES)
    model = Transformer.from_config(
        config, around=PreNorm, decoder=DECODERS[name]
    )
    training.model = model
    training.optimizer = torch.optim.Adam(
        model.parameters(), lr=s.rate, betas=(0.9, 0.98), eps=1e-9, fused=True
    )
    losses = [r["loss"] for r in train_until(training, batches, STEPS)]
    encode, decode = translator.tokenizer.encode, translator.tokenizer.decode
    new = pairs(corpus(300, 99, "test", CORNER), "en")
    sides = zip(
        *[(encode(p.source), encode(p.target)) for p in new], strict=True
    )
    src, tgt = make_batch(*map(list, sides))
    found = evaluate(model.eval(), [(src, tgt)])
    with torch.no_grad():
        with record(model) as maps:
            model(src, tgt[:, :-1])
        real = (tgt[:, 2:-1] > EOS).unsqueeze(1)  # the next is a word
        ahead = {
            name: [
                heads[real[:, 0]].mean().item()
                for heads in weights.diagonal(1, 2, 3)[
                    :, :, : real.size(2)
                ].unbind(1)
            ]
            for name, weights in maps.items()
            if "decoder" in name and "self" in name
        }
        written = write(model, src)
    cases = held_out(translator, 300, 99, phenomena=CORNER)
    texts = [decode(ids) for ids in written]
    right = [case["references"] for case in cases]
    first = [t.split()[:1] for t in texts]
    hits = [
        any(ref.split()[:1] == word for ref in refs)
        for word, refs in zip(first, right, strict=True)
    ]
    return {
        "curve": [
            round(sum(losses[i : i + 10]) / 10, 4) for i in range(0, STEPS, 10)
        ],
        "nll": round(found["nll"], 4),
        "ahead": {k: [round(w, 4) for w in v] for k, v in ahead.items()},
        "right": exact_match(texts, right),
        "first": sum(hits) / len(hits),
        "examples": [
            [case["source"], text, case["references"][0]]
            for case, text in zip(cases[:3], texts[:3], strict=True)
        ],
    }
