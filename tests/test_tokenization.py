"""Text to ids and back, and ids to batches: chapter 3."""

import collections
import itertools
import json
import pickle
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lib.seq2seq import BOS, EOS, PAD
from transformer_lib.tokenization import (
    Tokenizer,
    collate,
    make_batch,
    token_batches,
)

steady = settings(deadline=None, derandomize=True)
TEXTS = [
    "The animal didn't cross the street because it was too tired.",
    "L'animal n'a pas traversé la rue parce qu'il était trop fatigué.",
    "je suis étudiant",
    "je suis étudiante\u202f!",
    "i am a student",
] * 3
GREETING = "héllo 👋🏽 ∀"
MARKS = {PAD, BOS, EOS}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXTS, 330)


BARE = Tokenizer.train([], 259)
TRAINED = Tokenizer.train(TEXTS, 330)


@steady
@given(st.text(), st.sampled_from([BARE, TRAINED]))
def test_every_text_comes_back_as_it_was(text, tokenizer):
    assert tokenizer.decode(tokenizer.encode(text)) == text


@steady
@given(st.text(), st.sampled_from([BARE, TRAINED]))
def test_no_text_is_encoded_to_a_mark(text, tokenizer):
    ids = tokenizer.encode(text)
    assert not MARKS & set(ids)
    assert all(3 <= i < tokenizer.vocab_size for i in ids)


