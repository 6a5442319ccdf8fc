"""Attention: each score, each mask, and what must never come through."""

import copy
import inspect
import math
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

import transformer_lib.attention as attention_module
from transformer_lib.attention import (
    AdditiveAttention,
    Attention,
    BilinearAttention,
    ScaledDotProductAttention,
    causal_mask,
    check_mask,
    combine_masks,
    masked_softmax,
    padding_mask,
)

KINDS = {
    "scaled": ScaledDotProductAttention,
    "bilinear": lambda p_drop=0.0: BilinearAttention(4, 4, p_drop=p_drop),
    "additive": lambda p_drop=0.0: AdditiveAttention(4, 4, 5, p_drop=p_drop),
}


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture(params=KINDS.values(), ids=KINDS.keys())
def make(request):
    return request.param


def mask_of(*rows):
    return torch.tensor(rows, dtype=torch.bool)


def softmax_loop(scores, mask):
    """The masked softmax of a matrix, one number at a time."""
    out = torch.zeros_like(scores)
    for i in range(scores.size(0)):
        allowed = [j for j in range(scores.size(1)) if mask[i, j]]
        total = sum(math.exp(scores[i, j]) for j in allowed)
        for j in allowed:
            out[i, j] = math.exp(scores[i, j]) / total
    return out


def qkv(*leading, T=5, S=5, d_k=4, d_v=6, dtype=torch.float64):
    return (
        torch.randn(*leading, T, d_k, dtype=dtype),
        torch.randn(*leading, S, d_k, dtype=dtype),
        torch.randn(*leading, S, d_v, dtype=dtype),
    )


def fused():
    """The layer that takes the kernel for few keys, too."""
    layer = ScaledDotProductAttention()
    layer.FEW_KEYS = 0
    return layer


# Scores and weights


def test_scaled_weights_agree_with_a_loop():
    q, k, v = qkv(T=3, S=7)
    layer = ScaledDotProductAttention()
    for i in range(3):
        e = [sum(q[i, c] * k[j, c] for c in range(4)) / 2 for j in range(7)]
        a = torch.stack(e).exp() / sum(torch.stack(e).exp())
        assert_close(layer.weights(q, k)[i], a)
        assert_close(layer(q, k, v)[i], sum(a[j] * v[j] for j in range(7)))


def test_bilinear_scores_are_2_0_10():  # O07
    layer = BilinearAttention(2, 2)
    with torch.no_grad():
        layer.w.copy_(torch.tensor([[2.0, 0.0], [0.0, 1.0]]))
    k = torch.tensor([[1.0, 0.0], [0.0, 1.0], [5.0, 5.0]])
    scores = layer.scores(torch.tensor([[1.0, 0.0]]), k)
    assert scores.tolist() == [[2, 0, 10]]


def test_bilinear_scores_agree_with_a_loop_at_two_widths():
    layer = BilinearAttention(3, 5).double()
    q, k = torch.randn(2, 3).double(), torch.randn(4, 5).double()
    for i in range(2):
        for j in range(4):
            e = sum(
                q[i, a] * layer.w[a, b] * k[j, b]
                for a in range(3)
                for b in range(5)
            )
            assert_close(layer.scores(q, k)[i, j], e)


def test_additive_weights_of_the_known_example():  # O07
    layer = AdditiveAttention(2, 2, d_attn=2)
    with torch.no_grad():
        layer.w_q.copy_(torch.eye(2))
        layer.w_k.copy_(torch.eye(2))
        layer.w.fill_(1.0)
    q = torch.tensor([[1.0, 0.0]])
    k = torch.tensor([[1.0, 0.0], [0.0, 1.0], [5.0, 5.0]])
    right = torch.tensor([[0.9640, 1.5232, 1.9999]])
    assert_close(layer.scores(q, k), right, rtol=0, atol=1e-4)
    right = torch.tensor([[0.3637, 0.6363, 0.0]])
    weights = layer.weights(q, k, mask_of([1, 1, 0]))
    assert_close(weights, right, rtol=0, atol=1e-4)


