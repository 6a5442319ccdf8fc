"""Heads are cut, attend and are mixed as chapter 9 says."""

import copy

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from transformer_lib.attention import (
    AdditiveAttention,
    BilinearAttention,
    ScaledDotProductAttention,
    causal_mask,
)
from transformer_lib.multi_head_attention import (
    MultiHeadAttention,
    head_width,
    merge_heads,
    split_heads,
)

F64 = torch.float64


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=F64)


def built(*args, seed: int = 1, **kwargs) -> MultiHeadAttention:
    torch.manual_seed(seed)
    mha = MultiHeadAttention(*args, **kwargs).double()
    for p in mha.parameters():
        if p.dim() == 1:
            nn.init.normal_(p)  # a bias of zeros would hide its use
    return mha


def exact(a, b):
    assert_close(a, b, rtol=0, atol=1e-12)


# Cutting and joining


def test_merging_keeps_every_token_s_features_together():  # O08
    heads = torch.tensor([[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]]).double()
    merged = torch.tensor([[[1, 2, 5, 6], [3, 4, 7, 8]]]).double()
    assert torch.equal(merge_heads(heads), merged)
    assert torch.equal(split_heads(merged, 2), heads)


@pytest.mark.parametrize("n_heads", [1, 2, 3, 6])
def test_split_puts_feature_h_d_plus_i_into_head_h(n_heads):
    x = randn(2, 5, 6)
    heads, d = split_heads(x, n_heads), 6 // n_heads
    for h in range(n_heads):
        for i in range(d):
            assert torch.equal(heads[:, h, :, i], x[:, :, h * d + i])
    assert torch.equal(merge_heads(heads), x)


def test_empty_sequences_are_split_and_merged():  # O31
    heads = split_heads(torch.zeros(2, 0, 6), 3)
    assert heads.shape == (2, 3, 0, 2)
    assert merge_heads(heads).shape == (2, 0, 6)


@pytest.mark.bad_input
@pytest.mark.parametrize("n_heads", [0, -1, 4])
def test_heads_that_do_not_divide_the_width_are_refused(n_heads):
    for make in (
        lambda: head_width(6, n_heads),
        lambda: split_heads(torch.zeros(1, 2, 6), n_heads),
        lambda: MultiHeadAttention(6, n_heads),
    ):
        with pytest.raises(ValueError, match=f"{n_heads} heads.*width of 6"):
            make()


@pytest.mark.bad_input
@pytest.mark.parametrize("shape", [(6,), (2, 6), (2, 3, 4, 6)], ids=str)
def test_only_a_batch_of_sequences_is_split_into_heads(shape):
    with pytest.raises(ValueError, match=r"expected \(B, T, H·d\)") as error:
        split_heads(torch.zeros(*shape), 2)
    assert str(shape) in str(error.value)


# The formula


def by_loop(mha, x, memory, mask=None):
    """Σ_h A_h V_h W^O_h, head by head and query by query."""
    H = mha.n_heads
    w_q, w_k, w_v = (
        w.weight.T.chunk(H, dim=1) for w in (mha.w_q, mha.w_k, mha.w_v)
    )
    w_o = mha.w_o.weight.T.chunk(H, dim=0)
    out = torch.zeros(*x.shape[:2], w_o[0].size(1), dtype=x.dtype)
    for b in range(x.size(0)):
        for h in range(H):
            q, k = x[b] @ w_q[h], memory[b] @ w_k[h]
            v = memory[b] @ w_v[h]
            for t in range(x.size(1)):
                e = k @ q[t] / q.size(1) ** 0.5
                if mask is not None:
                    e = e.masked_fill(~mask[b, t], -torch.inf)
                out[b, t] += e.softmax(0) @ v @ w_o[h]
    return out


def test_is_the_sum_over_heads_in_a_loop():
    mha = built(6, 2, d_k=5, d_v=4, d_kv=7)
    x, memory = randn(2, 3, 6), randn(2, 4, 7, seed=2)
    mask = randn(2, 3, 4, seed=3) > -0.5
    mask[..., 0] = True
    exact(mha(x, memory), by_loop(mha, x, memory))
    exact(mha(x, memory, mask), by_loop(mha, x, memory, mask))


