"""What goes into a file comes out of it, and nothing else does."""

import argparse
import copy
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.testing import assert_close

import transformer_lib
from transformer_lib import checkpoints
from transformer_lib.checkpoints import (
    average,
    load_checkpoint,
    load_model,
    resume,
    save_checkpoint,
)
from transformer_lib.training import Training, train_until

CONFIG = {"vocab_size": 11, "p_drop": 0.1, "name": "é", "sizes": [6, 11]}


class Tied(nn.Module):
    """One matrix at both ends, dropout, and a buffer that counts."""

    def __init__(self, d_model=6, dtype=torch.float32):
        super().__init__()
        self.read = nn.Embedding(11, d_model, dtype=dtype)
        self.drop = nn.Dropout(0.2)
        self.say = nn.Linear(d_model, 11, dtype=dtype)
        self.say.weight = self.read.weight
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, src, tgt_in):
        self.calls += 1
        real = (src != 0)[..., None]
        mean = (self.read(src) * real).sum(1) / real.sum(1)
        return self.say(self.drop(self.read(tgt_in) + mean[:, None]))


def batches(epoch):
    generator = torch.Generator().manual_seed(epoch)
    for i in range(5):
        tgt = torch.randint(3, 11, (3, 4 + i), generator=generator)
        tgt[:, 0], tgt[0, -1] = 1, 0
        yield tgt[:, 1:4], tgt


OPTIMIZERS = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "momentum": lambda p: torch.optim.SGD(p, momentum=0.9),
    "sgd": torch.optim.SGD,
}


def new_run(seed=0, optimizer="adam", **shape):
    torch.manual_seed(seed)
    model = Tied(**shape)
    made = OPTIMIZERS[optimizer](model.parameters())
    return Training(model, made, lambda step: 0.02 / step)


@pytest.fixture
def saved(tmp_path):
    run = new_run()
    train_until(run, batches, 7)
    path = tmp_path / "run.safetensors"
    save_checkpoint(path, run, CONFIG)
    return path, run


def same(a, b):
    """Equal in every bit, kind and key."""
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


# O33
def test_what_was_saved_is_loaded_bit_for_bit(saved):
    path, run = saved
    config, state = load_checkpoint(path)
    assert config == CONFIG
    assert same(state, run.state_dict())


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_run_resumed_from_its_file_ends_as_one_never_stopped(
    tmp_path, optimizer
):
    whole = new_run(optimizer=optimizer)
    train_until(whole, batches, 12)
    stopped = new_run(optimizer=optimizer)
    train_until(stopped, batches, 7)
    save_checkpoint(tmp_path / "a", stopped, CONFIG)
    other = new_run(1, optimizer=optimizer)
    assert resume(tmp_path / "a", other) == CONFIG
    train_until(other, batches, 12)
    assert same(other.state_dict(), whole.state_dict())


def test_a_run_resumed_in_another_process_ends_the_same(saved):
    path, run = saved
    code = (
        "import sys; sys.path.insert(0, sys.argv[2]);"
        "from test_checkpoints import *;"
        "run = new_run(5); resume(sys.argv[1], run);"
        "train_until(run, batches, 12);"
        "save_checkpoint(sys.argv[1] + '2', run)"
    )
    here = str(Path(__file__).parent)
    subprocess.run([sys.executable, "-c", code, path, here], check=True)
    train_until(run, batches, 12)
    _, state = load_checkpoint(f"{path}2")
    assert same(state, run.state_dict())


def test_saving_in_between_disturbs_no_run(tmp_path):
    plain, saving = new_run(), new_run()
    torch.manual_seed(0)
    train_until(plain, batches, 6)
    torch.manual_seed(0)
    saving.after_step = lambda run: save_checkpoint(tmp_path / "a", run)
    train_until(saving, batches, 6)
    assert same(saving.state_dict(), plain.state_dict())


def test_tied_weights_are_stored_once_and_stay_one(saved):
    path, _ = saved
    _, state = load_checkpoint(path)
    model = state["model"]
    assert model["say.weight"].data_ptr() == model["read.weight"].data_ptr()
    other = Tied()
    load_model(path, other)
    assert other.say.weight is other.read.weight
    raw = path.read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    stored = {name for name in header if name.startswith("model/")}
    assert stored == {"model/read.weight", "model/say.bias", "model/calls"}


