"""Loss.

One number says how wrong a distribution over words is; summed over
exactly the real tokens, it is what training makes small.

Chapter 16; generated from
notebooks/16_loss.md by `make export`: edit the chapter.
"""

import math
from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lib.seq2seq import PAD, shift

__all__ = [
    "Batches",
    "Shares",
    "cross_entropy",
    "evaluate",
    "kl_divergence",
    "mean_gradient",
    "perplexity",
    "squared_distance",
    "sum_gradient",
]


Shares = Float[Tensor, "*B V"]  # a distribution a row
Batches = Iterable[tuple[Tensor, Tensor]]  # src (B, S), tgt (B, T + 1)


def squared_distance(p: Shares, q: Shares) -> Float[Tensor, "*B"]:
    """Σ (p − q)² over the last axis, no root; :eq:`squared-distance`."""
    return (p - q).square().sum(dim=-1)


def kl_divergence(p: Shares, q: Shares) -> Float[Tensor, "*B"]:
    """Σ p log(p / q) over the last axis, in nats; :eq:`entropy-kl`.

    Terms with p = 0 are left out; one with q = 0 < p is infinite.
    """
    absent = p == 0
    ratio = p.masked_fill(absent, 1).log() - q.masked_fill(absent, 1).log()
    return (p * ratio).sum(dim=-1)


def cross_entropy(
    logits: Float[Tensor, "B T V"],
    labels: Int[Tensor, "B T"],
    *,
    smoothing: float = 0.0,
    pad: int = PAD,
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """The sum over all labels that are not pad, in nats, and their number.

    :eq:`token-mean`: divide the one by the other, once. The target is
    1 − ε on the label and ε/V on every word, the label and pad included
    (PyTorch's definition, :eq:`smoothing`); the paper has ε = 0.1. A batch
    of only padding gives 0 and zero gradients. Half precision is summed in
    float32. Raises ValueError unless labels fit the logits and 0 ≤ ε < 1,
    and TypeError unless labels are int64 or int32.
    """
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing is {smoothing}, expected 0 ≤ ε < 1")
    _check_labels(logits, labels, pad)
    wide = torch.promote_types(logits.dtype, torch.float32)
    total = F.cross_entropy(
        logits.flatten(0, 1).to(wide),
        labels.flatten().long(),
        ignore_index=pad,
        reduction="sum",
        label_smoothing=smoothing,
    )
    return total, (labels != pad).sum()


def _check_labels(logits: Tensor, labels: Tensor, pad: int) -> None:
    if logits.dim() != 3 or logits.shape[:2] != labels.shape:
        raise ValueError(
            f"logits of shape {tuple(logits.shape)} and labels of shape "
            f"{tuple(labels.shape)}, expected (B, T, V) and (B, T)"
        )
    if labels.dtype not in (torch.int64, torch.int32):
        raise TypeError(
            f"labels of {labels.dtype}: they are torch.int64 or torch.int32"
        )
    V = logits.size(-1)
    outside = ((labels < 0) | (labels >= V)) & (labels != pad)
    if not outside.is_meta and outside.any():
        row, column = outside.nonzero()[0].tolist()
        raise ValueError(
            f"label {labels[row, column].item()} at row {row}, column "
            f"{column} is outside the vocabulary of {V} (ids 0 … {V - 1}); "
            "was the text encoded with another tokenizer?"
        )


def sum_gradient(
    model: nn.Module,
    batches: Batches,
    loss: Callable[..., tuple[Tensor, Tensor]] = cross_entropy,
    dtype: torch.dtype | None = None,
) -> tuple[float, int]:
    """Sets every .grad to the gradient of the sum over all batches.

    `loss` gives a sum and a number; returns the sum and the number of all.
    The model runs under autocast to `dtype`, where one is given.
    """
    model.zero_grad()
    device = next(model.parameters()).device
    total, count = 0.0, 0
    for src, tgt in batches:
        tgt_in, labels = shift(tgt.to(device))
        with torch.autocast(device.type, dtype, enabled=dtype is not None):
            logits = model(src.to(device), tgt_in)
        part, tokens = loss(logits, labels)
        part.backward()
        total, count = total + part.item(), count + int(tokens)
    return total, count


def mean_gradient(
    model: nn.Module,
    batches: Batches,
    loss: Callable[..., tuple[Tensor, Tensor]] = cross_entropy,
    dtype: torch.dtype | None = None,
) -> tuple[float, int]:
    """Sets every .grad as if all batches were one; :eq:`accumulation`.

    As sum_gradient, divided by the number; returns the mean and the number.
    """
    total, count = sum_gradient(model, batches, loss, dtype)
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad /= max(count, 1)
    return total / max(count, 1), count


def perplexity(total: Tensor | float, count: Tensor | int) -> float:
    """exp(total / count); :eq:`perplexity`. ValueError for no tokens."""
    if count == 0:
        raise ValueError("the perplexity of no tokens: was all of it padding?")
    mean = float(total) / int(count)
    return math.inf if mean >= 709 else math.exp(mean)  # NaN stays NaN


@torch.no_grad()
def evaluate(
    model: nn.Module, batches: Batches, pad: int = PAD
) -> dict[str, float]:
    """nll (nats a token, unsmoothed), perplexity and accuracy; no dropout.

    Teacher-forced. Raises ValueError when there are no tokens.
    """
    modes = [(part, part.training) for part in model.modules()]
    device = next(model.parameters()).device
    total, count, right = 0.0, 0, 0
    model.eval()
    try:
        for src, tgt in batches:
            tgt_in, labels = shift(tgt.to(device))
            logits = model(src.to(device), tgt_in)
            part, tokens = cross_entropy(logits, labels, pad=pad)
            hits = (logits.argmax(-1) == labels) & (labels != pad)
            total, count = total + part.item(), count + int(tokens)
            right += int(hits.sum())
    finally:
        for module, mode in modes:
            module.training = mode
    ppl = perplexity(total, count)
    return {"nll": total / count, "perplexity": ppl, "accuracy": right / count}
