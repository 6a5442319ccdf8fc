"""Small models beyond the paper's: shared layers, relative positions, both
ways, and the two halves alone.

All are pre-LN, of width 64, and learn a corner of the grammar in the same
number of steps; those that translate do it from English to French unless
their name says otherwise. Kept of translators: parameters, seconds of one
processor a step, the loss, right words and right sentences on held-out
sentences, and on longer ones than any learned from the right words by their
place. Of the half that fills gaps: how many of the hidden words it finds, and
how many the word that is most frequent. Of the half that goes on writing: the
loss a word piece, beside those of frequencies of one and of two pieces.
"""

import math
import time
from collections import Counter
from functools import cache

import torch
from torch import nn
from torch.nn.functional import cross_entropy as plain_loss

from transformer_lib.__main__ import (
    Settings,
    examples,
    held_out,
    judge,
    training_run,
)
from transformer_lib.attention import causal_mask, padding_mask
from transformer_lib.corpus import Pair
from transformer_lib.embedding import TokenEmbedding
from transformer_lib.encoder import Encoder, EncoderLayer, TransformerConfig
from transformer_lib.grammar import corpus, pairs
from transformer_lib.loss import evaluate
from transformer_lib.multi_head_attention import (
    MultiHeadAttention,
    merge_heads,
)
from transformer_lib.normalization import PreNorm
from transformer_lib.positional_encoding import (
    NoPosition,
    SinusoidalPositionalEncoding,
)
from transformer_lib.seq2seq import BOS, EOS, PAD, shift
from transformer_lib.tokenization import make_batch, token_batches
from transformer_lib.training import linear_rate, train_until
from transformer_lib.transformer import Parts, Transformer
from transformer_lib.translator import Translator, normalise

SEEDS = [0, 1, 2]
STEPS, RATE, WARMUP = 700, 3e-3, 50
CORNER = ["agreement", "elision", "negation", "adjectives", "relatives"]
CORNER += ["coordination"]
SIZES = {"d_model": 64, "d_ff": 256, "n_heads": 4, "p_drop": 0.0}
SIZES |= {"n_encoder_layers": 2, "n_decoder_layers": 2, "max_len": 256}
CLIP = 8  # distances that relative positions tell apart


class SharedEncoder(Encoder):
    """Its one layer, n times."""

    def __init__(self, layer, final_norm, times):
        super().__init__([layer], final_norm)
        self.times = times

    def forward(self, x, *reads):
        for _ in range(self.times):
            x = self.layers[0](x, *reads)
        return self.final_norm(x)


class RelativeAttention(MultiHeadAttention):
    """Keys and values hear how far they stand from the query."""

    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads)
        d_k = d_model // n_heads
        self.far_k = nn.Parameter(torch.randn(2 * CLIP + 1, d_k) / d_k**0.5)
        self.far_v = nn.Parameter(torch.randn(2 * CLIP + 1, d_k) / d_k**0.5)

    def attend(self, x, k, v, mask=None):
        q = self._queries(x)  # (B, H, T, d_k), the last T of S positions
        T, S = q.size(2), k.size(2)
        place = torch.arange(S)
        far = place - place[S - T :, None]  # (T, S): key less query
        far = far.clamp(-CLIP, CLIP) + CLIP
        scores = q @ k.mT + torch.einsum("bhtd,tsd->bhts", q, self.far_k[far])
        scores = scores / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(~mask.unsqueeze(1), -math.inf)
        a = scores.softmax(dim=-1)
        heads = a @ v + torch.einsum("bhts,tsd->bhtd", a, self.far_v[far])
        return self.w_o(merge_heads(heads))


class TwoWays(Transformer):
    """One model for both directions: a source says which, by its first id.

    The id is taken off, and its vector is added to all words of the source.
    """

    def encode(self, src):
        marks, src = src[:, 0], src[:, 1:]
        mask = padding_mask(src, self.pad)
        x = self.src_embedding(src) + self.src_embedding(marks)[:, None]
        return self.encoder(self.positional(x), mask), mask


