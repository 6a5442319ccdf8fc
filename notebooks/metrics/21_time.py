"""How long a layer takes, against the tokens it reads and against its width.

Each layer reads one sequence, forwards, without gradients, on one thread,
through PyTorch's own kernels: fused attention between four matrices, the same
with the table of weights written out, a GRU, a convolution of three tokens.
Kept for each size: seconds, the least, the median and the most of fifteen
calls. Run it alone: other work on the machine is in all but the least.
"""

import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

SEEDS = [0]
LENGTHS = [1024, 1448, 2048, 2896, 4096, 5792, 8192]
WIDTHS = [128, 181, 256, 362, 512, 724, 1024]
WIDTH, LENGTH, CALLS = 64, 256, 15  # what stays, while the other grows


def fused(x, four):
    q, k, v = (x @ w for w in four[:3])
    q, k, v = (t[None, None] for t in (q, k, v))  # the kernel wants heads
    return F.scaled_dot_product_attention(q, k, v)[0, 0]


def written_out(x, four):
    q, k, v = (x @ w for w in four[:3])
    return torch.softmax(q @ k.T / k.size(1) ** 0.5, dim=1) @ v


def made(layer, d):
    """The layer as a function of a table of n rows."""
    four = [d**-0.5 * torch.randn(d, d) for _ in range(4)]
    if layer == "GRU":
        gru = nn.GRU(d, d, bias=False)
        return lambda x: gru(x)[0]
    if layer == "convolution":
        kernel = d**-0.5 * torch.randn(d, d, 3)
        return lambda x: F.conv1d(x.T[None], kernel, padding=1)
    attend = fused if layer == "attention, fused" else written_out
    return lambda x: attend(x, four) @ four[3]


LAYERS = ["attention, fused", "attention, written out", "GRU", "convolution"]
KEYS = [f"{layer} | n | {n}" for layer in LAYERS for n in LENGTHS]
KEYS += [f"{layer} | d | {d}" for layer in LAYERS for d in WIDTHS]


@torch.no_grad()
def run(key):
    torch.set_num_threads(1)
    layer, what, size = key.split(" | ")
    n, d = (int(size), WIDTH) if what == "n" else (LENGTH, int(size))
    f, x = made(layer, d), torch.randn(n, d)
    repeats = max(1, int(2e7 / (n * d * d)))  # short calls, several at once
    for _ in range(2):
        f(x)
    seconds = []
    for _ in range(CALLS):
        begun = time.perf_counter()
        for _ in range(repeats):
            f(x)
        seconds.append((time.perf_counter() - begun) / repeats)
    return {
        "median": statistics.median(seconds),
        "least": min(seconds),
        "most": max(seconds),
    }
