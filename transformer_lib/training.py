"""Training.

How large a step to take, when, and how to go on after a stop.

Chapter 17; generated from
notebooks/17_training.md by `make export`: edit the chapter.
"""

import contextlib
import copy
import itertools
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from transformer_lib.loss import Batches, cross_entropy, mean_gradient

__all__ = [
    "History",
    "Training",
    "learning_rate",
    "linear_rate",
    "train",
    "train_until",
]


History = list[dict[str, Any]]  # a record a step
_Data = Batches | Callable[[int], Batches]  # or a function of the epoch


def learning_rate(step: int, d_model: int, warmup: int, factor=1.0) -> float:
    """The rate of step 1, 2, … (0 for 0), times factor; :eq:`schedule`."""
    if step < 0 or d_model < 1 or warmup < 1:
        raise ValueError(f"{step=} < 0, or {d_model=} < 1, or {warmup=} < 1")
    falling, rising = max(step, 1) ** -0.5, step * warmup**-1.5
    return factor * d_model**-0.5 * min(falling, rising)


def linear_rate(step: int, peak: float, warmup: int, steps: int) -> float:
    """Up to `peak` at `warmup`, then down to 0; :eq:`linear-rate`."""
    if not 1 <= warmup <= steps or not 0 <= step <= steps + 1:
        raise ValueError(f"{step=}, {warmup=}: outside a run of {steps=}")
    return peak * min(step / warmup, (steps + 1 - step) / (steps + 1 - warmup))


