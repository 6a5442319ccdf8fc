"""A real corpus.

What people write is not what a grammar writes: where to get it, how to
make its spellings one, and how to keep a test apart that tests.

Chapter 2g; generated from
notebooks/02g_real_corpus.md by `make export`: edit the chapter.
"""

import os
import random
import re
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from transformer_lib.corpus import Pair, groups, read_pairs

__all__ = [
    "HELD_OUT",
    "KNOWN",
    "Known",
    "cut_corpus",
    "data_folder",
    "fetch",
    "heard",
    "hold_out",
    "read_corpus",
    "same",
    "taught",
    "tidy",
]


class Known(NamedTuple):
    """A corpus that can be fetched by its name."""

    url: str
    languages: tuple[str, ...]  # of its columns
    credit: str  # what its licence asks to be said
    sha256: str | None = None  # None: the file grows with time


KNOWN = {
    "tatoeba": Known(
        url="https://www.manythings.org/anki/fra-eng.zip",
        languages=("en", "fr"),
        credit="sentences by the contributors of tatoeba.org, in pairs from "
        "manythings.org/anki, under CC BY 2.0 FR",
    ),
}


def data_folder() -> Path:
    """$TRANSFORMER_LIB_DATA or, without it, the user's cache."""
    import pooch

    chosen = os.environ.get("TRANSFORMER_LIB_DATA")
    return Path(chosen or pooch.os_cache("transformer_lib"))


def fetch(name: str, folder: str | Path | None = None) -> Path:
    """The file of a corpus in KNOWN, downloaded unless it is there.

    A download that was cut off goes on where it was. Raises OSError that
    says where to put the file by hand, and ValueError for another checksum.
    """
    import pooch

    if name not in KNOWN:
        raise ValueError(f"corpus {name!r}: known are {', '.join(KNOWN)}")
    url, *_, sha256 = KNOWN[name]
    path = Path(folder or data_folder()) / url.rsplit("/", 1)[1]
    if path.is_file() and sha256 is None:
        return path
    try:
        pooch.retrieve(
            url, sha256, path.name, path.parent, downloader=_download
        )
    except OSError as error:
        raise type(error)(
            f"{url} cannot be downloaded ({error}): fetch it another way and "
            f"put it at {path}, or set TRANSFORMER_LIB_DATA to its folder"
        ) from None
    return path


def _download(url: str, target: str, _) -> None:
    """Keeps what has come in a hidden file, and goes on behind it."""
    import pooch

    part = Path(target).with_name(f".{url.rsplit('/', 1)[1]}.part")
    tag = part.with_suffix(".tag")  # the server's name of this very content
    headers = {"User-Agent": "Mozilla/5.0", "Accept-Encoding": "identity"}
    with part.open("ab") as file:
        if file.tell() and (known := tag.is_file() and tag.read_text()):
            headers["Range"] = f"bytes={file.tell()}-"
            headers["If-Range"] = known

        def begun(response, **_):
            if response.is_redirect or response.status_code == 206:
                return
            file.truncate(0)  # it sends all, not the rest
            tag.write_text(response.headers.get("ETag", ""))

        pooch.HTTPDownloader(
            progressbar=sys.stderr.isatty(), headers=headers,
            hooks={"response": begun}, timeout=30,
        )(url, file, None)  # fmt: skip
    tag.unlink(missing_ok=True)
    part.replace(target)


_SAME = str.maketrans({
    **dict.fromkeys("‘’‛ʼ′", "'"), **dict.fromkeys("“”„‟″", '"'),
    **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad"), "…": "...",
})  # fmt: skip


def tidy(text: str, language: str = "") -> str:
    """The text in one spelling of its spaces, quotes and accents.

    NFC; straight quotes; single plain spaces. In "fr" one stands before
    ? ! ; and inside « », elsewhere none before ? ! ; Twice is once.
    """
    text = unicodedata.normalize("NFC", text).translate(_SAME)
    if language == "fr":
        text = re.sub(r"\s*([?!;]+)", r" \1", text)
        text = re.sub(r"\s*»", " »", re.sub(r"«\s*", "« ", text))
    else:
        text = re.sub(r"\s+([?!;])", r"\1", text)
    return unicodedata.normalize("NFC", " ".join(text.split()))


