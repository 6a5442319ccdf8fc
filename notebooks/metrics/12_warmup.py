"""Where the norm stands, how deep the stack is, and how the rate begins.

Encoders of width 32 learn to write eight digits backwards. Kept of each run:
the loss (means of ten steps); how far its first step throws the logits, by
their own size; and at the last step, the length of the gradient in the first
and in the last layer and how much the sentences of a batch still differ in
front of the output (0: all are one).
"""

import torch
import torch.nn.functional as F
from torch import nn

from transformer_lib.feed_forward import FeedForward
from transformer_lib.multi_head_attention import MultiHeadAttention
from transformer_lib.normalization import LayerNorm, PostNorm, PreNorm
from transformer_lib.residual import Residual

SEEDS = [0, 1, 2]
DEPTHS, RATES, WARMUPS = [2, 6, 12], [0.002, 0.006], [1, 100]
NORMS = ["post", "pre", "none"]
KEYS = [
    f"{norm} | {depth} | {rate} | {warmup} | {seed}"
    for norm in NORMS
    for depth in DEPTHS
    for rate in RATES
    for warmup in WARMUPS
    for seed in SEEDS
]
WIDTH, STEPS, DIGITS = 32, 200, 8


class Net(nn.Module):
    """Embeddings, learned places, a stack, a map to ten digits."""

    def __init__(self, norm, depth):
        super().__init__()
        self.word = nn.Embedding(10, WIDTH)
        self.place = nn.Embedding(DIGITS, WIDTH)
        self.parts = nn.ModuleList()
        for _ in range(depth):
            for part in (
                MultiHeadAttention(WIDTH, 4),
                FeedForward(WIDTH, 4 * WIDTH),
            ):
                around = Residual()
                if norm != "none":
                    kind = PostNorm if norm == "post" else PreNorm
                    around = kind(LayerNorm(WIDTH), around)
                self.parts.append(nn.ModuleList([part, around]))
        self.last = LayerNorm(WIDTH) if norm == "pre" else nn.Identity()
        self.leave = nn.Linear(WIDTH, 10)

    def stream(self, digits):
        x = self.word(digits) + self.place.weight
        for part, around in self.parts:
            if isinstance(part, MultiHeadAttention):
                x = around(x, lambda y, a=part: a(y, y))
            else:
                x = around(x, part)
        return self.last(x)

    def forward(self, digits):
        return self.leave(self.stream(digits))


def batch(rng):
    return torch.randint(10, (16, DIGITS), generator=rng)


def run(key):
    torch.set_num_threads(1)
    norm, depth, rate, warmup, seed = key.split(" | ")
    torch.manual_seed(int(seed))
    model = Net(norm, int(depth))
    adam = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    rng = torch.Generator().manual_seed(int(seed))
    probe = batch(torch.Generator().manual_seed(99))
    with torch.no_grad():
        start = model(probe)
    losses, thrown = [], 0.0
    for step in range(1, STEPS + 1):
        for group in adam.param_groups:
            group["lr"] = float(rate) * min(1, step / int(warmup))
        digits = batch(rng)
        logits = model(digits).flatten(0, 1)
        loss = F.cross_entropy(logits, digits.flip(1).flatten())
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
        if step == 1:
            with torch.no_grad():
                thrown = (model(probe) - start).std() / start.std()
    with torch.no_grad():
        x = model.stream(probe)
        apart = x.std(dim=0).mean() / x.std()
    ffns = [part for part, _ in model.parts if isinstance(part, FeedForward)]
    ends = [f.w_2.weight.grad.norm() for f in (ffns[0], ffns[-1])]
    means = [sum(losses[i : i + 10]) / 10 for i in range(0, STEPS, 10)]
    return {
        "curve": [round(min(mean, 99.0), 3) for mean in means],
        "thrown": round(float(thrown), 3),
        "apart": round(apart.item(), 3),
        "gradients": [min(end.item(), 1e30) for end in ends],
    }
