"""Three ancestors.

Three recurrent translators, told apart by what they see of the source.

Chapter 5; generated from
notebooks/05_rnn.md by `make export`: edit the chapter.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from transformer_lib.embedding import TokenEmbedding
from transformer_lib.seq2seq import PAD

__all__ = ["AttentionRNN", "ContextRNN", "RNNState", "SimpleRNN", "read"]


def read(
    gru: nn.GRU, x: Float[Tensor, "B S E"], real: Bool[Tensor, "B S"]
) -> tuple[Float[Tensor, "B S D"], Float[Tensor, "B D"]]:
    """The states at the real words, zeros elsewhere, and the last state.

    Two directions stand side by side. ValueError for padding before words.
    """
    if not len(x):  # nothing to pack
        empty = x.new_zeros(0, gru.hidden_size * (1 + gru.bidirectional))
        return empty[:, None].expand(-1, real.size(1), -1), empty
    late = (real[:, 1:] & ~real[:, :-1]).any(dim=1)
    if late.any():
        row = int(late.nonzero()[0])
        raise ValueError(f"row {row} of src has padding before a word")
    lengths = real.sum(dim=1).clamp(min=1).cpu()
    packed = pack_padded_sequence(x, lengths, True, enforce_sorted=False)
    states, last = gru(packed)
    memory, _ = pad_packed_sequence(states, True, total_length=real.size(1))
    return memory * real.unsqueeze(2), torch.cat([*last], 1) * real[:, :1]


class RNNState(NamedTuple):
    """The decoder's state, and what is kept of the source."""

    hidden: Float[Tensor, "B D"]
    kept: tuple[Tensor, ...]

    def select(self, rows: Int[Tensor, " R"]) -> "RNNState":
        return RNNState(self.hidden[rows], tuple(k[rows] for k in self.kept))


class SimpleRNN(nn.Module):
    """Sees the source in its first state only: Sutskever et al. 2014.

    :eq:`decoder-step`. ValueError for an odd d_hidden in two directions.
    """

    contexts = 0  # vectors of width d_hidden that every step sees

    def __init__(
        self,
        vocab_size: int,
        d_embed: int,
        d_hidden: int,
        *,
        p_drop: float = 0.0,
        pad: int = PAD,
        bidirectional: bool = True,
    ):
        super().__init__()
        d_each, odd = divmod(d_hidden, 2 if bidirectional else 1)
        if odd:
            raise ValueError(f"d_hidden {d_hidden} is odd, for two directions")
        d_in = d_embed + self.contexts * d_hidden
        self.embedding = TokenEmbedding(vocab_size, d_embed)
        self.encoder = nn.GRU(
            d_embed, d_each, batch_first=True, bidirectional=bidirectional
        )
        self.decoder = nn.GRU(d_in, d_hidden, batch_first=True)
        self.readout = nn.Linear(d_hidden + d_in, d_embed)
        self.dropout = nn.Dropout(p_drop)
        self.pad = pad

    def start(self, src: Int[Tensor, "B S"]) -> RNNState:
        src = src if src.size(1) else src.new_full((len(src), 1), self.pad)
        real = src != self.pad
        h, last = read(self.encoder, self.dropout(self.embedding(src)), real)
        return RNNState(last, self.keep(h, last, real))

    def step(
        self, token: Int[Tensor, " B"], state: RNNState
    ) -> tuple[Float[Tensor, "B V"], RNNState]:
        logits, state = self.advance(token.unsqueeze(1), state)
        return logits.squeeze(1), state

    def forward(
        self, src: Int[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T V"]:
        return self.advance(tgt_in, self.start(src))[0]

    def advance(self, tokens, state):
        e = self.dropout(self.embedding(tokens))
        if not e.numel():  # no sentences or no words: no step
            return self.embedding.logits(e), state
        c = self.context(state).unsqueeze(1).expand(-1, e.size(1), -1)
        x = torch.cat([e, c], dim=2)
        s, last = self.decoder(x, state.hidden.unsqueeze(0))
        h = self.readout(self.dropout(torch.cat([s, x], dim=2)))
        return self.embedding.logits(h), RNNState(last[0], state.kept)

    def keep(self, memory, last, real):
        return ()

    def context(self, state):
        return state.hidden[:, :0]


class ContextRNN(SimpleRNN):
    """Sees the source's last state at every step: Cho et al. 2014."""

    contexts = 1

    def keep(self, memory, last, real):
        return (last,)

    def context(self, state):
        return state.kept[0]


class AttentionRNN(ContextRNN):
    """Sees a fresh mean of the source's states: Bahdanau et al. 2015.

    :eq:`aligned-context`: attention(q, k, v, mask) compares states.
    """

    def __init__(self, vocab_size, d_embed, d_hidden, attention, **options):
        super().__init__(vocab_size, d_embed, d_hidden, **options)
        self.attention = attention

    def keep(self, memory, last, real):
        return memory, real.unsqueeze(1)

    def context(self, state):
        memory, mask = state.kept
        query = state.hidden.unsqueeze(1)
        return self.attention(query, memory, memory, mask).squeeze(1)

    def advance(self, tokens, state):
        logits = []
        for token in tokens.split(1, dim=1):
            z, state = super().advance(token, state)
            logits.append(z)
        return torch.cat(logits, dim=1), state