def torch_s(mha: MultiHeadAttention, bias: bool) -> nn.MultiheadAttention:
    """PyTorch's module with the same weights."""
    d_model, d_kv = mha.w_q.in_features, mha.w_k.in_features
    theirs = nn.MultiheadAttention(
        d_model, mha.n_heads, bias=bias, batch_first=True,
        kdim=d_kv, vdim=d_kv, dtype=F64,
    )  # fmt: skip
    ours = [mha.w_q, mha.w_k, mha.w_v]
    with torch.no_grad():
        if theirs.in_proj_weight is None:
            for name, w in zip("qkv", ours, strict=True):
                getattr(theirs, f"{name}_proj_weight").copy_(w.weight)
        else:
            theirs.in_proj_weight.copy_(torch.cat([w.weight for w in ours]))
        theirs.out_proj.weight.copy_(mha.w_o.weight)
        if bias:
            theirs.in_proj_bias.copy_(torch.cat([w.bias for w in ours]))
            theirs.out_proj.bias.copy_(mha.w_o.bias)
    return theirs


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("d_kv", [8, 6])
@pytest.mark.parametrize("masked", [False, True])
def test_equals_pytorch_forward_and_backward(bias, d_kv, masked):
    mha = built(8, 4, d_kv=d_kv, bias=bias)
    theirs = torch_s(mha, bias)
    x, memory = randn(2, 3, 8), randn(2, 5, d_kv, seed=2)
    keep = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]).bool()
    mask = keep.unsqueeze(1) if masked else None
    results = []
    for module in (mha, theirs):
        leaves = [t.clone().requires_grad_() for t in (x, memory)]
        if module is mha:
            out = mha(*leaves, mask)
            weights = mha.weights(*leaves, mask)
        else:
            out, weights = theirs(
                *leaves, leaves[1],
                key_padding_mask=~keep if masked else None,
                average_attn_weights=False,
            )  # fmt: skip
        (out * randn(2, 3, 8, seed=5)).sum().backward()
        results.append([out, weights, *(leaf.grad for leaf in leaves)])
    for ours, other in zip(*results, strict=True):
        exact(ours, other)
    exact(mha.w_o.weight.grad, theirs.out_proj.weight.grad)
    grads = [w.weight.grad for w in (mha.w_q, mha.w_k, mha.w_v)]
    if d_kv == 8:
        exact(torch.cat(grads), theirs.in_proj_weight.grad)
    else:
        for name, grad in zip("qkv", grads, strict=True):
            exact(grad, getattr(theirs, f"{name}_proj_weight").grad)
    if bias:
        biases = [w.bias.grad for w in (mha.w_q, mha.w_k, mha.w_v)]
        exact(torch.cat(biases), theirs.in_proj_bias.grad)
        exact(mha.w_o.bias.grad, theirs.out_proj.bias.grad)


def test_equals_pytorch_with_a_causal_mask():
    mha = built(8, 2)
    x = randn(2, 5, 8)
    theirs = torch_s(mha, bias=False)
    upper = torch.ones(5, 5).triu(1).bool()  # theirs: True = ignore
    out, weights = theirs(x, x, x, attn_mask=upper, average_attn_weights=False)
    exact(mha(x, x, causal_mask(5)), out)
    exact(mha.weights(x, x, causal_mask(5)), weights)


def test_self_attention_commutes_with_a_permutation():  # O08
    mha, x = built(8, 4), randn(3, 6, 8)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    exact(mha(x[:, order], x[:, order]), mha(x, x)[:, order])


@pytest.mark.parametrize("n_heads", [1, 2, 4, 8])
def test_the_parameter_count_does_not_depend_on_the_heads(n_heads):
    mha = MultiHeadAttention(16, n_heads)
    assert sum(p.numel() for p in mha.parameters()) == 4 * 16**2


def test_d_k_d_v_and_d_kv_give_the_matrices_their_shapes():
    mha = MultiHeadAttention(6, 4, d_k=5, d_v=3, d_kv=7, bias=True)
    shapes = {n: tuple(p.shape) for n, p in mha.named_parameters()}
    assert shapes == {
        "w_q.weight": (20, 6), "w_q.bias": (20,),
        "w_k.weight": (20, 7), "w_k.bias": (20,),
        "w_v.weight": (12, 7), "w_v.bias": (12,),
        "w_o.weight": (6, 12), "w_o.bias": (6,),
    }  # fmt: skip
    assert MultiHeadAttention(6, 4, d_k=5).w_v.out_features == 20


