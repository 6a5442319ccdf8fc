"""Everything between a string and a string, with and without training."""

import copy
import itertools
import re
import unicodedata
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import transformer_lib
from transformer_lib.checkpoints import save_checkpoint
from transformer_lib.grammar import corpus
from transformer_lib.models import MODELS, build
from transformer_lib.seq2seq import EOS, PAD
from transformer_lib.tokenization import Tokenizer
from transformer_lib.translator import (
    Translation,
    Translator,
    exact_match,
    normalise,
    room,
)

from tiny import SMALL

DRAWN = corpus(300, seed=1)
TOKENIZER = Tokenizer.train(
    [text for s in DRAWN for text in s[:2]], vocab_size=320
)
SENTENCES = [s for s in DRAWN if len(TOKENIZER.encode(s.french)) < 18]


LIMIT = 20


class Short(Translator):
    """Untrained models seldom end; these may write twenty tokens."""

    limit = LIMIT


def untrained(name="transformer", source="fr", **sizes) -> Translator:
    torch.manual_seed(0)
    sizes = SMALL[name] | {"vocab_size": TOKENIZER.vocab_size} | sizes
    target = "en" if source == "fr" else "fr"
    config = {"model": name, "sizes": sizes}
    config |= {"source": source, "target": target}
    return Short(build(name, **sizes), TOKENIZER, config)


@pytest.fixture(scope="module")
def translator() -> Translator:
    return untrained()


def texts(found) -> list[list[str]]:
    return [[best.text for best in each] for each in found]


# What a reader types


@pytest.mark.parametrize(
    ("typed", "language", "read"),
    [
        ("Je suis étudiant.", "fr", "je suis étudiant"),
        ("je suis e\u0301tudiant", "fr", "je suis étudiant"),
        ("JE SUIS ÉTUDIANT !", "fr", "je suis étudiant"),
        ("  J’aime\u00a0l’école …", "fr", "j'aime l'école"),
        ("Es-tu là?", "fr", "es-tu là ?"),
        ("es-tu là\u202f?", "fr", "es-tu là ?"),
        ("Are you there ?", "en", "are you there?"),
        ("are you there ??", "en", "are you there?"),
        ("Merci !", "fr", "merci"),
        ("a.b.c.", "", "a.b.c"),
        (" .\n", "", ""),
        ("?", "fr", "?"),
    ],
)
def test_every_spelling_is_read_as_one(typed, language, read):
    assert normalise(typed, language) == read


@given(st.text(), st.sampled_from(["", "fr", "en"]))
def test_normalising_twice_is_normalising_once(text, language):
    once = normalise(text, language)
    assert normalise(once, language) == once
    assert once == unicodedata.normalize("NFC", once)
    assert once.split() == re.split(" ", once) or once == ""


def test_the_grammar_is_normal():
    for s in SENTENCES:
        assert normalise(s.french, "fr") == s.french
        assert normalise(s.english, "en") == s.english


# Lines in, lines out


def test_ids_are_the_normal_texts_and_end(translator):
    assert translator.ids("Je suis étudiant.") == [
        *TOKENIZER.encode("je suis étudiant"), EOS,
    ]  # fmt: skip
    assert translator.ids(" ") == translator.ids("...") == []
    rows = translator.tensor([[5, 6, EOS], [7, EOS]])
    assert rows.tolist() == [[5, 6, EOS], [7, EOS, PAD]]
    assert [room([3] * n) for n in (0, 1, 8, 9)] == [0, 8, 8, 16]


@pytest.mark.parametrize("name", MODELS)
def test_order_and_number_of_lines_are_kept(name):
    translator = untrained(name)
    lines = [s.french for s in SENTENCES[:12]]
    lines.insert(4, "")
    lines.insert(9, " \t")
    found = translator.translate(lines, beam=2)
    assert len(found) == 14
    assert found[4] == found[9] == [Translation("", 0.0)]
    assert all(len(each) == 1 for each in found)
    some = [3, 12, 4, 0]
    alone = [translator.translate([lines[i]], beam=2)[0] for i in some]
    assert texts(alone) == texts(found[i] for i in some)
    backwards = translator.translate(lines[::-1], beam=2)
    assert texts(backwards[::-1]) == texts(found)