def test_every_kind_of_number_survives(tmp_path):
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            for i, dtype in enumerate(
                [torch.float16, torch.bfloat16, torch.float64, torch.bool]
            ):
                values = torch.arange(6).view(2, 3).to(dtype)
                self.register_buffer(f"b{i}", values)
            self.register_buffer("turned", torch.arange(6.0).view(2, 3).T)
            self.register_buffer("row", torch.arange(6.0).view(2, 3)[1])
            self.register_buffer("spread", torch.ones(1).expand(4))
            self.register_buffer("empty", torch.zeros(0, 3))
            self.register_buffer("nan", torch.tensor([torch.nan, -0.0]))

    config = {"pi": 0.1 + 0.2, 3: None, "$tensor": [True, {"$pairs": ()}]}
    save_checkpoint(tmp_path / "a", Odd(), config)
    back, state = load_checkpoint(tmp_path / "a")
    wanted = Odd().state_dict()
    nan = state["model"].pop("nan").view(torch.int32)
    assert same(nan, wanted.pop("nan").view(torch.int32))
    assert same(state["model"], wanted)
    assert same(back, config)


def test_a_model_alone_and_a_whole_run_load_alike(saved, tmp_path):
    path, run = saved
    save_checkpoint(tmp_path / "model", run.model, CONFIG)
    assert (tmp_path / "model").stat().st_size < path.stat().st_size / 2
    for file in (path, tmp_path / "model"):
        model = Tied()
        assert load_model(file, model) == CONFIG
        assert same(model.state_dict(), run.model.state_dict())


@pytest.mark.parametrize("step", ["save_file", "os.fsync", "Path.replace"])
def test_a_crash_while_writing_leaves_the_old_file_whole(
    saved, monkeypatch, step
):
    path, run = saved
    before = path.read_bytes()

    def crash(*_):
        raise OSError("no space left")

    with monkeypatch.context() as broken:
        broken.setattr(f"transformer_lib.checkpoints.{step}", crash)
        with pytest.raises(OSError, match="no space"):
            save_checkpoint(path, run)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_kill_while_writing_leaves_only_what_its_name_gives_away(
    saved, monkeypatch
):
    path, run = saved
    before, seen = path.read_bytes(), []

    def look(_, file, *__):
        # safetensors writes to a temporary name beside the one it is given
        Path(file).with_name(".tmp123456").touch()
        seen.extend(p for p in path.parent.iterdir() if p != path)
        raise KeyboardInterrupt  # a kill would stop here

    monkeypatch.setattr(checkpoints, "save_file", look)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(path, run)
    assert seen
    assert all(p.match(".*.partial") for p in seen)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX's")
def test_a_file_is_as_readable_as_any_other_new_file(saved):
    path, _ = saved
    plain = path.with_name("plain")
    plain.touch()
    assert path.stat().st_mode == plain.stat().st_mode


class Loud:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


# O33
@pytest.mark.bad_input
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_in_disguise_is_refused_unexecuted(tmp_path, protocol):
    sprung = tmp_path / "sprung"
    path = tmp_path / "weights.safetensors"
    path.write_bytes(pickle.dumps(Loud(sprung), protocol))
    with pytest.raises(ValueError, match=r"weights.safetensors.*expected a"):
        load_checkpoint(path)
    assert not sprung.exists()
    pickle.loads(path.read_bytes())
    assert sprung.exists()  # the trap was a real one


# O33
@pytest.mark.bad_input
def test_a_file_of_torch_save_is_refused(tmp_path):
    path = tmp_path / "model.pt"
    torch.save({"model": torch.ones(3)}, path)
    with pytest.raises(ValueError, match=r"model.pt.*Pickles"):
        load_checkpoint(path)


# O33
@pytest.mark.bad_input
@pytest.mark.parametrize("cut", [0, 4, 100, -1])
def test_a_truncated_file_is_refused_by_name(saved, cut):
    path, _ = saved
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ValueError, match=r"run.safetensors is not a"):
        load_checkpoint(path)