def whole(config, **parts):
    return Transformer.from_config(config, around=PreNorm, **parts)


def shared(times):
    def make(config):
        model = whole(config)
        layer, norm = model.encoder.layers[0], model.encoder.final_norm
        model.encoder = SharedEncoder(layer, norm, times)
        return model

    return make


def relative(config, **parts):
    model = whole(config, **parts)
    for layer in [*model.encoder.layers, *model.decoder.layers]:
        layer.self_attention = RelativeAttention(64, 4)
    return model


def unplaced(config):
    return whole(config, positional=lambda c: NoPosition())


def both_ways(config):
    make = Parts(around=PreNorm)
    encoder = make.stack(Encoder, 2, EncoderLayer, 1, config)
    like = whole(config)
    parts = like.src_embedding, like.positional, encoder, like.decoder
    return TwoWays(*parts)


def layers(n):
    return {"n_encoder_layers": n}


ROWS = {  # name: source, sizes, how it is made
    "2 layers": ("en", {}, whole),
    "1 layer": ("en", layers(1), whole),
    "4 layers": ("en", layers(4), whole),
    "1 layer, twice": ("en", layers(1), shared(2)),
    "1 layer, four times": ("en", layers(1), shared(4)),
    "relative": (
        "en",
        {},
        lambda c: relative(c, positional=lambda c: NoPosition()),
    ),
    "no positions": ("en", {}, unplaced),
    "fr-en": ("fr", {}, whole),
    "both ways": ("both", {}, both_ways),
    "both ways, twice the steps": ("both", {}, both_ways),
}
HALVES = ["fills gaps", "goes on"]
KEYS = [f"{name} | {seed}" for seed in SEEDS for name in [*ROWS, *HALVES]]


def settings(seed, source="en", steps=STEPS):
    return Settings(
        source=source,
        phenomena=CORNER,
        sentences=30_000,
        sizes=SIZES,
        steps=steps,
        tokens=768,
        rate=RATE,
        warmup=WARMUP,
        smoothing=0.0,
        seed=seed,
    )


@cache
def data(seed):
    """Pairs from English, and the tokenizer of every model of a seed."""
    s = settings(seed)
    found = examples(s)
    return found, training_run(s, found)[0].tokenizer


def turned(found):
    return [Pair(p.target, p.source) for p in found]


def marks(tokenizer):
    """Ids that no text contains, one for each language to write."""
    return {"fr": tokenizer.vocab_size, "en": tokenizer.vocab_size + 1}


def two_way_batches(found, tokenizer, seed):
    sides = [("fr", found), ("en", turned(found))]
    mark, encode = marks(tokenizer), tokenizer.encode
    rows = [
        ([mark[to], *encode(p.source)], encode(p.target))
        for to, some in sides
        for p in some
    ]
    src, tgt = ([*side] for side in zip(*rows, strict=True))
    lengths = [max(map(len, two)) + 1 for two in rows]

    def batches(epoch):
        for some in token_batches(lengths, 768, seed * 1_000_003 + epoch):
            yield make_batch([src[i] for i in some], [tgt[i] for i in some])

    return batches


class Marked(Translator):
    """Puts the mark of its target in front of what it reads."""

    mark = 0

    def ids(self, line, number):
        return [self.mark, *super().ids(line, number)]


def padded(encode, some, before=()):
    sides = zip(
        *[([*before, *encode(p.source)], encode(p.target)) for p in some],
        strict=True,
    )
    return make_batch(*map(list, sides))


@torch.no_grad()
def by_place(model, src, tgt):
    """Right words and words, for target places 0–9, 10–19, 20–29, 30 on."""
    tgt_in, labels = shift(tgt)
    right = (model(src, tgt_in).argmax(-1) == labels) & (labels != PAD)
    found = []
    for begin, end in [(0, 10), (10, 20), (20, 30), (30, None)]:
        here = slice(begin, end)
        real = int((labels[:, here] != PAD).sum())
        found.append([int(right[:, here].sum()), real])
    return found


