"""The schedule, the loop, and going on as if nothing had happened."""

import copy
import json
import math
import re
import signal
import threading
from functools import partial

import pytest
import torch
from torch.testing import assert_close

from transformer_lib.loss import cross_entropy
from transformer_lib.seq2seq import shift
from transformer_lib.training import (
    Training,
    learning_rate,
    linear_rate,
    train,
    train_until,
)

from tiny import Tiny

F64 = torch.float64


def epoch_of(epoch, number=5):
    """Batches of unequal lengths, in an order that is the epoch's own."""
    generator = torch.Generator().manual_seed(epoch)
    for i in range(number):
        tgt = torch.randint(3, 11, (3, 4 + i), generator=generator)
        tgt[:, 0], tgt[0, -1] = 1, 0
        yield tgt[:, 1:4], tgt


def new_run(seed=0, p_drop=0.2, **parts):
    torch.manual_seed(seed)
    model = Tiny(p_drop)
    adam = torch.optim.Adam(model.parameters())
    schedule = partial(learning_rate, d_model=6, warmup=8)
    return Training(model, adam, schedule, **parts)


def assert_same_state(a, b):
    """Every tensor and number of two runs, bit for bit."""

    def compare(x, y, path):
        assert type(x) is type(y), path
        if isinstance(x, dict):
            assert x.keys() == y.keys(), path
            for key in x:
                compare(x[key], y[key], f"{path}.{key}")
        elif isinstance(x, torch.Tensor):
            assert torch.equal(x, y), path
        else:
            assert x == y, path

    compare(a.state_dict(), b.state_dict(), "run")


# O21
def test_the_rate_is_that_of_the_paper():
    for step, wanted in {
        1: 1.746928e-07,
        2: 3.493856e-07,
        4000: 6.987712e-04,
        4001: 6.986839e-04,
        16000: 3.493856e-04,
    }.items():
        assert math.isclose(
            learning_rate(step, 512, 4000), wanted, rel_tol=1e-6
        )
    small = [learning_rate(step, 4, 2) for step in (1, 2, 3, 4)]
    assert_close(
        small, [0.176777, 0.353553, 0.288675, 0.25], atol=1e-6, rtol=0
    )


# O21
def test_step_0_has_rate_0():
    assert learning_rate(0, 512, 4000) == 0.0
    assert learning_rate(0, 512, 1) == 0.0


# O21
@pytest.mark.bad_input
@pytest.mark.parametrize("bad", [(1, 512, 0), (-1, 512, 10), (1, 0, 10)])
def test_no_warm_up_and_steps_before_the_first_are_refused(bad):
    with pytest.raises(ValueError, match="warmup"):
        learning_rate(*bad)


def test_the_linear_rate_rises_and_ends():
    rates = [linear_rate(step, 1.0, warmup=2, steps=4) for step in range(6)]
    assert rates == pytest.approx([0, 1 / 2, 1, 2 / 3, 1 / 3, 0])


@pytest.mark.bad_input
@pytest.mark.parametrize(
    "bad", [{"step": -1}, {"step": 6}, {"warmup": 0}, {"warmup": 5}]
)
def test_a_linear_rate_outside_its_run_is_refused(bad):
    with pytest.raises(ValueError, match="outside a run of steps=4"):
        linear_rate(**{"step": 1, "peak": 1.0, "warmup": 2, "steps": 4} | bad)


def test_the_first_step_has_the_rate_of_step_1():
    history = train_until(new_run(), epoch_of, 3)
    rates = [learning_rate(step, 6, 8) for step in (1, 2, 3)]
    assert [record["rate"] for record in history] == rates
    assert [record["step"] for record in history] == [1, 2, 3]


@pytest.mark.parametrize("accumulate", [1, 2, 3])
@pytest.mark.parametrize("stop", [1, 5, 8, 10])
def test_a_resumed_run_ends_bit_for_bit_as_one_never_stopped(accumulate, stop):
    whole = new_run(accumulate=accumulate)
    train_until(whole, epoch_of, 14)
    first = new_run(accumulate=accumulate)
    train_until(first, epoch_of, stop)
    state = copy.deepcopy(first.state_dict())
    second = new_run(seed=1, accumulate=accumulate)
    train_until(second, epoch_of, 3)  # a life of its own
    second.load_state_dict(state)
    train_until(second, epoch_of, 14)
    assert_same_state(second, whole)


def test_running_in_two_pieces_is_running_in_one():
    whole = new_run()
    train_until(whole, epoch_of, 12)
    pieces = new_run()
    train_until(pieces, epoch_of, 7)
    train_until(pieces, epoch_of, 12)
    assert_same_state(whole, pieces)