@pytest.mark.parametrize("text", [GREETING, "", " ", "\n\n", "a  b\r\n\tc\0"])
def test_bytes_are_joined_before_they_are_decoded(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text  # O30 (a)


def test_without_merges_there_is_one_id_a_byte():
    assert len(GREETING) == 10  # O30 (a)
    assert len(BARE.encode(GREETING)) == 19
    assert len({*BARE.encode(GREETING)}) == len({*GREETING.encode()})


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_character_cut_in_two_is_a_replacement_character(cut):
    ids = BARE.encode("a👋")  # O30 (b)
    assert BARE.decode(ids[: 1 + cut]) == "a\ufffd"


@steady
@given(st.lists(st.integers(0, 329)))
def test_any_ids_of_the_vocabulary_decode_to_some_text(ids):
    TRAINED.decode(ids).encode("utf-8")  # O30 (b)
    TRAINED.decode(ids, skip_special=False).encode("utf-8")


@steady
@given(st.lists(st.integers(3, 258)))
def test_ids_decode_as_their_bytes_do(ids):
    order = [BARE.encode(chr(b))[0] for b in range(128)]
    of_byte = dict(zip(order, range(128), strict=True))
    ids = [i for i in ids if i in of_byte]
    want = bytes(of_byte[i] for i in ids).decode("utf-8", errors="replace")
    assert BARE.decode(ids) == want


@pytest.mark.parametrize("texts", [[], [""], ["   "], ["ab"], "ab"])
def test_too_little_text_gives_the_vocabulary_it_can(texts):
    few = Tokenizer.train(texts, 5000)  # O30 (c)
    assert 259 <= few.vocab_size <= 261
    assert few.decode(few.encode(GREETING)) == GREETING


def test_training_reaches_what_was_asked_for_when_the_text_has_it(tokenizer):
    assert tokenizer.vocab_size == 330
    highest = max(i for t in TEXTS for i in tokenizer.encode(t))
    assert highest < 330


def test_a_string_is_one_text_and_not_its_letters():
    assert Tokenizer.train("ab ab ab ab", 300).vocab_size > 259


def test_a_generator_of_texts_will_do(tokenizer):
    again = Tokenizer.train((t for t in TEXTS), 330)
    assert again.bpe.to_str() == tokenizer.bpe.to_str()


def test_training_twice_gives_the_same_tokenizer_in_another_process():
    code = (
        "from transformer_lib.tokenization import Tokenizer as T\n"
        f"print(T.train({TEXTS!r}, 330).bpe.to_str())"
    )
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", code],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    assert json.loads(done.stdout) == json.loads(TRAINED.bpe.to_str())


CONTROL = ["<eos>", "<pad>", "<bos>", "</s>", "[MASK]", "<|endoftext|>"]


@pytest.mark.parametrize("text", CONTROL)
def test_text_that_reads_like_a_mark_is_text(text):
    tokenizer = Tokenizer.train(CONTROL * 9, 400)  # O30 (d)
    ids = tokenizer.encode(f"a {text}")
    assert not MARKS & set(ids)
    assert tokenizer.decode([BOS, *ids, EOS, PAD]) == f"a {text}"


def test_decoding_leaves_out_the_true_marks_only(tokenizer):
    ids = tokenizer.encode("i am")  # O30 (d)
    assert tokenizer.decode([BOS, *ids, EOS, PAD, PAD]) == "i am"
    assert tokenizer.decode([BOS, EOS]) == ""


def test_a_mark_between_two_halves_of_a_character_is_left_out_first():
    ids = BARE.encode("é")
    assert BARE.decode([ids[0], PAD, ids[1]]) == "é"


def test_marks_can_be_shown(tokenizer):
    ids = [BOS, *tokenizer.encode("i am"), EOS, PAD, PAD]
    shown = tokenizer.decode(ids, skip_special=False)
    assert shown == "<bos>i am<eos><pad><pad>"


def test_a_tensor_of_ids_decodes(tokenizer):
    ids = torch.tensor([BOS, *tokenizer.encode(GREETING), EOS])
    assert tokenizer.decode(ids) == GREETING


def test_frequent_words_become_one_piece(tokenizer):
    assert len(tokenizer.encode("je suis")) < len("je suis")
    assert len(tokenizer.encode("je suis étudiant")) < 6


@pytest.mark.bad_input
@pytest.mark.parametrize("i", [-1, 330, 8000])
@pytest.mark.parametrize("skip_special", [True, False])
def test_an_id_outside_the_vocabulary_is_an_error(tokenizer, i, skip_special):
    with pytest.raises(ValueError, match=f"{i}.* vocabulary has 0 … 329"):
        tokenizer.decode([3, i], skip_special)


@pytest.mark.bad_input
def test_half_a_surrogate_pair_is_an_error_that_says_where(tokenizer):
    with pytest.raises(ValueError, match="position 2: surrogates"):
        tokenizer.encode("ab\ud800")
    with pytest.raises(ValueError, match="position 2: surrogates"):
        Tokenizer.train(["ab\ud800"], 300)


@pytest.mark.bad_input
def test_a_vocabulary_too_small_for_the_bytes_is_an_error():
    with pytest.raises(ValueError, match="258: marks and bytes are 259"):
        Tokenizer.train(TEXTS, 258)


def test_a_saved_tokenizer_encodes_as_before(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "bpe.json")
    again = Tokenizer.load(tmp_path / "bpe.json")
    assert again.vocab_size == tokenizer.vocab_size
    for text in [*TEXTS, GREETING, "<eos>"]:
        assert again.encode(text) == tokenizer.encode(text)
        assert again.decode(again.encode(text)) == text


def test_a_saved_tokenizer_is_json_and_saves_the_same_again(
    tokenizer, tmp_path
):
    tokenizer.save(str(tmp_path / "one.json"))
    Tokenizer.load(str(tmp_path / "one.json")).save(tmp_path / "two.json")
    one, two = ((tmp_path / f"{n}.json").read_bytes() for n in ("one", "two"))
    assert one == two
    assert json.loads(one)["added_tokens"] == []


def _changed(tokenizer, **changes) -> bytes:
    saved = json.loads(tokenizer.bpe.to_str())
    for key, change in changes.items():
        saved[key] = change(saved[key])
    return json.dumps(saved).encode()


def _without_a_byte(model: dict) -> dict:
    vocab = {t: i for t, i in model["vocab"].items() if t != "!"}
    return model | {"vocab": vocab}


def _own_mark(_) -> list:
    flags = ("single_word", "lstrip", "rstrip", "normalized")
    mark = {"id": 400, "content": "<eos>", "special": True}
    return [mark | dict.fromkeys(flags, False)]


@pytest.mark.bad_input
@pytest.mark.parametrize(
    "changes",
    [
        {"added_tokens": _own_mark},
        {"normalizer": lambda _: {"type": "Lowercase"}},
        {"pre_tokenizer": lambda _: {"type": "Whitespace"}},
        {"decoder": lambda _: None},
        {"model": _without_a_byte},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_tokenizer_that_would_lose_text_is_refused(
    tokenizer, tmp_path, changes
):
    path = tmp_path / "other.json"
    path.write_bytes(_changed(tokenizer, **changes))
    with pytest.raises(ValueError, match=r"other\.json holds a tokenizer of"):
        Tokenizer.load(path)


def _renumbered(i: int):
    def change(model: dict) -> dict:
        (last,) = [t for t, n in model["vocab"].items() if n == 326]
        return model | {"vocab": model["vocab"] | {last: i}}

    return change


def _as_word_level(model: dict) -> dict:
    return {"type": "WordLevel", "vocab": model["vocab"], "unk_token": "!"}


def _as_unigram(model: dict) -> dict:
    pieces = [[t, -1.0] for t in model["vocab"]]
    return {"type": "Unigram", "vocab": pieces, "unk_id": 0}


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: m | {"dropout": 0.5}, r"model\.dropout"),
        (lambda m: m | {"unk_token": "!"}, r"model\.unk_token"),
        (lambda m: m | {"ignore_merges": True}, r"model\.ignore_merges"),
        (_as_word_level, r"model\.type"),
        (_as_unigram, r"model\.type"),
        (_renumbered(400), "ids that are not 0 … 326"),
        (_renumbered(325), "ids that are not 0 … 326"),
    ],
    ids=["dropout", "unk", "ignore", "word", "unigram", "gap", "twice"],
)
def test_a_model_that_save_did_not_write_is_refused_with_what_differs(
    tokenizer, tmp_path, change, said
):
    path = tmp_path / "other.json"
    path.write_bytes(_changed(tokenizer, model=change))
    with pytest.raises(ValueError, match=rf"other\.json holds .*{said}"):
        Tokenizer.load(path)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"\xff\xfe", b'{"version": "1.0"', pickle.dumps({"a": 1})],
    ids=["empty", "bare", "binary", "truncated", "pickle"],
)
def test_a_file_that_is_no_tokenizer_is_refused_by_name(tmp_path, content):
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"broken\.json holds no tokenizer"):
        Tokenizer.load(path)


