"""What is in the French-English file of Tatoeba's sentences.

Needs the file: TRANSFORMER_LIB_DATA names the folder that holds it, or it is
downloaded. Lines, odd lines, characters that have several spellings, lengths,
groups; how much of a test its training pairs give away, when pairs are drawn
by lot and when groups are; and how many words of a test are new after so many
training sentences, beside the share of words that have been seen once.
"""

import random
from collections import Counter

from transformer_lib.corpus import groups, read_pairs, split
from transformer_lib.real_corpus import (
    KNOWN,
    fetch,
    hold_out,
    read_corpus,
    same,
)

KEYS = ["lines", "lengths", "groups", "leaks", "new words"]
SEEDS = [0, 1, 2]
HELD_OUT = 5000
SIZES = [1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 150_000]


def kept(longest=50):
    """French to English."""
    known = KNOWN["tatoeba"].languages
    return read_corpus(fetch("tatoeba"), known, "fr", "en", longest)


def lines():
    raw = read_pairs(fetch("tatoeba"), source=1, target=0)
    pairs, odd = kept()
    text = "".join(p.source for p in raw)
    marks = {f"U+{ord(c):04X}": text.count(c) for c in "\u202f\u00a0\u2009’'"}
    reasons = Counter(why.split()[0] == "as" for why in odd.values())
    return {
        "lines": len(raw),
        "pairs": len(pairs),
        "twice": reasons[True],
        "longer than 50 words": reasons[False],
        "in French": marks,
    }


def lengths():
    pairs, _ = kept(10_000)
    sides = {"fr": [p.source for p in pairs], "en": [p.target for p in pairs]}
    found = {}
    for name, texts in sides.items():
        words = [len(text.split()) for text in texts]
        counts = Counter(min(n, 25) for n in words)
        found[name] = {
            "mean": round(sum(words) / len(words), 3),
            "counts": [counts[n] for n in range(1, 26)],
            "sentences": len(set(texts)),
            "same": len(set(map(same, texts))),
        }
    return found


def group_sizes():
    pairs, _ = kept()
    sizes = Counter(map(len, groups(pairs)))
    return {"pairs": len(pairs), "sizes": sorted(sizes.items())}


def seen(train, test, of=str):
    """Shares of the test's sources and targets that training has."""
    return [
        round(
            sum(of(p[side]) in known for p in test) / max(len(test), 1),
            5,
        )
        for side in (0, 1)
        for known in [{of(p[side]) for p in train}]
    ]


def leaks():
    pairs, _ = kept()
    found = {"held out": HELD_OUT, "seeds": []}
    many = Counter(p.source for p in pairs)
    h = HELD_OUT / len(pairs)
    expected = sum(1 - h ** (many[p.source] - 1) for p in pairs) / len(pairs)
    found["expected of sources by lot"] = round(expected, 5)
    for seed in SEEDS:
        order = list(range(len(pairs)))
        random.Random(seed).shuffle(order)
        test = [pairs[i] for i in order[:HELD_OUT]]
        train = [pairs[i] for i in order[HELD_OUT:]]
        by_split = split(pairs, HELD_OUT, seed)
        apart = hold_out(pairs, [HELD_OUT], seed)
        found["seeds"].append(
            {
                "by lot": seen(train, test),
                "by lot, the same": seen(train, test, same),
                "split": seen(*by_split),
                "split, the same": seen(*by_split, same),
                "hold_out, the same": seen(*apart, same),
            }
        )
    return found


def words(text):
    return same(text).split()


def new_words():
    pairs, _ = kept()
    found = []
    for seed in SEEDS:
        train, test = hold_out(pairs, [1500], seed)
        random.Random(seed).shuffle(train)
        for side, language in enumerate(("fr", "en")):
            once = list(dict.fromkeys(p[side] for p in train))
            asked = [w for p in test for w in words(p[side])]
            for size in SIZES:
                counts = Counter(w for t in once[:size] for w in words(t))
                total = sum(counts.values())
                if size <= len(once):
                    found.append(
                        {
                            "seed": seed,
                            "language": language,
                            "sentences": size,
                            "words": total,
                            "kinds": len(counts),
                            "once": sum(c == 1 for c in counts.values()),
                            "new": sum(w not in counts for w in asked),
                            "asked": len(asked),
                        }
                    )
    return {"runs": found}


def run(key):
    parts = lines, lengths, group_sizes, leaks, new_words
    return dict(zip(KEYS, parts, strict=True))[key]()