def test_additive_scores_agree_with_a_loop_at_two_widths():
    layer = AdditiveAttention(3, 2, d_attn=6).double()
    q, k = torch.randn(4, 3).double(), torch.randn(5, 2).double()
    for i in range(4):
        for j in range(5):
            hidden = torch.tanh(q[i] @ layer.w_q + k[j] @ layer.w_k)
            assert_close(layer.scores(q, k)[i, j], hidden @ layer.w[:, 0])


def test_additive_starts_with_the_documented_deviations():
    layer = AdditiveAttention(300, 200, d_attn=400)
    assert_close(layer.w_q.std().item(), 600**-0.5, rtol=0.05, atol=0)
    assert_close(layer.w_k.std().item(), 400**-0.5, rtol=0.05, atol=0)
    assert_close(layer.w.std().item(), 400**-0.5, rtol=0.15, atol=0)


def test_bilinear_starts_with_the_documented_deviation():
    layer = BilinearAttention(300, 200)
    assert_close(layer.w.std().item(), 60000**-0.5, rtol=0.05, atol=0)


@pytest.mark.parametrize("leading", [(), (3,), (3, 2)], ids=str)
def test_leading_axes_are_computed_one_by_one(make, leading):
    layer = make().double()
    q, k, v = qkv(*leading, T=3, S=7)
    out = layer(q, k, v)
    assert out.shape == (*leading, 3, 6)
    flat = zip(*(x.reshape(-1, *x.shape[-2:]) for x in (q, k, v)), strict=True)
    rows = out.reshape(-1, 3, 6)
    for row, alone in zip(rows, flat, strict=True):
        assert_close(row, layer(*alone), rtol=0, atol=1e-12)


def test_forward_is_weights_times_values(make):
    layer = make().double()
    q, k, v = qkv(2, T=3, S=7)
    mask = torch.rand(2, 3, 7) < 0.6
    assert_close(layer(q, k, v, mask), layer.weights(q, k, mask) @ v)


def test_gradients_are_right_in_float64(make):
    layer = make().double()
    inputs = [x.requires_grad_() for x in qkv(T=2, S=3)]
    mask = mask_of([1, 1, 0], [0, 0, 0])
    assert torch.autograd.gradcheck(lambda *x: layer(*x, mask), inputs)


def test_a_large_score_in_half_precision_is_finite():
    q = torch.full((1, 64), 40.0, dtype=torch.float16)
    score = ScaledDotProductAttention().scores(q, q)
    assert score.item() == 40 * 40 * 64 / 8  # 102 400 before the division


# Fused and plain


def masks_for(B, T, S):
    nothing = torch.ones(B, T, S, dtype=torch.bool)
    nothing[1] = False
    some = torch.rand(B, T, S) < 0.5
    some[0, 2] = False
    return {
        "none": None,
        "padding": torch.rand(B, 1, S) < 0.6,
        "causal": causal_mask(T, S - T),
        "some": some,
        "empty sentence": nothing,
    }


@pytest.mark.parametrize("name", masks_for(2, 4, 6))
@pytest.mark.parametrize("heads", [(), (3,)], ids=["no heads", "heads"])
def test_fused_and_plain_agree_in_values_and_gradients(name, heads):
    mask = masks_for(2, 4, 6)[name]
    if mask is not None and heads:
        mask = mask.unsqueeze(1)
    layer = fused()
    results = []
    for form in (layer.forward, lambda *x: Attention.forward(layer, *x)):
        torch.manual_seed(1)
        inputs = [x.requires_grad_() for x in qkv(2, *heads, T=4, S=6)]
        out = form(*inputs, mask)
        out.square().sum().backward()
        results.append([out.detach(), *(x.grad for x in inputs)])
    assert_close(*results, rtol=0, atol=1e-12)


# Masks: values


def test_polarity_true_means_may_attend():  # O02
    scores = torch.tensor([[0, math.log(2), math.log(3)]])
    keep = mask_of([1, 1, 0])
    assert_close(
        masked_softmax(scores, keep), torch.tensor([[1 / 3, 2 / 3, 0]])
    )
    assert masked_softmax(scores, ~keep).tolist() == [[0, 0, 1]]


