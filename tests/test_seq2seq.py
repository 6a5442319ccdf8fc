"""The interface of chapter 1, and the probability of a sentence."""

import itertools
import math
from dataclasses import dataclass

import pytest
import torch
from torch.testing import assert_close

from transformer_lib.seq2seq import (
    BOS,
    EOS,
    PAD,
    Seq2Seq,
    State,
    log_prob,
    shift,
)

V = 5  # the three marks and two words
WORDS = (3, 4)


@dataclass
class Prefixes:
    source: torch.Tensor
    prefix: torch.Tensor

    def select(self, rows):
        return Prefixes(self.source[rows], self.prefix[rows])


class RandomTable:
    """Other random logits after every source and every prefix."""

    def logits(self, source, prefix):
        seed = 1
        for number in (*source.tolist(), *prefix.tolist()):
            seed = (31 * seed + number + 1) % 2**31
        rng = torch.Generator().manual_seed(seed)
        z = 2 * torch.randn(V, dtype=torch.float64, generator=rng)
        z[[PAD, BOS]] = -math.inf
        return z

    def __call__(self, src, tgt_in):
        out = [
            [self.logits(s, row[: t + 1]) for t in range(len(row))]
            for s, row in zip(src, tgt_in, strict=True)
        ]
        return torch.stack([torch.stack(row) for row in out])

    def start(self, src):
        return Prefixes(src, src[:, :0])

    def step(self, token, state):
        prefix = torch.cat([state.prefix, token[:, None]], dim=1)
        rows = zip(state.source, prefix, strict=True)
        z = torch.stack([self.logits(s, p) for s, p in rows])
        return z, Prefixes(state.source, prefix)


model = RandomTable()
PADDED = torch.tensor([[1, 5, 6, 2, 0, 0], [1, 7, 8, 9, 10, 2]])


def test_the_decoder_reads_all_but_the_last_and_is_asked_all_but_the_first():
    tgt_in, labels = shift(PADDED)  # O29
    assert tgt_in.tolist() == [[1, 5, 6, 2, 0], [1, 7, 8, 9, 10]]
    assert labels.tolist() == [[5, 6, 2, 0, 0], [7, 8, 9, 10, 2]]
    assert int((labels != PAD).sum()) == 8


def test_the_end_is_a_label_in_every_row():
    _, labels = shift(PADDED)  # O29
    assert (labels == EOS).sum(dim=1).tolist() == [1, 1]


def test_what_follows_the_end_in_the_input_is_never_counted():
    tgt_in, labels = shift(PADDED)  # O29
    ended = (tgt_in == EOS).cumsum(dim=1) > 0
    assert ended.any()
    assert (labels[ended] == PAD).all()


def test_a_sentence_of_padding_columns_only_after_bos_shifts_to_nothing():
    tgt_in, labels = shift(torch.tensor([[BOS], [BOS]]))
    assert tgt_in.shape == labels.shape == (2, 0)


@pytest.mark.bad_input
@pytest.mark.parametrize("shape", [(4,), (2, 0), (1, 2, 3)])
def test_targets_that_cannot_be_shifted_are_refused_by_shape(shape):
    with pytest.raises(ValueError, match=r"expected \(B, T \+ 1\)"):
        shift(torch.zeros(shape, dtype=torch.long))


def test_three_methods_make_a_translator_and_two_do_not():
    class NoStep:
        def __call__(self, src, tgt_in): ...

        def start(self, src): ...

    assert isinstance(model, Seq2Seq)
    assert not isinstance(NoStep(), Seq2Seq)
    assert isinstance(model.start(torch.tensor([[3, EOS]])), State)
    assert not isinstance(object(), State)


def by_loop(source, sentence):
    """log P from the factors, one token at a time, without padding."""
    total, prefix = 0.0, [BOS]
    for token in sentence:
        z = model.logits(torch.tensor(source), torch.tensor(prefix))
        p = [math.exp(v) for v in z.tolist()]
        total += math.log(p[token] / sum(p))
        prefix.append(token)
    return total


SENTENCES = [
    [*body, EOS]
    for n in range(4)
    for body in itertools.product(WORDS, repeat=n)
]
TARGETS = torch.tensor([[BOS, *s, *[PAD] * (4 - len(s))] for s in SENTENCES])


N = len(SENTENCES)


def sources(row, n=N):
    return torch.tensor([row]).expand(n, -1)


