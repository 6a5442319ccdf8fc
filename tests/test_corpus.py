"""Reading pairs without loss, and parting them without leaks: chapter 2."""

import collections
import itertools
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lib.corpus import Pair, groups, read_pairs, split

steady = settings(deadline=None, derandomize=True, max_examples=50)
TATOEBA = (
    Path(__file__).resolve().parents[2] / "shared/corpora/tatoeba/fra-eng.zip"
)


@pytest.fixture
def write(tmp_path):
    def write(content: bytes, name: str = "corpus.txt") -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


def archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(
                name.replace("__", "/").replace("_dot_", "."), content
            )
    return path


@pytest.mark.parametrize("name", ["corpus.txt", "corpus.tsv", "CORPUS.TXT"])
def test_the_caller_says_which_column_is_the_source(write, name):
    path = write(b"Hi.\tSalut !\n", name)
    there = read_pairs(path, source=0, target=1)
    back = read_pairs(path, source=1, target=0)
    assert there == [Pair(source="Hi.", target="Salut !")]
    assert back == [Pair(source="Salut !", target="Hi.")]


def test_a_third_column_is_passed_over(write):
    path = write(b"Hi.\tSalut.\tCC-BY 2.0 #1 #2\nGo.\tVa.\n")
    pairs = read_pairs(path, source=0, target=1)
    assert pairs == [("Hi.", "Salut."), ("Go.", "Va.")]


def test_any_two_columns_can_be_asked_for(write):
    path = write(b"1\tHi.\t2\tSalut.\n")
    assert read_pairs(path, source=3, target=1) == [("Salut.", "Hi.")]


def test_a_path_may_be_a_string(write):
    path = str(write(b"Hi.\tSalut.\n"))
    assert read_pairs(path, source=0, target=1) == [("Hi.", "Salut.")]


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_the_end_of_a_line_is_no_part_of_it(write, end):
    path = write(f"a\tb\r\nc\td{end}".encode())
    assert read_pairs(path, source=0, target=1) == [("a", "b"), ("c", "d")]


def test_a_byte_order_mark_is_no_part_of_the_first_sentence(write):
    path = write("\ufeffHi.\tSalut.\n".encode())
    assert read_pairs(path, source=0, target=1)[0].source == "Hi."


@pytest.mark.parametrize("character", ["\u2028", "\x85", "\x0b", "\x1c"])
def test_only_a_newline_ends_a_line(write, character):
    text = f"one{character}two"
    path = write(f"{text}\tx\n".encode())
    assert read_pairs(path, source=0, target=1) == [(text, "x")]


sentence = st.text(
    st.characters(exclude_characters="\t\n\r\ufeff", codec="utf-8"),
    min_size=1,
).filter(str.strip)


@steady
@given(st.lists(st.tuples(sentence, sentence), max_size=8))
def test_what_was_written_is_read_character_for_character(
    tmp_path_factory, rows
):
    path = tmp_path_factory.mktemp("corpus") / "any.tsv"
    text = "".join(f"{x}\t{y}\n" for x, y in rows)
    path.write_bytes(text.encode())
    assert read_pairs(path, source=0, target=1) == rows


@pytest.mark.bad_input
def test_a_carriage_return_inside_a_line_is_odd(write):
    path = write(b"Go.\tVa.\rHi.\tSalut.\r")  # no newline: one line
    with pytest.raises(ValueError, match="line 1: a carriage return"):
        read_pairs(path, source=0, target=1)
    odd = {}
    path = write(b"Go.\tVa.\r\nHi.\rHi!\tSalut.\r\n")
    assert read_pairs(path, source=0, target=1, odd=odd) == [("Go.", "Va.")]
    assert list(odd) == [2]


def test_only_the_first_line_may_have_a_byte_order_mark(write):
    path = write("\ufeffGo.\tVa.\n\ufeffHi.\tSalut.\n".encode())
    sources = [p.source for p in read_pairs(path, source=0, target=1)]
    assert sources == ["Go.", "\ufeffHi."]