def test_every_function_that_takes_a_mask_states_the_polarity_first():  # O02
    functions = dict(inspect.getmembers(attention_module, inspect.isfunction))
    for name, kind in inspect.getmembers(attention_module, inspect.isclass):
        if issubclass(kind, Attention):
            for method, function in vars(kind).items():
                if inspect.isfunction(function):
                    functions[f"{name}.{method}"] = function
    ours = {
        name: f
        for name, f in functions.items()
        if f.__module__ == attention_module.__name__
        and ("mask" in name or "mask" in inspect.signature(f).parameters)
    }
    assert len(ours) >= 8
    for name, function in ours.items():
        first = inspect.getdoc(function).split("\n")[0]
        assert "True = may attend" in first, name


@pytest.mark.parametrize("last", [3.0, 200.0])
def test_the_mask_comes_before_the_softmax(last):  # O07
    scores = torch.tensor([1.0, 2.0, last])
    weights = masked_softmax(scores, mask_of(1, 1, 0))
    right = torch.tensor([0.268941, 0.731059, 0])
    assert_close(weights, right, rtol=0, atol=1e-6)


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 6), st.integers(0, 6), st.integers(0, 2**31))
def test_masked_softmax_agrees_with_a_loop(T, S, seed):
    rng = torch.Generator().manual_seed(seed)
    scores = torch.randn(T, S, generator=rng, dtype=torch.float64)
    mask = torch.rand(T, S, generator=rng) < 0.5
    assert_close(masked_softmax(scores, mask), softmax_loop(scores, mask))


@pytest.mark.parametrize(
    "dtype",
    [torch.float16, torch.bfloat16, torch.float32, torch.float64],
    ids=str,
)
def test_half_precision_weights_are_exact(dtype):  # O06
    scores = torch.zeros(1, 3, dtype=dtype)
    weights = masked_softmax(scores, mask_of([1, 1, 0]))
    assert weights.dtype == dtype
    assert weights.tolist() == [[0.5, 0.5, 0]]


def test_a_masked_key_loses_to_a_very_low_score():  # O06
    scores = torch.tensor([[-2e4, -2e4, 0.0]], dtype=torch.float16)
    weights = masked_softmax(scores, mask_of([1, 1, 0]))
    assert weights.tolist() == [[0.5, 0.5, 0]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_every_attention_runs_in_half_precision(make, dtype):
    layer = make().to(dtype)
    q, k, v = qkv(2, dtype=dtype)
    mask = torch.ones(2, 5, 5, dtype=torch.bool)
    mask[1] = False
    out = layer(q, k, v, mask)
    assert out.dtype == dtype
    assert out[0].isfinite().all()
    assert (out[1] == 0).all()


def test_what_stands_at_masked_positions_changes_nothing(make):  # O05 (c)
    layer = make().double()
    q, k, v = qkv(2)
    mask = padding_mask(torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]), 0)
    before = layer(q, k, v, mask)
    k[0, 3:] += 1e4
    v[0, 3:] += 1e4
    assert_close(layer(q, k, v, mask), before, rtol=0, atol=1e-12)


# Masks: rows that allow nothing


def two_heads(x, W, mask):
    """Two heads of width 4 with a shared input projection."""
    q, k, v = (
        (x @ w).unflatten(-1, (2, 4)).transpose(1, 2)
        for w in W.chunk(3, dim=-1)
    )
    layer = fused()
    out = layer(q, k, v, mask.unsqueeze(1))
    plain = Attention.forward(layer, q, k, v, mask.unsqueeze(1))
    return (z.transpose(1, 2).flatten(-2) for z in (out, plain))


@pytest.mark.parametrize("form", [0, 1], ids=["fused", "plain"])
def test_an_all_padding_sentence_does_not_poison_the_others(form):  # O01
    x = torch.randn(2, 3, 8, dtype=torch.float64)
    W = torch.randn(8, 24, dtype=torch.float64, requires_grad=True)
    mask = mask_of([[1, 1, 0]], [[0, 0, 0]])
    out = list(two_heads(x, W, mask))[form]
    assert (out[1] == 0).all()
    alone = list(two_heads(x[:1], W, mask[:1]))[form]
    assert_close(out[:1], alone, rtol=0, atol=1e-12)

    out[0].sum().backward()
    gradient, W.grad = W.grad, None
    alone.sum().backward()
    assert gradient.isfinite().all()
    assert_close(gradient, W.grad, rtol=0, atol=1e-12)


