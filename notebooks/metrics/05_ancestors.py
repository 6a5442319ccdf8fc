"""The three ancestors on the same sentences: French to English, in words.

Trained on sentences of at most 8 French words, tried on longer ones too.
The encoder reads in one direction, so that a word's distance from the end is
the way its trace has to go. Models of one seed get the same batches.
"""

from functools import cache

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

from transformer_lib.attention import AdditiveAttention
from transformer_lib.grammar import corpus
from transformer_lib.lexicon import NOUNS
from transformer_lib.rnn import AttentionRNN, ContextRNN, SimpleRNN
from transformer_lib.seq2seq import BOS, EOS, PAD, shift
from transformer_lib.translator import normalise

SEEDS = [0, 1, 2]
KINDS = ["simple", "context", "attention"]
KEYS = [f"{kind}, seed {seed}" for seed in SEEDS for kind in KINDS]
PHENOMENA = ["agreement", "adjectives", "negation", "relatives"]
LONGEST, STEPS, RATE = 8, 500, 6e-3
D_EMBED, D = 32, 64


@cache
def sentences(n, seed, part):
    """Pairs of lists of words."""
    found = corpus(n, seed, part, PHENOMENA)
    texts = ((normalise(s.french), normalise(s.english)) for s in found)
    return [(fr.split(), en.split()) for fr, en in texts]


def make(kind, vocab_size):
    sizes = {"vocab_size": vocab_size, "d_embed": D_EMBED, "d_hidden": D}
    sizes["bidirectional"] = False
    if kind == "attention":
        return AttentionRNN(attention=AdditiveAttention(D, D, D), **sizes)
    return {"simple": SimpleRNN, "context": ContextRNN}[kind](**sizes)


def rows(pairs, number):
    src = [torch.tensor([*map(number.get, fr), EOS]) for fr, _ in pairs]
    tgt = [torch.tensor([BOS, *map(number.get, en), EOS]) for _, en in pairs]
    return [pad_sequence(side, True, PAD) for side in (src, tgt)]


@torch.no_grad()
def right(model, pairs, number):
    """The share of right words, the gold ones before them given."""
    src, tgt = rows(pairs, number)
    tgt_in, labels = shift(tgt)
    real = labels != PAD
    return (model(src, tgt_in).argmax(-1) == labels)[real].double().mean()


def traces(model, pairs, number):
    """Gradients of the gold logits by the source: by distance, by step.

    First the mean norm for the first English word, from the last French
    word backwards; then that for all French words together, by step.
    """
    src, tgt = rows(pairs, number)
    tgt_in, labels = shift(tgt)
    seen = []

    def keep(part, given, out):
        seen.append(out)

    hook = model.embedding.register_forward_hook(keep)
    gold = model(src, tgt_in).gather(2, labels[..., None])[..., 0]
    hook.remove()
    by_step = []
    for t in range(6):
        (g,) = torch.autograd.grad(
            gold[:, t].sum(), seen[0], retain_graph=True, allow_unused=True
        )
        by_step.append(g.norm(dim=2))  # (sentence, word)
    first = by_step[0][:, :-1].mean(dim=0).flip(0).tolist()  # without EOS
    return first, [g[:, :-1].norm(dim=1).mean().item() for g in by_step]


@torch.no_grad()
def alignment(model, pairs, number):
    """How often the weights are largest at the noun that is translated."""
    french = {}
    for noun in NOUNS:
        french.setdefault(noun.en, set()).add(noun.fr)
    hits = of = 0
    maps = []
    for fr, en in pairs:
        src, tgt = rows([(fr, en)], number)
        state, weights = model.start(src), []
        for token in tgt[0, :-1]:
            query = state.hidden.unsqueeze(1)
            weights.append(model.attention.weights(query, *state.kept)[0, 0])
            _, state = model.step(token[None], state)
        for t, word in enumerate(en):
            at = [j for j, w in enumerate(fr) if w in french.get(word, ())]
            if len(at) == 1:
                hits += int(weights[t].argmax() == at[0])
                of += 1
        maps.append(torch.stack(weights))
    return hits, of, maps


def run(key):
    torch.set_num_threads(1)
    kind, seed = key.split(", seed ")
    seed = int(seed)
    pairs = sentences(8000, seed, "train")
    train = [p for p in pairs if len(p[0]) <= LONGEST]
    words = sorted({w for pair in pairs for side in pair for w in side})
    number = {w: i for i, w in enumerate(words, 3)}
    test = [
        pair
        for pair in sentences(2500, 99, "test")
        if all(w in number for side in pair for w in side)
    ]
    torch.manual_seed(seed)
    model = make(kind, len(number) + 3)
    eights = [p for p in test if len(p[0]) == LONGEST and len(p[1]) >= 6][:100]
    found = {"sentences": len(train), "before": traces(model, eights, number)}
    adam = torch.optim.Adam(model.parameters(), lr=RATE)
    rng = torch.Generator().manual_seed(seed)
    losses = []
    for step in range(STEPS):
        for group in adam.param_groups:
            group["lr"] = RATE * min(1, (STEPS - step) / 200)
        some = torch.randint(len(train), (32,), generator=rng).tolist()
        src, tgt = rows([train[i] for i in some], number)
        tgt_in, labels = shift(tgt)
        logits = model(src, tgt_in)
        loss = cross_entropy(logits.mT, labels, ignore_index=PAD)
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        losses.append(round(loss.item(), 4))
    model.eval()
    found["parameters"] = sum(p.numel() for p in model.parameters())
    found["loss"] = losses[::10]
    found["after"] = traces(model, eights, number)
    found["right"] = {}
    for n in range(3, 17):
        some = [p for p in test if len(p[0]) == n][:150]
        if len(some) >= 30:
            found["right"][n] = right(model, some, number).item()
    if kind == "attention":
        hits, of, _ = alignment(model, test[:300], number)
        found["alignment"] = {"right": hits, "of": of}
        adjectives = [p for p in eights if "not" not in p[1]][:1]
        _, _, maps = alignment(model, adjectives, number)
        found["map"] = [*adjectives[0], maps[0].tolist()]
    return found
