"""Fetching, one spelling, odd lines, fair parts: chapter 2g."""

import http.server
import itertools
import threading
from pathlib import Path
from types import SimpleNamespace

import pooch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lib import real_corpus
from transformer_lib.corpus import Pair
from transformer_lib.real_corpus import (
    KNOWN,
    data_folder,
    fetch,
    heard,
    hold_out,
    read_corpus,
    same,
    tidy,
)

steady = settings(deadline=None, derandomize=True, max_examples=100)
SHARED = Path(__file__).resolve().parents[2] / "shared/corpora/tatoeba"
LANGUAGES = st.sampled_from(["fr", "en", "de", ""])
TEXTS = st.text(st.sampled_from("aé e\u0301?!;:.«»'’…\u202f\u00a0\u200b Q"))


class Handler(http.server.BaseHTTPRequestHandler):
    """A server that can be cut off, and that can go on."""

    def do_GET(self):
        has = self.server.has
        has.asked.append(dict(self.headers))
        begin = 0
        if self.headers.get("If-Range") == has.tag:
            begin = int(self.headers["Range"][len("bytes=") :][:-1])
        if has.status != 200:
            self.send_error(has.status)
            return
        self.send_response(206 if begin else 200)
        self.send_header("ETag", has.tag)
        self.send_header("Content-Length", str(len(has.content) - begin))
        self.end_headers()
        self.wfile.write(has.content[begin : has.cut])

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    """What it has, and what it was asked, with KNOWN["few"] pointing to it."""
    here = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    here.has = SimpleNamespace(
        content=b"Go.\tVa !\n" * 5000, tag='"one"', cut=None, status=200,
        asked=[],
    )  # fmt: skip
    thread = threading.Thread(target=here.serve_forever, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{here.server_port}/few.tsv"
    few = KNOWN["tatoeba"]._replace(url=url)
    monkeypatch.setitem(KNOWN, "few", few)
    yield here.has
    here.shutdown()
    here.server_close()


def cut_off(server, folder, at=20_000):
    server.cut = at
    with pytest.raises(OSError, match=r"cannot be downloaded"):
        fetch("few", folder)
    assert not (folder / "few.tsv").exists()
    server.cut = None


def test_a_file_is_fetched_once(server, tmp_path):
    for _ in range(2):
        path = fetch("few", tmp_path)
        assert path.read_bytes() == server.content
    assert len(server.asked) == 1
    assert list(tmp_path.iterdir()) == [path]


def test_a_download_that_was_cut_off_goes_on_where_it_was(server, tmp_path):
    cut_off(server, tmp_path)
    assert fetch("few", tmp_path).read_bytes() == server.content
    assert 0 < int(server.asked[1]["Range"][len("bytes=") : -1]) <= 20_000
    assert [p.name for p in tmp_path.iterdir()] == ["few.tsv"]


def test_a_file_that_has_changed_meanwhile_is_fetched_anew(server, tmp_path):
    cut_off(server, tmp_path)
    server.content, server.tag = b"Who?\tQui ?\n" * 4000, '"two"'
    assert fetch("few", tmp_path).read_bytes() == server.content


def test_what_the_server_lacks_is_said_with_what_to_do(server, tmp_path):
    server.status = 404
    with pytest.raises(OSError, match="404") as error:
        fetch("few", tmp_path)
    assert f"put it at {tmp_path / 'few.tsv'}" in str(error.value)
    server.status = 200  # nothing of the error page is kept
    assert fetch("few", tmp_path).read_bytes() == server.content


def test_without_network_it_says_where_the_file_belongs(monkeypatch, tmp_path):
    nobody = KNOWN["tatoeba"]._replace(url="http://127.0.0.1:9/fra-eng.zip")
    monkeypatch.setitem(KNOWN, "tatoeba", nobody)
    monkeypatch.setenv("TRANSFORMER_LIB_DATA", str(tmp_path))
    with pytest.raises(OSError, match="TRANSFORMER_LIB_DATA") as error:
        fetch("tatoeba")
    assert f"put it at {tmp_path / 'fra-eng.zip'}" in str(error.value)
    (tmp_path / "fra-eng.zip").write_bytes(b"by hand")
    assert fetch("tatoeba").read_bytes() == b"by hand"


def test_a_fixed_file_is_compared_with_its_checksum(server, tmp_path):
    (tmp_path / "sum").write_bytes(server.content)
    right = pooch.file_hash(str(tmp_path / "sum"))
    KNOWN["few"] = KNOWN["few"]._replace(sha256="0" * 64)
    with pytest.raises(ValueError, match="hash"):
        fetch("few", tmp_path)
    KNOWN["few"] = KNOWN["few"]._replace(sha256=right)
    assert fetch("few", tmp_path).read_bytes() == server.content


def test_an_unknown_corpus_is_answered_with_those_there_are():
    with pytest.raises(ValueError, match="'wmt': known are tatoeba"):
        fetch("wmt")


def test_the_data_lie_in_the_cache_unless_told_otherwise(monkeypatch):
    monkeypatch.delenv("TRANSFORMER_LIB_DATA", raising=False)
    assert data_folder() == Path(pooch.os_cache("transformer_lib"))


@steady
@given(TEXTS | st.text(), LANGUAGES)
def test_tidying_twice_is_tidying_once(text, language):
    once = tidy(text, language)
    assert tidy(once, language) == once
    low = heard(text, language)
    assert heard(low, language) == low


@steady
@given(TEXTS, LANGUAGES)
def test_tidying_loses_no_letter_and_no_mark(text, language):
    def bare(text):
        return "".join(tidy(text).split())

    assert bare(tidy(text, language)) == bare(text)


@pytest.mark.parametrize(
    ("text", "language", "tidied"),
    [
        ("Qui\u202f?", "fr", "Qui ?"),
        ("Qui?!", "fr", "Qui ?!"),
        ("Who ?", "en", "Who?"),
        ("«\u00a0Oui\u00a0», dit-il.", "fr", "« Oui », dit-il."),
        ("L’été\u200b", "fr", "L'été"),
        ("e\u0301te\u0301", "fr", "été"),
        ("Il est 8\u00a0h : viens.", "fr", "Il est 8 h : viens."),
        ("…", "en", "..."),
    ],
)
def test_one_spelling(text, language, tidied):
    assert tidy(text, language) == tidied


@pytest.mark.parametrize("text", ["", " ", "\u200b", "...", "."])
def test_a_text_of_marks_alone_is_heard_as_it_is(text):
    assert heard(text) == tidy(text)


def corpus_file(folder, *lines):
    path = folder / "pairs.tsv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    return path


def test_odd_lines_are_named_with_their_numbers(tmp_path):
    path = corpus_file(
        tmp_path, "Go.\tVa !\tby x", "nothing", "Go.\tVa\u202f!\tby y",
        "one two three\tun", "Who?\tQui ?",
    )  # fmt: skip
    found, odd = read_corpus(path, ["en", "fr"], "fr", "en", longest=2)
    assert found == [Pair("Va !", "Go."), Pair("Qui ?", "Who?")]
    assert odd == {
        2: "1 of 2 columns", 3: "as line 1", 4: "3 words, more than 2"
    }  # fmt: skip


def test_a_language_that_is_no_column_is_refused(tmp_path):
    path = corpus_file(tmp_path, "Go.\tVa !")
    with pytest.raises(ValueError, match="no column 'de', it has en, fr"):
        read_corpus(path, ["en", "fr"], "de", "en")


def test_a_file_of_no_pairs_is_refused(tmp_path):
    path = corpus_file(tmp_path, "a b c\td e f")
    with pytest.raises(ValueError, match="no pair of 2 words"):
        read_corpus(path, ["en", "fr"], "fr", "en", longest=2)


PAIRS = st.lists(
    st.builds(Pair, *[st.sampled_from(["a", "A.", "b", "b!", "c", "d e"])] * 2)
)


@steady
@given(PAIRS, st.integers(0, 3), st.integers(0, 3), st.integers(0, 5))
def test_parts_have_no_sentence_in_common(pairs, one, two, seed):
    if one + two > len(pairs):
        with pytest.raises(ValueError, match="parts of"):
            hold_out(pairs, [one, two], seed)
        return
    found = hold_out(pairs, [one, two], seed)
    assert sorted(itertools.chain(*found)) == sorted(pairs)
    assert len(found[1]) <= one
    assert len(found[2]) <= two
    for side in ("source", "target"):
        seen = [{same(getattr(p, side)) for p in part} for part in found]
        assert sum(map(len, seen)) == len(set().union(*seen))
    assert found == hold_out(pairs, [one, two], seed)


@pytest.mark.skipif(
    not SHARED.is_dir(), reason="needs the French-English file of Tatoeba"
)
def test_tatoeba_is_read_and_cut_without_a_leak():
    path = SHARED / real_corpus.KNOWN["tatoeba"].url.rsplit("/", 1)[1]
    pairs, odd = read_corpus(path, ["en", "fr"], "fr", "en")
    assert len(pairs) + len(odd) == 164_080
    train, valid, test = hold_out(pairs, [1500, 1500])
    assert (len(valid), len(test)) == (1500, 1500)
    known = {same(text) for pair in train + valid for text in pair}
    # a word that is the same in both languages may be on the other side
    shared = [p for p in test if same(p.source) in known]
    assert len(shared) < 5
    sources = {same(p.source) for p in train}
    targets = {same(p.target) for p in train}
    assert not any(same(p.source) in sources for p in test)
    assert not any(same(p.target) in targets for p in test)
