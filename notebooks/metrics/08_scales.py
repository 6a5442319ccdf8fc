"""One attention that must find a key among 32, under five scales of scores.

A sentence is 32 items: a random content of 48 numbers and a label of 16.
Each query is the content of one item; wanted is its label. One layer with
one head of d_k = 256 learns it. For a seed, the five start with the same
matrices (one divides W^Q by its scale instead) and read the same sentences.
"""

import math

import torch
import torch.nn.functional as F

SEEDS = [0, 1, 2]
ITEMS, CONTENT, LABELS, D_K = 32, 48, 16, 256
D_MODEL = CONTENT + LABELS
SCALES = ["1", "1/√d_k", "1/d_k", "1, small W^Q", "learned, from 1"]
RATES = {"Adam": [3e-4, 1e-3, 3e-3], "SGD": [0.1, 0.3, 1.0]}
KEYS = [
    f"{scale} | {optimizer} | {rate}"
    for optimizer, rates in RATES.items()
    for rate in rates
    for scale in SCALES
]
STEPS, EVERY, BATCH = 600, 10, 16


def sentences(generator):
    content = torch.randn(BATCH, ITEMS, CONTENT, generator=generator)
    labels = torch.randint(LABELS, (BATCH, ITEMS), generator=generator)
    marks = math.sqrt(LABELS) * F.one_hot(labels, LABELS)
    queries = torch.cat([content, torch.zeros_like(marks)], dim=-1)
    return queries, torch.cat([content, marks], dim=-1), labels


def first_weights(generator):
    """W^Q, W^K, W^V, W^O, of variance 1 / width of what comes in."""
    shapes = [(D_MODEL, D_K)] * 3 + [(D_K, LABELS)]
    return [
        torch.randn(*shape, generator=generator) / math.sqrt(shape[0])
        for shape in shapes
    ]


def train(scale, optimizer, rate, seed):
    generator = torch.Generator().manual_seed(seed)
    weights = first_weights(generator)
    if scale == "1, small W^Q":
        weights[0] = weights[0] / math.sqrt(D_K)
    parameters = [w.requires_grad_() for w in weights]
    factor = {"1/√d_k": 1 / math.sqrt(D_K), "1/d_k": 1 / D_K}.get(scale, 1.0)
    log_scale = torch.zeros((), requires_grad=True)
    if scale == "learned, from 1":
        parameters.append(log_scale)
    make = {"Adam": torch.optim.Adam, "SGD": torch.optim.SGD}[optimizer]
    step = make(parameters, rate)
    w_q, w_k, w_v, w_o = weights
    losses, found = [], {"loss": [], "largest": [], "gradient": []}
    for number in range(STEPS):
        queries, items, labels = sentences(generator)
        scores = (queries @ w_q) @ (items @ w_k).mT
        A = torch.softmax(factor * log_scale.exp() * scores, dim=-1)
        logits = A @ (items @ w_v) @ w_o
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        step.zero_grad()
        loss.backward()
        losses.append(loss.item())
        if number % EVERY == 0:
            found["largest"].append(A.amax(-1).mean().item())
            relative = [(w.grad.norm() / w.norm()).item() for w in weights]
            found["gradient"].append(relative)
        step.step()
    chunks = [losses[i : i + EVERY] for i in range(0, STEPS, EVERY)]
    found["loss"] = [sum(chunk) / EVERY for chunk in chunks]
    found["scale"] = factor * log_scale.exp().item()
    return found


def short(x):
    """Four digits are enough for a picture."""
    if isinstance(x, dict):
        return {name: short(value) for name, value in x.items()}
    if isinstance(x, list):
        return [short(value) for value in x]
    return float(f"{x:.4g}")


def run(key):
    torch.set_num_threads(1)
    scale, optimizer, rate = key.split(" | ")
    runs = [train(scale, optimizer, float(rate), seed) for seed in SEEDS]
    if (optimizer, float(rate)) != ("Adam", 1e-3):
        for found in runs:
            del found["gradient"]
    return {"runs": short(runs)}
