"""Searches find what they should, and say truly how probable it is."""

import functools
import itertools
import math
from collections import defaultdict
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from transformer_lib import decoding
from transformer_lib.attention import BilinearAttention
from transformer_lib.decoding import (
    Hypothesis,
    beam_search,
    greedy_search,
    length_penalty,
)
from transformer_lib.encoder import TransformerConfig
from transformer_lib.rnn import AttentionRNN, ContextRNN, SimpleRNN
from transformer_lib.seq2seq import BOS, EOS, PAD, log_prob
from transformer_lib.transformer import Transformer

LETTERS = "PSEAB"  # PAD, BOS (start), EOS, two words
SRC = torch.tensor([[EOS]])


class Prefixes(NamedTuple):
    source: torch.Tensor
    ids: torch.Tensor

    def select(self, rows):
        return Prefixes(self.source[rows], self.ids[rows])


class Table:
    """Next-token probabilities by source and prefix; "*": all others.

    The source is the number of its row in `tables`, then EOS.
    """

    def __init__(self, *tables):
        self.tables = tables
        self.sizes = []  # rows in each step

    def logits(self, source, prefix):
        table = self.tables[source[0] - 3 if len(source) > 1 else 0]
        row = table.get("".join(LETTERS[i] for i in prefix[1:]), table["*"])
        p = [row.get(letter, 0.0) for letter in LETTERS]
        return torch.tensor(p, dtype=torch.float64).log()

    def rows(self, src, ids):
        pairs = zip(src.tolist(), ids.tolist(), strict=True)
        return torch.stack([self.logits(s, p) for s, p in pairs])

    def __call__(self, src, tgt_in):
        ts = range(1, tgt_in.size(1) + 1)
        return torch.stack([self.rows(src, tgt_in[:, :t]) for t in ts], 1)

    def start(self, src):
        return Prefixes(src, src[:, :0])

    def step(self, token, state):
        self.sizes.append(len(token))
        ids = torch.cat([state.ids, token[:, None]], dim=1)
        return self.rows(state.source, ids), Prefixes(state.source, ids)


def text(hypothesis):
    return "".join(LETTERS[i] for i in hypothesis.tokens)


def random_table(seed, marks=0.0):
    """A row for each prefix of up to 4 words; "marks" of it to PAD, BOS."""
    rng = np.random.default_rng(seed)
    table = {"*": {"E": 1.0}}
    for n in range(5):
        for prefix in itertools.product("AB", repeat=n):
            p = (1 - marks) * rng.dirichlet([0.7] * 3)
            row = dict(zip("EAB", p, strict=True))
            table["".join(prefix)] = row | {"P": 0.4 * marks, "S": 0.6 * marks}
    return table


def rescored(model, hypotheses, src=SRC):
    """Chapter 1's log P of each, one forced pass a hypothesis."""
    tgts = [torch.tensor([[BOS, *h.tokens]]) for h in hypotheses]
    with torch.no_grad():
        return [log_prob(model, src, tgt).item() for tgt in tgts]


def penalty(n, alpha):
    return ((5 + n) / 6) ** alpha


@functools.cache
def all_sentences(seed, max_len):
    """All that end within max_len tokens, with chapter 1's log P."""
    bodies = [
        body
        for n in range(max_len)
        for body in itertools.product([3, 4], repeat=n)
    ]
    rows = [[BOS, *b, EOS, *[PAD] * (max_len - 1 - len(b))] for b in bodies]
    src = SRC.expand(len(rows), -1)
    p = log_prob(Table(random_table(seed)), src, torch.tensor(rows)).tolist()
    return [([*b, EOS], q) for b, q in zip(bodies, p, strict=True)]


def exhaustive(seed, max_len, alpha):
    found = [
        Hypothesis(tokens, p, p / penalty(len(tokens), alpha), True)
        for tokens, p in all_sentences(seed, max_len)
    ]
    return sorted(found, key=lambda h: -h.score)