# O33
@pytest.mark.bad_input
@pytest.mark.parametrize(
    "header",
    [
        None,
        {"format": "pt"},
        {"transformer_lib": "{"},
        {"transformer_lib": "5"},
        {"transformer_lib": '[null, {"model": {"$tensor": "gone"}}]'},
    ],
)
def test_safetensors_of_another_maker_are_refused_by_name(tmp_path, header):
    path = tmp_path / "theirs.safetensors"
    save_file({"w": torch.ones(3)}, path, header)
    with pytest.raises(ValueError, match=r"theirs.safetensors is not a"):
        load_checkpoint(path)


# O33
@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (argparse.Namespace(lr=1), "Namespace"),
        (Path("x"), "Path"),
        (object(), "object"),
        ({1, 2}, "set"),
    ],
)
def test_what_only_python_knows_is_refused_by_name(tmp_path, value, kind):
    with pytest.raises(TypeError, match=rf"config/deep/0 is a \w*{kind}"):
        save_checkpoint(tmp_path / "a", Tied(), {"deep": [value]})
    assert not list(tmp_path.iterdir())


# O33
def test_the_library_unpickles_nothing():
    for path in Path(transformer_lib.__file__).parent.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "torch.load" not in text, path
        assert "import pickle" not in text, path


@pytest.mark.bad_input
@pytest.mark.parametrize("take", [resume, lambda p, r: load_model(p, r.model)])
def test_weights_of_another_shape_change_nothing(saved, take):
    path, _ = saved
    wide = new_run(1, d_model=8)
    before = copy.deepcopy(wide.state_dict())
    said = r"run.safetensors has \(11, 6\) for .*, expected \(11, 8\)"
    with pytest.raises(ValueError, match=said):
        take(path, wide)
    assert same(wide.state_dict(), before)


@pytest.mark.bad_input
def test_weights_missing_or_unknown_are_named(saved):
    path, _ = saved
    bigger = Tied()
    bigger.extra = nn.Linear(2, 2)
    with pytest.raises(ValueError, match=r"nothing for extra.weight"):
        load_model(path, bigger)
    smaller = Tied()
    del smaller.calls
    with pytest.raises(ValueError, match="for calls, expected nothing"):
        load_model(path, smaller)


@pytest.mark.bad_input
def test_a_model_without_its_run_cannot_be_resumed(tmp_path):
    save_checkpoint(tmp_path / "model", Tied())
    with pytest.raises(ValueError, match="model holds a model"):
        resume(tmp_path / "model", new_run())


@pytest.mark.bad_input
def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="gone"):
        load_checkpoint(tmp_path / "gone")


def test_the_average_is_that_of_a_loop(tmp_path):
    paths, weights = [], []
    run = new_run()
    for step in (3, 6, 9):
        train_until(run, batches, step)
        paths.append(tmp_path / f"{step}")
        save_checkpoint(paths[-1], run)
        weights.append(run.model.say.weight.detach().double().clone())
    found = average(paths)
    wanted = (weights[0] + weights[1] + weights[2]) / 3
    assert torch.equal(found["say.weight"], wanted.float())
    assert found["calls"] == 6
    model = Tied()
    model.load_state_dict(found)
    assert model.say.weight is model.read.weight


def test_half_precision_is_averaged_without_loss(tmp_path):
    paths = []
    for i in range(3):
        model = Tied(dtype=torch.float16)
        nn.init.constant_(model.read.weight, 30000 + 16 * i)
        paths.append(tmp_path / f"{i}")
        save_checkpoint(paths[-1], model)
    found = average(paths)["read.weight"]
    assert_close(found, torch.full((11, 6), 30016.0).half(), atol=0, rtol=0)


@pytest.mark.bad_input
def test_checkpoints_of_different_models_have_no_average(tmp_path):
    save_checkpoint(tmp_path / "a", Tied(6))
    save_checkpoint(tmp_path / "b", Tied(8))
    with pytest.raises(ValueError, match=r"b has \(11, 8\)"):
        average([tmp_path / "a", tmp_path / "b"])
    with pytest.raises(ValueError, match="no checkpoints"):
        average([])


@pytest.mark.bad_input
def test_checkpoints_of_different_precision_have_no_average(tmp_path):
    save_checkpoint(tmp_path / "a", Tied(dtype=torch.float64))
    save_checkpoint(tmp_path / "b", Tied(dtype=torch.float16))
    with pytest.raises(ValueError, match=r"b has .*float16.*float64"):
        average([tmp_path / "a", tmp_path / "b"])