@dataclass
class Training:
    """A run: what its next step depends on, and how far it has come.

    A step takes the mean gradient of `accumulate` batches. What `after_step`
    returns joins its record, which is a line of the JSON-lines file `log`.
    Then comes `save`: a checkpoint written in `after_step` lacks what it
    returns, one written in `save` has the whole record.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    schedule: Callable[[int], float]
    loss: Callable[..., tuple[Tensor, Tensor]] = cross_entropy
    gradient: Callable[..., tuple[float, int]] = mean_gradient
    accumulate: int = 1
    clip: float = torch.inf
    after_step: Callable[["Training"], dict[str, Any] | None] = lambda _: {}
    save: Callable[["Training"], Any] = lambda _: None
    log: str | os.PathLike[str] = os.devnull
    no_bar: bool | None = None  # None: a progress bar on terminals only
    step: int = 0
    epoch: int = 0
    batch: int = 0  # batches of this epoch already used
    history: History = field(default_factory=list)

    def __post_init__(self) -> None:
        _check_parts(self)

    def state_dict(self) -> dict[str, Any]:
        """Tensors, numbers and text; live, as torch's state_dicts are."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "optimizer_class": type(self.optimizer).__name__,
            "random": {k: m.get_rng_state() for k, m in _random(self.model)},
            "place": [self.step, self.epoch, self.batch],
            "history": self.history,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on as the run that gave the state would have, bit for bit.

        Raises ValueError, with nothing changed, for another optimizer's.
        """
        theirs, ours = state["optimizer_class"], type(self.optimizer).__name__
        if theirs != ours:
            raise ValueError(f"a state of {theirs}, expected one of {ours}")
        self.optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
        self.model.load_state_dict(state["model"])
        self.step, self.epoch, self.batch = state["place"]
        self.history = copy.deepcopy(state["history"])
        for kind, module in _random(self.model):
            if kind in state["random"]:  # not after a change of device
                module.set_rng_state(state["random"][kind])


def _check_parts(run: Training) -> None:
    if not run.clip > 0 or run.accumulate < 1:  # nor is NaN
        raise ValueError(f"{run.clip=}, {run.accumulate=}: expected > 0, >= 1")
    known = {id(p) for p in run.model.parameters()}
    for group in run.optimizer.param_groups:
        if not known.issuperset(map(id, group["params"])):
            raise ValueError(
                "the optimizer has parameters that are not the model's: "
                "build it from model.parameters(), after any change of them"
            )


def _random(model: nn.Module) -> list[tuple[str, Any]]:
    kind = next(model.parameters()).device.type
    own = torch.get_device_module(kind) if kind in ("cuda", "mps") else torch
    return list({"cpu": torch, kind: own}.items())


def _step(run: Training, taken: list[tuple]) -> None:
    """One step on all batches taken; Ctrl-C waits until it is done."""
    held: list[int] = []
    with contextlib.ExitStack() as stack:
        if threading.current_thread() is threading.main_thread():
            old = signal.signal(signal.SIGINT, lambda n, _: held.append(n))
            stack.callback(signal.signal, signal.SIGINT, old)
        model, batches = run.model.train(), [batch for batch, *_ in taken]
        loss, n = run.gradient(model, batches, run.loss)
        norm = nn.utils.clip_grad_norm_(model.parameters(), run.clip).item()
        step, rate = run.step + 1, run.schedule(run.step + 1)
        if not norm < torch.inf:  # nor is NaN
            raise FloatingPointError(
                f"step {step}: a gradient of norm {norm}; no weight changed"
            )
        for group in run.optimizer.param_groups:
            group["lr"] = rate
        run.optimizer.step()
        run.step, run.epoch, run.batch = step, *taken[-1][1:]
        record = dict(step=step, rate=rate, loss=loss, tokens=n, norm=norm)
        run.history.append(record)
    if held:
        signal.raise_signal(signal.SIGINT)


def train_until(run: Training, batches: _Data, steps: int) -> History:
    """Goes on until the run has taken `steps` steps since its beginning.

    Raises FileExistsError for a log that is another run's.
    """
    _check_parts(run)  # they may have been replaced
    lines = _lines(run)
    places = _from(batches, run.epoch, run.batch)
    bar = tqdm(total=steps, initial=run.step, unit="step", disable=run.no_bar)
    tokens = 0
    with bar, open(run.log, "w", 1, "utf-8") as log:
        log.write(lines)
        while run.step < steps:
            _step(run, list(itertools.islice(places, run.accumulate)))
            last = run.history[-1]
            last.update(run.after_step(run) or {})
            log.write(json.dumps(last) + "\n")
            run.save(run)
            tokens += last["tokens"]
            pace = tokens / max(bar.format_dict["elapsed"], 1e-9)
            said = f"loss {last['loss']:.3f}, {pace:,.0f} tokens/s"
            bar.set_postfix_str(said, refresh=False)
            bar.update()
    return run.history


def _lines(run: Training) -> str:
    """The history as the log has it; another run's log is left alone."""
    lines, old = "".join(json.dumps(r) + "\n" for r in run.history), ""
    if os.path.isfile(run.log):
        with open(run.log, encoding="utf-8", errors="replace") as log:
            old = log.read()
    if not (lines.startswith(old) or (lines and old.startswith(lines))):
        raise FileExistsError(
            f"{os.fspath(run.log)}: this log is of another run: "
            "resume it, or name another file"
        )
    return lines


def _from(batches: _Data, start: int, used: int) -> Iterator[tuple]:
    """Every batch from a place on, and the place behind it."""
    for epoch in itertools.count(start):
        before, place = torch.get_rng_state(), 0
        opened = batches(epoch) if callable(batches) else batches
        for place, batch in enumerate(opened, 1):
            if place > used:
                yield batch, epoch, place
            elif place == used:  # coming back costs no random numbers
                torch.set_rng_state(before)
        if place < max(used, 1):
            raise ValueError(
                f"epoch {epoch} has {place} batches and {used} of them are "
                "used: pass a list or a function of the epoch, no generator"
            )
        used = 0


def train(model: nn.Module, batches: _Data, *, steps: int, **parts) -> History:
    """A whole run; `parts` are those of `Training`: optimizer, schedule, …"""
    return train_until(Training(model, **parts), batches, steps)