def plain_beam(table, beam, max_len, alpha, n_best):
    """Chapter 19's rules for one sentence, without its early stop."""
    live, ended = [("", 0.0)], []
    for n in range(1, max_len + 1):
        grown = [
            (prefix + letter, p + math.log(table[prefix][letter]))
            for prefix, p in live
            for letter in "EAB"
        ]
        grown.sort(key=lambda pair: -pair[1])
        ended += [
            (t, p, p / penalty(n, alpha))
            for t, p in grown[:beam]
            if t[-1] == "E"
        ]
        live = [(t, p) for t, p in grown if t[-1] != "E"][:beam]
        ended.sort(key=lambda triple: -triple[2])
        if not live:
            break
        if len(ended) >= beam:
            if ended[n_best - 1][2] >= live[0][1] / penalty(n, alpha):
                break
    cut = [(t, p, p / penalty(len(t), alpha)) for t, p in live]
    return ended + cut


def greedy_loop(table, max_len):
    prefix, p = "", 0.0
    while len(prefix) < max_len and not prefix.endswith("E"):
        letter = max("EAB", key=table[prefix].get)
        p += math.log(table[prefix][letter])
        prefix += letter
    return prefix, p


# What is found


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_a_wide_beam_equals_exhaustive_search(alpha):  # O22
    for seed in range(200):
        table = random_table(seed)
        (found,) = beam_search(
            Table(table), SRC, beam=64, max_len=4, n_best=15, alpha=alpha
        )
        oracle = exhaustive(seed, 4, alpha)
        assert [h.tokens for h in found] == [h.tokens for h in oracle]
        for mine, right in zip(found, oracle, strict=True):
            assert mine.finished
            assert math.isclose(mine.log_prob, right.log_prob, rel_tol=1e-12)
            assert math.isclose(mine.score, right.score, rel_tol=1e-12)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("beam", [2, 3, 4])
def test_a_narrow_beam_keeps_what_the_rules_say(beam, alpha):
    for seed in range(100):
        table = random_table(seed)
        n_best = 1 + seed % beam
        (found,) = beam_search(
            Table(table), SRC, beam=beam, max_len=5, n_best=n_best, alpha=alpha
        )
        right = plain_beam(table, beam, 5, alpha, n_best)[:n_best]
        assert [text(h) for h in found] == [t for t, _, _ in right]
        for mine, (_, p, score) in zip(found, right, strict=True):
            assert math.isclose(mine.log_prob, p, rel_tol=1e-12)
            assert math.isclose(mine.score, score, rel_tol=1e-12)


@pytest.mark.parametrize("beam", [1, 2, 3, 4])
def test_ends_of_small_probability_do_not_end_a_sure_search(beam):
    rows = {"A" * n: {"A": 0.97, "E": 0.02, "B": 0.01} for n in range(8)}
    table = defaultdict(lambda: {"E": 0.4, "A": 0.3, "B": 0.3}, rows)
    table["A" * 8] = {"E": 0.98, "A": 0.01, "B": 0.01}
    (found,) = beam_search(Table(table), SRC, beam=beam, max_len=20)
    assert text(found[0]) == "A" * 8 + "E"


def test_a_beam_of_one_is_greedy_token_for_token():  # O23
    for seed in range(300):
        table = random_table(seed)
        tokens, p = greedy_loop(table, 5)
        (greedy,) = greedy_search(Table(table), SRC, 5)
        ((one,),) = beam_search(Table(table), SRC, beam=1, max_len=5)
        assert text(greedy) == text(one) == tokens
        assert math.isclose(greedy.log_prob, p, rel_tol=1e-12)
        assert math.isclose(one.log_prob, p, rel_tol=1e-12)
        assert greedy.finished == one.finished == tokens.endswith("E")
        assert greedy.score == greedy.log_prob


EARLY = {
    "": {"E": 0.40, "A": 0.35, "B": 0.25},
    "A": {"E": 0.9, "A": 0.05, "B": 0.05},
    "*": {"E": 0.5, "A": 0.3, "B": 0.2},
}
LATE = {
    "": {"A": 0.9, "B": 0.1},
    "A": {"E": 0.6, "A": 0.4},
    "*": {"E": 0.5, "A": 0.5},
}


