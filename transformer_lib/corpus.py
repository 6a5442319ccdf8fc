"""A corpus of pairs.

A translator learns from sentences beside their translations; they have
to be read without loss, and parted without leaks.

Chapter 2; generated from
notebooks/02_corpus.md by `make export`: edit the chapter.
"""

import random
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = ["Pair", "groups", "read_pairs", "split"]


class Pair(NamedTuple):
    """A sentence and its translation, as they stand in the file."""

    source: str
    target: str


def read_pairs(
    path: str | Path, *, source: int, target: int, odd: dict | None = None
) -> list[Pair]:
    """The pairs of a tab-separated UTF-8 file: .txt, .tsv, or one in a .zip.

    source and target are columns, from 0; others are passed over. Lines
    that are no pair go into odd (number from 1 → why) or, without it,
    raise ValueError, as does a file of another kind.
    """
    if source == target or min(source, target) < 0:
        raise ValueError(
            f"columns {source} and {target}: two different ones, from 0 on"
        )
    pairs, strange = [], {}
    for number, line in enumerate(_lines(Path(path)), 1):
        try:
            mark = "\ufeff" if number == 1 else ""
            pairs.append(_pair(line, source, target, mark))
        except ValueError as error:
            strange[number] = str(error)
    if odd is not None:
        odd.update(strange)
    elif strange:
        few = [f"line {n}: {why}" for n, why in strange.items()]
        raise ValueError(
            f"{path}: {len(few)} of {len(few) + len(pairs)} lines are no "
            f"pair ({'; '.join(few[:5])}{'; …' if few[5:] else ''}): mend "
            "them, or pass a dict as odd to collect them and go on"
        )
    return pairs


def _pair(line: bytes, source: int, target: int, mark: str) -> Pair:
    """The pair in a line; raises ValueError that says why there is none."""
    try:
        text = line.decode("utf-8").removeprefix(mark).rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start + 1} is not UTF-8") from None
    if "\r" in text:
        raise ValueError("a carriage return inside: a file with \\r as end?")
    columns = text.split("\t")
    if len(columns) <= max(source, target):
        raise ValueError(
            f"{len(columns)} of {max(source, target) + 1} columns"
        )
    pair = Pair(columns[source], columns[target])
    if not (pair.source.strip() and pair.target.strip()):
        raise ValueError("a side is empty")
    return pair


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of the file, or of the one text file in the archive."""
    if not path.is_file():
        raise FileNotFoundError(
            f"there is no corpus at {path}: download, for one, fra-eng.zip "
            "from https://www.manythings.org/anki/ and put it there"
        )
    if path.suffix.lower() in (".txt", ".tsv"):
        with path.open("rb") as file:
            yield from file
        return
    try:
        with (
            zipfile.ZipFile(path) as archive,
            archive.open(_only_text(path, archive)) as file,
        ):
            yield from file
    except (zipfile.BadZipFile, zlib.error, RuntimeError) as error:
        raise ValueError(
            f"{path} is no .txt or .tsv, and no .zip we can read ({error})"
        ) from None


def _only_text(path: Path, archive: zipfile.ZipFile) -> str:
    """The one text file in an archive, notes such as _about.txt aside."""
    names = [
        name
        for name in archive.namelist()
        if re.search(r"(^|/)[^_./][^/]*\.(txt|tsv)$", name, re.IGNORECASE)
    ]
    if len(names) != 1:
        raise ValueError(
            f"{path} holds {len(names)} text files {names}, expected one: "
            "unpack it, and give the path of the file"
        )
    return names[0]


def groups(pairs: Sequence[Pair]) -> list[list[int]]:
    """Indices of the pairs, in groups that share no sentence."""
    parent = {}

    def root(node):
        while (above := parent.setdefault(node, node)) != node:
            parent[node] = parent[above]  # halve the way
            node = above
        return node

    for source, target in pairs:
        # A sentence and its side: "Radio" may stand on both.
        parent[root((source, 0))] = root((target, 1))
    members = {}
    for i, (source, _) in enumerate(pairs):
        members.setdefault(root((source, 0)), []).append(i)
    return list(members.values())


def split(
    pairs: Sequence[Pair], held_out: int, seed: int
) -> tuple[list[Pair], list[Pair]]:
    """Training and test pairs that have no sentence in common.

    Groups in an order drawn by seed go into the test while they fit, so
    it has at most held_out pairs; both keep the order of the corpus.
    """
    if not 0 <= held_out <= len(pairs):
        raise ValueError(f"{held_out} pairs to hold out of {len(pairs)}")
    drawn = groups(pairs)
    random.Random(seed).shuffle(drawn)
    test: set[int] = set()
    for group in drawn:
        if len(test) + len(group) <= held_out:
            test.update(group)
    kept = [p for i, p in enumerate(pairs) if i not in test]
    return kept, [p for i, p in enumerate(pairs) if i in test]
