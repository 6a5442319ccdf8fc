"""Decoding.

A model gives every sentence a probability; a search has to find a good
one among more sentences than can be listed.

Chapter 19; generated from
notebooks/19_decoding.md by `make export`: edit the chapter.
"""

import contextlib
import math
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lib.seq2seq import BOS, EOS, PAD, Seq2Seq

__all__ = ["Hypothesis", "beam_search", "greedy_search", "length_penalty"]


class Hypothesis(NamedTuple):
    """A translation, and how good the model finds it."""

    tokens: list[int]  # without BOS; the last is EOS if it is finished
    log_prob: float  # log P(tokens | source), natural logarithm
    score: float  # log_prob divided by the length penalty
    finished: bool  # False: cut off at max_len


def length_penalty(length: int, alpha: float) -> float:
    """((5 + length) / 6)^α: Wu et al. 2016, eq. 14; :eq:`length-penalty`.

    Log-probabilities are divided by it, so the "penalty" helps long
    sentences. EOS counts. Raises ValueError unless 0 ≤ α < ∞, and for an
    α so large that the penalty is no float.
    """
    if not 0 <= alpha < math.inf:
        raise ValueError(f"alpha is {alpha}, expected 0 ≤ α < ∞")
    try:
        return ((5 + length) / 6) ** alpha
    except OverflowError:
        raise ValueError(
            f"alpha is {alpha}: the penalty of {length} tokens is beyond "
            "every float; alphas in use are 0 to 2"
        ) from None


@dataclass
class _Search:
    """One sentence's search: open prefixes, best first, and what ended."""

    beam: int
    max_len: int
    alpha: float
    n_best: int
    eos: int
    open: list[Hypothesis] = field(
        default_factory=lambda: [Hypothesis([], 0.0, 0.0, False)]
    )
    ended: list[Hypothesis] = field(default_factory=list)

    def extend(self, tops: list[tuple[list[float], list[int]]]) -> list[int]:
        """By one token; each open prefix's place among the old ones."""
        pairs = zip(self.open, tops, strict=True)
        costs = sorted(
            (-prefix.log_prob - value, i, token)
            for i, (prefix, top) in enumerate(pairs)
            for value, token in zip(*top, strict=True)
            if value > -math.inf
        )
        old, self.open, parents = self.open, [], []
        for rank, (cost, i, token) in enumerate(costs[: 2 * self.beam]):
            tokens = [*old[i].tokens, token]
            score = -cost / length_penalty(len(tokens), self.alpha)
            new = Hypothesis(tokens, -cost, score, token == self.eos)
            if new.finished and rank < self.beam:
                self.ended.append(new)
            elif not new.finished and len(self.open) < self.beam:
                self.open.append(new)
                parents.append(i)
        if self.over():
            self.open, parents = [], []
        return parents

    def over(self) -> bool:
        """Whether nothing open can still change the n best; :eq:`bound`."""
        self.ended.sort(key=lambda hypothesis: -hypothesis.score)
        if not self.open:
            return True
        best, reach = self.open[0], self.max_len
        if len(self.ended) >= self.beam:
            reach = len(best.tokens)
        most = best.log_prob / length_penalty(reach, self.alpha)
        last = self.ended[self.n_best - 1 : self.n_best]
        return any(h.score >= most for h in last)


@contextlib.contextmanager
def _reading(model: Seq2Seq):
    """Without gradients and dropout; afterwards all is as before."""
    parts = model.modules() if isinstance(model, nn.Module) else ()
    training = [part for part in parts if part.training]
    try:
        for part in training:
            part.training = False
        with torch.no_grad():
            yield
    finally:
        for part in training:
            part.training = True


def _log_probs(
    logits: Float[Tensor, "R V"], never: list[int]
) -> Float[Tensor, "R V"]:
    """log P of every next token, and −∞ for those never to be written."""
    wide = torch.promote_types(logits.dtype, torch.float32)
    each = logits.log_softmax(dim=-1, dtype=wide)
    each[:, never] = -math.inf
    if not (each.amax(dim=-1) > -math.inf).all():  # no, if one is NaN
        raise FloatingPointError("a step with logits NaN, or −∞ for all words")
    return each


def _check_marks(vocab_size: int, **marks: int) -> None:
    for name, mark in marks.items():
        if not 0 <= mark < vocab_size:
            raise ValueError(
                f"{name} is {mark}, expected 0 to {vocab_size - 1}, a token "
                "of the model: name the marks it was trained with"
            )


def beam_search(
    model: Seq2Seq,
    src: Int[Tensor, "B S"],
    *,
    beam: int = 4,
    max_len: int,
    alpha: float = 0.6,
    n_best: int = 1,
    bos: int = BOS,
    eos: int = EOS,
    pad: int = PAD,
) -> list[list[Hypothesis]]:
    """Up to n_best hypotheses a sentence, best score first; :eq:`beam`.

    At most max_len tokens, EOS included; never BOS or PAD. Those cut off
    follow those that end. Raises ValueError for what no search can do.
    """
    if not (1 <= n_best <= beam and max_len >= 1):
        raise ValueError(
            f"expected 1 ≤ n_best ≤ beam and max_len ≥ 1, got {n_best=}, "
            f"{beam=}, {max_len=}"
        )
    if eos in (bos, pad):
        raise ValueError(
            f"{eos=} is never written, as {bos=} and {pad=} are not: no "
            "sentence could end, so name an eos of its own"
        )
    length_penalty(max_len, alpha)  # raises for an alpha that will not do
    settings = beam, max_len, alpha, n_best, eos
    going = searches = [_Search(*settings) for _ in range(src.size(0))]
    with _reading(model):
        state = model.start(src)
        for _ in range(max_len if searches else 0):
            prefixes = [prefix for search in going for prefix in search.open]
            last = [(prefix.tokens or [bos])[-1] for prefix in prefixes]
            logits, state = model.step(src.new_tensor(last), state)
            _check_marks(logits.size(-1), bos=bos, eos=eos, pad=pad)
            each = _log_probs(logits, [bos, pad])
            rows = _extend(going, each.topk(min(beam + 1, each.size(-1))))
            going = [search for search in going if search.open]
            if not going:
                break
            if rows != [*range(len(prefixes))]:
                state = state.select(torch.tensor(rows, device=src.device))
    return [(search.ended + search.open)[:n_best] for search in searches]


def _extend(going: list[_Search], top: torch.return_types.topk) -> list[int]:
    """Extends every search; the rows of the state that go on, in order."""
    tops = [*zip(top.values.tolist(), top.indices.tolist(), strict=True)]
    rows, first = [], 0
    for search in going:
        end = first + len(search.open)
        rows += [first + i for i in search.extend(tops[first:end])]
        first = end
    return rows


def greedy_search(
    model: Seq2Seq, src: Int[Tensor, "B S"], max_len: int, **marks: int
) -> list[Hypothesis]:
    """The likeliest token at each step, a sentence a row; :eq:`greedy`.

    As beam_search with a beam of 1, whose bos, eos and pad may be named.
    """
    found = beam_search(
        model, src, beam=1, max_len=max_len, alpha=0.0, **marks
    )
    return [best for (best,) in found]
