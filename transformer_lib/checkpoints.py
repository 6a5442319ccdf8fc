"""Checkpoints.

What a file must hold so that a run goes on bit for bit, how it is
written whole or not at all, and why averaging several helps.

Chapter 18; generated from
notebooks/18_checkpoints.md by `make export`: edit the chapter.
"""

import functools
import json
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from transformer_lib.training import Training

__all__ = [
    "average",
    "load_checkpoint",
    "load_model",
    "resume",
    "save_checkpoint",
]


_Path = str | os.PathLike[str]
_KEY = "transformer_lib"
_NO_CHECKPOINT = (
    SafetensorError,
    LookupError,
    TypeError,
    ValueError,
    RecursionError,
)


def _pack(value: Any, path: str, tensors: dict[Any, tuple]) -> Any:
    """The value in JSON's terms; its tensors, each once, go to `tensors`."""
    if isinstance(value, Tensor):
        key = (value.data_ptr(), value.dtype, value.shape, value.stride())
        if key not in tensors:
            own, name = value.detach().to("cpu", copy=True), path[:-1]
            while name in dict(tensors.values()):  # "a/b" and "a", "b"
                name += "'"
            tensors[key] = name, own.contiguous()
        return {"$tensor": tensors[key][0]}
    if isinstance(value, dict):
        for k in value:
            if not isinstance(k, bool | int | float | str | None):
                raise TypeError(f"{path}{k!r}: a {type(k).__name__} as a key")
        kept = {k: _pack(v, f"{path}{k}/", tensors) for k, v in value.items()}
        plain = all(isinstance(k, str) and k[:1] != "$" for k in kept)
        return kept if plain else {"$pairs": list(kept.items())}
    if isinstance(value, list | tuple):
        return [_pack(v, f"{path}{i}/", tensors) for i, v in enumerate(value)]
    if not isinstance(value, bool | int | float | str | None):
        raise TypeError(
            f"{path[:-1]} is a {type(value).__name__}; a checkpoint holds "
            "tensors, numbers, text, and lists and dicts of these"
        )
    return value


def _unpack(value: Any, tensor: Callable[[str], Tensor]) -> Any:
    if isinstance(value, list):
        return [_unpack(v, tensor) for v in value]
    if not isinstance(value, dict):
        return value
    if "$tensor" in value:
        return tensor(value["$tensor"])
    pairs = value.get("$pairs", value.items())
    return {k: _unpack(v, tensor) for k, v in pairs}


def save_checkpoint(path: _Path, run: Training | nn.Module, config=None):
    """Writes a run, or a model without one, to a file: whole or not at all."""
    path, tensors, whole = Path(path), {}, isinstance(run, Training)
    state = run.state_dict() if whole else {"model": run.state_dict()}
    tree = [_pack(config, "config/", tensors), _pack(state, "", tensors)]
    path.parent.mkdir(parents=True, exist_ok=True)
    name = f".{path.name}."
    with tempfile.TemporaryDirectory(".partial", name, path.parent) as new:
        partial = Path(new, path.name)
        partial.touch()
        mode = partial.stat().st_mode  # save_file's is for its owner alone
        save_file(dict(tensors.values()), partial, {_KEY: json.dumps(tree)})
        partial.chmod(mode)
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        partial.replace(path)


def load_checkpoint(path: _Path, only: str = "") -> tuple[Any, dict]:
    """The config and the state in either kind of file; executes nothing.

    The state has "model" and, of a run, all that `Training.state_dict` has;
    or only the part named. Raises ValueError for what is no such file.
    """
    try:
        if Path(path).is_dir():
            raise ValueError("it is a folder")
        with safe_open(path, framework="pt", device="cpu") as file:
            config, state = json.loads((file.metadata() or {})[_KEY])
            state = {only: state[only]} if only else state
            tensor = functools.cache(file.get_tensor)
            config, state = _unpack(config, tensor), _unpack(state, tensor)
            model = state["model"] if only in ("", "model") else {}
            if not all(isinstance(w, Tensor) for w in dict(model).values()):
                raise TypeError("its model is no dict of tensors")
            return config, state
    except _NO_CHECKPOINT as error:
        raise ValueError(
            f"{path} is not a checkpoint, or not whole: expected a "
            f"safetensors file with {_KEY!r} in its header ({error}). "
            "Pickles (.pt, .bin) are never opened"
        ) from None


def _check_fit(path: Any, weights: dict[str, Tensor], wanted: Any) -> None:
    if any(w.is_meta for w in wanted.values()):
        raise ValueError(
            f"{path} cannot be loaded into a model without memory: "
            "model.to_empty(device=…) first, then build the optimizer"
        )
    for name in {**weights, **wanted}:
        here = tuple(weights[name].shape) if name in weights else "nothing"
        there = tuple(wanted[name].shape) if name in wanted else "nothing"
        if here != there:
            raise ValueError(
                f"{path} has {here} for {name}, expected {there}: "
                "build the model with the checkpoint's config"
            )


def load_model(path: _Path, model: nn.Module) -> Any:
    """Puts a file's weights into a model that fits them; its config."""
    config, state = load_checkpoint(path, "model")
    _check_fit(path, state["model"], model.state_dict())
    model.load_state_dict(state["model"])
    return config


def resume(path: _Path, run: Training) -> Any:
    """Takes up the run in a file, to go on bit for bit; its config."""
    config, state = load_checkpoint(path)
    if missing := run.state_dict().keys() - state.keys():
        raise ValueError(
            f"{path} holds a model, expected its whole run; it has no "
            + ", ".join(sorted(missing))
        )
    _check_fit(path, state["model"], run.model.state_dict())
    run.load_state_dict(state)
    return config


def average(paths: Iterable[_Path]) -> dict[str, Tensor]:
    """The mean of the weights in these files; :eq:`average`, in float64.

    Raises ValueError for files that do not fit each other, and for none.
    """
    paths, total, weights = list(paths), {}, {}
    for path in paths:
        before, weights = weights, load_checkpoint(path, "model")[1]["model"]
        _check_fit(path, weights, before or weights)
        for name, w in weights.items():
            other = before.get(name, w).dtype
            if w.dtype != other:
                raise ValueError(f"{path} has {w.dtype} for {name}, {other=}")
            total[name] = total.get(name, 0) + w.double()
    if not paths:
        raise ValueError("the average of no checkpoints: name one or more")
    return {k: (total[k] / len(paths)).to(w.dtype) for k, w in weights.items()}
