"""Chapter 4: rows times √d_model, and the same matrix at the output."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from transformer_lib.embedding import TokenEmbedding, check_ids

F64 = torch.float64


def embedding(V=7, D=4):
    torch.manual_seed(0)
    return TokenEmbedding(V, D).double()


# O13: √d_model at the input only, and one matrix


def test_the_scale_stands_at_the_input_only():  # O13
    tied = embedding(3, 4)
    rows = [[0, 0, 0, 0], [1, 2, 3, 4], [1, -1, 1, -1]]
    tied.weight.data = torch.tensor(rows, dtype=F64)
    assert tied(torch.tensor([[1]])).tolist() == [[[2, 4, 6, 8]]]
    assert tied.logits(torch.ones(4, dtype=F64)).tolist() == [0, 10, 0]


def test_an_untrained_output_has_a_loss_of_ln_V_and_a_half():  # O13
    torch.manual_seed(1)
    tied = TokenEmbedding(1000, 512)
    h = F.layer_norm(torch.randn(4000, 512), (512,))
    labels = torch.randint(1000, (4000,))
    loss = F.cross_entropy(tied.logits(h), labels)
    assert abs(loss - (math.log(1000) + 0.5)) < 0.08


def test_inputs_start_with_variance_one():
    x = embedding(1000, 64)(torch.arange(1000))
    assert abs(x.var() - 1) < 0.02
    assert abs(x.mean()) < 0.02


class Translator(nn.Module):
    """Three uses of one module, as in the paper."""

    def __init__(self):
        super().__init__()
        self.source = self.target = self.output = embedding()

    def forward(self, src, tgt):
        h = self.source(src).mean(1, keepdim=True) + self.target(tgt)
        return self.output.logits(torch.tanh(h))


def test_three_uses_are_one_parameter_before_and_after_a_step():  # O13
    model = Translator()
    before = model.source.weight.detach().clone()
    src, tgt = torch.tensor([[3, 4, 2]]), torch.tensor([[1, 5, 6]])
    optimizer = torch.optim.Adam(model.parameters())
    model(src, tgt).logsumexp(-1).sum().backward()
    optimizer.step()
    assert not torch.equal(before, model.source.weight)
    assert model.source.weight is model.output.weight
    assert model.source.weight is model.target.weight
    assert sum(p.numel() for p in model.parameters()) == 7 * 4


def test_tied_gradients_are_those_of_separate_copies_added():
    model, apart = Translator(), Translator()
    apart.source, apart.target, apart.output = (embedding() for _ in range(3))
    src, tgt = torch.tensor([[3, 4, 2, 3]]), torch.tensor([[1, 5, 6]])
    for m in (model, apart):
        F.cross_entropy(m(src, tgt)[0], torch.tensor([5, 6, 2])).backward()
    copies = [apart.source, apart.target, apart.output]
    total = sum(e.weight.grad for e in copies)
    assert_close(model.source.weight.grad, total, rtol=0, atol=1e-12)
    assert (apart.source.weight.grad[[0, 1, 5, 6]] == 0).all()  # sparse
    assert (total != 0).all()  # dense, once the output is tied


def test_the_state_dict_holds_the_one_matrix():
    assert list(embedding().state_dict()) == ["weight"]


# Against PyTorch


def test_lookup_and_gradient_equal_a_one_hot_product():
    tied = embedding()
    ids = torch.tensor([[1, 3, 1], [0, 3, 6]])
    W = tied.weight.detach().clone().requires_grad_()
    x, y = tied(ids), 2 * F.one_hot(ids, 7).double() @ W
    assert_close(x, y)
    for z in (x, y):
        (torch.tanh(z).cumsum(1) ** 2).sum().backward()
    assert_close(tied.weight.grad, W.grad, rtol=0, atol=1e-12)


def test_logits_equal_a_linear_layer_without_bias():
    tied, linear = embedding(), nn.Linear(4, 7, bias=False).double()
    linear.weight.data = tied.weight.data
    h = torch.randn(2, 3, 4, dtype=F64)
    assert_close(tied.logits(h), linear(h))


@pytest.mark.parametrize(
    "shape", [(), (5,), (2, 0), (0, 3), (2, 3), (2, 3, 2)]
)
def test_ids_may_have_any_shape(shape):
    ids = torch.zeros(shape, dtype=torch.long)
    assert embedding()(ids).shape == (*shape, 4)


def test_int32_ids_give_the_same_rows():
    ids = torch.tensor([[1, 5]])
    assert torch.equal(embedding()(ids.int()), embedding()(ids))


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32]
)
def test_vectors_have_the_dtype_of_the_matrix(dtype):
    tied = embedding().to(dtype)
    x = tied(torch.tensor([[1, 2]]))
    assert x.dtype == tied.logits(x).dtype == dtype


def test_meta_tensors_pass_unread():
    with torch.device("meta"):
        tied = TokenEmbedding(7, 4)
        x = tied(torch.zeros(2, 3, dtype=torch.long))
    assert tied.weight.is_meta
    assert x.is_meta
    assert tied.logits(x).shape == (2, 3, 7)


def test_an_export_carries_no_check_of_values():
    ids = torch.tensor([[1, 5]])
    program = torch.export.export(embedding(), (ids,))
    assert_close(program.module()(ids), embedding()(ids))


# O14: what is refused, and how it is said


@pytest.mark.bad_input
@pytest.mark.parametrize("wrong", [5, -1, 8000])  # O14
def test_an_id_outside_is_named_with_its_place_and_the_range(wrong):
    ids = torch.tensor([[1, 2], [1, wrong]])
    message = (
        rf"token id {wrong} at row 1, column 1 is outside the vocabulary of "
        r"5 \(ids 0 … 4\).*another tokenizer"
    )
    with pytest.raises(ValueError, match=message):
        embedding(5)(ids)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("ids", "place"), [([1, 5], "index 1"), ([[[5]]], "index 0, 0, 0")]
)
def test_the_place_is_named_for_other_shapes(ids, place):
    with pytest.raises(ValueError, match=f"token id 5 at {place} is"):
        embedding(5)(torch.tensor(ids))


def test_the_first_and_the_last_id_pass():  # O14
    embedding(5)(torch.tensor([[0, 4]]))


@pytest.mark.bad_input
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.uint8])
def test_ids_that_are_no_integers_are_refused(dtype):  # O14
    with pytest.raises(TypeError, match=f"token id of {dtype}"):
        embedding(5)(torch.ones(1, 2, dtype=dtype))


@pytest.mark.bad_input
def test_a_label_is_called_a_label():
    with pytest.raises(ValueError, match="label 5 at row 0, column 0"):
        check_ids(torch.tensor([[5]]), 5, "label")


@pytest.mark.bad_input
def test_a_hidden_vector_of_another_width_is_refused():
    with pytest.raises(ValueError, match=r"width 3, .* have width 4"):
        embedding().logits(torch.zeros(2, 3))


@pytest.mark.bad_input
@pytest.mark.parametrize("size", [(0, 4), (4, 0), (-1, 4)])
def test_an_empty_matrix_is_refused(size):
    with pytest.raises(ValueError, match="at least 1"):
        TokenEmbedding(*size)