def test_small_batches_say_what_large_ones_say(translator):
    lines = [s.french for s in SENTENCES[:9]]
    large = translator.translate(lines, beam=2)
    small = translator.translate(lines, beam=2, max_tokens=1)
    assert texts(small) == texts(large)


def test_a_batch_stays_within_its_tokens(translator, monkeypatch):
    sizes = []
    search = translator.search

    def watched(sources, beam, n_best):
        longest = max(map(len, sources))
        assert longest - min(map(len, sources)) < 8
        sizes.append(len(sources) * longest * beam)
        return search(sources, beam, n_best)

    monkeypatch.setattr(translator, "search", watched)
    seen = []
    lines = [s.french for s in SENTENCES[:30]] + [""]
    translator.translate(lines, beam=3, max_tokens=400, progress=seen.append)
    assert max(sizes) <= 400
    assert max(sizes) > 200
    assert sum(seen) == 30
    assert len(seen) == len(sizes)


def test_n_best_are_different_and_the_best_first(translator):
    (found,) = translator.translate(["je suis là"], beam=5, n_best=5)
    assert len(found) == 5
    scores = [best.score for best in found]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == 5
    ((best,),) = translator.translate(["je suis là"], beam=5)
    assert best == found[0]


def test_a_call_gives_the_best_text(translator):
    lines = ["je suis là", "", "merci"]
    found = [best.text for (best,) in translator.translate(lines)]
    assert translator(lines) == found
    assert translator("je suis là") == found[0]
    assert translator("") == ""
    assert translator([]) == translator.translate([]) == []


def test_a_translation_stands_on_one_line():
    translator = untrained()
    newline = TOKENIZER.encode("\n")[0]
    with torch.no_grad():
        translator.model.src_embedding.weight[newline] *= 40
    found = translator.translate(["je suis là", "merci"], beam=3, n_best=3)
    for best in itertools.chain(*found):
        assert not set("\n\r\t") & set(best.text)


def test_translating_leaves_no_trace():
    translator = untrained(p_drop=0.5)
    translator.model.train()
    before = copy.deepcopy(translator.model.state_dict())
    first = translator.translate(["je suis là"])
    assert first == translator.translate(["je suis là"])
    assert translator.model.training
    for name, w in translator.model.state_dict().items():
        assert torch.equal(w, before[name])
        assert not w.requires_grad


@pytest.mark.bad_input
def test_too_long_a_line_is_named_with_its_tokens_and_the_limit(translator):
    letters = "abcdefghijklmnopqrstuvwxyz" * 3
    count = [len(TOKENIZER.encode(letters[:i])) for i in range(78)]
    fits = letters[: max(i for i in range(78) if count[i] < LIMIT)]
    assert len(translator.ids(fits)) == LIMIT
    says = rf"line 3 has {count[-1] + 2} tokens; .* {LIMIT}:"
    with pytest.raises(ValueError, match=says):
        translator.translate(["", "merci", letters])


@pytest.mark.bad_input
def test_more_than_the_beam_is_refused(translator):
    with pytest.raises(ValueError, match="n_best=5"):
        translator.translate(["merci"], beam=4, n_best=5)
    with pytest.raises(ValueError, match="beam=0"):
        translator.translate(["merci"], beam=0)


# One model, both ways


def test_a_mark_says_which_language_is_wanted():
    way = untrained("two-way")
    back, V = way.turned(), TOKENIZER.vocab_size
    assert (way.mark, back.mark) == ([V], [V + 1])  # en, fr
    ids = TOKENIZER.encode("je suis là")
    assert way.ids("Je suis là.") == [V, *ids, EOS]
    assert way.ids("...") == []
    assert back.ids("je suis là") == [V + 1, *ids, EOS]
    assert back.config == way.config | {"source": "en", "target": "fr"}
    assert back.model is way.model
    assert back.turned().config == way.config
    assert type(back) is type(way)
    assert way("je suis là") != back("je suis là")


@pytest.mark.bad_input
def test_a_model_of_one_way_is_not_turned(translator):
    assert translator.mark == []
    with pytest.raises(ValueError, match="no way from en back"):
        translator.turned()