def test_weights_start_xavier_uniform_and_biases_at_zero():
    torch.manual_seed(0)
    mha = MultiHeadAttention(64, 4, d_k=32, d_v=8, d_kv=48, bias=True)
    for w in (mha.w_q, mha.w_k, mha.w_v, mha.w_o):
        bound = (6 / (w.in_features + w.out_features)) ** 0.5
        assert w.weight.abs().max() <= bound
        assert w.weight.abs().max() > 0.98 * bound
        assert_close(w.weight.std().item(), bound / 3**0.5, rtol=0.03, atol=0)
        assert not w.bias.any()


# Keys and values that a decoder keeps


def test_forward_is_attend_after_keys_values():
    mha = built(6, 2, d_kv=5)
    x, memory = randn(2, 3, 6), randn(2, 4, 5, seed=2)
    mask = torch.tensor([[[1, 1, 0, 1]], [[1, 0, 0, 0]]]).bool()
    k, v = mha.keys_values(memory)
    assert k.shape == v.shape == (2, 2, 4, 3)
    assert torch.equal(mha.attend(x, k, v, mask), mha(x, memory, mask))


def test_keys_of_a_longer_prefix_are_the_old_ones_and_new_ones():
    mha, x = built(6, 2), randn(1, 5, 6)
    k, v = mha.keys_values(x)
    first, rest = mha.keys_values(x[:, :3]), mha.keys_values(x[:, 3:])
    exact(torch.cat([first[0], rest[0]], dim=2), k)
    exact(torch.cat([first[1], rest[1]], dim=2), v)
    whole = mha(x, x, causal_mask(5))
    exact(mha.attend(x[:, 3:], k, v, causal_mask(2, start=3)), whole[:, 3:])


# Masks


def test_the_output_ignores_what_stands_at_masked_positions():  # O05 (c)
    mha, x = built(8, 2), randn(2, 3, 8)
    memory = randn(2, 4, 8, seed=2)
    mask = torch.tensor([[[1, 1, 0, 1]], [[1, 0, 0, 0]]]).bool()
    changed = memory + 1e4 * (~mask.mT).double()
    exact(mha(x, changed, mask), mha(x, memory, mask))


def test_every_head_gets_the_same_mask():
    mha, x = built(8, 4), randn(3, 3, 8)
    mask = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 1, 1]]).bool()
    weights = mha.weights(x, x, mask.unsqueeze(1))
    forbidden = ~mask[:, None, None, :].expand(3, 4, 3, 3)
    assert not weights[forbidden].any()
    exact(weights.sum(-1), torch.ones(3, 4, 3, dtype=F64))


@pytest.mark.parametrize("bias", [False, True])
def test_a_row_of_only_padding_gives_the_bias_and_no_gradient(bias):  # O01
    mha = built(8, 2, bias=bias)
    x = randn(2, 3, 8).requires_grad_()
    mask = torch.tensor([[[1, 1, 0]], [[0, 0, 0]]]).bool()
    out = mha(x, x, mask)
    empty = mha.w_o.bias if bias else torch.zeros(8, dtype=F64)
    assert torch.equal(out[1], empty.expand(3, 8))
    assert not mha.weights(x, x, mask)[1].any()
    out.sum().backward()
    assert all(p.grad.isfinite().all() for p in mha.parameters())
    assert not x.grad[1].any()


def test_a_row_of_only_padding_leaves_the_other_rows_alone():  # O01
    mha, x = built(8, 2), randn(2, 3, 8)
    mask = torch.tensor([[[1, 1, 0]], [[0, 0, 0]]]).bool()
    changed = x.clone()
    changed[1] += 100
    mha(changed, changed, mask)[0].sum().backward()
    grads = [p.grad.clone() for p in mha.parameters()]
    mha.zero_grad()
    alone = mha(x[:1], x[:1], mask[:1])
    exact(mha(x, x, mask)[:1], alone)
    alone.sum().backward()
    for grad, p in zip(grads, mha.parameters(), strict=True):
        exact(grad, p.grad)