class Drawing:
    """A list whose every reading draws a number, as a DataLoader's does."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        torch.rand(1)
        return iter(self.batches)


def test_coming_back_into_an_epoch_draws_no_random_numbers():
    data = Drawing(list(epoch_of(0)))
    whole = new_run()
    train_until(whole, data, 9)
    first = new_run()
    train_until(first, data, 7)
    state = first.state_dict()
    second = new_run(1)
    second.load_state_dict(state)
    train_until(second, data, 9)
    assert_same_state(second, whole)


def test_a_finished_run_is_left_alone():
    run = new_run()
    train_until(run, epoch_of, 4)
    before = copy.deepcopy(run.model.state_dict())
    train_until(run, epoch_of, 4)
    assert run.step == 4
    assert torch.equal(run.model.say.weight, before["say.weight"])


def test_a_loaded_state_is_not_touched_by_the_run_that_goes_on():
    first, second = new_run(), new_run(1)
    train_until(first, epoch_of, 3)
    state = first.state_dict()
    before = copy.deepcopy(state)
    second.load_state_dict(state)
    train_until(second, epoch_of, 6)
    for key in ("exp_avg", "exp_avg_sq", "step"):
        for i, memory in before["optimizer"]["state"].items():
            assert torch.equal(
                state["optimizer"]["state"][i][key], memory[key]
            )
    assert state["history"] == before["history"]


# O20
def test_accumulated_batches_are_one_step_on_all_of_them():
    batches = list(epoch_of(0))
    run = new_run(p_drop=0.0, accumulate=5)
    train_until(run, batches, 1)

    torch.manual_seed(0)
    model = Tiny(p_drop=0.0)
    adam = torch.optim.Adam(model.parameters(), lr=learning_rate(1, 6, 8))
    pairs = [(src, *shift(tgt)) for src, tgt in batches]
    sums = [cross_entropy(model(s, t), labels) for s, t, labels in pairs]
    mean = sum(s for s, _ in sums) / sum(n for _, n in sums)
    mean.backward()
    adam.step()
    for p, wanted in zip(
        run.model.parameters(), model.parameters(), strict=True
    ):
        assert_close(p, wanted, atol=1e-12, rtol=0)
    assert_close(run.history[0]["loss"], mean.item())
    assert run.history[0]["tokens"] == sum(n for _, n in sums)


def test_a_long_gradient_is_shortened_and_keeps_its_direction():
    runs = [new_run(p_drop=0.0, clip=c) for c in (math.inf, 0.01)]
    for run in runs:
        train_until(run, epoch_of, 1)
    free, short = (
        torch.cat([p.grad.flatten() for p in run.model.parameters()])
        for run in runs
    )
    assert_close(short, free * (0.01 / free.norm()), atol=1e-6, rtol=1e-3)
    assert runs[1].history[0]["norm"] == runs[0].history[0]["norm"] > 0.01


# O19
def test_a_batch_of_only_padding_counts_for_nothing():
    batches = list(epoch_of(0))
    src, tgt = batches[0]
    empty = (src, torch.zeros_like(tgt))
    with_it, without = (new_run(p_drop=0.0, accumulate=n) for n in (2, 1))
    train_until(with_it, [batches[0], empty], 1)
    train_until(without, [batches[0]], 1)
    assert with_it.history == without.history
    assert train_until(new_run(), [empty], 1)[0]["loss"] == 0.0


def test_a_gradient_that_is_no_number_reaches_no_weight():
    run = new_run()
    train_until(run, epoch_of, 2)
    before = copy.deepcopy(run.model.state_dict())
    run.loss = lambda logits, labels: (logits.sum() * math.nan, 1)
    with pytest.raises(FloatingPointError, match=r"step 3.*nan"):
        train_until(run, epoch_of, 3)
    assert torch.equal(run.model.say.weight, before["say.weight"])
    assert (run.step, len(run.history)) == (2, 2)


def interrupted(run, at):
    """The run after Ctrl-C came in the middle of step `at`."""
    calls = []

    def press(module, inputs, output):
        calls.append(1)
        if len(calls) == at:
            signal.raise_signal(signal.SIGINT)

    handle = run.model.register_forward_hook(press)
    with pytest.raises(KeyboardInterrupt):
        train_until(run, epoch_of, 12)
    handle.remove()
    return run


def test_ctrl_c_waits_for_the_end_of_the_step():
    whole = new_run()
    train_until(whole, epoch_of, 12)
    run = interrupted(new_run(), at=6)
    assert run.step == len(run.history) == 6
    state = copy.deepcopy(run.state_dict())
    after = new_run(1)
    after.load_state_dict(state)
    train_until(after, epoch_of, 12)
    assert_same_state(after, whole)
    handler = signal.getsignal(signal.SIGINT)
    assert handler is signal.default_int_handler


def test_training_works_outside_the_main_thread():
    run = new_run()
    thread = threading.Thread(target=train_until, args=(run, epoch_of, 2))
    thread.start()
    thread.join()
    assert run.step == 2


@pytest.mark.bad_input
def test_batches_that_can_be_read_only_once_are_refused():
    with pytest.raises(ValueError, match="epoch 1 has 0 batches"):
        train_until(new_run(), epoch_of(0), 9)


@pytest.mark.bad_input
def test_going_on_with_less_data_than_was_used_is_refused():
    run = new_run()
    train_until(run, epoch_of, 4)
    with pytest.raises(ValueError, match="2 batches and 4 of them are used"):
        train_until(run, partial(epoch_of, number=2), 9)


def test_every_epoch_is_asked_for_its_batches_once_in_order():
    asked = []

    def batches(epoch):
        asked.append(epoch)
        return epoch_of(epoch)

    train_until(new_run(), batches, 11)
    assert asked == [0, 1, 2]


def test_a_list_is_read_again_in_every_epoch():
    run = new_run()
    train_until(run, list(epoch_of(0)), 7)
    assert (run.epoch, run.batch) == (1, 2)


def test_the_log_holds_the_history_as_json_lines(tmp_path):
    log = tmp_path / "log.jsonl"
    run = new_run(log=log, after_step=lambda run: {"twice": 2 * run.step})
    train_until(run, epoch_of, 3)
    train_until(run, epoch_of, 5)
    lines = log.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == run.history
    assert [record["twice"] for record in run.history] == [2, 4, 6, 8, 10]


@pytest.mark.parametrize("steps", [0, 4])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.bad_input
def test_the_log_of_another_run_is_left_alone(tmp_path, steps, seed):
    log = tmp_path / "log.jsonl"
    train_until(new_run(log=log), epoch_of, 3)
    before = log.read_bytes()
    other = new_run(seed)
    train_until(other, epoch_of, 2 * seed)  # none: a forgotten resume
    other.log = log
    with pytest.raises(FileExistsError, match=r"log.jsonl.*another run"):
        train_until(other, epoch_of, steps)
    assert log.read_bytes() == before
    assert other.step == 2 * seed


@pytest.mark.bad_input
def test_a_file_that_is_no_log_is_left_alone(tmp_path):
    log = tmp_path / "thesis"
    log.write_bytes(b"\xff\x00 years of work")
    with pytest.raises(FileExistsError, match="thesis"):
        train_until(new_run(log=log), epoch_of, 1)
    assert log.read_bytes() == b"\xff\x00 years of work"


@pytest.mark.parametrize("logged", [0, 4, 6])
@pytest.mark.parametrize("cut", [0, 9])
def test_a_resumed_run_takes_up_its_log(tmp_path, logged, cut):
    log = tmp_path / "log.jsonl"
    run = new_run(log=log)
    train_until(run, epoch_of, logged)
    text = log.read_bytes()
    log.write_bytes(text[: max(len(text) - cut, 0)])  # a power cut
    first = new_run()
    train_until(first, epoch_of, 4)
    second = new_run(1, log=log)
    second.load_state_dict(first.state_dict())
    train_until(second, epoch_of, 8)
    lines = log.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == second.history
    assert len(lines) == 8


@pytest.mark.bad_input
def test_a_record_that_is_no_json_costs_no_log(tmp_path):
    log = tmp_path / "log.jsonl"
    run = new_run(log=log)
    train_until(run, epoch_of, 3)
    before = log.read_bytes()
    run.history[-1]["odd"] = object()
    with pytest.raises(TypeError, match="JSON"):
        train_until(run, epoch_of, 4)
    assert log.read_bytes() == before


def test_what_is_saved_has_the_whole_record_of_its_step(tmp_path):
    log, states = tmp_path / "log.jsonl", []
    run = new_run(
        log=log,
        after_step=lambda run: {"twice": 2 * run.step},
        save=lambda run: states.append(copy.deepcopy(run.state_dict())),
    )
    train_until(run, epoch_of, 3)
    assert [s["history"] for s in states] == [
        run.history[:n] for n in (1, 2, 3)
    ]
    assert states[0]["history"][0]["twice"] == 2
    second = new_run(1, log=log, after_step=run.after_step)
    second.load_state_dict(states[1])
    train_until(second, epoch_of, 3)
    assert second.history == run.history


@pytest.mark.bad_input
@pytest.mark.parametrize(
    "part",
    [
        {"clip": -1.0},
        {"clip": 0.0},
        {"clip": math.nan},
        {"accumulate": 0},
        {"accumulate": -1},
    ],
)
def test_parts_that_make_no_sense_are_refused_by_name(part):
    with pytest.raises(ValueError, match=next(iter(part))):
        new_run(**part)
    run = new_run()
    vars(run).update(part)
    with pytest.raises(ValueError, match=next(iter(part))):
        train_until(run, epoch_of, 1)


@pytest.mark.bad_input
def test_an_optimizer_of_another_model_is_refused():
    run, adam = new_run(), torch.optim.Adam(Tiny(p_drop=0.2).parameters())
    with pytest.raises(ValueError, match=r"optimizer.*not the model's"):
        Training(run.model, adam, run.schedule)
    run.optimizer = adam
    with pytest.raises(ValueError, match=r"optimizer.*not the model's"):
        train_until(run, epoch_of, 1)


def test_a_part_of_the_model_may_be_trained():
    run = new_run()
    sgd = torch.optim.SGD(run.model.say.parameters())
    part = Training(run.model, sgd, lambda step: 0.5)
    before = copy.deepcopy(run.model.state_dict())
    train_until(part, epoch_of, 1)
    assert torch.equal(run.model.read.weight, before["read.weight"])
    assert not torch.equal(run.model.say.weight, before["say.weight"])


@pytest.mark.bad_input
def test_a_state_of_another_optimizer_changes_nothing():
    first, second = new_run(), new_run(1)
    train_until(first, epoch_of, 3)
    second.optimizer = torch.optim.AdamW(second.model.parameters())
    before = copy.deepcopy(second.state_dict())
    with pytest.raises(ValueError, match=r"Adam\b.*AdamW"):
        second.load_state_dict(first.state_dict())
    second.load_state_dict(before)  # as it was, and fits itself
    assert torch.equal(second.model.say.weight, before["model"]["say.weight"])


@pytest.mark.bad_input
def test_parameters_in_other_groups_change_nothing():
    first, second = new_run(), new_run(1)
    train_until(first, epoch_of, 3)
    train_until(second, epoch_of, 1)
    groups = [{"params": [p]} for p in second.model.parameters()]
    second.optimizer = torch.optim.Adam(groups)
    before = copy.deepcopy(second)
    with pytest.raises(ValueError, match="parameter group"):
        second.load_state_dict(first.state_dict())
    assert_same_state(second, before)


def test_after_step_may_return_nothing():
    seen = []
    run = new_run(after_step=lambda run: seen.append(run.step))
    train_until(run, epoch_of, 3)
    assert seen == [1, 2, 3]


def test_the_model_trains_again_after_an_evaluation():
    modes = []
    run = new_run(after_step=lambda run: run.model.eval() and {})
    run.model.register_forward_hook(lambda m, *_: modes.append(m.training))
    train_until(run, epoch_of, 3)
    assert modes == [True] * 3


def test_train_builds_a_run_of_its_parts():
    torch.manual_seed(0)
    model = Tiny(p_drop=0.2)
    history = train(
        model,
        epoch_of,
        steps=6,
        optimizer=torch.optim.Adam(model.parameters()),
        schedule=partial(learning_rate, d_model=6, warmup=8),
    )
    assert history == train_until(new_run(), epoch_of, 6)


def test_the_loss_falls():
    run = new_run(p_drop=0.0)
    run.schedule = lambda step: 0.03
    history = train_until(run, list(epoch_of(0, 1)), 100)
    first, last = history[:5], history[-5:]
    assert sum(r["loss"] for r in last) < 0.5 * sum(r["loss"] for r in first)


def test_there_is_no_bar_where_there_is_no_terminal(capsys):
    train_until(new_run(), epoch_of, 2)
    assert capsys.readouterr() == ("", "")
    train_until(new_run(no_bar=False), epoch_of, 2)
    said = capsys.readouterr().err
    assert "2/2" in said
    assert re.search(r"loss \d+\.\d{3}, [\d,]+ tokens/s", said)
    assert "<00:" in said  # the time left


def test_no_model_is_known_by_name():
    import transformer_lib.training as module

    ours = {"loss", "training"}
    names = {
        getattr(value, "__module__", "") for value in vars(module).values()
    }
    from_us = {n.split(".")[1] for n in names if n and "transformer_lib." in n}
    assert from_us == ours
