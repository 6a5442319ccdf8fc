"""How many steps fit into so many minutes: chapter 20d."""

import time

import pytest

from transformer_lib.minutes import CONFIGS, planned
from transformer_lib.recipe import Settings, examples, training_run

SMALL = {"d_model": 16, "d_ff": 32, "n_heads": 2, "n_encoder_layers": 1}
SMALL |= {"n_decoder_layers": 1, "max_len": 64}


@pytest.fixture
def few():
    return Settings(
        sentences=200, longest=9, sizes=SMALL, vocab=320, tokens=200
    )


def on_a_clock(monkeypatch, takes):
    """A training_run whose steps take so long by the library's clock."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def make(settings, *args, **how):
        translator, run, batches = training_run(settings, *args, **how)
        usual = run.gradient

        def gradient(*args):
            now[0] += takes[settings.precision]
            return usual(*args)

        run.gradient = gradient
        return translator, run, batches

    return make, now


@pytest.mark.parametrize("faster", ["float32", "bfloat16"])
def test_the_faster_precision_gets_the_steps_that_fit(
    few, monkeypatch, faster
):
    takes = {"float32": 0.5, "bfloat16": 0.5} | {faster: 0.25}
    make, now = on_a_clock(monkeypatch, takes)
    chosen, said = planned(few, examples(few), 10.0, make)
    assert chosen.precision == faster
    assert "250 ms" in said
    assert "500 ms" in said
    run_takes = chosen.steps * 0.25
    assert run_takes <= 0.9 * (600 - now[0]) < run_takes + 0.25


def test_a_precision_a_hundred_times_as_slow_is_given_up_at_once(
    few, monkeypatch
):
    make, now = on_a_clock(monkeypatch, {"float32": 0.1, "bfloat16": 10.0})
    chosen, _ = planned(few, examples(few), 10.0, make)
    assert chosen.precision == "float32"
    assert now[0] == pytest.approx(43 * 0.1 + 10)


def test_several_processes_plan_what_the_first_one_found(few, monkeypatch):
    said, asked = [], []

    def first(value):
        said.append(value)
        return value

    def second(value):
        asked.append(value)
        return said[len(asked) - 1]

    data = examples(few)
    make, _ = on_a_clock(monkeypatch, {"float32": 0.2, "bfloat16": 0.4})
    one = planned(few, data, 10.0, make, first)
    make, _ = on_a_clock(monkeypatch, {"float32": 0.5, "bfloat16": 0.3})
    assert planned(few, data, 10.0, make, second) == one


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_is_a_setting(name):
    settings = Settings(**CONFIGS[name])
    assert settings.sizes["d_model"] % settings.sizes["n_heads"] == 0