def heard(text: str, language: str = "") -> str:
    """The text as a translator reads it: tidy, in lower case, no last "."

    A writer in haste leaves out capitals and full stops.
    """
    text = tidy(text.lower(), language)
    return text.rstrip(" .") or text


def taught(pairs: Sequence[Pair], source: str) -> list[Pair]:
    """The pairs as a translator of real text reads and says them."""
    return [Pair(heard(p.source, source), p.target) for p in pairs]


def read_corpus(
    path: str | Path,
    languages: Sequence[str],
    source: str,
    target: str,
    longest: int = 50,
) -> tuple[list[Pair], dict[int, str]]:
    """The tidy pairs of a file, each once, and the lines that gave none.

    `languages` names the columns; the lines are number from 1 → why: no
    pair, more than `longest` words on a side, or there before. Raises
    ValueError for a language that is no column, and for a file of no pairs.
    """
    odd: dict[int, str] = {}
    for name in (source, target):
        if name not in languages:
            has = ", ".join(languages)
            raise ValueError(f"{path}: no column {name!r}, it has {has}")
    found = read_pairs(
        path, source=languages.index(source), target=languages.index(target),
        odd=odd,
    )  # fmt: skip
    numbers = [n for n in range(1, len(found) + len(odd) + 1) if n not in odd]
    kept: dict[Pair, int] = {}
    for n, (one, other) in zip(numbers, found, strict=True):
        pair = Pair(tidy(one, source), tidy(other, target))
        words = max(len(text.split()) for text in pair)
        if words > longest:
            odd[n] = f"{words} words, more than {longest}"
        elif (first := kept.setdefault(pair, n)) != n:
            odd[n] = f"as line {first}"
    if not kept:
        raise ValueError(f"{path} holds no pair of {longest} words or fewer")
    return list(kept), odd


def same(text: str) -> str:
    """What two sentences share that differ in marks and capitals alone."""
    return " ".join(re.findall(r"\w+", heard(text))) or text


def hold_out(
    pairs: Sequence[Pair], sizes: Sequence[int], seed: int = 0
) -> list[list[Pair]]:
    """The pairs to learn from, and a part for each size, as in `split`.

    No two have a sentence in common, not even a `same` one; a part has at
    most its size in pairs. All keep the order of the corpus.
    """
    if min(sizes, default=0) < 0 or sum(sizes) > len(pairs):
        raise ValueError(f"parts of {list(sizes)}, but {len(pairs)} pairs")
    drawn = groups([Pair(same(p.source), same(p.target)) for p in pairs])
    random.Random(seed).shuffle(drawn)
    part = [0] * len(pairs)
    room = [0, *sizes]
    for group in drawn:
        here = next((k for k, r in enumerate(room) if r >= len(group)), 0)
        if here:
            room[here] -= len(group)
            for i in group:
                part[i] = here
    return [
        [p for p, k in zip(pairs, part, strict=True) if k == here]
        for here in range(len(sizes) + 1)
    ]


HELD_OUT = 1500  # pairs to choose by, and as many to test with


def cut_corpus(
    path: str | Path,
    languages: Sequence[str],
    source: str,
    target: str,
    longest: int = 50,
    odd: dict[int, str] | None = None,
) -> list[list[Pair]]:
    """Pairs of a file to learn from, to choose by, and to test with.

    The parameters are those of `read_corpus`; the lines that gave no pair
    go into `odd`. Of a small file a twentieth is held out, twice. A pair
    is in the same part whatever `longest` is, or which way it is read.
    """
    where = path, languages, source, target
    every, _ = read_corpus(*where, longest=sys.maxsize)
    found, left = read_corpus(*where, longest)
    (left if odd is None else odd).update(left)
    size, short = min(HELD_OUT, len(every) // 20), set(found)
    cut = hold_out(every, [size, size])
    return [[p for p in part if p in short] for part in cut]