@pytest.fixture
def mean_score(monkeypatch):
    """Ranks by log p / tokens, which our penalty cannot express."""
    monkeypatch.setattr(decoding, "length_penalty", lambda n, alpha: n)


def best_of(table, max_len, alpha=0.0):
    ((best,),) = beam_search(
        Table(table), SRC, beam=2, max_len=max_len, alpha=alpha
    )
    return text(best), round(best.score, 4)


def test_by_probability_an_early_end_at_the_top_wins():  # O22 a
    assert best_of(EARLY, 4) == ("E", -0.9163)


def test_an_early_end_at_the_top_does_not_stop_the_search(
    mean_score,
):  # O22 a
    assert best_of(EARLY, 4) == ("AE", -0.5776)


def test_the_length_penalty_can_overtake_an_early_end():
    log_p = math.log(0.35 * 0.9)
    assert best_of(EARLY, 4, 1.5)[0] == "E"
    assert best_of(EARLY, 4, 2.0) == ("AE", round(log_p / (7 / 6) ** 2, 4))


def test_what_has_ended_is_not_forgotten():  # O22 b
    assert best_of(LATE, 3) == ("AE", -0.6162)


def test_what_has_ended_is_not_forgotten_with_a_mean_score(
    mean_score,
):  # O22 b
    assert best_of(LATE, 3) == ("AE", -0.3081)


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_the_end_as_first_token_is_the_empty_sentence(beam):  # O23
    table = {"": {"E": 0.9, "A": 0.1}, "*": {"E": 1.0}}
    ((best,),) = beam_search(Table(table), SRC, beam=beam, max_len=4)
    assert (text(best), round(best.score, 4)) == ("E", -0.1054)


def test_beam_two_finds_what_greedy_gave_away():  # O23
    table = {
        "": {"A": 0.6, "B": 0.4},
        "A": {"A": 0.55, "E": 0.45},
        "B": {"E": 0.95, "A": 0.05},
        "*": {"E": 1.0},
    }
    (greedy,) = greedy_search(Table(table), SRC, 4)
    (found,) = beam_search(
        Table(table), SRC, beam=2, max_len=4, alpha=0.0, n_best=2
    )
    assert (text(greedy), round(math.exp(greedy.log_prob), 6)) == ("AAE", 0.33)
    assert [text(h) for h in found] == ["BE", "AAE"]
    assert [round(math.exp(h.log_prob), 6) for h in found] == [0.38, 0.33]


def test_the_n_best_are_pairwise_different():  # O23
    for seed in range(50):
        (found,) = beam_search(
            Table(random_table(seed)), SRC, beam=5, max_len=5, n_best=5
        )
        assert len({text(h) for h in found}) == len(found) == 5


def test_fewer_than_n_best_where_there_are_no_more():
    table = {"*": {"E": 1.0}}
    (found,) = beam_search(Table(table), SRC, beam=3, max_len=4, n_best=3)
    assert [text(h) for h in found] == ["E"]


def test_impossible_tokens_are_never_written():
    table = {"": {"A": 1.0}, "*": {"E": 1.0}}
    (found,) = beam_search(Table(table), SRC, beam=4, max_len=4, n_best=4)
    assert [text(h) for h in found] == ["AE"]


# Length


@pytest.mark.parametrize(
    ("length", "right"), [(1, 1.0), (5, 1.3587), (10, 1.7329)]
)
def test_the_penalty_is_the_one_of_gnmt(length, right):  # O24
    assert round(length_penalty(length, 0.6), 4) == right


@pytest.mark.parametrize(
    ("alpha", "short", "long"),
    [(0.0, -2.0, -2.6), (0.6, -1.8233, -1.8073), (1.0, -1.7143, -1.4182)],
)
def test_log_probabilities_are_divided_by_the_penalty(
    alpha, short, long
):  # O24
    assert round(-2.0 / length_penalty(2, alpha), 4) == short
    assert round(-2.6 / length_penalty(6, alpha), 4) == long


