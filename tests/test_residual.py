"""Residual sums of chapter 11: what is added, dropped and refused."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from transformer_lib.residual import Dropout, NoResidual, Residual

F64 = torch.float64
BOTH = pytest.mark.parametrize("kind", [Residual, NoResidual])


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=F64)


def test_adds_the_sub_layer_s_output_to_its_input():
    x = randn(2, 3, 4)
    assert torch.equal(Residual()(x, torch.sin), x + x.sin())
    assert torch.equal(NoResidual()(x, torch.sin), x.sin())


def test_a_zero_sub_layer_leaves_x_as_it_is():  # O16
    x = torch.tensor([[[1.0, 2.0, 3.0, 4.0]]])
    for residual in (Residual(), Residual(0.5).train()):
        assert torch.equal(residual(x, torch.zeros_like), x)


def test_dropping_everything_leaves_x_as_it_is():  # O16
    x = torch.tensor([[[1.0, 2.0, 3.0, 4.0]]])
    residual = Residual(p_drop=1.0).train()
    assert torch.equal(residual(x, torch.exp), x)
    assert not NoResidual(p_drop=1.0).train()(x, torch.exp).any()


def test_the_identity_path_is_never_dropped():
    x, p = randn(50, 20, 8), 0.3
    torch.manual_seed(0)
    change = Residual(p).train()(x, torch.ones_like) - x
    kept = change > 0.5
    exactly = kept.double() / (1 - p)
    assert_close(change, exactly, rtol=0, atol=1e-12)
    assert_close(kept.double().mean().item(), 1 - p, rtol=0, atol=0.02)


def test_dropout_keeps_the_expectation_and_adds_this_variance():
    y, p, n = torch.tensor([[1.0, -2.0, 3.0]]).double(), 0.2, 200_000
    torch.manual_seed(0)
    x = torch.zeros(n, 3, dtype=F64)
    samples = Residual(p).train()(x, lambda x: y.expand(n, 3))
    variance = p / (1 - p) * y[0] ** 2
    error = 5 * (variance / n).sqrt()
    assert ((samples.mean(0) - y[0]).abs() < error).all()
    assert_close(samples.var(0), variance, rtol=0.02, atol=0)


@BOTH
def test_dropout_sleeps_in_evaluation(kind):  # O09
    x, residual = randn(2, 3, 4), kind(p_drop=0.5)
    assert not torch.equal(
        residual.train()(x, torch.sin), residual(x, torch.sin)
    )
    residual.eval()
    state = torch.get_rng_state()
    assert torch.equal(residual(x, torch.sin), residual(x, torch.sin))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(residual(x, torch.sin), kind()(x, torch.sin))


def test_the_gradient_is_that_of_the_sub_layer_plus_the_identity():
    f = nn.Linear(4, 4).double()
    J = torch.autograd.functional.jacobian(
        lambda x: Residual()(x, f), randn(4)
    )
    eye = torch.eye(4, dtype=F64)
    assert_close(J, eye + f.weight.detach(), rtol=0, atol=1e-12)


def test_the_sub_layer_is_called_once_with_x_itself():
    x, seen = randn(2, 3, 4), []

    def sublayer(y):
        seen.append(y)
        return y

    Residual(0.5)(x, sublayer)
    assert len(seen) == 1
    assert seen[0] is x


@BOTH
def test_has_no_parameters_and_keeps_nothing_of_the_sub_layer(kind):
    residual = kind(0.1)
    residual(randn(2, 3, 4), nn.Linear(4, 4).double())
    assert not list(residual.parameters())
    assert not residual.state_dict()


@pytest.mark.bad_input
@pytest.mark.parametrize("shape", [(1, 3, 4), (2, 1, 4), (2, 3, 1), (4,)])
def test_an_output_that_would_only_broadcast_is_refused(shape):
    x = torch.zeros(2, 3, 4)
    with pytest.raises(ValueError, match=r"\(2, 3, 4\).*returned") as error:
        Residual()(x, lambda x: torch.zeros(shape))
    assert str(shape) in str(error.value)


@pytest.mark.parametrize("dtype", [torch.float32, F64, torch.bfloat16])
@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_dropout_is_zero_or_one_scale_and_keeps_the_mean(p, dtype):
    torch.manual_seed(0)
    n = 400_000
    dropped = Dropout(p).train()(torch.ones(n, dtype=dtype))
    values = dropped.unique()
    assert values.tolist() == [0, torch.tensor(1 / (1 - p), dtype=dtype)]
    kept = (dropped > 0).double().mean().item()
    error = 5 * (p * (1 - p) / n) ** 0.5
    assert abs(kept * values[1].item() - 1) < error * values[1].item()


def test_dropout_drops_entries_independently():
    torch.manual_seed(0)
    kept = (Dropout(0.5).train()(torch.ones(1000, 1000)) > 0).double() - 0.5
    for shift in (1, 2, 3, 4, 1000):  # four entries share a random number
        both = (kept.flatten()[shift:] * kept.flatten()[:-shift]).mean()
        assert abs(both.item()) < 5 * 0.25 / 1000
    rows = kept.mean(1)
    assert 0.8 < rows.var().item() * 1000 / 0.25 < 1.2


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (2, 0, 4)])
def test_dropout_takes_every_shape_and_gives_its_gradient(shape):
    torch.manual_seed(0)
    x = torch.ones(shape, requires_grad=True)
    y = Dropout(0.5).train()(x)
    assert y.shape == x.shape
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_dropout_is_drawn_from_torch_s_numbers():
    drop, x = Dropout(0.3).train(), torch.ones(100)
    torch.manual_seed(5)
    state = torch.get_rng_state()
    once = drop(x)
    assert not torch.equal(drop(x), once)
    torch.set_rng_state(state)
    assert torch.equal(drop(x), once)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_dropout_at_its_ends(p):
    assert torch.equal(Dropout(p).train()(torch.ones(7)), torch.ones(7) - p)
