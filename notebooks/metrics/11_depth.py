"""Training error over depth: plain layers, residual ones, other skips.

Nets of width 16 learn a table of 128 examples; only the training error
counts. Kept every 40 steps: the error; the length of the gradient at the
weights of the first layer and of the last; and how far apart the examples
are behind the last layer (0: all one point).
"""

import torch
from torch import nn

SEEDS = [0, 1, 2, 3, 4]
DEPTHS = [2, 8, 24, 48]
KINDS = {  # skip, activation and norm, first weights, rate
    "plain": ("none", "relu-norm", "usual", 3e-3),
    "plain, rate / 3": ("none", "relu-norm", "usual", 1e-3),
    "residual": ("identity", "relu-norm", "usual", 3e-3),
    "plain, orthogonal": ("none", "relu-norm", "orthogonal", 3e-3),
    "plain, no norm": ("none", "maxmin", "usual", 3e-3),
    "plain, isometric": ("none", "maxmin", "orthogonal", 3e-3),
}
SKIPS = ["scaled 0.9", "scaled 0.5", "gated", "projected", "dropped"]
KINDS |= {skip: (skip, "relu-norm", "usual", 3e-3) for skip in SKIPS}
KEYS = [
    f"{kind} | {depth} | {seed}"
    for kind in KINDS
    for depth in (DEPTHS if kind not in SKIPS else [8, 48])
    for seed in SEEDS
]
WIDTH, STEPS = 16, 400


def table():
    """128 inputs and what is wanted of them, with mean 0 and variance 1."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(128, WIDTH, generator=generator)
    wanted = (2 * inputs[:, 0]).sin() * inputs[:, 1] + inputs[:, 2].abs()
    return inputs, (wanted - wanted.mean()) / wanted.std()


class MaxMin(nn.Module):
    """Each pair of features in falling order: a permutation of them."""

    def forward(self, x):
        a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack([a.maximum(b), a.minimum(b)], dim=-1).flatten(-2)


class Layer(nn.Module):
    """One layer, with a skip or without."""

    def __init__(self, skip, activation, first_weights):
        super().__init__()
        linear = nn.Linear(WIDTH, WIDTH)
        if first_weights == "orthogonal":
            nn.init.orthogonal_(linear.weight)
            nn.init.zeros_(linear.bias)
        norm = [nn.LayerNorm(WIDTH), nn.ReLU()]
        rest = norm if activation == "relu-norm" else [MaxMin()]
        self.change = nn.Sequential(linear, *rest)
        self.skip, self.more = skip, None
        if skip in ("gated", "projected"):
            self.more = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        change = self.change(x)
        if self.skip == "none":
            return change
        if self.skip == "identity":
            return x + change
        if self.skip == "gated":
            gate = self.more(x).sigmoid()
            return (1 - gate) * x + gate * change
        if self.skip == "projected":
            return self.more(x) + change
        if self.skip == "dropped":
            return nn.functional.dropout(x, 0.1, self.training) + change
        return float(self.skip.split()[1]) * x + change


def apart(rows):
    """Which share of the rows' squares is not their mean's."""
    rows = rows.double()
    centred = rows - rows.mean(dim=0)
    return centred.square().sum() / rows.square().sum()


def run(key):
    torch.set_num_threads(1)
    kind, depth, seed = key.split(" | ")
    skip, activation, first_weights, rate = KINDS[kind]
    torch.manual_seed(int(seed))
    layers = nn.Sequential(
        *(Layer(skip, activation, first_weights) for _ in range(int(depth)))
    )
    leave = nn.Linear(WIDTH, 1)
    parameters = [*layers.parameters(), *leave.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=rate, fused=True)
    inputs, wanted = table()
    ends = layers[0].change[0].weight, layers[-1].change[0].weight
    names = "error", "first", "last", "apart"
    found = {name: [] for name in names}
    for step in range(STEPS + 1):
        rows = layers(inputs)
        loss = (leave(rows).squeeze(1) - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        if step % 40 == 0:
            norms = [w.grad.norm().item() for w in ends]
            now = [loss.item(), *norms, apart(rows.detach()).item()]
            for name, value in zip(names, now, strict=True):
                found[name].append(float(f"{value:.4g}"))
        optimizer.step()
    layers.eval()
    with torch.no_grad():
        error = leave(layers(inputs)).squeeze(1).sub(wanted).square().mean()
    return found | {"final": float(f"{error.item():.4g}")}
