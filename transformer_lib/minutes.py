"""So many minutes.

How many steps fit into the time that there is, and in which precision:
measured on the machine that will take them.

Chapter 20d; generated from
notebooks/20d_minutes.md by `make export`: edit the chapter.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from transformer_lib.corpus import Pair
from transformer_lib.recipe import PRECISIONS, Settings, training_run
from transformer_lib.training import Training, train_until

__all__ = ["CONFIGS", "HOPELESS", "RESERVE", "planned"]


RESERVE = 0.1  # of the time, for checkpoints and for watching
HOPELESS = 10  # times the time of a step: another precision is given up


def planned(
    settings: Settings,
    data: Sequence[Pair],
    minutes: float,
    make: Callable[..., tuple] = training_run,
    agree: Callable[[Any], Any] = lambda value: value,
    **how: Any,
) -> tuple[Settings, str]:
    """The settings with the faster precision, and with the steps that fit.

    Both are measured here; the words say what was found. `make` is called
    as training_run is, with `how`; of several processes that train
    together, `agree` says in all what the first one found.
    :eq:`steps-that-fit`
    """
    begun, pace = time.perf_counter(), {}
    long = replace(settings, steps=1_000_000, warmup=0)
    for name in PRECISIONS:
        tried = replace(long, precision=name)
        _, run, batches = make(tried, data, no_bar=True, **how)
        best = min(pace.values(), default=math.inf)
        most = 0.6 * minutes, HOPELESS * best
        pace[name] = agree(_pace(run, batches, *most, agree))
    best = min(pace, key=pace.get)
    left = agree(60 * minutes - (time.perf_counter() - begun))
    steps = max(1, int((1 - RESERVE) * left / pace[best]))
    said = ", ".join(
        f"{1e3 * t:.0f} ms a step in {n}" for n, t in pace.items()
    )
    chosen = replace(settings, precision=best, steps=steps, warmup=0)
    return chosen, f"{said}: {steps} steps in {best}"


def _pace(
    run: Training,
    batches: Callable,
    seconds: float,
    longest: float,
    agree: Callable,
) -> float:
    """Seconds a step, over as many as fit; the first, if it is longer."""
    ends = [time.perf_counter()]
    run.after_step = lambda _: ends.append(time.perf_counter())
    train_until(run, batches, 1)
    first = agree(ends[1] - ends.pop(0))
    if first > longest:
        return first
    train_until(run, batches, 3)  # the first one is slower
    fit = seconds / max(ends[2] - ends[1], 1e-6)
    more = agree(int(min(max(fit, 1), 40)))
    train_until(run, batches, 3 + more)
    return (ends[-1] - ends[2]) / more


CONFIGS: dict[str, dict[str, Any]] = {
    "small": {
        "sizes": {"d_model": 256, "d_ff": 1024, "p_drop": 0.1},
        "vocab": 8000, "sentences": 1_000_000, "tokens": 3072,
        "rate": 1.5e-3, "average": 4,
    },
}  # fmt: skip