def quality(translator, model, source, before=()):
    encode = translator.tokenizer.encode
    new = pairs(corpus(300, 99, "test", CORNER), source)
    found = evaluate(model, [padded(encode, new, before)])
    cases = held_out(translator, 300, 99, phenomena=CORNER)
    judge(translator, cases, beam=1)
    long = pairs(corpus(200, 99, "length", CORNER), source)
    return {
        "nll": round(found["nll"], 4),
        "accuracy": round(found["accuracy"], 4),
        "right": sum(case["right"] for case in cases) / len(cases),
        "places": by_place(model, *padded(encode, long, before)),
    }


def translate(name, seed):
    source, sizes, make = ROWS[name]
    steps = STEPS * (2 if "twice the steps" in name else 1)
    s = settings(seed, "en" if source == "both" else source, steps)
    found, tokenizer = data(seed)
    if source == "fr":
        found = turned(found)
    translator, training, batches = training_run(s, found, tokenizer)
    torch.manual_seed(seed)
    size = tokenizer.vocab_size + 2 * (source == "both")
    model = make(TransformerConfig(size, **SIZES | sizes))
    if source == "both":
        batches = two_way_batches(found, tokenizer, seed)
    training.model = model
    training.optimizer = torch.optim.Adam(
        model.parameters(), lr=RATE, betas=(0.9, 0.98), eps=1e-9, fused=True
    )
    begun = time.process_time()
    for _ in train_until(training, batches, steps):
        pass
    seconds = (time.process_time() - begun) / steps
    model.eval()
    said = {
        "parameters": sum(p.numel() for p in model.parameters()),
        "seconds": round(seconds, 4),
    }
    if source != "both":
        trained = Translator(model, tokenizer, translator.config)
        return said | quality(trained, model, source)
    for target, other in [("fr", "en"), ("en", "fr")]:
        config = translator.config | {"source": other, "target": target}
        trained = Marked(model, tokenizer, config)
        trained.mark = marks(tokenizer)[target]
        said[f"{other}-{target}"] = quality(
            trained, model, other, [trained.mark]
        )
        trained.mark = marks(tokenizer)[other]  # asked for its own language
        cases = held_out(trained, 300, 99, phenomena=CORNER)
        judge(trained, cases, beam=1)
        same = [
            case["translation"] == normalise(case["source"], other)
            for case in cases
        ]
        said[f"{other}-{target}"]["copied"] = sum(same) / len(same)
    return said


class Half(nn.Module):
    """A stack of encoder layers between an embedding and its logits."""

    def __init__(self, size, causal):
        super().__init__()
        config = TransformerConfig(size, **SIZES)
        make = Parts(around=PreNorm)
        self.embedding = TokenEmbedding(size, 64)
        self.positional = SinusoidalPositionalEncoding(64, 256)
        self.stack = make.stack(Encoder, 2, EncoderLayer, 1, config)
        self.causal = causal

    def forward(self, ids):
        mask = padding_mask(ids, PAD)
        if self.causal:
            mask = mask & causal_mask(ids.size(1))
        return self.embedding.logits(
            self.stack(self.positional(self.embedding(ids)), mask)
        )


def half(name, seed):
    """English alone: gaps of one piece in seven, or the next piece."""
    found, tokenizer = data(seed)
    encode = tokenizer.encode
    lines = [[*encode(p.source), EOS] for p in found]
    new = pairs(corpus(300, 99, "test", CORNER), "en")
    test = [[*encode(p.source), EOS] for p in new]
    torch.manual_seed(seed)
    model = Half(tokenizer.vocab_size + 1, causal=name == "goes on")
    adam = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    rng = torch.Generator().manual_seed(seed)
    step = epoch = 0
    lengths = [len(line) + 1 for line in lines]
    while step < STEPS:
        for rows in token_batches(lengths, 768, seed * 1_000_003 + epoch):
            step += 1
            if step > STEPS:
                break
            ids = tensor([lines[i] for i in rows])
            loss = half_loss(model, ids, rng)
            for group in adam.param_groups:
                group["lr"] = linear_rate(step, RATE, WARMUP, STEPS)
            adam.zero_grad()
            loss.backward()
            adam.step()
        epoch += 1
    model.eval()
    said = {"parameters": sum(p.numel() for p in model.parameters())}
    with torch.no_grad():
        if model.causal:
            return said | next_pieces(model, lines, test)
        return said | gaps(model, lines, tensor(test), tokenizer)


