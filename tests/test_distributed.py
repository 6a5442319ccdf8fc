"""One run in two processes is one run: chapter 23."""

import json
import os
import subprocess
import sys

import pytest
import torch
from torch.testing import assert_close

from transformer_lib.checkpoints import load_checkpoint
from transformer_lib.distributed import agreed, join, leave, share
from transformer_lib.loss import mean_gradient
from transformer_lib.recipe import Settings, examples, training_run

PROGRAM = """
import json
import sys
from pathlib import Path

import torch

from transformer_lib.checkpoints import resume, save_checkpoint
from transformer_lib.distributed import agreed, join, leave, shared
from transformer_lib.recipe import Settings, examples, training_run
from transformer_lib.training import train_until

path, folder, steps, stop = sys.argv[1:]
checkpoint = Path(folder) / "checkpoint"
rank, size = join()
assert agreed(rank) == 0
settings = Settings(**json.loads(path))
translator, run, batches = training_run(
    settings, examples(settings), no_bar=True
)
translator.model.double()
run, batches = shared(run, batches)
seen, grads = [], []

def counted(epoch):
    for src, tgt in batches(epoch):
        seen.append([src.tolist(), tgt.tolist()])
        yield src, tgt

def watch(run):
    grads.append([p.grad.clone() for p in run.model.parameters()])

def save(run):
    if run.step == int(stop):
        if rank == 0:
            save_checkpoint(checkpoint, run)
        else:
            run.state_dict()


run.after_step, run.save = watch, save
if checkpoint.is_file():
    resume(checkpoint, run)
train_until(run, counted, int(steps))
weights = translator.model.state_dict()
torch.save([seen, grads, weights, run.history], f"{folder}/{rank}.pt")
leave()
"""


def torchrun(number, *words, **more):
    """Its exit code and what it said."""
    call = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    call += ["--nproc-per-node", str(number), *map(str, words)]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"}
    done = subprocess.run(
        call, env=env, capture_output=True, text=True, timeout=300, **more
    )
    return done.returncode, done.stdout, done.stderr


SIZES = {"d_model": 16, "d_ff": 32, "n_heads": 2, "n_encoder_layers": 1}
SIZES |= {"n_decoder_layers": 1, "max_len": 64}


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """Runs settings in two processes; what each has seen and found."""
    program = tmp_path_factory.mktemp("program") / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")

    def several(folder, settings, steps, stop=0):
        folder.mkdir(exist_ok=True)
        words = json.dumps(settings), folder, steps, stop
        code, _, errors = torchrun(2, program, *words)
        assert code == 0, errors
        return [torch.load(folder / f"{rank}.pt") for rank in range(2)]

    return several


def some(p_drop):
    return {
        "sizes": SIZES | {"p_drop": p_drop}, "sentences": 60, "vocab": 300,
        "tokens": 200, "steps": 12, "longest": 9,
    }  # fmt: skip


def test_two_processes_find_the_gradients_of_one(several, tmp_path):
    settings = some(0.0)
    first, second = several(tmp_path / "two", settings, 6)
    one = Settings(**settings)
    translator, run, batches = training_run(one, examples(one), no_bar=True)
    model = translator.model.double()
    for step, batch in zip(range(6), batches(0), strict=False):
        halves = [found[0][step] for found in (first, second)]
        rows = batch[0].tolist()
        assert halves[0][0] == rows[::2]
        assert halves[1][0] == rows[1::2] or len(rows) == 1
        mean, count = mean_gradient(model, [batch], run.loss)
        for p, a, b in zip(
            model.parameters(), first[1][step], second[1][step], strict=True
        ):
            assert torch.equal(a, b)
            assert_close(a, p.grad, rtol=0, atol=1e-10)
        for found in (first, second):
            assert found[3][step]["tokens"] == count
            assert abs(found[3][step]["loss"] - mean) < 1e-10
        run.optimizer.param_groups[0]["lr"] = run.schedule(step + 1)
        run.optimizer.step()
    for name, w in model.state_dict().items():
        assert torch.equal(first[2][name], second[2][name])
        assert_close(first[2][name], w, rtol=0, atol=1e-10)


def test_going_on_draws_the_same_batches_and_the_same_dropout(
    several, tmp_path
):
    settings = some(0.3)
    whole = several(tmp_path / "whole", settings, 12)
    begun = several(tmp_path / "parts", settings, 5, stop=5)
    ended = several(tmp_path / "parts", settings, 12)
    for rank in range(2):
        seen = begun[rank][0][:5] + ended[rank][0][-7:]
        assert seen == whole[rank][0][:12]
        for name, w in whole[rank][2].items():
            assert torch.equal(ended[rank][2][name], w)
    assert not torch.equal(whole[0][1][0][0], begun[0][1][4][0])


def test_another_number_of_processes_is_refused(tmp_path, several):
    settings = some(0.0)
    several(tmp_path / "two", settings, 3, stop=3)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    words = json.dumps(settings), tmp_path / "two", 6, 0
    code, _, errors = torchrun(3, program, *words)
    assert code != 0
    assert "a run of 2 processes, and here are 3" in errors


def test_the_command_line_trains_in_two_processes(tmp_path):
    folder = tmp_path / "run"
    words = ["-m", "transformer_lib", "train", "--out", folder]
    tiny = ["--sentences", "60", "--longest", "9", "--vocab", "300",
            "--tokens", "200", "--steps", "6", "--every", "2", "--average",
            "2", "--set", *[f"{k}={v}" for k, v in SIZES.items()]]  # fmt: skip
    code, said, errors = torchrun(2, *words, *tiny)
    assert code == 0, errors
    assert said.count("the translator is in") == 1
    lines = (folder / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [*range(1, 7)]
    before = (folder / "model.safetensors").read_bytes()
    for name in ("model.safetensors", "checkpoint.safetensors"):
        load_checkpoint(folder / name)
    code, _, errors = torchrun(2, *words, "--resume")
    assert code == 0, errors
    assert (folder / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
def test_shares_are_the_batch(size):
    src = torch.arange(15).view(5, 3) + 1
    tgt = torch.arange(20).view(5, 4) + 1
    parts = [share(src, tgt, rank, size) for rank in range(size)]
    assert all(len(part[0]) for part in parts)
    real = [part for part in parts if part[1].any()]
    for side, whole in enumerate((src, tgt)):
        rows = torch.cat([part[side] for part in real]).tolist()
        assert sorted(rows) == whole.tolist()


def test_alone_there_is_nobody_to_ask(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert join() == (0, 1)
    assert agreed({"a": 1}) == {"a": 1}
    leave()