def test_an_empty_row_is_zero_in_values_and_gradients(make):  # O01
    layer = make().double()
    q, k, v = (x.requires_grad_() for x in qkv(2))
    mask = torch.ones(2, 5, 5, dtype=torch.bool)
    mask[1] = False
    out = layer(q, k, v, mask)
    assert (layer.weights(q, k, mask)[1] == 0).all()
    assert (out[1] == 0).all()
    out.sum().backward()
    for x in (q, k, v):
        assert x.grad.isfinite().all()
        assert (x.grad[1] == 0).all()


def test_no_nan_arises_on_the_way_back():  # O01
    scores = torch.randn(2, 3, requires_grad=True)
    with torch.autograd.set_detect_anomaly(True):
        masked_softmax(scores, mask_of([1, 1, 0], [0, 0, 0])).sum().backward()
    assert scores.grad.isfinite().all()


def test_no_keys_give_zeros(make):
    layer = make().double()
    q, k, v = qkv(2, T=3, S=0)
    mask = torch.ones(2, 1, 0, dtype=torch.bool)
    for given_mask in (None, mask):
        out = layer(q, k, v, given_mask)
        assert out.shape == (2, 3, 6)
        assert (out == 0).all()


# Masks: which pairs


def test_a_causal_row_reads_itself_and_what_came_before():  # O03
    weights = masked_softmax(torch.zeros(1, 3, 3), causal_mask(3))
    seen = weights @ torch.tensor([1.0, 2.0, 4.0])
    assert_close(seen, torch.tensor([[1, 1.5, 7 / 3]]))


def test_one_token_may_read_itself():  # O03
    assert causal_mask(1).tolist() == [[[True]]]


def test_a_later_token_changes_no_earlier_output_bit(make):  # O03
    layer = make().double()
    table = torch.randn(11, 4, dtype=torch.float64)
    y = torch.tensor([1, 4, 9, 8, 3, 10, 2])
    changed = y.clone()
    changed[4] = 7
    outs = [
        layer(x, x, x, causal_mask(7)) for x in (table[y][None],
                                                 table[changed][None])
    ]  # fmt: skip
    assert torch.equal(outs[0][:, :4], outs[1][:, :4])
    assert ((outs[0] - outs[1])[:, 4:].abs().amax(-1) > 1e-9).all()


@settings(deadline=None)
@given(st.integers(0, 6), st.integers(0, 6))
def test_a_causal_mask_with_a_cache_agrees_with_a_loop(T, start):
    mask = causal_mask(T, start)
    assert mask.shape == (1, T, start + T)
    for t in range(T):
        for s in range(start + T):
            assert mask[0, t, s] == (s <= start + t)


def test_step_by_step_with_a_cache_equals_all_at_once(make):
    layer = make().double()
    q, k, v = qkv(2, T=6, S=6)
    whole = layer(q, k, v, causal_mask(6))
    for start, end in pairwise([0, 2, 3, 6]):
        part = layer(
            q[:, start:end],
            k[:, :end],
            v[:, :end],
            causal_mask(end - start, start),
        )
        assert_close(part, whole[:, start:end], rtol=0, atol=1e-12)


def test_padding_mask_forbids_the_padding_id_as_key():
    ids = torch.tensor([[5, 0, 7], [3, 3, 0]])
    assert_close(padding_mask(ids, 3), mask_of([[1, 1, 1]], [[0, 0, 1]]))


def test_combined_masks_allow_what_all_allow():
    padding = torch.rand(3, 1, 5) < 0.5
    both = combine_masks(None, padding, causal_mask(5))
    for b in range(3):
        for t in range(5):
            for s in range(5):
                assert both[b, t, s] == (padding[b, 0, s] and s <= t)