SPOILT = (
    b"Go.\tVa.\n"
    b"no tab\n"
    b"\n"
    b"\tVa.\n"
    b"Go.\t \xc2\xa0\n"
    b"caf\xe9\tcoffee\n"
    b"Hi.\tSalut.\n"
)


def test_odd_lines_are_collected_with_their_numbers(write):
    odd = {}
    pairs = read_pairs(write(SPOILT), source=0, target=1, odd=odd)
    assert pairs == [("Go.", "Va."), ("Hi.", "Salut.")]
    assert list(odd) == [2, 3, 4, 5, 6]
    assert "1 of 2 columns" in odd[2]
    assert "empty" in odd[4]
    assert "empty" in odd[5]
    assert "byte 4 is not UTF-8" in odd[6]


@steady
@given(st.lists(st.sampled_from(SPOILT.splitlines(keepends=True))))
def test_every_line_is_a_pair_or_odd(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("corpus") / "any.txt"
    path.write_bytes(b"".join(lines))
    odd = {}
    pairs = read_pairs(path, source=0, target=1, odd=odd)
    assert len(pairs) + len(odd) == len(lines)


@pytest.mark.bad_input
def test_odd_lines_that_nobody_collects_are_an_error_with_their_numbers(write):
    path = write(SPOILT + 3 * b"no tab\n")
    with pytest.raises(ValueError, match="8 of 10 lines") as caught:
        read_pairs(path, source=0, target=1)
    for part in (str(path), "line 2:", "line 6:", "; …", "odd"):
        assert part in str(caught.value)


@pytest.mark.bad_input
def test_a_missing_file_is_named_with_where_to_get_one(tmp_path):
    path = tmp_path / "fra-eng.zip"
    with pytest.raises(FileNotFoundError) as caught:
        read_pairs(path, source=0, target=1)
    assert str(path) in str(caught.value)
    assert "https://www.manythings.org/anki/" in str(caught.value)


@pytest.mark.bad_input
@pytest.mark.parametrize(("source", "target"), [(0, 0), (-1, 0), (0, -2)])
def test_columns_that_cannot_be_are_refused(write, source, target):
    with pytest.raises(ValueError, match="two different ones"):
        read_pairs(write(b"a\tb\n"), source=source, target=target)


def test_the_text_in_an_archive_is_read_and_its_notes_are_not(tmp_path):
    path = archive(
        tmp_path / "fra-eng.zip",
        fra_dot_txt=b"Hi.\tSalut.\n",
        _about_dot_txt=b"no pair here",
    )
    assert read_pairs(path, source=0, target=1) == [("Hi.", "Salut.")]


def test_a_folder_in_an_archive_is_looked_into(tmp_path):
    path = archive(
        tmp_path / "corpus.zip",
        data__fra_dot_TSV=b"Hi.\tSalut.\n",
        data___about_dot_txt=b"no pair here",
    )
    assert read_pairs(path, source=0, target=1) == [("Hi.", "Salut.")]


@pytest.mark.bad_input
@pytest.mark.parametrize("members", [{}, {"a_dot_txt": b"", "b_dot_tsv": b""}])
def test_an_archive_without_exactly_one_text_is_refused(tmp_path, members):
    path = archive(tmp_path / "corpus.zip", **members)
    with pytest.raises(ValueError, match="expected one") as caught:
        read_pairs(path, source=0, target=1)
    assert f"holds {len(members)} text files" in str(caught.value)


@pytest.mark.bad_input
@pytest.mark.parametrize("name", ["corpus.zip", "corpus.csv"])
def test_a_file_of_another_kind_is_refused_by_name(write, name):
    with pytest.raises(ValueError, match=name):
        read_pairs(write(b"a\tb\n", name), source=0, target=1)


@pytest.mark.bad_input
def test_a_damaged_archive_is_refused_by_name(tmp_path):
    path = tmp_path / "corpus.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.txt", "".join(f"{i}\t{i * i}\n" for i in range(5000)))
    content = bytearray(path.read_bytes())
    content[200:260] = bytes(60)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"no \.zip we can"):
        read_pairs(path, source=0, target=1)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("at_local", "at_central", "value", "said"),
    [(6, 8, 1, "encrypted"), (8, 10, 97, "compression")],
    ids=["encrypted", "unknown compression"],
)
def test_an_archive_that_cannot_be_opened_is_refused_by_name(
    tmp_path, at_local, at_central, value, said
):
    path = archive(tmp_path / "corpus.zip", a_dot_txt=b"Hi.\tSalut.\n")
    content = bytearray(path.read_bytes())
    content[at_local] = value
    content[content.index(b"PK\x01\x02") + at_central] = value
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"corpus\.zip is no .*{said}"):
        read_pairs(path, source=0, target=1)