@pytest.mark.bad_input
def test_a_missing_file_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.json"):
        Tokenizer.load(tmp_path / "none.json")


def test_the_library_behind_is_imported_only_when_it_is_used():
    code = (
        "import sys, transformer_lib.tokenization\n"
        "print('tokenizers' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"


sentences = st.lists(st.lists(st.integers(3, 99), max_size=6), max_size=6)


@steady
@given(sentences)
def test_collating_pads_on_the_right_and_nothing_else(rows):
    ids = collate(rows)
    longest = max(map(len, rows), default=0)
    assert ids.shape == (len(rows), longest)
    assert ids.dtype == torch.long
    for row, sentence in zip(ids.tolist(), rows, strict=True):
        assert row == sentence + [PAD] * (longest - len(sentence))


def test_another_padding_id_can_be_asked_for():
    assert collate([[5], []], pad=9).tolist() == [[5], [9]]


@steady
@given(sentences)
def test_a_source_ends_and_a_target_begins_and_ends(rows):
    src, tgt = make_batch(rows, rows[::-1])
    for row, ids in zip(src.tolist(), rows, strict=True):
        end = row.index(EOS)
        assert row[:end] == ids
        assert set(row[end + 1 :]) <= {PAD}
    for row, ids in zip(tgt.tolist(), rows[::-1], strict=True):
        end = row.index(EOS)
        assert row[:end] == [BOS, *ids]
        assert set(row[end + 1 :]) <= {PAD}


@pytest.mark.parametrize("texts", [["", "a b"], [""]])
def test_an_empty_source_is_the_end_symbol_alone(texts):
    rows = [BARE.encode(t) for t in texts]  # O31
    src, tgt = make_batch(rows, rows)
    assert (src != PAD).any(dim=1).all()
    assert src[0].tolist() == [EOS] + [PAD] * (src.size(1) - 1)
    assert tgt[0].tolist() == [BOS, EOS] + [PAD] * (tgt.size(1) - 2)


@pytest.mark.parametrize("rows", [[], [[]], [[], []]])
def test_nothing_collates_to_a_tensor_of_no_tokens(rows):
    assert collate(rows).shape == (len(rows), 0)  # O31
    assert collate(rows).dtype == torch.long


def test_batches_are_made_on_the_device_that_is_named():
    for ids in make_batch([[5]], [[6, 7]], device="meta"):
        assert ids.device.type == "meta"
    assert collate([[5]], device="meta").shape == (1, 1)


@pytest.mark.bad_input
@pytest.mark.parametrize("mark", sorted(MARKS))
def test_a_mark_inside_a_sentence_is_refused(mark):
    with pytest.raises(ValueError, match="marks, which make_batch adds"):
        make_batch([[5]], [[5, mark]])
    with pytest.raises(ValueError, match="marks, which make_batch adds"):
        make_batch([[mark, 5]], [[5]])


@pytest.mark.bad_input
def test_every_source_needs_its_target():
    with pytest.raises(ValueError, match="2 sources, 1 targets"):
        make_batch([[5], [6]], [[7]])


@pytest.mark.bad_input
def test_a_number_that_is_not_whole_is_no_id(tokenizer):
    with pytest.raises(TypeError, match=r"3\.9 is no id"):
        collate([[5, 6], [3.9, 4.2]])
    with pytest.raises(TypeError, match=r"70\.9 is no id"):
        tokenizer.decode([70, 70.9])
    with pytest.raises(TypeError, match=r"70\.9.* is no id"):
        tokenizer.decode(torch.tensor([70.9]))


lengths_ = st.lists(st.integers(0, 30), max_size=60)


@steady
@given(lengths_, st.integers(30, 90), st.integers(0, 5))
def test_batches_are_a_partition_within_the_budget(lengths, budget, seed):
    batches = token_batches(lengths, budget, seed)
    everyone = collections.Counter(itertools.chain(*batches))
    assert everyone == collections.Counter(range(len(lengths)))
    for batch in batches:
        assert batch
        assert len(batch) * max(lengths[i] for i in batch) <= budget


@steady
@given(lengths_, st.integers(30, 90))
def test_lengths_of_two_batches_do_not_overlap(lengths, budget):
    spans = sorted(
        (min(lengths[i] for i in b), max(lengths[i] for i in b))
        for b in token_batches(lengths, budget, seed=0)
    )
    for (_, high), (low, _) in itertools.pairwise(spans):
        assert high <= low


@steady
@given(lengths_, st.integers(30, 90))
def test_no_two_neighbouring_batches_would_fit_into_one(lengths, budget):
    batches = token_batches(lengths, budget, seed=0)
    lists = [sorted(lengths[i] for i in b) for b in batches]
    lists.sort(key=lambda ns: (ns[0], ns[-1], -len(ns)))
    for one, other in itertools.pairwise(lists):
        assert (len(one) + 1) * other[0] > budget


def test_the_same_seed_gives_the_same_batches_and_another_does_not():
    lengths = [1 + i % 7 for i in range(100)]
    one, again, other = (token_batches(lengths, 20, s) for s in (1, 1, 2))
    assert one == again
    assert one != other
    assert sorted(map(sorted, one)) != sorted(map(sorted, other))


def test_batches_do_not_come_in_the_order_of_length():
    lengths = [1 + i % 20 for i in range(400)]
    longest = [lengths[b[0]] for b in token_batches(lengths, 40, seed=0)]
    assert longest != sorted(longest)
    assert longest != sorted(longest, reverse=True)


def test_a_sentence_as_long_as_the_budget_has_a_batch_to_itself():
    batches = token_batches([9, 10, 1], 10, seed=0)
    assert [1] in batches


def test_no_sentences_are_no_batches():
    assert token_batches([], 10, seed=0) == []


@pytest.mark.bad_input
def test_a_sentence_longer_than_the_budget_is_named():
    with pytest.raises(ValueError, match=r"sentence 2 has 11 tokens.* 10: "):
        token_batches([3, 10, 11, 12], 10, seed=0)
