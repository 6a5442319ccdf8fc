"""The feed-forward network.

After attention has mixed the tokens, two linear maps with a ReLU
between them work on each token alone.

Chapter 10; generated from
notebooks/10_feed_forward.md by `make export`: edit the chapter.
"""

from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["FeedForward"]


class FeedForward(nn.Module):
    """relu(x W₁ + b₁) W₂ + b₂, token by token; :eq:`ffn`.

    Vaswani et al. 2017, eq. 2. In training a hidden unit is dropped with
    probability p_drop; the paper drops none there, hence the default.
    Weights start Xavier-uniform, biases at 0.
    """

    def __init__(self, d_model: int, d_ff: int, p_drop: float = 0.0):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(p_drop)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for w in (self.w_1, self.w_2):
            nn.init.xavier_uniform_(w.weight)
            nn.init.zeros_(w.bias)

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        if x.size(-1) != self.w_1.in_features:
            raise ValueError(
                f"x has width {x.size(-1)}, but this network was built "
                f"with d_model={self.w_1.in_features}"
            )
        hidden = self.w_1(x).relu()
        return self.w_2(self.dropout(hidden))