# What it looks at


@pytest.mark.parametrize("name", ["transformer", "two-way", "attention-rnn"])
def test_the_maps_are_those_of_its_own_translation(name):
    translator = untrained(name)
    read, written, maps = translator.attention("Je suis grand.")
    assert "".join(read) == "je suis grand<eos>"
    said = "".join(written).removesuffix("<eos>")
    assert " ".join(said.split()) == translator("je suis grand")
    *_, last = maps.values()
    assert last.shape[0] == 1
    assert last.shape[2:] == (len(written), len(read))
    assert torch.allclose(last.sum(-1), torch.ones(last.shape[:3]))


@pytest.mark.bad_input
def test_what_shows_no_attention_is_refused(translator):
    with pytest.raises(ValueError, match="no words"):
        translator.attention(" ")
    with pytest.raises(ValueError, match="no Attention in SimpleRNN"):
        untrained("simple-rnn").attention("je suis là")


# Files


@pytest.mark.parametrize("name", MODELS)
def test_what_is_saved_comes_back(name, tmp_path):
    translator = untrained(name)
    translator.save(tmp_path / "new" / "folder")
    again = Short.load(tmp_path / "new" / "folder")
    assert again.config == translator.config
    assert not again.model.training
    lines = [s.french for s in SENTENCES[:5]]
    assert again.translate(lines) == translator.translate(lines)
    assert sorted(p.name for p in (tmp_path / "new" / "folder").iterdir()) == [
        "model.safetensors", "tokenizer.json",
    ]  # fmt: skip


def test_half_precision_is_half_as_large_and_still_right(tmp_path):
    translator = untrained()
    translator.save(tmp_path / "whole")
    translator.save(tmp_path / "half", half=True)
    whole, half = (
        (tmp_path / name / "model.safetensors").stat().st_size
        for name in ("whole", "half")
    )
    weights = sum(w.numel() for w in translator.model.parameters())
    assert whole - half == pytest.approx(2 * weights, abs=64)
    assert (
        translator.model.state_dict()["src_embedding.weight"].dtype
        == torch.float32
    )
    again = Short.load(tmp_path / "half").model.state_dict()
    for name, w in translator.model.state_dict().items():
        assert torch.equal(again[name], w.half().float())


def test_the_usual_size_fits_four_megabytes_in_half_precision(tmp_path):
    sizes = {"vocab_size": TOKENIZER.vocab_size}
    config = {"model": "transformer", "sizes": sizes, "source": "fr"}
    big = Translator(build("transformer", **sizes), TOKENIZER, config)
    big.save(tmp_path, half=True)
    files = [p.stat().st_size for p in tmp_path.iterdir()]
    more = (1200 - TOKENIZER.vocab_size) * 128 * 2
    assert sum(files) + more < 4_000_000


def test_saving_again_replaces_the_translator(tmp_path):
    untrained("simple-rnn").save(tmp_path)
    translator = untrained()
    translator.save(tmp_path)
    assert Translator.load(tmp_path).config == translator.config
    assert len(list(tmp_path.iterdir())) == 2


def test_a_save_that_fails_leaves_the_old_translator(tmp_path, monkeypatch):
    old = untrained("simple-rnn")
    old.save(tmp_path)
    new = untrained()
    new.config["sizes"]["d_model"] = object()
    with pytest.raises(TypeError, match="d_model"):
        new.save(tmp_path)
    assert Translator.load(tmp_path).config == old.config
    assert len(list(tmp_path.iterdir())) == 2


def test_a_save_cut_off_in_the_middle_leaves_no_mixture(tmp_path, monkeypatch):
    untrained("simple-rnn").save(tmp_path)
    replace = Path.replace

    def cut_off(self, target):
        if Path(target) == tmp_path / "model.safetensors":
            raise OSError("power cut")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", cut_off)
    with pytest.raises(OSError, match="power cut"):
        untrained().save(tmp_path)
    with pytest.raises(FileNotFoundError):
        Translator.load(tmp_path)
    monkeypatch.undo()
    untrained().save(tmp_path)
    assert Translator.load(tmp_path).config == untrained().config