def test_a_search_ranks_by_the_same_score():  # O24
    e = math.exp
    table = {
        "": {"A": e(-2.6), "B": 1 - e(-2.6)},
        "B": {"E": e(-2.0) / (1 - e(-2.6)), "P": 1.0},
        **{"A" * n: {"A": 1.0} for n in range(1, 5)},
        "*": {"E": 1.0},
    }
    for alpha, best in [(0.0, "BE"), (0.6, "AAAAAE"), (1.0, "AAAAAE")]:
        model = Table(table)
        ((found,),) = beam_search(model, SRC, beam=4, max_len=9, alpha=alpha)
        assert text(found) == best
        assert math.isclose(
            found.score, found.log_prob / penalty(len(best), alpha)
        )


hypotheses = st.tuples(st.floats(-50, -1e-3), st.integers(1, 60))


@given(
    st.lists(hypotheses, min_size=2, max_size=8),
    st.floats(0, 3),
    st.floats(0, 3),
)
def test_a_larger_alpha_never_prefers_a_shorter_one(some, a, b):  # O24
    def best(alpha):
        scores = [(p / length_penalty(n, alpha), n) for p, n in some]
        top = max(scores)[0]
        return [n for score, n in scores if math.isclose(score, top)]

    assert min(best(min(a, b))) <= max(best(max(a, b)))


# The end, and the company


ROW0 = {"": {"A": 1.0}, "A": {"E": 0.5, "A": 0.3, "B": 0.2}, "*": {"B": 1.0}}
ROW1 = {"": {"A": 0.6, "B": 0.4}, "ABB": {"E": 1.0}, "*": {"B": 1.0}}


def test_greedy_decoding_ends_row_by_row():  # O25
    model = Table(ROW0, ROW1)
    first, second = greedy_search(model, torch.tensor([[3, 2], [4, 2]]), 6)
    assert [text(first), text(second)] == ["AE", "ABBE"]
    assert model.sizes == [2, 2, 1, 1]
    assert math.isclose(first.log_prob, math.log(1.0) + math.log(0.5))
    assert first.finished
    assert second.finished


def test_sentences_that_are_over_leave_the_batch():
    model = Table(ROW0, ROW1)
    src = torch.tensor([[3, 2], [4, 2]])
    beam_search(model, src, beam=2, max_len=6, alpha=0.0)
    # A 0.5 end beats what is open at once; ROW1 has A and B to follow.
    assert model.sizes == [2, 3, 2, 2]


def test_a_search_stops_when_nothing_open_can_overtake():
    sure = {"": {"E": 0.9, "A": 0.1}, "*": {"A": 0.5, "B": 0.5}}
    model = Table(sure)
    beam_search(model, SRC, beam=4, max_len=50)
    assert len(model.sizes) == 1


def test_the_length_penalty_keeps_open_what_may_still_win():
    table = {"": {"E": 0.5, "A": 0.5}, "*": {"A": 1.0}, "AAAAAA": {"E": 1.0}}
    ((best,),) = beam_search(Table(table), SRC, beam=2, max_len=9, alpha=0.6)
    assert text(best) == "AAAAAAE"


def test_what_is_cut_off_says_so_and_comes_last():
    table = {"": {"A": 0.99, "E": 0.01}, "*": {"A": 1.0}}
    for n_best in (1, 2):
        (found,) = beam_search(
            Table(table), SRC, beam=2, max_len=3, n_best=n_best
        )
        expected = [("E", True), ("AAA", False)][:n_best]
        assert [(text(h), h.finished) for h in found] == expected
    (greedy,) = greedy_search(Table(table), SRC, 3)
    assert (text(greedy), greedy.finished) == ("AAA", False)


