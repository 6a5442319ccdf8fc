"""What a run depends on: chapter 20c."""

from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from transformer_lib.corpus import Pair
from transformer_lib.recipe import (
    Settings,
    examples,
    lessons,
    parts,
    training_run,
)
from transformer_lib.training import train_until

SMALL = {"d_model": 16, "d_ff": 32, "n_heads": 2, "n_encoder_layers": 1}
SMALL |= {"n_decoder_layers": 1, "max_len": 64}


@pytest.fixture
def few(tmp_path):
    path = tmp_path / "few.tsv"
    lines = [f"Word {i}.\tMot {i} !\n" for i in range(200)]
    path.write_text("".join(lines), encoding="utf-8", newline="\n")
    return Settings(
        corpus=str(path), columns=["en", "fr"], sizes=SMALL, vocab=300,
        steps=6, tokens=200,
    )  # fmt: skip


def weights(settings, **how):
    data = examples(settings)
    translator, run, batches = training_run(settings, data, no_bar=True, **how)
    train_until(run, batches, settings.steps)
    return translator.model.state_dict()


def equal(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


def test_equal_settings_give_equal_translators(few):
    once = weights(few)
    assert equal(once, weights(Settings(**asdict(few))))
    assert not equal(once, weights(replace(few, seed=1)))


@pytest.mark.parametrize(
    "change",
    [{"accumulate": 2}, {"precision": "bfloat16"}, {"smoothing": 0.0}],
)
def test_each_setting_is_heeded(few, change):
    assert not equal(weights(few), weights(replace(few, **change)))


def test_the_parts_depend_on_the_file_alone(few):
    cut = parts(few)
    assert [len(part) for part in cut] == [180, 10, 10]
    for other in ({"seed": 5}, {"vocab": 280}, {"steps": 9, "warmup": 1}):
        assert parts(replace(few, **other)) == cut
    some = parts(replace(few, sentences=50))
    assert len(some[0]) == 50
    assert some[1:] == cut[1:]


def test_a_run_that_leaves_out_long_sentences_is_not_tested_on_its_own(few):
    path = Path(few.corpus)
    lines = [f"A word{' or' * (i % 3)} {i}.\tMot {i}.\n" for i in range(200)]
    path.write_text("".join(lines), encoding="utf-8", newline="\n")
    odd = {}
    short, whole = parts(replace(few, longest=3), odd), parts(few)
    assert len(odd) == 133
    assert sum(map(len, short)) == 67
    for part, all_of_it in zip(short, whole, strict=True):
        assert set(part) <= set(all_of_it)


def test_a_translator_of_a_file_reads_in_lower_case_and_writes_whole(few):
    pair = examples(few)[0]
    assert pair.source == pair.source.lower()
    assert pair.target.startswith("Word")
    translator, *_ = training_run(few, examples(few))
    assert translator.config["text"] == "heard"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"steps": 0}, "steps is 0"),
        ({"average": 0}, "average is 0"),
        ({"warmup": 11, "steps": 10}, "warmup is 11"),
        ({"rate": 0.0}, "rate"),
        ({"smoothing": 1.0}, "smoothing"),
        ({"precision": "float8"}, "bfloat16"),
        ({"source": "de"}, "name another"),
        ({"source": "de", "target": "fr"}, "grammar has fr and en"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(wrong, says):
    with pytest.raises(ValueError, match=says):
        Settings(**wrong)


def test_a_model_of_two_ways_learns_every_pair_twice(few):
    both = replace(few, model="two-way")
    train, valid, test = parts(few)
    assert parts(both) == [train, valid, test]
    data = lessons(train, both)
    assert data == examples(both)
    assert data[:180] == examples(few)
    turned = replace(few, source="en", target="fr")
    assert data[180:] == examples(turned)
    translator, _, batches = training_run(both, data, no_bar=True)
    V, decode = translator.tokenizer.vocab_size, translator.tokenizer.decode
    seen = [
        (mark - V, Pair(decode(src), decode(tgt)))
        for some in batches(0)
        for (mark, *src), tgt in zip(*(x.tolist() for x in some), strict=True)
    ]
    assert Counter(seen) == Counter(
        [(0, p) for p in data[:180]] + [(1, p) for p in data[180:]]
    )
    assert not equal(weights(both), weights(replace(both, seed=1)))


@pytest.mark.bad_input
@pytest.mark.parametrize("some", [slice(180), slice(359), slice(1, 360)])
def test_a_model_of_two_ways_refuses_pairs_of_one(few, some):
    both = replace(few, model="two-way")
    with pytest.raises(ValueError, match="both of each pair: see `lessons`"):
        training_run(both, examples(both)[some], no_bar=True)
