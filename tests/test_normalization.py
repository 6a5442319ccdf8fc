"""The norms of chapter 12 against PyTorch's, and where they stand."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from transformer_lib.normalization import (
    BatchNorm,
    LayerNorm,
    PostNorm,
    PreNorm,
)
from transformer_lib.residual import NoResidual, Residual

F64 = torch.float64
X = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=F64)
NORMED = torch.tensor([-1.341635, -0.447212, 0.447212, 1.341635]).double()


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=F64)


def exact(a, b):
    assert_close(a, b, rtol=0, atol=1e-12)


def near(a, b):
    assert_close(a, b, rtol=0, atol=1e-6)


def with_weights(norm: nn.Module, seed: int = 7) -> nn.Module:
    norm.double()
    with torch.no_grad():
        norm.weight.copy_(1 + randn(*norm.weight.shape, seed=seed))
        norm.bias.copy_(randn(*norm.bias.shape, seed=seed + 1))
    return norm


def outputs_and_gradients(norm, x, *more):
    leaf = x.clone().requires_grad_()
    norm.zero_grad()
    out = norm(leaf, *more)
    (out * randn(*out.shape, seed=3)).sum().backward()
    return out, leaf.grad, norm.weight.grad, norm.bias.grad


# LayerNorm


def test_layer_norm_divides_by_the_biased_deviation():  # O15
    norm = LayerNorm(4).double()
    near(norm(X), NORMED)
    exact(norm(X), F.layer_norm(X, (4,)))


def test_layer_norm_has_eps_inside_the_root():  # O15
    small = LayerNorm(4).double()(1e-3 * X)
    near(small[0], torch.tensor(-0.447214, dtype=F64))
    exact(small, F.layer_norm(1e-3 * X, (4,)))


def test_layer_norm_of_one_feature_is_zero_and_not_nan():  # O15
    assert LayerNorm(1).double()(X[:, None]).tolist() == [[0.0]] * 4


@pytest.mark.parametrize("eps", [1e-5, 0.1])
def test_layer_norm_equals_pytorch_forward_and_backward(eps):
    x = 3 * randn(2, 5, 6) + 1
    ours = with_weights(LayerNorm(6, eps=eps))
    theirs = nn.LayerNorm(6, eps=eps, dtype=F64)
    theirs.load_state_dict(ours.state_dict())
    for a, b in zip(
        outputs_and_gradients(ours, x),
        outputs_and_gradients(theirs, x),
        strict=True,
    ):
        exact(a, b)


def test_layer_norm_treats_every_token_alone():
    norm, x = with_weights(LayerNorm(6)), randn(2, 5, 6)
    exact(norm(x)[1, 3], norm(x[1, 3]))
    assert norm(x[:, :0]).shape == (2, 0, 6)


def test_layer_norm_is_the_same_in_training_and_evaluation():
    norm, x = with_weights(LayerNorm(6)), randn(2, 5, 6)
    assert torch.equal(norm.train()(x), norm.eval()(x))


# BatchNorm


def pair(**kwargs) -> tuple[BatchNorm, nn.BatchNorm1d]:
    ours = with_weights(BatchNorm(6, **kwargs))
    theirs = nn.BatchNorm1d(6, dtype=F64, **kwargs)
    theirs.load_state_dict(ours.state_dict(), strict=False)
    return ours, theirs


def test_batch_norm_is_the_formula_in_a_loop():
    norm, x = with_weights(BatchNorm(3, eps=1e-3)), randn(2, 4, 3)
    out = norm(x)
    for d in range(3):
        values = [x[b, t, d].item() for b in range(2) for t in range(4)]
        mean = sum(values) / 8
        var = sum((v - mean) ** 2 for v in values) / 8
        for b in range(2):
            for t in range(4):
                z = (x[b, t, d] - mean) / (var + 1e-3) ** 0.5
                exact(out[b, t, d], norm.weight[d] * z + norm.bias[d])


@pytest.mark.parametrize("kwargs", [{}, {"eps": 0.1, "momentum": 0.3}])
def test_batch_norm_equals_pytorch_step_by_step(kwargs):
    ours, theirs = pair(**kwargs)
    for step in range(3):
        x = 2 * randn(2, 5, 6, seed=step) + step
        exact(ours(x), theirs(x.mT).mT)
        exact(ours.running_mean, theirs.running_mean)
        exact(ours.running_var, theirs.running_var)
    ours.eval(), theirs.eval()
    x = randn(2, 5, 6, seed=9)
    before = ours.running_mean.clone(), ours.running_var.clone()
    exact(ours(x), theirs(x.mT).mT)
    assert torch.equal(ours.running_mean, before[0])
    assert torch.equal(ours.running_var, before[1])


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_s_gradients_equal_pytorch_s(training):
    ours, theirs = pair()
    x = randn(2, 5, 6)
    results = []
    for norm in (ours, theirs):
        norm.train(training)
        leaf = x.clone().requires_grad_()
        out = norm(leaf) if norm is ours else norm(leaf.mT).mT
        (out * randn(2, 5, 6, seed=3)).sum().backward()
        results.append([out, leaf.grad, norm.weight.grad, norm.bias.grad])
    for a, b in zip(*results, strict=True):
        exact(a, b)


def test_padding_does_not_count_in_batch_norm():
    x = randn(2, 5, 6)
    real = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]).bool()
    ours, theirs = pair()
    out = ours(x, real)
    exact(out[real], theirs(x[real]))
    exact(ours.running_mean, theirs.running_mean)
    exact(ours.running_var, theirs.running_var)
    assert not out[~real].any()
    other, _ = pair()
    exact(other(torch.where(real[..., None], x, 1e4), real), out)
    exact(other.running_var, ours.running_var)


def test_no_gradient_reaches_the_padding():
    real = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]).bool()
    ours, theirs = pair()
    x = randn(2, 5, 6)
    a = outputs_and_gradients(ours, x, real)
    assert not a[1][~real].any()
    leaf = x[real].clone().requires_grad_()
    (theirs(leaf) * randn(2, 5, 6, seed=3)[real]).sum().backward()
    exact(a[1][real], leaf.grad)
    exact(a[2], theirs.weight.grad)


def test_a_mask_of_only_real_tokens_is_no_mask():
    (one, _), (other, _) = pair(), pair()
    x = randn(2, 5, 6)
    exact(one(x), other(x, torch.ones(2, 5, dtype=torch.bool)))
    exact(one.running_var, other.running_var)


def test_batch_norm_in_evaluation_treats_every_token_alone():
    norm, _ = pair()
    norm(randn(2, 5, 6))
    norm.eval()
    x = randn(2, 5, 6, seed=4)
    exact(norm(x)[1:, 3:4], norm(x[1:, 3:4]))


@pytest.mark.bad_input
@pytest.mark.parametrize("count", [0, 1])
def test_batch_norm_refuses_to_train_on_fewer_than_two_tokens(count):
    real = torch.zeros(1, 3, dtype=torch.bool)
    real[0, :count] = True
    norm = BatchNorm(4)
    with pytest.raises(ValueError, match=f"{count} real tokens"):
        norm(torch.ones(1, 3, 4), real)
    assert not norm.running_mean.any()
    norm.eval()(torch.ones(1, 3, 4), real)


@pytest.mark.bad_input
def test_wrong_widths_and_masks_are_refused():
    x = torch.zeros(2, 3, 5)
    for norm in (LayerNorm(4), BatchNorm(4)):
        with pytest.raises(ValueError, match=r"width 5.*d_model=4"):
            norm(x)
    for real in (torch.ones(2, 3), torch.ones(3, 2, dtype=torch.bool)):
        with pytest.raises(ValueError, match=r"expected .*\(2, 3\)"):
            BatchNorm(5)(x, real)


# Where the norm stands


def test_post_norm_normalises_the_sum():  # O16
    around = PostNorm(LayerNorm(4), Residual()).double()
    near(around(X, torch.zeros_like), NORMED)
    exact(around(X, torch.exp), F.layer_norm(X + X.exp(), (4,)))


def test_pre_norm_normalises_what_the_sub_layer_reads():  # O16
    around = PreNorm(LayerNorm(4), Residual()).double()
    assert torch.equal(around(X, torch.zeros_like), X)
    exact(around(X, torch.exp), X + F.layer_norm(X, (4,)).exp())


def test_dropping_everything_is_a_zero_sub_layer():  # O16
    for kind in (PostNorm, PreNorm):
        around = kind(LayerNorm(4), Residual(p_drop=1.0)).double().train()
        exact(around(X, torch.exp), around(X, torch.zeros_like))
        assert around(X, torch.exp).any()


def test_any_norm_and_any_residual_serve():
    x = randn(2, 3, 4)
    bare = PostNorm(nn.Identity(), NoResidual())
    assert torch.equal(bare(x, torch.sin), x.sin())
    assert torch.equal(PreNorm(nn.Identity(), Residual())(x, torch.sin),
                       x + x.sin())  # fmt: skip
    exact(
        PostNorm(BatchNorm(4).double(), Residual())(x, torch.sin),
        BatchNorm(4).double()(x + x.sin()),
    )


@pytest.mark.parametrize("kind", [PostNorm, PreNorm])
def test_dropout_sleeps_in_evaluation(kind):  # O09
    x, around = randn(2, 3, 4), kind(LayerNorm(4), Residual(0.5)).double()
    assert not torch.equal(around.train()(x, torch.sin), around(x, torch.sin))
    around.eval()
    assert torch.equal(around(x, torch.sin), around(x, torch.sin))


@pytest.mark.parametrize("kind", [PostNorm, PreNorm])
def test_runs_on_the_meta_device(kind):
    with torch.device("meta"):
        for norm in (LayerNorm(4), BatchNorm(4)):
            out = kind(norm, Residual(0.1))(torch.zeros(2, 3, 4), torch.sin)
            assert out.is_meta
            assert out.shape == (2, 3, 4)