def test_masks_without_queries_combine_to_none():
    none = combine_masks(torch.ones(2, 1, 3, dtype=bool), causal_mask(0, 3))
    assert none.shape == (2, 0, 3)


def test_combining_nothing_allows_everything():
    assert combine_masks() is None
    assert combine_masks(None, None) is None


@pytest.mark.parametrize("T", [2, 3])
def test_cross_attention_reads_the_real_source_only(make, T):  # O04
    layer = make()
    source = padding_mask(torch.tensor([[7, 7, 0]]), pad=0)
    q, k = torch.zeros(1, T, 4), torch.zeros(1, 3, 4)
    v = torch.tensor([1.0, 3.0, 100.0]).view(1, 3, 1)
    assert_close(layer(q, k, v, source), torch.full((1, T, 1), 2.0))


def test_masks_stand_on_the_device_asked_for():
    assert causal_mask(3, 1, device="meta").device.type == "meta"
    ids = torch.zeros(2, 3, dtype=torch.long, device="meta")
    both = combine_masks(padding_mask(ids, 0), causal_mask(3, device="meta"))
    assert both.device.type == "meta"


def test_every_attention_stays_on_its_device(make):
    layer = make().to("meta")
    q, k, v = (x.to("meta") for x in qkv(2, dtype=torch.float32))
    mask = causal_mask(5, device="meta")
    assert layer(q, k, v, mask).device.type == "meta"
    assert layer.weights(q, k, mask).device.type == "meta"


# Heads and order


def split(x, n_heads):
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def merge(x):
    return x.transpose(1, 2).flatten(-2)


def test_heads_come_out_side_by_side_for_each_token():  # O08
    # Each head attends to its own position only, so the values come through.
    heads = torch.tensor([[[[1.0, 2], [3, 4]], [[5, 6], [7, 8]]]])
    mask = torch.eye(2, dtype=torch.bool).view(1, 1, 2, 2)
    out = merge(ScaledDotProductAttention()(heads, heads, heads, mask))
    assert out.tolist() == [[[1, 2, 5, 6], [3, 4, 7, 8]]]


def test_a_head_axis_computes_each_head_by_itself(make):  # O08
    layer = make().double()
    x = torch.randn(2, 5, 12, dtype=torch.float64)  # three heads of four
    mask = torch.rand(2, 5, 5) < 0.7
    s = split(x, 3)
    together = merge(layer(s, s, s, mask.unsqueeze(1)))
    for h in range(3):
        columns = slice(4 * h, 4 * h + 4)
        head = x[..., columns]
        alone = layer(head, head, head, mask)
        assert_close(together[..., columns], alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_heads", [1, 3])
def test_self_attention_commutes_with_permutations(make, n_heads):  # O08
    layer = make().double()
    x = torch.randn(2, 6, 4 * n_heads, dtype=torch.float64)
    mask = torch.rand(2, 1, 6, 6) < 0.7

    def attend(x, mask=None):
        s = split(x, n_heads)
        return merge(layer(s, s, s, mask))

    for _ in range(10):
        p = torch.randperm(6)
        assert_close(attend(x[:, p]), attend(x)[:, p], rtol=0, atol=1e-12)
        moved = mask[..., p, :][..., p]
        assert_close(
            attend(x[:, p], moved), attend(x, mask)[:, p], rtol=0, atol=1e-12
        )


# Dropout


def test_evaluation_repeats_bit_for_bit_and_training_does_not(make):  # O09
    layer = make(p_drop=0.5)
    q, k, v = qkv(2, T=20, S=20, dtype=torch.float32)
    assert not torch.equal(layer(q, k, v), layer(q, k, v))
    layer.eval()
    state = torch.get_rng_state()
    assert torch.equal(layer(q, k, v), layer(q, k, v))
    assert torch.equal(torch.get_rng_state(), state)


def test_evaluation_uses_every_weight_undamped(make):  # O09
    layer = make(p_drop=0.5).double().eval()
    plain = copy.deepcopy(layer)
    plain.dropout = nn.Dropout(0.0)
    q, k, v = qkv(2)
    assert_close(layer(q, k, v), plain(q, k, v))


def test_dropped_weights_leave_the_others_scaled_up(make):
    layer = make(p_drop=0.25)
    q, k, _ = qkv(1, T=60, S=60, dtype=torch.float32)
    dropped = layer(q, k, torch.eye(60)[None])  # the weights themselves
    kept = dropped != 0
    assert_close(kept.float().mean().item(), 0.75, rtol=0, atol=0.03)
    scaled_up = layer.weights(q, k) / 0.75
    assert_close(dropped[kept], scaled_up[kept])


# Bad input


@pytest.mark.bad_input
@pytest.mark.parametrize(
    "mask",
    [torch.ones(2, 5, 5), torch.ones(2, 5, 5, dtype=torch.uint8)],
    ids=["float", "uint8"],
)
def test_a_mask_that_is_not_boolean_is_refused(make, mask):
    q, k, v = qkv(2)
    with pytest.raises(TypeError, match=r"bool.*True = may attend|True = may"):
        make().double()(q, k, v, mask)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    "shape",
    [(3, 1), (8,), (2, 8, 1), (2, 1, 1), (2, 8), (1, 2, 8, 8), (2, 3, 8), ()],
    ids=str,
)
def test_a_mask_of_another_shape_is_refused_by_both_shapes(
    make, shape
):  # O05 (a)
    q, k, v = qkv(2, T=8, S=8)
    mask = torch.ones(shape, dtype=torch.bool)
    with pytest.raises(ValueError, match="mask of shape") as error:
        make().double()(q, k, v, mask)
    assert str(shape) in str(error.value)
    assert "(2, 8, 8)" in str(error.value)