def test_no_keys_at_all_give_zeros():  # O31
    mha = built(8, 2)
    mask = torch.ones(2, 1, 0, dtype=torch.bool)
    for given in (None, mask):
        out = mha(randn(2, 3, 8), randn(2, 0, 8), given)
        assert torch.equal(out, torch.zeros(2, 3, 8, dtype=F64))


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("shape", "given"),
    [
        ((2, 8, 4), (3, 1)),  # O05 (a)
        ((3, 3, 4), (3, 3)),  # O05 (b)
        ((2, 3, 4), (2, 2, 3, 3)),
        ((2, 3, 4), (2, 3, 1)),
        ((2, 3, 4), (3, 3, 3)),
    ],
)
def test_a_mask_of_another_shape_is_refused(shape, given):
    mha, x = built(4, 2), torch.zeros(*shape, dtype=F64)
    mask = torch.ones(*given, dtype=torch.bool)
    wanted = str((shape[0], shape[1], shape[1]))
    for call in (mha, mha.weights):
        with pytest.raises(ValueError, match="mask of shape") as error:
            call(x, x, mask)
        assert str(given) in str(error.value)
        assert wanted in str(error.value)


@pytest.mark.bad_input
def test_a_mask_of_numbers_is_refused():  # O02
    mha, x = built(4, 2), torch.zeros(1, 3, 4, dtype=F64)
    with pytest.raises(TypeError, match=r"torch\.bool"):
        mha(x, x, torch.ones(1, 3, 3))


@pytest.mark.bad_input
def test_a_wrong_width_is_named_with_the_argument():
    mha = built(6, 2, d_kv=4)
    x, memory = torch.zeros(2, 3, 6), torch.zeros(2, 3, 4)
    x, memory = x.double(), memory.double()
    with pytest.raises(ValueError, match=r"x has shape \(2, 3, 4\).* 6\)"):
        mha(memory, memory)
    with pytest.raises(ValueError, match=r"memory has shape.* 4\)"):
        mha(x, x)
    with pytest.raises(ValueError, match=r"x has shape \(3, 6\)"):
        mha(x[0], memory)


# Parts that can be exchanged


@pytest.mark.parametrize(
    "attention",
    [
        ScaledDotProductAttention(),
        BilinearAttention(4, 4),
        AdditiveAttention(4, 4, 5),
    ],
    ids=lambda a: type(a).__name__,
)
def test_every_attention_of_chapter_7_serves(attention):
    mha = built(8, 2, d_v=3, attention=attention)
    assert mha.attention is attention
    x = randn(2, 3, 8)
    v = mha.keys_values(x)[1]
    mixed = mha.w_o(merge_heads(mha.weights(x, x, causal_mask(3)) @ v))
    exact(mha(x, x, causal_mask(3)), mixed)


def test_another_attention_can_be_put_in_later():
    mha, x = built(8, 2), randn(1, 3, 8)
    before = mha(x, x)
    seen = []

    class Watching(ScaledDotProductAttention):
        def forward(self, q, k, v, mask=None):
            seen.append(self.weights(q, k, mask))
            return super().forward(q, k, v, mask)

    mha.attention = Watching()
    exact(mha(x, x), before)
    exact(seen[0], mha.weights(x, x))


def test_dropout_sleeps_in_evaluation():  # O09
    mha = built(8, 2, attention=ScaledDotProductAttention(p_drop=0.5))
    x = randn(2, 5, 8)
    assert not torch.equal(mha.train()(x, x), mha(x, x))
    mha.eval()
    state = torch.get_rng_state()
    assert torch.equal(mha(x, x), mha(x, x))
    assert torch.equal(torch.get_rng_state(), state)
    exact(mha(x, x), built(8, 2)(x, x))


def test_copies_and_state_dicts_carry_everything():
    mha, x = built(8, 2, bias=True), randn(1, 3, 8)
    other = built(8, 2, bias=True, seed=9)
    other.load_state_dict(mha.state_dict())
    assert torch.equal(other(x, x), mha(x, x))
    assert torch.equal(copy.deepcopy(mha)(x, x), mha(x, x))


def test_runs_on_the_meta_device():
    with torch.device("meta"):
        mha, x = MultiHeadAttention(8, 2), torch.zeros(2, 3, 8)
        out = mha(x, x, causal_mask(3))
        weights = mha.weights(x, x)
    assert out.is_meta
    assert out.shape == (2, 3, 8)
    assert weights.shape == (2, 2, 3, 3)