@pytest.mark.bad_input
def test_no_translator_is_said_with_those_that_are_shipped(tmp_path):
    for name in (tmp_path, "fr-de", tmp_path / "nowhere"):
        with pytest.raises(FileNotFoundError, match="or a shipped one"):
            Translator.load(name)
    untrained().save(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json"):
        Translator.load(tmp_path)


@pytest.mark.bad_input
def test_what_is_no_translators_file_is_refused(tmp_path):
    translator = untrained()
    translator.save(tmp_path)
    path = tmp_path / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    with pytest.raises(ValueError, match="not whole"):
        Translator.load(tmp_path)
    wrong = copy.deepcopy(translator.config)
    wrong["sizes"]["d_ff"] = 48
    for config, says in [
        (None, "no translator's"),
        ({"model": "transformer"}, "no translator's: 'sizes'"),
        (wrong, "size mismatch"),
        (translator.config | {"model": "lstm"}, "'lstm': there are"),
    ]:
        save_checkpoint(path, translator.model, config)
        with pytest.raises(ValueError, match=says):
            Translator.load(tmp_path)


@pytest.mark.bad_input
def test_another_models_tokenizer_is_refused(tmp_path):
    untrained().save(tmp_path)
    Tokenizer.train([], 259).save(tmp_path / "tokenizer.json")
    with pytest.raises(ValueError, match="another model's"):
        Translator.load(tmp_path)


# How good it is


def test_exact_match_counts_what_is_one_of_the_right_ones():
    right = {"tu es fatigué", "tu es fatiguée"}
    said = ["Tu es fatiguée.", "tu es fatigués", "tu es  fatigué"]
    assert exact_match(said, [right] * 3) == 2 / 3
    assert exact_match(["es-tu là?"], [["es-tu là ?"]]) == 1
    assert exact_match([""], [["tu"]]) == 0


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("said", "right"), [([], []), (["a"], [set()]), (["a", "b"], [{"a"}])]
)
def test_exact_match_needs_references_for_each(said, right):
    with pytest.raises(ValueError):  # noqa: PT011
        exact_match(said, right)


# The translators that come with the library


SHIPPED = ["fr-en", "en-fr", "grammar-en-fr", "grammar-fr-en"]
STUDENT = {"I'm a student.", "I am a student."}
THANKS = {"Thank you.", "Thank you!", "Thanks.", "Thanks!"}


def test_the_translators_of_the_grammar_translate():
    translator = Translator.load("grammar-fr-en")
    assert translator("je suis étudiant") == "i am a student"
    assert translator("Je suis étudiante.") == "i am a student"
    assert translator(["Merci !", "", "merci"]) == ["thanks", "", "thanks"]
    assert Translator.load("grammar-en-fr")("thanks") == "merci"


def test_the_translator_of_real_sentences_does_the_articles():
    forth, back = map(Translator.load, ("fr-en", "en-fr"))
    assert {forth("je suis étudiant"), forth("Je suis étudiant.")} <= STUDENT
    assert {forth("merci"), forth("Merci !")} <= THANKS
    assert back("i am a student") == "Je suis étudiant."
    assert back("thanks") == "Merci."


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_translator_knows_its_languages(name):
    translator = Translator.load(name)
    source, target = name.split("-")[-2:]
    assert translator.config["source"] == source
    assert translator.config["target"] == target


def test_the_shipped_translators_are_small():
    folder = Path(transformer_lib.__file__).parent / "pretrained"
    sizes = {
        path.name: sum(file.stat().st_size for file in path.iterdir())
        for path in folder.iterdir()
    }
    assert sizes.pop("tatoeba") <= 24_000_000
    assert sizes.keys() == {"grammar-fr-en", "grammar-en-fr"}
    assert max(sizes.values()) <= 1_000_000


@pytest.mark.bad_input
def test_an_unknown_name_is_told_the_shipped_ones():
    with pytest.raises(FileNotFoundError, match=", ".join(SHIPPED)):
        Translator.load("fr-de")


def test_a_path_is_a_folder_whatever_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Translator.load("grammar-en-fr").save("fr-en")
    assert Translator.load("fr-en").config["model"] == "two-way"
    for own in (Path("fr-en"), "./fr-en"):
        assert Translator.load(own).config["model"] == "transformer"