def test_log_prob_is_the_sum_over_the_factors():
    want = [by_loop([3, EOS], s) for s in SENTENCES]
    got = log_prob(model, sources([3, EOS]), TARGETS)
    assert_close(got, torch.tensor(want, dtype=torch.float64))


def test_log_prob_depends_on_the_source():
    one = log_prob(model, sources([3, EOS]), TARGETS)
    other = log_prob(model, sources([4, EOS]), TARGETS)
    assert (one - other).abs().min() > 1e-6


def test_the_sentences_that_end_share_all_that_has_ended():
    p = log_prob(model, sources([3, EOS]), TARGETS).exp()
    open_ = torch.tensor(
        [[BOS, *body] for body in itertools.product(WORDS, repeat=4)]
    )
    still = log_prob(model, sources([3, EOS], len(open_)), open_).exp()
    assert_close(p.sum() + still.sum(), torch.tensor(1.0).double())


def test_one_more_column_of_padding_changes_nothing():
    src = sources([3, EOS])
    wider = torch.nn.functional.pad(TARGETS, (0, 3), value=PAD)
    assert_close(
        log_prob(model, src, wider),
        log_prob(model, src, TARGETS),
        rtol=0,
        atol=0,
    )


def test_the_forced_pass_equals_the_sum_over_steps():
    src = sources([4, EOS])
    tgt_in, labels = shift(TARGETS)
    state, total = model.start(src), torch.zeros(len(src)).double()
    for token, label in zip(tgt_in.T, labels.T, strict=True):
        logits, state = model.step(token, state)
        each = logits.log_softmax(-1)[torch.arange(len(src)), label]
        total += torch.where(label == PAD, 0.0, each)
    assert_close(log_prob(model, src, TARGETS), total)


class Fixed:
    """The logits it was given, whatever it reads."""

    def __init__(self, logits):
        self.logits = logits

    def __call__(self, src, tgt_in):
        return self.logits

    def start(self, src):
        raise AssertionError("log_prob only calls the model")

    step = start


def test_an_impossible_sentence_has_log_probability_minus_infinity():
    z = torch.zeros(1, 2, V)
    z[0, 0, 3] = -math.inf
    got = log_prob(Fixed(z), torch.tensor([[EOS]]), torch.tensor([[1, 3, 2]]))
    assert got.tolist() == [-math.inf]


def test_logits_at_padding_touch_neither_the_value_nor_the_gradient():
    z = torch.randn(1, 3, V, dtype=torch.float64)
    z[0, 2] = math.nan
    z.requires_grad_()
    src, tgt = torch.tensor([[EOS]]), torch.tensor([[1, 3, 2, 0]])
    value = log_prob(Fixed(z), src, tgt)
    assert_close(value, log_prob(Fixed(z[:, :2]), src, tgt[:, :3]))
    value.sum().backward()
    assert z.grad[0, :2].isfinite().all()


def test_another_padding_id_is_left_out_when_it_is_named():
    src = torch.tensor([[3, EOS]])
    tgt = torch.tensor([[BOS, 3, EOS, 4]])
    got = log_prob(model, src, tgt, pad=4)
    assert_close(got, log_prob(model, src, tgt[:, :3]))


def test_log_prob_works_without_values_on_the_meta_device():
    z = torch.zeros(2, 3, V, device="meta")
    ids = torch.zeros(2, 4, dtype=torch.long, device="meta")
    got = log_prob(Fixed(z), ids, ids)
    assert (got.shape, got.device.type) == ((2,), "meta")


@pytest.mark.bad_input
def test_a_label_outside_the_vocabulary_is_named_with_its_place():
    tgt = torch.tensor([[BOS, 3, EOS], [BOS, 7, EOS]])
    src = torch.tensor([[3, EOS], [3, EOS]])
    with pytest.raises(
        ValueError, match=r"label 7 at row 1, column 0 .* 0 … 4"
    ):
        log_prob(model, src, tgt)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_normalised_and_summed_in_float32(dtype):
    z = torch.linspace(-3, 3, 400 * V).view(1, 400, V).to(dtype)
    tgt = torch.full((1, 401), 3)
    got = log_prob(Fixed(z), torch.tensor([[EOS]]), tgt)
    assert got.dtype == torch.float32
    assert_close(got, log_prob(Fixed(z.float()), tgt[:, :1], tgt))