def test_no_pad_or_bos_is_written_though_they_keep_their_share():
    for seed in range(20):
        table = random_table(seed, marks=0.8)
        model = Table(table)
        (found,) = beam_search(model, SRC, beam=6, max_len=4, n_best=6)
        found += greedy_search(model, SRC, 4)
        assert {"P", "S"}.isdisjoint("".join(text(h) for h in found))
        for h, right in zip(found, rescored(model, found), strict=True):
            assert math.isclose(h.log_prob, right, rel_tol=1e-12)


def test_other_marks_can_be_named():
    table = {"": {"A": 0.6, "P": 0.4}, "*": {"P": 1.0}}
    marks = dict(bos=4, eos=PAD, pad=EOS)
    (greedy,) = greedy_search(Table(table), SRC, 4, **marks)
    assert (text(greedy), greedy.finished) == ("AP", True)
    ((best,),) = beam_search(Table(table), SRC, max_len=4, alpha=0.0, **marks)
    assert text(best) == "AP"


def test_no_sentences_no_hypotheses():
    empty = torch.zeros(0, 3, dtype=torch.long)
    assert beam_search(Table(ROW0), empty, max_len=3) == []
    assert greedy_search(Table(ROW0), empty, 3) == []


# Models with a state


def spread(model):
    """In double precision, with opinions: else all beams look alike."""
    torch.manual_seed(1)
    for p in model.parameters():
        nn.init.normal_(p, std=0.7)
    return model.double().eval()


SIZES = TransformerConfig.tiny(9, d_model=16, d_ff=16, n_heads=2)
MODELS = {
    "SimpleRNN": lambda: SimpleRNN(9, 8, 8),
    "ContextRNN": lambda: ContextRNN(9, 8, 8),
    "AttentionRNN": lambda: AttentionRNN(9, 8, 8, BilinearAttention(8, 8)),
    "Transformer": lambda: Transformer.from_config(SIZES),
}


@pytest.fixture(params=MODELS)
def model(request):
    return spread(MODELS[request.param]())


def sources(*lengths, seed=0):
    rng = torch.Generator().manual_seed(seed)
    src = torch.full((len(lengths), max(lengths) + 1), PAD)
    for row, n in zip(src, lengths, strict=True):
        row[:n] = torch.randint(3, 9, (n,), generator=rng)
        row[n] = EOS
    return src


@pytest.mark.parametrize("beam", [1, 3, 5])
def test_every_reported_number_is_what_a_forced_pass_gives(model, beam):  # O27
    src = sources(4, 1, 7, 3, 6)
    batch = beam_search(model, src, beam=beam, max_len=9, n_best=beam)
    for row, found in zip(src, batch, strict=True):
        for h, p in zip(found, rescored(model, found, row[None]), strict=True):
            assert abs(h.log_prob - p) < 1e-10
            assert abs(h.score - p / penalty(len(h.tokens), 0.6)) < 1e-10


def assert_same(some, others):
    assert [h.tokens for h in some] == [h.tokens for h in others]
    for one, other in zip(some, others, strict=True):
        assert abs(one.log_prob - other.log_prob) < 1e-10


def test_a_sentence_is_translated_as_if_it_were_alone(model):  # O28
    src = sources(1, 3, 12, 0)
    together = beam_search(model, src, beam=3, max_len=8, n_best=3)
    greedy = greedy_search(model, src, 8)
    for row, found, g in zip(src, together, greedy, strict=True):
        alone = row[None, : int((row != PAD).sum())]
        (right,) = beam_search(model, alone, beam=3, max_len=8, n_best=3)
        assert_same(found, right)
        assert_same([g], greedy_search(model, alone, 8))


def test_permuting_the_batch_permutes_the_results(model):  # O28
    src, order = sources(1, 3, 12), [2, 0, 1]
    one = beam_search(model, src, beam=3, max_len=8, n_best=3)
    other = beam_search(model, src[order], beam=3, max_len=8, n_best=3)
    for i, found in zip(order, other, strict=True):
        assert_same(found, one[i])