small = st.lists(
    st.builds(Pair, st.sampled_from("abcdefgh"), st.sampled_from("abcdefgh")),
    max_size=20,
)


def by_growing(pairs):
    """Groups by adding neighbours until none is left: slow and plain."""
    left, found = set(range(len(pairs))), []
    while left:
        group = {min(left)}
        while True:
            sources = {pairs[i].source for i in group}
            targets = {pairs[i].target for i in group}
            near = {
                i
                for i in left
                if pairs[i].source in sources or pairs[i].target in targets
            }
            if near == group:
                break
            group = near
        found.append(sorted(group))
        left -= group
    return found


@steady
@given(small)
def test_groups_are_the_connected_components(pairs):
    assert groups(pairs) == by_growing(pairs)


def test_the_same_text_on_two_sides_joins_nothing():
    assert groups([Pair("Radio", "radio"), Pair("TSF", "Radio")]) == [[0], [1]]


def test_ten_thousand_pairs_in_one_chain_are_one_group():
    pairs = [Pair(str(i // 2), str((i + 1) // 2)) for i in range(10_000)]
    assert len(groups(pairs)) == 1


@steady
@given(small, st.data())
def test_a_split_is_a_partition_without_a_common_sentence(pairs, data):
    held_out = data.draw(st.integers(0, len(pairs)))
    seed = data.draw(st.integers(0, 9))
    train, test = split(pairs, held_out, seed)
    whole = collections.Counter(pairs)
    assert collections.Counter(train) + collections.Counter(test) == whole
    assert len(test) <= held_out
    for side in (0, 1):
        assert not {p[side] for p in train} & {p[side] for p in test}


def test_a_split_is_the_same_for_the_same_seed_and_not_for_another():
    pairs = [Pair(str(i), str(i)) for i in range(50)]
    splits = [split(pairs, 10, seed) for seed in (1, 1, 2)]
    assert splits[0] == splits[1]
    assert splits[0] != splits[2]
    assert len(splits[0][1]) == 10


def test_both_parts_keep_the_order_of_the_corpus():
    pairs = [Pair(f"{i:02}", f"{i:02}") for i in range(50)]
    for part in split(pairs, 20, seed=3):
        assert part == sorted(part)


@pytest.mark.bad_input
@pytest.mark.parametrize("held_out", [-1, 3])
def test_more_cannot_be_held_out_than_there_is(held_out):
    with pytest.raises(ValueError, match=f"{held_out} pairs to hold out of 2"):
        split([Pair("a", "b"), Pair("c", "d")], held_out, seed=0)


@pytest.mark.skipif(
    not TATOEBA.is_file(), reason="no shared/corpora beside the checkout"
)
def test_a_real_corpus_is_read_whole_and_split_without_a_leak():
    pairs = read_pairs(TATOEBA, source=1, target=0)
    assert len(pairs) == 164_080
    assert pairs[0].target == "Go."
    train, test = split(pairs, 2_000, seed=0)
    assert len(train) + len(test) == len(pairs)
    assert len(test) == 2_000
    for side in (0, 1):
        assert not {p[side] for p in train} & {p[side] for p in test}
    assert list(itertools.islice(train, 3)) == sorted(
        train[:3], key=pairs.index
    )
