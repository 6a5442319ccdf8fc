"""Chapter 5: three recurrent translators behind one protocol."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from transformer_lib.attention import (
    AdditiveAttention,
    BilinearAttention,
    ScaledDotProductAttention,
)
from transformer_lib.rnn import AttentionRNN, ContextRNN, SimpleRNN, read
from transformer_lib.seq2seq import PAD, Seq2Seq, State, log_prob

F64 = torch.float64
V, E, D = 11, 4, 6


def simple(**options):
    return SimpleRNN(V, E, D, **options)


def static(**options):
    return ContextRNN(V, E, D, **options)


def additive(**options):
    return AttentionRNN(V, E, D, AdditiveAttention(D, D, 5), **options)


def bilinear(**options):
    return AttentionRNN(V, E, D, BilinearAttention(D, D), **options)


def scaled(**options):
    return AttentionRNN(V, E, D, ScaledDotProductAttention(), **options)


ALL = [simple, static, additive, bilinear, scaled]
EACH = pytest.mark.parametrize("make", ALL)
WAYS = pytest.mark.parametrize("bidirectional", [True, False])


def build(make, **options):
    torch.manual_seed(0)
    return make(**options).double()


SRC = torch.tensor([[5, 6, 7, 2, 0, 0, 0], [3, 4, 5, 6, 7, 8, 2]])
TGT_IN = torch.tensor([[1, 4, 9, 8, 3, 10, 7], [1, 3, 3, 3, 9, 4, 10]])


def close(a, b):
    assert_close(a, b, rtol=0, atol=1e-12)


# The protocol


@EACH
def test_each_is_a_seq2seq(make):
    model = build(make)
    assert isinstance(model, Seq2Seq)
    assert isinstance(model.start(SRC), State)


@EACH
@WAYS
def test_step_by_step_and_forced_logits_agree(make, bidirectional):
    model = build(make, bidirectional=bidirectional)
    forced, state = model(SRC, TGT_IN), model.start(SRC)
    for t in range(TGT_IN.size(1)):
        logits, state = model.step(TGT_IN[:, t], state)
        close(logits, forced[:, t])


@EACH
def test_logits_at_a_step_depend_on_the_words_up_to_it_only(make):
    model = build(make)
    changed = TGT_IN.clone()
    changed[:, 4] = 6
    before, after = model(SRC, TGT_IN), model(SRC, changed)
    assert torch.equal(before[:, :4], after[:, :4])
    assert (before[:, 4:] - after[:, 4:]).abs().amax((0, 2)).min() > 1e-9


@EACH
def test_a_state_can_be_used_twice(make):
    model = build(make)
    state = model.start(SRC)
    _, state = model.step(TGT_IN[:, 0], state)
    first, _ = model.step(TGT_IN[:, 1], state)
    model.step(TGT_IN[:, 2], state)
    again, _ = model.step(TGT_IN[:, 1], state)
    assert torch.equal(first, again)


@EACH
def test_select_repeats_drops_and_reorders(make):
    model = build(make)
    _, state = model.step(TGT_IN[:, 0], model.start(SRC))
    logits, _ = model.step(TGT_IN[:, 1], state)
    rows = torch.tensor([1, 1, 0])
    chosen, _ = model.step(TGT_IN[rows, 1], state.select(rows))
    close(chosen, logits[rows])
    last, _ = model.step(TGT_IN[1:, 1], state.select(torch.tensor([1])))
    close(last, logits[1:])


@EACH
def test_a_selected_state_shares_no_memory(make):
    state = build(make).start(SRC)
    copied = state.select(torch.tensor([0, 1]))
    pairs = [(state.hidden, copied.hidden)]
    pairs += zip(state.kept, copied.kept, strict=True)
    for old, new in pairs:
        assert torch.equal(old, new)
        assert old.data_ptr() != new.data_ptr()


# O28: a sentence alone and in a batch


@EACH
@WAYS
def test_a_padded_sentence_gives_the_logits_it_gives_alone(
    make, bidirectional
):  # O28
    model = build(make, bidirectional=bidirectional)
    together = model(SRC, TGT_IN)
    close(model(SRC[:1, :4], TGT_IN[:1]), together[:1])
    close(model(SRC[1:], TGT_IN[1:]), together[1:])


@EACH
def test_more_padding_changes_nothing(make):  # O28
    model = build(make)
    close(model(F.pad(SRC, (0, 5), value=PAD), TGT_IN), model(SRC, TGT_IN))


@EACH
def test_a_permuted_batch_gives_permuted_logits(make):  # O28
    model = build(make)
    rows = torch.tensor([1, 0])
    close(model(SRC[rows], TGT_IN[rows]), model(SRC, TGT_IN)[rows])


@EACH
def test_another_pad_id_is_obeyed(make):
    model = build(make, pad=9)
    src = torch.where(SRC == PAD, 9, SRC)
    close(model(src, TGT_IN)[:1], model(src[:1, :4], TGT_IN[:1]))


# O32: a bidirectional encoder does not read padding


def test_padding_is_not_read_in_either_direction():  # O32
    torch.manual_seed(0)
    gru = nn.GRU(3, 4, batch_first=True, bidirectional=True).double()
    x = torch.randn(1, 2, 3, dtype=F64)
    padded = F.pad(x, (0, 0, 0, 3))
    real = torch.tensor([[True, True, False, False, False]])
    memory, last = read(gru, padded, real)
    states, finals = gru(x)
    assert memory.shape == (1, 5, 8)  # as long as the mask
    close(memory[:, :2], states)
    close(last, torch.cat([finals[0], finals[1]], dim=1))
    assert (memory[:, 2:] == 0).all()
    _, wrong = gru(padded)  # the fault, to see that it would be noticed
    assert (wrong - finals).abs().amax((1, 2)).min() > 0.05


def test_the_last_state_is_forward_at_the_end_backward_at_the_start():  # O32
    torch.manual_seed(0)
    gru = nn.GRU(3, 4, batch_first=True, bidirectional=True).double()
    x = torch.randn(2, 5, 3, dtype=F64)
    real = torch.tensor([[True] * 3 + [False] * 2, [True] * 5])
    memory, last = read(gru, x, real)
    close(last[0], torch.cat([memory[0, 2, :4], memory[0, 0, 4:]]))
    close(last[1], torch.cat([memory[1, 4, :4], memory[1, 0, 4:]]))


# O31: empty sentences

EMPTY = {
    "only padding beside a sentence": [[0, 0, 0], [3, 4, 2]],
    "only EOS beside a sentence": [[2, 0, 0], [3, 4, 2]],
    "one of only padding": [[0]],
    "one of only EOS": [[2]],
    "all of length zero": [[], []],
}


@EACH
@WAYS
@pytest.mark.parametrize("rows", EMPTY.values(), ids=EMPTY.keys())
def test_an_empty_source_gives_finite_logits_and_gradients(
    make, bidirectional, rows
):  # O31
    model = build(make, bidirectional=bidirectional)
    src = torch.tensor(rows, dtype=torch.long)
    logits = model(src, TGT_IN[: len(rows)])
    assert logits.isfinite().all()
    logits.logsumexp(-1).sum().backward()
    for p in model.parameters():
        assert p.grad is None or p.grad.isfinite().all()
    logits, _ = model.step(TGT_IN[: len(rows), 0], model.start(src))
    assert logits.isfinite().all()


@EACH
def test_an_empty_source_is_the_same_alone_and_beside_others(make):  # O31
    model = build(make)
    src = torch.tensor([[0, 0, 0], [3, 4, 2]])
    together = model(src, TGT_IN)
    close(model(src[:1, :0], TGT_IN[:1]), together[:1])
    close(model(src[1:], TGT_IN[1:]), together[1:])


# What each of them sees of the source


def test_a_state_keeps_nothing_one_vector_or_all_vectors():
    shapes = [
        [tuple(part.shape) for part in build(make).start(SRC).kept]
        for make in (simple, static, additive)
    ]
    assert shapes == [[], [(2, D)], [(2, 7, D), (2, 1, 7)]]


def test_only_the_aligned_context_changes_from_step_to_step():
    for make in (static, additive):
        model = build(make)
        state = model.start(SRC)
        before = model.context(state)
        _, state = model.step(TGT_IN[:, 0], state)
        same = torch.equal(before, model.context(state))
        assert same == (make is static)


def test_the_aligned_context_is_the_mean_of_the_real_states():
    model = build(bilinear)
    model.attention.w.data.zero_()  # all scores equal
    state = model.start(SRC)
    memory, _ = state.kept
    context = model.context(state)
    close(context[0], memory[0, :4].mean(0))
    close(context[1], memory[1].mean(0))


def test_the_query_is_the_state_before_the_step():
    model = build(additive)
    state = model.start(SRC)
    memory, mask = state.kept
    weights = model.attention.weights(state.hidden[:, None], memory, mask)
    close(model.context(state), (weights @ memory)[:, 0])


@pytest.mark.parametrize("make", [simple, static])
def test_one_call_and_a_loop_of_cells_agree(make):
    model = build(make)
    cell = nn.GRUCell(model.decoder.input_size, D).double()
    for name, weight in cell.named_parameters():
        weight.data = getattr(model.decoder, f"{name}_l0").data
    state = model.start(SRC)
    s, c = state.hidden, model.context(state)
    for t in range(TGT_IN.size(1)):
        x = torch.cat([model.embedding(TGT_IN[:, t]), c], dim=1)
        s = cell(x, s)
        z = model.embedding.logits(model.readout(torch.cat([s, x], dim=1)))
        close(model(SRC, TGT_IN)[:, t], z)


@EACH
def test_every_parameter_learns(make):
    model = build(make)
    tgt = torch.cat([TGT_IN, torch.full((2, 1), 2)], dim=1)
    log_prob(model, SRC, tgt).sum().backward()
    for name, p in model.named_parameters():
        assert p.grad.abs().max() > 0, name


@EACH
def test_one_matrix_embeds_and_gives_the_logits(make):
    model = build(make)
    of_vocabulary = [n for n, p in model.named_parameters() if V in p.shape]
    assert of_vocabulary == ["embedding.weight"]


@EACH
def test_evaluation_is_deterministic_and_leaves_the_generator_alone(make):
    model = build(make, p_drop=0.5)
    assert not torch.equal(model(SRC, TGT_IN), model(SRC, TGT_IN))
    model.eval()
    before = torch.get_rng_state()
    assert torch.equal(model(SRC, TGT_IN), model(SRC, TGT_IN))
    assert torch.equal(before, torch.get_rng_state())


@EACH
def test_a_copy_with_the_same_file_gives_the_same_logits(make):
    model, other = build(make), build(make)
    for p in other.parameters():
        p.data.add_(1)
    other.load_state_dict(copy.deepcopy(model.state_dict()))
    assert torch.equal(model(SRC, TGT_IN), other(SRC, TGT_IN))


@EACH
def test_parameters_are_made_on_the_device_asked_for(make):
    with torch.device("meta"):
        model = make()
    assert all(p.is_meta for p in model.parameters())


@pytest.mark.parametrize("make", [additive, bilinear, scaled])
def test_the_attention_drops_weights_in_training_only(make):  # O09
    model = build(make)
    model.attention.dropout.p = 0.5
    assert not torch.equal(model(SRC, TGT_IN), model(SRC, TGT_IN))
    model.eval()
    close(model(SRC, TGT_IN), build(make)(SRC, TGT_IN))


@EACH
@WAYS
@pytest.mark.parametrize(("B", "T"), [(0, 7), (2, 0), (0, 0)])
def test_no_sentences_or_no_words_give_no_logits(make, bidirectional, B, T):
    model = build(make, bidirectional=bidirectional)
    logits = model(SRC[:B], TGT_IN[:B, :T])
    assert logits.shape == (B, T, V)
    logits.sum().backward()
    z, state = model.step(TGT_IN[:B, 0], model.start(SRC[:B]))
    assert z.shape == (B, V)
    assert state.hidden.shape == (B, D)


# What is refused


@pytest.mark.bad_input
@EACH
@pytest.mark.parametrize("row", [[0, 3, 2], [3, 0, 2]])
def test_padding_before_a_word_is_refused(make, row):
    src = torch.tensor([[3, 4, 2], row])
    with pytest.raises(ValueError, match="row 1 of src has padding before"):
        build(make).start(src)


@pytest.mark.bad_input
def test_an_odd_width_for_two_directions_is_refused():
    with pytest.raises(ValueError, match="d_hidden 5 is odd"):
        SimpleRNN(V, E, 5)
    SimpleRNN(V, E, 5, bidirectional=False)


@pytest.mark.bad_input
@EACH
def test_an_unknown_word_is_named_on_either_side(make):
    model = build(make)
    with pytest.raises(ValueError, match="token id 11 at row 0, column 1"):
        model.start(torch.tensor([[3, 11, 2]]))
    with pytest.raises(ValueError, match="token id 11"):
        model.step(torch.tensor([11, 1]), model.start(SRC))
