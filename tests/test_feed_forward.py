"""The feed-forward network of chapter 10 is its formula, per token."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from transformer_lib.feed_forward import FeedForward

F64 = torch.float64


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=F64)


def built(d_model: int, d_ff: int, p_drop: float = 0.0) -> FeedForward:
    torch.manual_seed(1)
    ffn = FeedForward(d_model, d_ff, p_drop).double()
    for w in (ffn.w_1, ffn.w_2):
        nn.init.normal_(w.bias)  # zeros would hide its use
    return ffn


def test_is_the_formula_in_a_loop():
    ffn, x = built(3, 5), randn(2, 4, 3)
    W1, b1, W2, b2 = (p.tolist() for p in ffn.parameters())
    for b in range(2):
        for t in range(4):
            token = x[b, t].tolist()
            hidden = [
                max(0.0, sum(W1[j][i] * token[i] for i in range(3)) + b1[j])
                for j in range(5)
            ]
            out = [
                sum(W2[i][j] * hidden[j] for j in range(5)) + b2[i]
                for i in range(3)
            ]
            assert_close(
                ffn(x)[b, t], torch.tensor(out, dtype=F64), atol=1e-12, rtol=0
            )


def test_equals_pytorch_forward_and_backward():
    ffn, x = built(6, 9), randn(2, 4, 6)
    theirs = nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 6))
    theirs.double()
    with torch.no_grad():
        for p, q in zip(theirs.parameters(), ffn.parameters(), strict=True):
            p.copy_(q)
    results = []
    for module in (ffn, theirs):
        leaf = x.clone().requires_grad_()
        out = module(leaf)
        (out * randn(2, 4, 6, seed=3)).sum().backward()
        results.append(
            [out, leaf.grad, *(p.grad for p in module.parameters())]
        )
    for ours, other in zip(*results, strict=True):
        assert_close(ours, other, rtol=0, atol=1e-12)


def test_a_token_s_output_depends_on_no_other_token():
    ffn, x = built(6, 9), randn(2, 4, 6)
    J = torch.autograd.functional.jacobian(ffn, x)  # (2, 4, 6, 2, 4, 6)
    for b in range(2):
        for t in range(4):
            own = J[b, t, :, b, t].clone()
            assert own.any()
            J[b, t, :, b, t] = 0
    assert not J.any()


def test_works_for_any_leading_axes():
    ffn, x = built(6, 9), randn(2, 4, 6)
    assert_close(ffn(x[0, 0]), ffn(x)[0, 0])
    assert ffn(x[:, :0]).shape == (2, 0, 6)


def test_the_parameter_count_is_two_matrices_and_two_biases():
    ffn = FeedForward(8, 32)
    assert sum(p.numel() for p in ffn.parameters()) == 2 * 8 * 32 + 8 + 32


def test_weights_start_xavier_uniform_and_biases_at_zero():
    torch.manual_seed(0)
    ffn = FeedForward(64, 256)
    bound = (6 / (64 + 256)) ** 0.5
    for w in (ffn.w_1, ffn.w_2):
        assert 0.98 * bound < w.weight.abs().max() <= bound
        assert not w.bias.any()


def test_dropout_acts_on_hidden_units_only():
    ffn = built(4, 1000, p_drop=0.25).train()
    x = randn(1, 1, 4)
    nn.init.ones_(ffn.w_1.bias)
    nn.init.zeros_(ffn.w_1.weight)  # every hidden unit is 1
    torch.nn.init.ones_(ffn.w_2.weight)
    nn.init.zeros_(ffn.w_2.bias)
    torch.manual_seed(0)
    out = ffn(x)[0, 0]
    kept = out / (1 / 0.75)  # each kept unit counts 1 / (1 − p)
    assert_close(kept, kept.round(), rtol=0, atol=1e-9)
    assert 700 < kept[0] < 800
    assert (out == out[0]).all()  # one pattern of units for all features


def test_dropout_sleeps_in_evaluation():  # O09
    ffn, x = built(6, 9, p_drop=0.5), randn(2, 4, 6)
    assert not torch.equal(ffn.train()(x), ffn(x))
    ffn.eval()
    state = torch.get_rng_state()
    assert torch.equal(ffn(x), ffn(x))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(ffn(x), built(6, 9)(x))


def test_the_default_drops_nothing():
    ffn, x = built(6, 9).train(), randn(2, 4, 6)
    assert torch.equal(ffn(x), ffn.eval()(x))


@pytest.mark.bad_input
def test_a_wrong_width_is_refused_with_both_widths():
    with pytest.raises(ValueError, match=r"width 5.*d_model=6"):
        built(6, 9)(randn(2, 4, 5))


def test_runs_on_the_meta_device():
    with torch.device("meta"):
        out = FeedForward(6, 9)(torch.zeros(2, 4, 6))
    assert out.is_meta
    assert out.shape == (2, 4, 6)