@pytest.mark.bad_input
def test_a_padding_mask_without_its_query_axis_is_refused(make):  # O05 (b)
    q, k, v = qkv(3, T=3, S=3)
    keep = mask_of([1, 1, 0], [1, 0, 0], [1, 1, 1])
    with pytest.raises(ValueError, match="unsqueeze"):
        make().double()(q, k, v, keep)


def test_a_padding_mask_serves_every_query_of_its_sentence():  # O05 (b)
    keep = mask_of([1, 1, 0], [1, 0, 0], [1, 1, 1]).unsqueeze(1)
    weights = masked_softmax(torch.zeros(3, 3, 3), keep)
    right = torch.tensor([[0.5, 0.5, 0], [1, 0, 0], [1 / 3] * 3])
    assert_close(weights, right[:, None].expand(3, 3, 3))


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("shape", "fits"),
    [
        ((2, 1, 5), True),
        ((1, 4, 5), True),
        ((1, 1, 5), True),
        ((2, 4, 1), False),
        ((4, 5), False),
        ((4, 4, 5), False),
    ],
)
def test_only_axes_that_are_equal_or_one_fit(shape, fits):
    mask = torch.ones(shape, dtype=torch.bool)
    if fits:
        check_mask(mask, (2, 4, 5))
    else:
        with pytest.raises(ValueError, match="as many keys"):
            check_mask(mask, (2, 4, 5))


@pytest.mark.bad_input
@pytest.mark.parametrize(
    "shapes",
    [
        [(2, 1, 4), (4, 4)],
        [(2, 1, 5), (5, 5)],
        [(1, 4, 4), (1, 3, 4)],
        [(2, 1, 1), (1, 4, 4)],
    ],
    ids=str,
)
def test_masks_that_fit_no_common_scores_do_not_combine(shapes):
    masks = [torch.ones(shape, dtype=torch.bool) for shape in shapes]
    with pytest.raises(ValueError, match="fit no common scores") as error:
        combine_masks(*masks)
    for shape in shapes:
        assert str(shape) in str(error.value)


@pytest.mark.bad_input
def test_masks_of_numbers_do_not_combine():
    with pytest.raises(TypeError, match="bool"):
        combine_masks(torch.ones(1, 3, 3, dtype=torch.int64))


