"""How the translator of real sentences learned, and what it is worth.

Needs the corpus, as 02g_tatoeba.py does. "learning" trains it by COMMAND in
runs/tatoeba, for hours, or goes on with what is there; the other two judge
what is in pretrained/tatoeba, each way with a beam of four: on all that no run
on this corpus learns from or is watched by, whole and by length, on the
articles' sentences, and on fifty everyday ones written for this, with the word
of each that was read least often in training.
"""

import hashlib
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import torch

from transformer_lib.__main__ import cases_of, judge, scores
from transformer_lib.corpus import Pair, read_pairs
from transformer_lib.real_corpus import KNOWN, cut_corpus, fetch, same
from transformer_lib.translator import Translator

SEEDS = [0]
KEYS = ["learning", "fr-en", "en-fr"]
ROOT = Path(__file__).parents[2]
RUN = ROOT / "runs" / "tatoeba"
SHIPPED = ROOT / "transformer_lib" / "pretrained" / "tatoeba"
COMMAND = (
    "python -m transformer_lib train --corpus tatoeba --model two-way"
    " --config small --set d_model=192 d_ff=768 --vocab 4000 --steps 12000"
    " --threads 2 --half"
)
EVERYDAY = ROOT / "benchmarks" / "translation" / "everyday.tsv"
ARTICLES = [
    Pair("je suis étudiant", "I am a student"),
    Pair("merci", "Thanks"),
]
LENGTHS = {"1 to 5": (1, 5), "6 to 10": (6, 10), "11 and more": (11, 999)}
BEAM = 4


def learning():
    words = COMMAND.split()[3:]
    if (RUN / "run.json").is_file():
        words = ["train", "--resume", "--half"]
    line = [sys.executable, "-m", "transformer_lib", *words, "--out", RUN]
    subprocess.run([*map(str, line)], check=True)
    text = (RUN / "log.jsonl").read_text(encoding="utf-8")
    steps, watched, begun = [*map(json.loads, text.splitlines())], [], 0
    for i, step in enumerate(steps, 1):
        if "valid" in step:
            loss = sum(s["loss"] for s in steps[begun:i]) / (i - begun)
            found = {"step": i, "loss": round(loss, 4)}
            watched.append(found | step["valid"])
            begun = i
    begun, ended = (
        (RUN / name).stat().st_mtime
        for name in ("run.json", "last-0.safetensors")
    )
    return {
        "trained by": COMMAND,
        "hours": round((ended - begun) / 3600, 2),
        "sha256": digest(RUN),
        "tokens": sum(step["tokens"] for step in steps),
        "watched": watched,
    }


def digest(folder):
    weights = (folder / "model.safetensors").read_bytes()
    return hashlib.sha256(weights).hexdigest()


def judged(translator, pairs):
    cases = cases_of(pairs, None)
    judge(translator, cases, BEAM)
    return cases


def measures(cases):
    found = scores(cases, cased=True)
    return {
        "exact_match": found["exact_match"],
        **{name: round(found[name][0], 2) for name in ("BLEU", "chrF")},
        "signature": found["BLEU"][1],
    }


def run(key):
    if key == "learning":
        return learning()
    torch.set_num_threads(1)
    source, target = key.split("-")
    translator = Translator.load(key)
    corpus = fetch("tatoeba"), KNOWN["tatoeba"].languages
    train, _, test = cut_corpus(*corpus, source, target)
    cases = judged(translator, test)
    found = {"sha256": digest(SHIPPED), "test": measures(cases)}
    found["with Tom or Mary"] = sum(
        not {"tom", "mary"}.isdisjoint(words(case["source"])) for case in cases
    )
    found["first 1000"] = measures(cases[:1000])
    found["by length"] = {
        name: measures(
            [c for c in cases if low <= len(c["source"].split()) <= high]
        )
        for name, (low, high) in LENGTHS.items()
    }
    known = {same(pair.source) for pair in train}
    read = Counter(w for pair in train for w in set(words(pair.source)))
    everyday = read_pairs(EVERYDAY, source=0, target=1)
    for name, pairs in [("everyday", everyday), ("articles", ARTICLES)]:
        ways = pairs if source == "fr" else [p[::-1] for p in pairs]
        cases = judged(translator, [Pair(*way) for way in ways])
        each = [
            {
                "source": case["source"],
                "reference": case["references"][0],
                "translation": case["translation"],
                "learned from": same(case["source"]) in known,
                "rarest": rarest(case["source"], read),
            }
            for case in cases
        ]
        found[name] = measures(cases) | {"each": each}
    return found


def words(text):
    return re.findall(r"\w+", text.lower())


def rarest(text, read):
    """The word that fewest sentences of the training have, and how many."""
    word = min(words(text), key=read.__getitem__)
    return [word, read[word]]