@pytest.mark.bad_input
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_a_run_with_another_optimizer_is_not_resumed(saved, optimizer):
    path, _ = saved
    other = new_run(1, optimizer)
    before = copy.deepcopy(other.state_dict())
    with pytest.raises(ValueError, match=r"Adam\b.*(AdamW|SGD)"):
        resume(path, other)
    assert same(other.state_dict(), before)


@pytest.mark.bad_input
def test_a_model_without_memory_is_not_loaded_into(saved):
    path, _ = saved
    with torch.device("meta"):
        model = Tied()
    with pytest.raises(ValueError, match="to_empty"):
        load_model(path, model)
    adam = torch.optim.Adam(model.parameters())
    with pytest.raises(ValueError, match="to_empty"):
        resume(path, Training(model, adam, lambda step: 0.02))
    model.to_empty(device="cpu")
    assert load_model(path, model) == CONFIG
    assert same(model.state_dict(), load_checkpoint(path)[1]["model"])


@pytest.mark.parametrize(
    "config",
    [
        {"a": {"b": torch.ones(2)}, "a/b": torch.zeros(2)},
        {"a/b": torch.zeros(2), "a": {"b": torch.ones(2)}},
        {"1": torch.ones(2), 1: torch.zeros(2)},
        {"a": [torch.ones(2)], "a/0": torch.zeros(2), "a/0'": torch.ones(1)},
        {"": torch.ones(2), None: torch.zeros(1), "None": torch.ones(1)},
        {0.5: 1, True: 2, None: 3, -1: 4},
    ],
)
def test_keys_that_look_alike_lose_no_tensor(tmp_path, config):
    save_checkpoint(tmp_path / "a", Tied(), config)
    assert same(load_checkpoint(tmp_path / "a")[0], config)


@pytest.mark.bad_input
@pytest.mark.parametrize("key", [(1, 2), b"x", frozenset(), Path("x")])
def test_keys_that_json_lacks_leave_the_old_file_alone(saved, key):
    path, run = saved
    before = path.read_bytes()
    with pytest.raises(TypeError, match=r"config/deep.* a key"):
        save_checkpoint(path, run, {"deep": {key: 3}})
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


DEEP = 100_000
FORGED = {
    "deep": "[" * DEEP + "]" * DEEP,
    "list": "[null, []]",
    "number": "[null, 5]",
    "text": '[null, "model"]',
    "nothing": "[null, {}]",
    "list for model": '[null, {"model": [{"$tensor": "w"}]}]',
    "tensor for model": '[null, {"model": {"$tensor": "w"}}]',
    "number for a tensor": '[null, {"model": {"w": 1}}]',
}


@pytest.mark.bad_input
@pytest.mark.parametrize("only", ["", "model"])
@pytest.mark.parametrize("header", FORGED.values(), ids=FORGED)
def test_a_forged_header_is_refused_by_name(tmp_path, header, only):
    path = tmp_path / "forged"
    save_file({"w": torch.ones(3)}, path, {checkpoints._KEY: header})
    with pytest.raises(ValueError, match="forged is not a checkpoint"):
        load_checkpoint(path, only)


@pytest.mark.bad_input
def test_a_run_with_a_part_missing_is_not_resumed(tmp_path):
    run = new_run()
    state = {**run.state_dict()}
    del state["place"]
    run.state_dict = lambda: state
    save_checkpoint(tmp_path / "part", run)
    with pytest.raises(ValueError, match=r"part holds .*place"):
        resume(tmp_path / "part", new_run(1))


@pytest.mark.bad_input
def test_a_folder_is_refused_by_name(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match="folder is not a checkpoint"):
        load_checkpoint(tmp_path / "folder")


def test_the_same_run_gives_the_same_file(saved):
    path, run = saved
    before = path.read_bytes()
    save_checkpoint(path, run, CONFIG)
    assert path.read_bytes() == before


def test_the_header_is_json_that_anyone_can_read(saved):
    raw = saved[0].read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    config, state = json.loads(header["__metadata__"][checkpoints._KEY])
    assert config == CONFIG
    assert state["place"] == [7, 1, 2]
    assert "model/read.weight" in header