def tensor(lines):
    longest = max(map(len, lines))
    return torch.tensor([[*x, *[PAD] * (longest - len(x))] for x in lines])


def hidden(ids, size, rng):
    """Ids with gaps, and which they are; EOS is none."""
    gap = (torch.rand(ids.shape, generator=rng) < 1 / 7) & (ids > EOS)
    return ids.masked_fill(gap, size - 1), gap


def half_loss(model, ids, rng):
    size = len(model.embedding.weight)
    if model.causal:
        begun = torch.cat([torch.full_like(ids[:, :1], BOS), ids], dim=1)
        logits, labels = model(begun[:, :-1]), begun[:, 1:]
        return plain_loss(logits.mT, labels, ignore_index=PAD)
    read, gap = hidden(ids, size, rng)
    if not gap.any():
        return 0 * model(read).sum()
    return plain_loss(model(read)[gap], ids[gap])


def gaps(model, lines, ids, tokenizer):
    """The share of gaps filled rightly, one gap a sentence and a place."""
    often = Counter(i for line in lines for i in line if i > EOS)
    likeliest = often.most_common(1)[0][0]
    size, hits, by_count, of, shown = len(model.embedding.weight), 0, 0, 0, []
    for row in ids:
        real = (row > EOS).nonzero()[:, 0]
        read = row.repeat(len(real), 1)
        read[range(len(real)), real] = size - 1
        logits = model(read)[range(len(real)), real]
        best = logits.argmax(-1)
        hits += int((best == row[real]).sum())
        by_count += int((row[real] == likeliest).sum())
        of += len(real)
        if len(shown) < 4 and len(real) > 6:
            p, top = logits.softmax(-1)[3].topk(3)
            words = [tokenizer.decode([i]).strip() for i in top.tolist()]
            gap = int(real[3])
            ends = row[:gap].tolist(), row[gap + 1 :][row[gap + 1 :] > EOS]
            text = " ___ ".join(
                tokenizer.decode([*map(int, end)]).strip() for end in ends
            )
            shown.append([text, words, [round(x, 2) for x in p.tolist()]])
    return {"right": hits / of, "likeliest": by_count / of, "shown": shown}


def next_pieces(model, lines, test):
    """Loss a piece, in nats: the model's, and those of frequencies."""
    ids = tensor(test)
    begun = torch.cat([torch.full_like(ids[:, :1], BOS), ids], dim=1)
    logits = model(begun[:, :-1])
    nll = plain_loss(logits.mT, begun[:, 1:], ignore_index=PAD).item()
    one = Counter(i for line in lines for i in line)
    two = Counter(
        both
        for line in lines
        for both in zip([BOS, *line], line, strict=False)
    )
    before = Counter(i for line in lines for i in [BOS, *line[:-1]])
    size, total = len(model.embedding.weight), sum(one.values())
    losses = {"one": 0.0, "two": 0.0}
    for line in test:
        for a, b in zip([BOS, *line], line, strict=False):
            share = (one[b] + 1) / (total + size)
            losses["one"] -= math.log(share)
            losses["two"] -= math.log((two[a, b] + share) / (before[a] + 1))
    n = sum(map(len, test))
    return {"nll": nll} | {name: x / n for name, x in losses.items()}


def run(key):
    torch.set_num_threads(1)
    name, seed = key.split(" | ")
    return (half if name in HALVES else translate)(name, int(seed))