class Dropping(nn.Module):
    """All dropout: its logits say whether it is switched on."""

    def __init__(self):
        super().__init__()
        self.dropout, self.frozen = nn.Dropout(0.5), nn.Dropout(0.5)
        self.frozen.eval()
        self.bias = nn.Parameter(torch.tensor([0.0, 0.0, 2.0, 1.0]))
        self.seen = []

    def start(self, src):
        return Prefixes(src, src)

    def step(self, token, state):
        logits = self.dropout(self.bias.expand(len(token), -1))
        self.seen.append((logits, torch.is_grad_enabled()))
        return logits, state


def test_searching_neither_drops_nor_records_and_leaves_all_as_it_was():
    model = Dropping()
    before = torch.get_rng_state()
    greedy_search(model, SRC, 3)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(z[0], model.bias) for z, _ in model.seen)
    assert not any(recording for _, recording in model.seen)
    assert model.training
    assert model.dropout.training
    assert not model.frozen.training


def test_a_failing_search_leaves_the_model_as_it_was():
    model = Dropping()
    model.bias.data.fill_(math.nan)
    with pytest.raises(FloatingPointError):
        greedy_search(model, SRC, 3)
    assert model.dropout.training
    assert torch.is_grad_enabled()


def test_half_precision_logits_are_normalised_in_single():
    model = Dropping()
    (wide,) = greedy_search(model, SRC, 1)
    model.bias.data = model.bias.data.bfloat16()
    (half,) = greedy_search(model, SRC, 1)
    assert abs(wide.log_prob - half.log_prob) < 1e-6


# Bad input


@pytest.mark.bad_input
@pytest.mark.parametrize("alpha", [-0.1, math.nan, math.inf])
def test_an_alpha_that_would_punish_length_is_refused(alpha):
    with pytest.raises(ValueError, match=r"alpha is .*expected 0 ≤ α < ∞"):
        length_penalty(3, alpha)
    with pytest.raises(ValueError, match="alpha"):
        beam_search(Table(ROW0), SRC, max_len=3, alpha=alpha)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    "wrong",
    [dict(beam=0), dict(n_best=0), dict(n_best=5), dict(max_len=0)],
    ids=str,
)
def test_what_no_search_can_do_is_refused_by_name(wrong):
    ((name, value),) = wrong.items()
    settings = dict(beam=4, max_len=3) | wrong
    with pytest.raises(ValueError, match=f"{name}={value}"):
        beam_search(Table(ROW0), SRC, **settings)


@pytest.mark.bad_input
def test_an_alpha_whose_penalty_is_no_float_is_refused():
    with pytest.raises(ValueError, match=r"alpha is 10000.0: .* 3 tokens"):
        length_penalty(3, 1e4)
    with pytest.raises(ValueError, match=r"alpha is 10000.0: .* 9 tokens"):
        beam_search(Table(ROW0), SRC, max_len=9, alpha=1e4)


@pytest.mark.bad_input
@pytest.mark.parametrize("name", ["bos", "eos", "pad"])
@pytest.mark.parametrize("mark", [-1, 5])
def test_a_mark_outside_the_vocabulary_is_refused(name, mark):
    message = f"{name} is {mark}, expected 0 to 4, .*trained with"
    with pytest.raises(ValueError, match=message):
        beam_search(Table(ROW0), SRC, max_len=3, **{name: mark})
    with pytest.raises(ValueError, match=message):
        greedy_search(Table(ROW0), SRC, 3, **{name: mark})


@pytest.mark.bad_input
@pytest.mark.parametrize("eos", [BOS, PAD])
def test_an_eos_that_is_never_written_is_refused(eos):
    with pytest.raises(ValueError, match=f"eos={eos} is never written"):
        beam_search(Table(ROW0), SRC, max_len=3, eos=eos)


@pytest.mark.bad_input
def test_logits_that_are_no_numbers_stop_the_search():
    for row in ({}, {"P": 1.0}):
        with pytest.raises(FloatingPointError, match="logits"):
            beam_search(Table({"*": row}), SRC, max_len=3)
