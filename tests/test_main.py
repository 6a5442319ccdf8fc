"""The command line: what it prints, what it refuses, what survives it."""

import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from transformer_lib import __main__ as command
from transformer_lib.__main__ import Settings, examples, main, training_run
from transformer_lib.checkpoints import load_checkpoint
from transformer_lib.corpus import Pair
from transformer_lib.grammar import corpus, pronoun_of, references
from transformer_lib.training import train_until
from transformer_lib.translator import Translation, Translator

TINY = [
    "--sentences", "200", "--longest", "9", "--vocab", "320",
    "--tokens", "200", "--steps", "40", "--every", "2", "--set", "d_model=16",
    "d_ff=32", "n_heads=2", "n_encoder_layers=1", "n_decoder_layers=1",
    "max_len=64",
]  # fmt: skip
ENV = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"}


def start(*words, **options) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "transformer_lib", *map(str, words)],
        env=ENV, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        **options,
    )  # fmt: skip


def steps_of(folder: Path) -> int:
    """Whole lines in a run's log."""
    log = folder / "log.jsonl"
    return log.read_bytes().count(b"\n") if log.is_file() else 0


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """The folder of a run that nobody interrupted."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    run = start("train", "--out", folder, *TINY)
    said, errors = run.communicate(timeout=300)
    assert run.returncode == 0, errors
    assert f"translate --model {folder}" in said
    return folder


def call(capsys, *words) -> tuple[int, str, str]:
    code = main([*map(str, words)])
    return code, *capsys.readouterr()


def piped(monkeypatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


# Training


def test_a_run_killed_five_times_ends_bit_for_bit_as_one_never_killed(
    whole, tmp_path
):
    rng = random.Random(7)
    folder, before = tmp_path / "run", -1
    words = ["train", "--out", folder, *TINY]
    for target in (3, 10, 17, 24, 31):
        run = start(*words)
        while steps_of(folder) <= max(target + rng.randrange(4), before):
            assert run.poll() is None, run.communicate()[1]
            time.sleep(0.001)
        time.sleep(rng.random() / 50)
        run.kill()
        run.communicate()
        assert run.returncode == -signal.SIGKILL
        before = steps_of(folder)
        assert not (folder / "model.safetensors").exists()
        words = ["train", "--resume", "--out", folder]
    run = start(*words)
    _, errors = run.communicate(timeout=300)
    assert run.returncode == 0, errors
    for name in ("model.safetensors", "tokenizer.json", "log.jsonl"):
        assert (folder / name).read_bytes() == (whole / name).read_bytes()
    assert not list(folder.glob(".*"))


def test_ctrl_c_saves_and_says_how_to_go_on(whole, tmp_path):
    folder = tmp_path / "run"
    run = start("train", "--out", folder, *TINY, "--every", "1000")
    while steps_of(folder) < 9:
        assert run.poll() is None, run.communicate()[1]
        time.sleep(0.001)
    run.send_signal(signal.SIGINT)
    said, errors = run.communicate(timeout=300)
    assert run.returncode == 130, errors
    assert "Traceback" not in errors
    step = load_checkpoint(folder / "checkpoint.safetensors")[1]["place"][0]
    assert 9 <= step < 40
    assert f"saved after step {step}" in said
    assert not (folder / "model.safetensors").exists()
    (words,) = [line for line in said.splitlines() if "--resume" in line]
    assert main(words.split()[3:]) == 0
    for name in ("model.safetensors", "log.jsonl"):
        assert (folder / name).read_bytes() == (whole / name).read_bytes()


def test_what_a_kill_at_the_very_beginning_left_is_no_run(tmp_path, capsys):
    (tmp_path / ".run.json.partial").write_text("{")
    words = ["train", "--out", tmp_path, *TINY, "--steps", "1"]
    assert call(capsys, *words)[0] == 0
    assert call(capsys, "train", "--resume", "--out", tmp_path)[0] == 0
    assert not list(tmp_path.glob(".*"))
    for name in ("model.safetensors", "checkpoint.safetensors"):
        (tmp_path / name).unlink()  # killed before the first checkpoint
    words = (tmp_path / "tokenizer.json").read_bytes()
    assert call(capsys, "train", "--resume", "--out", tmp_path)[0] == 0
    assert (tmp_path / "tokenizer.json").read_bytes() == words
    assert steps_of(tmp_path) == 1


def test_a_finished_run_is_left_as_it_is_by_going_on(whole, capsys):
    before = {p.name: p.read_bytes() for p in whole.iterdir()}
    code, said, _ = call(capsys, "train", "--resume", "--out", whole)
    assert code == 0
    assert "translate --model" in said
    assert {p.name: p.read_bytes() for p in whole.iterdir()} == before


@pytest.mark.bad_input
def test_a_folder_with_a_run_in_it_is_left_alone(whole, tmp_path, capsys):
    before = {p.name: p.read_bytes() for p in whole.iterdir()}
    code, _, errors = call(capsys, "train", "--out", whole, *TINY)
    assert code == 1
    assert "is not empty" in errors
    assert "--resume" in errors
    assert {p.name: p.read_bytes() for p in whole.iterdir()} == before
    (tmp_path / "notes.txt").write_text("mine")
    assert call(capsys, "train", "--out", tmp_path, *TINY)[0] == 1
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--steps", "50"], "steps 50: .* begun with 40"),
        (["--rate", "0.1"], "rate 0.1: .* begun with 0.001"),
        (["--source", "en"], "source en: .* begun with fr"),
        (["--set", "d_model=32"], "d_model 32: .* begun with 16"),
        (["--model", "simple-rnn"], "model simple-rnn: .* with transformer"),
    ],
)
def test_going_on_refuses_other_settings_by_name(whole, words, says, capsys):
    resumed = ["train", "--resume", "--out", whole]
    code, _, errors = call(capsys, *resumed, *words)
    assert code == 1
    assert re.search(says, errors)
    assert call(capsys, *resumed, "--steps", "40")[0] == 0


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--resume"], "holds no run"),
        (["--set", "d_model=x"], "d_model is 'x', expected one like 128"),
        (["--set", "depth=2"], "no size 'depth': there are d_model"),
        (["--source", "de"], "name another --target"),
        (["--source", "de", "--target", "en"], "the grammar has fr and en"),
        (["--corpus", "nowhere.tsv"], "no corpus at .*nowhere.tsv"),
        (["--smoothing", "1"], "smoothing"),
        (["--warmup", "41", "--steps", "40"], "warmup is 41"),
        (["--set", "max_len=4"], "reads 4: raise max_len"),
        (["--device", "abacus"], "no device 'abacus'"),
    ],
)
def test_a_bad_setting_is_named_and_nothing_is_written(
    words, says, tmp_path, capsys
):
    folder = tmp_path / "run"
    words = [*TINY, *words] if "--resume" not in words else words
    code, _, errors = call(capsys, "train", "--out", folder, *words)
    assert code == 1
    assert re.search(says, errors), errors
    assert not folder.exists()


def test_a_file_of_pairs_is_learned_as_it_is_heard(tmp_path, capsys):
    path = tmp_path / "pairs.tsv"
    lines = [f"Wort {i}.\tWord {i}!\n" for i in range(30)]
    path.write_text("".join(lines), encoding="utf-8")
    settings = Settings(corpus=str(path), source="de", target="en")
    learned = examples(settings)
    assert len(learned) == 28  # one to watch it by, one to test with
    assert set(learned) < {(f"wort {i}", f"Word {i}!") for i in range(30)}
    folder = tmp_path / "run"
    words = ["train", "--out", folder, "--corpus", path, "--source", "de"]
    words += ["--target", "en", *TINY, "--steps", "3"]
    assert call(capsys, *words)[0] == 0
    config = Translator.load(folder).config
    assert (config["source"], config["target"]) == ("de", "en")
    path.write_text("".join(lines[1:]), encoding="utf-8")
    resumed = ["train", "--resume", "--out", folder]
    code, _, errors = call(capsys, *resumed)
    assert code == 1
    assert "has changed" in errors


def test_one_model_learns_translates_and_is_judged_both_ways(tmp_path, capsys):
    path, folder = tmp_path / "pairs.tsv", tmp_path / "run"
    lines = [f"Wort {i}.\tWord {i}!\n" for i in range(60)]
    path.write_text("".join(lines), encoding="utf-8", newline="\n")
    words = ["train", "--out", folder, "--corpus", path, "--source", "de"]
    words += ["--target", "en", *TINY, "--steps", "4", "--every", "2"]
    assert call(capsys, *words, "--model", "two-way")[0] == 0
    log = (folder / "log.jsonl").read_text().splitlines()
    valid = json.loads(log[-1])["valid"]
    assert valid.keys() == {
        "nll de-en",
        "BLEU de-en",
        "nll en-de",
        "BLEU en-de",
    }
    forth = Translator.load(folder)
    for way, more in [(forth, []), (forth.turned(), ["--target", "de"])]:
        words = ["translate", "--model", folder, *more, "word 7"]
        code, said, _ = call(capsys, *words)
        assert (code, said.strip()) == (0, way("word 7"))
        file = tmp_path / "report.json"
        words = ["evaluate", "--model", folder, *more, "--corpus", path]
        words += ["--columns", "de", "en", "--json", file]
        assert call(capsys, *words)[0] == 0
        cases = json.loads(file.read_text())["sentences"]
        assert len(cases) == 3
        first = "Wort" if way is forth else "Word"
        assert all(case["source"].startswith(first) for case in cases)
    words = ["translate", "--model", folder, "--target", "fr", "word"]
    code, _, errors = call(capsys, *words)
    assert code == 1
    assert "writes en and de, not fr" in errors


def test_what_a_run_learns_from_is_what_was_asked_for():
    settings = Settings(sentences=50, longest=6, source="en", seed=3)
    found = examples(settings)
    drawn = [(s.english, s.french) for s in corpus(50, 3, again=True)]
    short = [p for p in drawn if max(len(t.split()) for t in p) <= 6]
    assert found == short
    assert 0 < len(short) < 50


def test_some_phenomena_are_learned_alone_and_kept_in_half(tmp_path, capsys):
    folder = tmp_path / "run"
    words = ["train", "--out", folder, *TINY, "--steps", "2", "--half"]
    some = ["--phenomena", "negation", "agreement"]
    assert call(capsys, *words, *some)[0] == 0
    kept = json.loads((folder / "run.json").read_text())["settings"]
    assert kept["phenomena"] == some[1:]
    settings = Settings(**kept)
    assert {pair.source for pair in examples(settings)} <= {
        s.french for s in corpus(200, 0, phenomena=some[1:], again=True)
    }
    for _ in ("made", "made again, by a run that goes on"):
        state = load_checkpoint(folder / "model.safetensors")[1]
        assert {w.dtype for w in state["model"].values()} == {torch.float16}
        assert call(capsys, "train", "--resume", "--out", folder)[0] == 0
    words = ["evaluate", "--model", folder, "--count", "20", "--beam", "1"]
    code, said, _ = call(capsys, *words, *some)
    assert code == 0
    assert "negation" in said
    assert "questions" not in said


def test_settings_fill_in_what_follows_from_the_others():
    settings = Settings(source="en", steps=500, sizes={"d_model": 64})
    assert (settings.target, settings.warmup) == ("fr", 50)
    assert settings.sizes["d_model"] == 64
    assert settings.sizes["n_heads"] == 4
    assert Settings(steps=3).warmup == 1


@pytest.mark.parametrize("model", command.MODELS)
def test_every_model_learns(model):
    small = {"d_embed": 16, "d_hidden": 32}
    if model in ("transformer", "two-way"):
        small = {"d_model": 32, "d_ff": 64, "n_heads": 2}
    settings = Settings(
        model=model, sizes=small, sentences=100, vocab=320, steps=25,
        tokens=500, rate=0.01, smoothing=0.0,
    )  # fmt: skip
    data = examples(settings)
    translator, run, batches = training_run(settings, data, no_bar=True)
    history = train_until(run, batches, settings.steps)
    assert translator.model is run.model
    assert history[-1]["loss"] < history[0]["loss"] - 1
    assert all(record["tokens"] <= 500 for record in history)
    rates = [record["rate"] for record in history]
    assert rates.index(max(rates)) == settings.warmup - 1
    again = training_run(settings, data, no_bar=True)
    assert train_until(*again[1:], settings.steps) == history


def test_a_batch_of_every_epoch_has_each_pair_once():
    settings = Settings(sentences=60, vocab=320, tokens=300)
    data = examples(settings)
    *_, batches = training_run(settings, data, no_bar=True)
    first, second = (list(batches(epoch)) for epoch in (0, 1))
    for epoch in (first, second):
        assert sum(len(src) for src, _ in epoch) == 60
        assert all(src.numel() <= 300 for src, _ in epoch)
        assert all(tgt[:, 1:].numel() <= 300 for _, tgt in epoch)
    assert [s.tolist() for s, _ in first] != [s.tolist() for s, _ in second]
    assert [s.tolist() for s, _ in batches(0)] == [
        s.tolist() for s, _ in first
    ]


# Translating


def test_a_pipe_keeps_the_order_and_the_number_of_lines(
    whole, monkeypatch, capsys
):
    data = "\ufeffJe suis là.\r\n\r\n  \nmerci\nça va ?".encode()
    piped(monkeypatch, data)
    code, said, _ = call(capsys, "translate", "--model", whole)
    assert code == 0
    translator = Translator.load(whole)
    lines = ["je suis là", "", "", "merci", "ça va ?"]
    assert said.split("\n") == [*translator(lines), ""]


def test_a_file_and_words_say_the_same(whole, tmp_path, capsys):
    path = tmp_path / "in.txt"
    path.write_bytes("je suis là\nmerci\n".encode())
    words = ["translate", "--model", whole]
    file = call(capsys, *words, "--file", path)
    assert file == call(capsys, *words, "je suis là", "merci")
    assert file[0] == 0
    assert file[1].count("\n") == 2


def test_nothing_in_is_nothing_out(whole, monkeypatch, capsys):
    piped(monkeypatch, b"")
    assert call(capsys, "translate", "--model", whole) == (0, "", "")


def test_n_best_prints_a_score_and_a_text_a_line(whole, capsys):
    words = ["translate", "--model", whole, "--beam", "3"]
    code, said, _ = call(capsys, *words, "--n-best", "3", "merci", "", "là")
    assert code == 0
    rows = [line.split("\t") for line in said.splitlines()]
    assert rows[3] == ["0.0000", ""]
    wanted = Translator.load(whole).translate(["merci", "", "là"], 3, 3)
    assert [(text, f"{score:.4f}") for each in wanted for text, score in each
    ] == [(text, score) for score, text in rows]  # fmt: skip
    assert len(rows) == 7


def test_attention_is_drawn(whole, tmp_path, capsys):
    path = tmp_path / "out.svg"
    words = ["translate", "--model", whole, "--attention", path]
    assert call(capsys, *words, "merci")[0] == 0
    svg = path.read_text(encoding="utf-8")
    assert svg.lstrip().startswith("<?xml")
    assert "head 1" in svg
    assert call(capsys, *words, "merci", "merci")[0] == 1


@pytest.mark.bad_input
def test_bytes_that_are_no_text_are_named_by_their_line(
    whole, tmp_path, monkeypatch, capsys
):
    data = b"merci\nje suis l\xe0\n"
    piped(monkeypatch, data)
    code, said, errors = call(capsys, "translate", "--model", whole)
    assert (code, said) == (1, "")
    assert "input, line 2: byte 10 is not UTF-8" in errors
    path = tmp_path / "latin.txt"
    path.write_bytes(data)
    words = ["translate", "--model", whole, "--file", path]
    assert "latin.txt, line 2" in call(capsys, *words)[2]
    words = ["translate", "--model", whole, "l\udce0"]
    assert "TEXT, line 1: byte 2" in call(capsys, *words)[2]


@pytest.mark.bad_input
def test_what_cannot_be_translated_is_said_in_one_line(whole, capsys):
    for words, says in [
        (["--model", "fr-de", "merci"], "no translator 'fr-de'"),
        (["--model", whole, "--file", "nowhere.txt"], "nowhere.txt"),
        (["--model", whole, "merci", "é" * 99], "line 2 has"),
        (["--model", whole, "--device", "abacus", "merci"], "'abacus'"),
    ]:
        code, said, errors = call(capsys, "translate", *words)
        assert (code, said) == (1, "")
        assert errors.startswith("python -m transformer_lib translate: ")
        assert says in errors
        assert errors.count("\n") == 1
    for words in (["--n-best", "5", "merci"], ["--beam", "0", "merci"]):
        with pytest.raises(SystemExit) as stop:
            main(["translate", "--model", str(whole), *words])
        assert stop.value.code == 2


def test_a_reader_who_has_enough_ends_it_quietly(whole):
    run = start("translate", "--model", whole, *["merci"] * 2, bufsize=0)
    run.stdout.close()
    errors = run.stderr.read()
    assert run.wait(timeout=300) == 141
    assert errors == ""


def test_help_is_there_for_each_command(capsys):
    for words in ([], ["train"], ["translate"], ["evaluate"]):
        with pytest.raises(SystemExit) as stop:
            main([*words, "--help"])
        assert stop.value.code == 0
        assert "usage: python -m transformer_lib" in capsys.readouterr().out


def test_the_command_does_not_load_what_it_does_not_need():
    code = (
        "import sys, transformer_lib.__main__;"
        "print({'matplotlib', 'sacrebleu'} & sys.modules.keys())"
    )
    run = [sys.executable, "-c", code]
    said = subprocess.run(run, capture_output=True, text=True, check=True)
    assert said.stdout == "set()\n"


def test_the_shipped_translators_answer(capsys):
    said = "i am a student\nthanks\n"
    words = ["--model", "grammar-fr-en", "Je suis étudiant.", "merci"]
    assert call(capsys, "translate", *words) == (0, said, "")
    words = ["--model", "grammar-en-fr", "thanks"]
    assert call(capsys, "translate", *words) == (0, "merci\n", "")
    said = "I'm a student.\nThank you.\n"
    words = ["Je suis étudiant.", "merci"]
    assert call(capsys, "translate", *words) == (0, said, "")
    words = ["--model", "fr-en", "--target", "fr", "I am a student."]
    assert call(capsys, "translate", *words) == (0, "Je suis étudiant.\n", "")


# Evaluating


def test_some_of_a_file_come_from_all_over():
    """Files are sorted by length: the first would be the shortest."""
    pairs = [Pair(f"s{i // 2}", f"t{i}") for i in range(20)]
    few = command.cases_of(pairs, 3)
    assert [case["source"] for case in few] == ["s0", "s3", "s6"]
    assert few[1]["references"] == ["t6", "t7"]
    for count in (None, 10, 99):
        every = command.cases_of(pairs, count)
        assert [case["source"] for case in every] == [
            f"s{i}" for i in range(10)
        ]
    assert command.cases_of([], 5) == []


class Known(Translator):
    """A translator whose every third translation is wrong."""

    def __init__(self, source):
        side = {"fr": "en", "en": "fr"}
        self.config = {"source": source, "target": side[source]}

    def translate(self, lines, beam, progress):
        source = self.config["source"]
        side = ["fr", "en"].index(source)
        known = {s[side]: s for s in corpus(90, 5, "test")}
        said = []
        for i, line in enumerate(lines):
            text = max(references(known[line], source))
            text = text.replace("était", "fut") if i % 2 else text
            said.append(text if i % 3 else text + " non")
            progress(1)
        return [[Translation(text, -1.0)] for text in said]


@pytest.fixture
def known(monkeypatch, request):
    translator = Known(request.param)
    load = staticmethod(lambda name, device: translator)
    monkeypatch.setattr(command.Translator, "load", load)
    return translator


@pytest.mark.parametrize("known", ["fr", "en"], indirect=True)
def test_what_is_right_is_counted(known, tmp_path, capsys):
    path = tmp_path / "all.json"
    words = ["evaluate", "--count", "90", "--seed", "5", "--json", path]
    code, said, _ = call(capsys, *words)
    assert code == 0
    report = json.loads(path.read_text(encoding="utf-8"))
    source = known.config["source"]
    cases = report["sentences"]
    sentences = corpus(90, 5, "test")
    right = [
        case["translation"] in references(s, source)
        for case, s in zip(cases, sentences, strict=True)
    ]
    assert 20 < sum(right) <= 60
    assert [case["right"] for case in cases] == right
    assert report["exact_match"] == {"right": sum(right), "of": 90}
    for name, share in report["phenomena"].items():
        hits = [
            r for r, s in zip(right, sentences, strict=True) if name in s.tags
        ]
        assert share == {"right": sum(hits), "of": len(hits)}
    told = [
        pronoun_of(case["translation"]) == pronoun_of(s.french)
        for case, s in zip(cases, sentences, strict=True)
        if "coreference" in s.tags and source == "en"
    ]
    assert report["pronouns"] == {"right": sum(told), "of": len(told)}
    assert (len(told) > 0) == (source == "en")
    line = said.splitlines()[0].split()
    assert line == ["exact", "match", f"{sum(right) / 90:.1%}",
                    str(sum(right)), "of", "90"]  # fmt: skip
    assert report["part"] == "test"
    assert report["seed"] == 5


@pytest.mark.parametrize("known", ["en"], indirect=True)
def test_bleu_and_chrf_are_sacrebleus_with_all_references(
    known, tmp_path, capsys
):
    from sacrebleu.metrics import BLEU, CHRF

    path = tmp_path / "all.json"
    words = ["evaluate", "--count", "90", "--seed", "5", "--json", path]
    said = call(capsys, *words)[1]
    report = json.loads(path.read_text(encoding="utf-8"))
    cases = report["sentences"]
    most = max(len(case["references"]) for case in cases)
    assert most > 1
    for name, metric in [("BLEU", BLEU()), ("chrF", CHRF())]:
        lists = [
            [
                case["references"][i] if i < len(case["references"]) else None
                for case in cases
            ]
            for i in range(most)
        ]
        said_by = [case["translation"] for case in cases]
        # normalised: a question mark stands next to its word
        plain = [text.replace(" ?", "?") for text in said_by]
        near = [[r and r.replace(" ?", "?") for r in row] for row in lists]
        wanted = metric.corpus_score(plain, near).score
        score, signature = report[name]
        assert score == pytest.approx(wanted, abs=1e-9)
        assert signature == str(metric.get_signature())
        assert "nrefs:var" in signature
        assert signature in said


@pytest.mark.parametrize("known", ["fr"], indirect=True)
def test_pairs_of_a_file_are_references_of_their_source(
    known, tmp_path, monkeypatch, capsys
):
    path, out = tmp_path / "pairs.tsv", tmp_path / "all.json"
    path.write_text("merci\tThanks.\nmerci\tThank you.\noui\tyes\n")
    answers = [[Translation(text, 0.0)] for text in ("thank you", "no")]
    monkeypatch.setattr(
        known, "translate", lambda lines, beam, progress: answers
    )
    words = ["evaluate", "--pairs", path, "--json", out]
    code, said, _ = call(capsys, *words)
    assert code == 0
    report = json.loads(out.read_text(encoding="utf-8"))
    assert report["exact_match"] == {"right": 1, "of": 2}
    assert report["sentences"][0]["references"] == ["Thank you.", "Thanks."]
    assert report["phenomena"] == {}
    assert "coreference" not in said
    assert torch.is_grad_enabled()