@pytest.mark.bad_input
@pytest.mark.parametrize("mask", [[[True, False]], 1, "all"], ids=str)
def test_what_is_no_tensor_is_refused_as_a_mask(make, mask):
    q, k, v = qkv()
    for call in (
        lambda: combine_masks(None, mask),
        lambda: masked_softmax(torch.zeros(1, 2), mask),
        lambda: make().double()(q, k, v, mask),
    ):
        with pytest.raises(TypeError, match=type(mask).__name__):
            call()


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("given_mask", "wanted", "hint"),
    [
        (causal_mask(2), (2, 2, 5), r"causal_mask\(T, start\) for cached"),
        (causal_mask(4), (2, 3, 4, 4), r"mask\.unsqueeze\(1\) for heads"),
    ],
    ids=["cache", "heads"],
)
def test_the_refusal_of_a_mask_says_what_mends_it(given_mask, wanted, hint):
    with pytest.raises(ValueError, match=hint):
        check_mask(given_mask, wanted)


def test_what_the_refusal_says_mends_the_mask():
    check_mask(causal_mask(2, start=3), (2, 2, 5))
    check_mask(causal_mask(4).unsqueeze(1), (2, 3, 4, 4))


@pytest.mark.bad_input
@pytest.mark.parametrize("which", range(3), ids=["q", "k", "v"])
def test_a_single_vector_is_refused_by_shape(make, which):
    inputs = list(qkv(T=1, S=1))
    inputs[which] = inputs[which][0]
    with pytest.raises(ValueError, match="two axes or more"):
        make().double()(*inputs)
    if which < 2:
        with pytest.raises(ValueError, match="two axes or more"):
            make().double().weights(*inputs[:2])


@pytest.mark.bad_input
@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4)], ids=str)
def test_padding_mask_refuses_ids_that_are_no_batch(shape):
    with pytest.raises(ValueError, match=r"\(B, S\)") as error:
        padding_mask(torch.ones(shape, dtype=torch.long), 0)
    assert str(shape) in str(error.value)


@pytest.mark.bad_input
def test_a_width_is_not_taken_for_a_probability():
    with pytest.raises(ValueError, match="64: a probability, no width"):
        ScaledDotProductAttention(64)
    with pytest.raises(TypeError, match="positional"):
        BilinearAttention(64, 64, 8)
    with pytest.raises(TypeError, match="positional"):
        AdditiveAttention(64, 64, 64, 8)


@pytest.mark.bad_input
def test_queries_of_another_width_are_refused(make):
    q, k, v = qkv(2)
    with pytest.raises(ValueError, match=r"q has width 3.* width 4"):
        make().double()(q[..., :3], k, v)


@pytest.mark.bad_input
def test_keys_of_another_width_are_refused():
    q, k, v = qkv(2)
    for kind in ("bilinear", "additive"):
        with pytest.raises(ValueError, match=r"k has width 3.* width 4"):
            KINDS[kind]().double()(q, k[..., :3], v)


@pytest.mark.bad_input
def test_keys_without_values_are_refused(make):
    q, k, v = qkv(2)
    with pytest.raises(ValueError, match="5 keys and 4 values"):
        make().double()(q, k, v[:, :4])


@pytest.mark.bad_input
def test_another_batch_of_keys_is_refused(make):
    q, k, v = qkv(2)
    with pytest.raises(ValueError, match="expand"):
        make().double()(q, k[:1], v[:1])
    with pytest.raises(ValueError, match="expand"):
        make().double().weights(q, k[:1])


@pytest.mark.bad_input
def test_a_causal_mask_from_a_negative_position_is_refused():
    with pytest.raises(ValueError, match="-1"):
        causal_mask(3, start=-1)


@pytest.mark.bad_input
def test_a_probability_above_one_is_refused():
    with pytest.raises(ValueError, match=r"1\.5"):
        ScaledDotProductAttention(p_drop=1.5)


# What PyTorch does, and what the chapter says about it


def test_torch_aligns_is_causal_upper_left():
    q, k, v = qkv(1, T=1, S=3)
    theirs = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert_close(theirs, v[:, :1])
    ours = ScaledDotProductAttention()(q, k, v, causal_mask(1, 2))
    assert_close(ours, ScaledDotProductAttention()(q, k, v))
