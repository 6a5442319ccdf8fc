"""What is summed, what is counted, and what is refused."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from transformer_lib.encoder import TransformerConfig
from transformer_lib.loss import (
    cross_entropy,
    evaluate,
    kl_divergence,
    mean_gradient,
    perplexity,
    squared_distance,
    sum_gradient,
)
from transformer_lib.seq2seq import shift
from transformer_lib.transformer import Transformer

from tiny import Tiny

F64 = torch.float64


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Tiny()


@pytest.fixture
def batch():
    src = torch.tensor([[3, 4, 2], [9, 2, 0]])
    tgt = torch.tensor([[1, 5, 6, 2, 0, 0], [1, 7, 8, 9, 10, 2]])
    return src, tgt


def random_logits(*shape):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(*shape, generator=generator, dtype=F64)


def smoothed(logits, labels, eps, pad):
    """Sum and number, word by word, from the definition."""
    total, count = 0.0, 0
    for row, label in zip(
        logits.flatten(0, 1), labels.flatten().tolist(), strict=True
    ):
        if label == pad:
            continue
        target = torch.full_like(row, eps / len(row))
        target[label] += 1 - eps
        total -= (target * row.log_softmax(0)).sum().item()
        count += 1
    return total, count


# O18
@pytest.mark.parametrize(("eps", "wanted"), [(0.0, 0.451914), (0.4, 1.251914)])
def test_smoothing_spreads_its_mass_over_all_words(eps, wanted):
    logits = torch.tensor([[[2.0, 0, 1, 3, -1]]], dtype=F64)
    total, count = cross_entropy(logits, torch.tensor([[3]]), smoothing=eps)
    assert round(total.item(), 6) == wanted
    assert count == 1


# O18
def test_smoothed_target_has_the_divergence_of_its_definition():
    logp = torch.tensor([2.0, 0, 1, 3, -1], dtype=F64).log_softmax(0)
    target = torch.tensor([0.08, 0.08, 0.08, 0.68, 0.08], dtype=F64)
    assert round(kl_divergence(target, logp.exp()).item(), 6) == 0.181431


# O18
def test_zero_times_log_zero_is_zero():
    p = torch.tensor([0, 0.8, 0.1, 0.1], dtype=F64, requires_grad=True)
    q = torch.tensor([0, 0.5, 0.25, 0.25], dtype=F64, requires_grad=True)
    kl = kl_divergence(p, q)
    kl.backward()
    assert round(kl.item(), 4) == 0.1927
    assert p.grad.isfinite().all()
    assert q.grad.isfinite().all()
    assert kl_divergence(q.detach().flip(0), p.detach()) == math.inf


@pytest.mark.parametrize("eps", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("pad", [0, 10, -100])
def test_sum_and_number_are_those_of_a_loop(eps, pad):
    logits = random_logits(3, 4, 11)
    labels = torch.arange(12).view(3, 4) % 11
    labels[1, 2:] = pad
    total, count = cross_entropy(logits, labels, smoothing=eps, pad=pad)
    slow, number = smoothed(logits, labels, eps, pad)
    assert_close(total.item(), slow, atol=1e-12, rtol=0)
    assert count == number


def test_gradient_is_the_distribution_minus_the_target():
    logits = random_logits(1, 1, 7).requires_grad_()
    cross_entropy(logits, torch.tensor([[4]]))[0].backward()
    wanted = logits.detach().softmax(-1)
    wanted[0, 0, 4] -= 1
    assert_close(logits.grad, wanted, atol=1e-12, rtol=0)


# O19
def test_a_batch_of_only_padding_has_loss_0_and_zero_gradients():
    logits = random_logits(1, 2, 5).requires_grad_()
    labels = torch.zeros(1, 2, dtype=torch.long)
    total, count = cross_entropy(logits, labels, smoothing=0.1)
    total.backward()
    assert total == 0
    assert count == 0
    assert (logits.grad == 0).all()


# O20
def test_micro_batches_of_4_and_1_tokens_average_over_5():
    def with_loss(value):  # logits of two words, the gold one with this loss
        rest = math.log(math.expm1(value))
        return torch.tensor([-99.0, 0.0, rest], dtype=F64)

    a = with_loss(1.0).expand(1, 4, 3), torch.ones(1, 4, dtype=torch.long)
    b = with_loss(4.0).expand(1, 4, 3), torch.tensor([[1, 0, 0, 0]])
    (total_a, count_a), (total_b, count_b) = (
        cross_entropy(*a),
        cross_entropy(*b),
    )
    mean = (total_a + total_b) / (count_a + count_b)
    assert_close(mean.item(), 1.6, atol=1e-9, rtol=0)


# O20
@pytest.mark.parametrize("eps", [0.0, 0.1])
def test_accumulated_gradients_are_the_joint_gradient(model, batch, eps):
    def loss(logits, labels):
        return cross_entropy(logits, labels, smoothing=eps)

    src, tgt = batch
    found = mean_gradient(
        model, [(src[:1], tgt[:1]), (src[1:], tgt[1:])], loss
    )
    grads = [p.grad.clone() for p in model.parameters()]
    tgt_in, labels = shift(tgt)
    total, count = loss(model(src, tgt_in), labels)
    wanted = torch.autograd.grad(total / count, model.parameters())
    for grad, right in zip(grads, wanted, strict=True):
        assert_close(grad, right, atol=1e-12, rtol=0)
    assert_close(found[0], (total / count).item())
    assert found[1] == 8


# O20
def test_the_sum_s_gradient_is_the_mean_s_times_the_number(model, batch):
    mean, count = mean_gradient(model, [batch])
    grads = [p.grad.clone() for p in model.parameters()]
    total, again = sum_gradient(model, [batch])
    assert (again, total) == (count, pytest.approx(mean * count))
    for p, grad in zip(model.parameters(), grads, strict=True):
        assert_close(p.grad, grad * count, rtol=1e-12, atol=0)


def test_in_bfloat16_weights_and_gradients_stay_as_they_are(batch):
    torch.manual_seed(0)
    config = TransformerConfig.tiny(50)
    model = Transformer.from_config(config).eval()
    found = []
    for dtype in (None, torch.bfloat16):
        mean_gradient(model, [batch], dtype=dtype)
        assert {p.dtype for p in model.parameters()} == {torch.float32}
        found.append([p.grad.clone() for p in model.parameters()])
    full, rough = (torch.cat([g.flatten() for g in some]) for some in found)
    assert rough.dtype == torch.float32
    assert not torch.equal(full, rough)
    assert (full - rough).norm() < 0.05 * full.norm()


def test_a_column_of_padding_changes_nothing(model, batch):
    src, tgt = batch
    before = mean_gradient(model, [(src, tgt)])
    grads = [p.grad.clone() for p in model.parameters()]
    after = mean_gradient(model, [(F.pad(src, (0, 1)), F.pad(tgt, (0, 1)))])
    assert_close(after, before)
    for p, grad in zip(model.parameters(), grads, strict=True):
        assert_close(p.grad, grad, atol=1e-12, rtol=0)


def test_gradients_do_not_add_up_from_call_to_call(model, batch):
    mean_gradient(model, [batch])
    first = model.say.weight.grad.clone()
    mean_gradient(model, [batch])
    assert_close(model.say.weight.grad, first, atol=1e-12, rtol=0)


def test_only_padding_leaves_zero_gradients(model, batch):
    src, tgt = batch
    assert mean_gradient(model, [(src, torch.zeros_like(tgt))]) == (0, 0)
    assert (model.say.weight.grad == 0).all()


# O29
def test_the_end_symbol_is_counted_in_every_row_and_nothing_after_it(batch):
    _, labels = shift(batch[1])
    assert labels.tolist() == [[5, 6, 2, 0, 0], [7, 8, 9, 10, 2]]
    total, count = cross_entropy(random_logits(2, 5, 11), labels)
    assert count == 3 + 5
    changed = random_logits(2, 5, 11)
    changed[0, 3:] += 1.0 + torch.arange(11)  # what follows the end
    assert cross_entropy(changed, labels)[0] == total
    changed[0, 2] += torch.arange(11)  # the end itself
    assert cross_entropy(changed, labels)[0] != total


# O14
@pytest.mark.bad_input
@pytest.mark.parametrize("label", [8, -1])
def test_a_label_outside_the_vocabulary_is_named_with_its_place(label):
    labels = torch.tensor([[1, 2, 3, 4], [5, 6, 7, label]])
    said = rf"label {label} at row 1, column 3 .* of 8 \(ids 0 … 7\)"
    with pytest.raises(ValueError, match=said):
        cross_entropy(torch.zeros(2, 4, 8), labels)


@pytest.mark.bad_input
def test_labels_of_another_shape_are_refused():
    labels = torch.ones(2, 5, dtype=torch.long)
    with pytest.raises(ValueError, match=r"\(2, 4, 8\).*\(2, 5\)"):
        cross_entropy(torch.zeros(2, 4, 8), labels)


@pytest.mark.bad_input
@pytest.mark.parametrize("smoothing", [-0.1, 1.0])
def test_smoothing_outside_its_range_is_refused(smoothing):
    labels = torch.ones(2, 4, dtype=torch.long)
    with pytest.raises(ValueError, match="0 ≤ ε < 1"):
        cross_entropy(torch.zeros(2, 4, 8), labels, smoothing=smoothing)


def test_half_precision_is_summed_in_float32():
    logits = torch.zeros(1, 30000, 11, dtype=torch.float16)
    labels = torch.ones(1, 30000, dtype=torch.long)
    total, count = cross_entropy(logits, labels)
    assert_close(total.item() / count.item(), math.log(11), rtol=1e-4, atol=0)


def test_labels_may_be_int32():
    labels = torch.tensor([[1, 2, 0]], dtype=torch.int32)
    logits = random_logits(1, 3, 11)
    total, count = cross_entropy(logits, labels)
    assert_close(total, cross_entropy(logits, labels.long())[0])
    assert count == 2


@pytest.mark.bad_input
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
def test_labels_that_are_no_ids_are_refused(dtype):
    with pytest.raises(TypeError, match=f"labels of {dtype}"):
        cross_entropy(torch.zeros(2, 4, 8), torch.ones(2, 4, dtype=dtype))


def test_meta_tensors_pass_without_a_look_at_their_values():
    labels = torch.ones(2, 4, dtype=torch.long, device="meta")
    total, _ = cross_entropy(torch.zeros(2, 4, 8, device="meta"), labels)
    assert total.device.type == "meta"


def test_distances_are_those_of_a_loop():
    p, q = random_logits(2, 3, 5).softmax(-1)
    for i in range(3):
        pairs = list(zip(p[i].tolist(), q[i].tolist(), strict=True))
        square = sum((a - b) ** 2 for a, b in pairs)
        kl = sum(a * math.log(a / b) for a, b in pairs)
        assert_close(squared_distance(p, q)[i].item(), square)
        assert_close(kl_divergence(p, q)[i].item(), kl)


def test_an_even_guess_has_the_perplexity_of_the_vocabulary():
    labels = torch.tensor([[1, 2, 0]])
    found = perplexity(*cross_entropy(torch.zeros(1, 3, 11), labels))
    assert_close(found, 11.0, rtol=1e-6, atol=0)
    assert perplexity(1e6, 1) == math.inf


def test_the_perplexity_of_nan_is_nan():
    assert math.isnan(perplexity(math.nan, 1))
    assert perplexity(math.inf, 1) == math.inf


@pytest.mark.bad_input
def test_the_perplexity_of_nothing_is_refused():
    with pytest.raises(ValueError, match="no tokens"):
        perplexity(0.0, 0)


def test_evaluation_counts_every_token_once_and_drops_nothing(batch):
    torch.manual_seed(0)
    model = Tiny(p_drop=0.5)
    src, tgt = batch
    scores = evaluate(model, [(src[:1], tgt[:1]), (src[1:], tgt[1:])])
    assert model.training
    model.eval()
    tgt_in, labels = shift(tgt)
    logits = model(src, tgt_in).detach()
    total, count = smoothed(logits, labels, 0.0, 0)
    assert_close(scores["nll"], total / count)
    assert_close(scores["perplexity"], math.exp(total / count))
    right = (logits.argmax(-1) == labels) & (labels != 0)
    assert scores["accuracy"] == right.sum().item() / 8


def test_evaluation_gives_each_part_its_own_mode_back(model, batch):
    model.say.eval()
    evaluate(model, [batch])
    assert [m.training for m in model.children()] == [True, True, False]
    assert model.training


@pytest.mark.bad_input
def test_an_evaluation_that_fails_gives_the_modes_back_too(model, batch):
    src, tgt = batch
    tgt[1, -1] = 11
    with pytest.raises(ValueError, match="outside the vocabulary"):
        evaluate(model, [(src, tgt)])
    assert all(m.training for m in model.modules())
