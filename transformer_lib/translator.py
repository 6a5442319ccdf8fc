"""A translator.

Everything between a string and a string, and what may be said of the
translations that come out.

Chapter 20b; generated from
notebooks/20b_translator.md by `make export`: edit the chapter.
"""

import copy
import itertools
import re
import tempfile
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from transformer_lib.attention_maps import record
from transformer_lib.checkpoints import load_checkpoint, save_checkpoint
from transformer_lib.decoding import Hypothesis, beam_search
from transformer_lib.models import build
from transformer_lib.real_corpus import heard
from transformer_lib.seq2seq import BOS, EOS, PAD, Seq2Seq
from transformer_lib.tokenization import Tokenizer, collate

__all__ = ["Translation", "Translator", "exact_match", "normalise", "room"]


_Right = Sequence[Collection[str]]  # a sentence's right translations


def normalise(text: str, language: str = "") -> str:
    """The text as a translator reads it: the same for all its spellings.

    In lower case and NFC, with ' for ’ and single spaces, without a final
    full stop or exclamation mark. "fr" has a space before its "?".
    """
    text = unicodedata.normalize("NFC", text.lower()).replace("’", "'")
    text = re.sub(r"\s*\?+", " ?" if language == "fr" else "?", text)
    return " ".join(text.split()).rstrip(" .!…")


class Translation(NamedTuple):
    """A sentence that was written, and its score in the search."""

    text: str
    score: float


def room(ids: Sequence[int]) -> int:
    """A length rounded up: sentences share a batch if they share it."""
    return -(-len(ids) // 8) * 8


def _batches(sources: list, max_tokens: int) -> Iterator[list[int]]:
    """The rows of each batch; those of empty sentences are left out."""
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    for n, same in itertools.groupby(order, lambda i: room(sources[i])):
        rows, k = list(same), max(1, max_tokens // max(n, 1))
        yield from (rows[i : i + k] for i in range(0, n and len(rows), k))


_SHIPPED = Path(str(resources.files("transformer_lib"))) / "pretrained"
_FILES = "tokenizer.json", "model.safetensors"
_WAYS = {"fr-en": ("tatoeba", "fr"), "en-fr": ("tatoeba", "en")}


def _folder(name: str | Path) -> Path:
    shipped = sorted(path.name for path in _SHIPPED.glob("[!._]*"))
    folder = _SHIPPED / name if name in shipped else Path(name)
    if not all((folder / file).is_file() for file in _FILES):
        raise FileNotFoundError(
            f"there is no translator {str(name)!r}: name a folder that holds "
            f"{' and '.join(_FILES)}, or a shipped one: "
            f"{', '.join([*_WAYS, *shipped])}"
        )
    return folder


@dataclass
class _Kept:
    """What a translator consists of, and how it comes into a folder."""

    model: Seq2Seq
    tokenizer: Tokenizer
    config: dict[str, Any]  # "model", "sizes", "source", "target"

    @classmethod
    def load(cls, name: str | Path, device=None) -> "Translator":
        """A shipped one by its name, a str; or the one in a folder."""
        name, source = _WAYS.get(name, (name, ""))
        tokens, path = (_folder(name) / file for file in _FILES)
        config, state = load_checkpoint(path, "model")
        tokenizer = Tokenizer.load(tokens)
        try:
            if config["sizes"]["vocab_size"] != tokenizer.vocab_size:
                raise LookupError(f"{tokens} is another model's")
            model = build(config["model"], **config["sizes"])
            model.load_state_dict(state["model"])
        except (LookupError, TypeError, RuntimeError) as error:
            raise ValueError(f"{path} is no translator's: {error}") from None
        found = cls(model.to(device or "cpu").eval(), tokenizer, config)
        return (
            found.turned() if source not in ("", config["source"]) else found
        )

    def save(self, folder: str | Path, half: bool = False) -> None:
        """Into a folder, whole or not at all; half: weights in float16."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        model = copy.deepcopy(self.model).half() if half else self.model
        with tempfile.TemporaryDirectory(".partial", ".", folder) as new:
            tokens, path = (Path(new, file) for file in _FILES)
            self.tokenizer.save(tokens)
            save_checkpoint(path, model, self.config)
            Path(folder, path.name).unlink(missing_ok=True)  # no mixture
            for file in (tokens, path):
                file.replace(Path(folder, file.name))


class _Reader(_Kept):
    """A string's way into the model, and a sentence's way out."""

    def ids(self, line: str, number: int = 1) -> list[int]:
        """The line's tokens and EOS, behind a mark; none for a blank line.

        Raises ValueError, with the number, for more than the model reads.
        """
        read = heard if self.config.get("text") == "heard" else normalise
        text = read(line, self.config.get("source", ""))
        ids = self.tokenizer.encode(text)
        ids = [*self.mark, *ids, EOS] if text else []
        if len(ids) > self.limit:
            most = f"the model reads at most {self.limit}: split it"
            raise ValueError(f"line {number} has {len(ids)} tokens; {most}")
        return ids

    @property
    def mark(self) -> list[int]:
        """The id before a source that says what a two-way model writes."""
        if self.config["model"] != "two-way":
            return []
        both = sorted([self.config["source"], self.config["target"]])
        return [self.tokenizer.vocab_size + both.index(self.config["target"])]

    def turned(self) -> "Translator":
        """The same two-way model, to translate the other way."""
        source, target = self.config["source"], self.config["target"]
        if not self.mark:
            raise ValueError(f"this model knows no way from {target} back")
        config = self.config | {"source": target, "target": source}
        return type(self)(self.model, self.tokenizer, config)

    @property
    def limit(self) -> int:
        """The most tokens, EOS included, that the model reads or writes."""
        return self.config["sizes"].get("max_len", 4096)

    def tensor(self, sentences: Sequence[list[int]]) -> Int[Tensor, "B L"]:
        """The sentences, padded, where the model is."""
        return collate(sentences, PAD, next(self.model.parameters()).device)

    def search(self, sources, beam=4, n_best=1) -> list[list[Hypothesis]]:
        """Of the ids of sentences that have one and the same `room`."""
        most = min(room(sources[0]) + 50, self.limit)
        sizes = {"beam": beam, "max_len": most, "n_best": n_best}
        return beam_search(self.model, self.tensor(sources), **sizes)


class Translator(_Reader):
    """Text to text: a model, its tokenizer, and what they are made for."""

    def __call__(self, text: str | Sequence[str], beam: int = 4):
        """The best translation of a string, or of each in a list."""
        if isinstance(text, str):
            return self([text], beam)[0]
        return [best.text for (best,) in self.translate(text, beam)]

    def translate(
        self, lines, beam=4, n_best=1, max_tokens=8192, progress=None
    ) -> list[list[Translation]]:
        """Up to n_best translations of each line, the best first.

        A blank line has one, the empty one. A batch reads max_tokens, its
        beams and its padding counted; progress(n) is told its n lines.
        """
        sources = [self.ids(line, n) for n, line in enumerate(lines, 1)]
        found = [[Translation("", 0.0)] for _ in sources]
        for rows in _batches(sources, max_tokens // max(beam, 1)):
            some = self.search([sources[i] for i in rows], beam, n_best)
            for i, best in zip(rows, some, strict=True):
                found[i] = [Translation(self._line(h), h.score) for h in best]
            if progress:
                progress(len(rows))
        return found

    def _line(self, hypothesis: Hypothesis) -> str:
        return " ".join(self.tokenizer.decode(hypothesis.tokens).split())

    def attention(self, text: str, beam: int = 4) -> tuple[list, list, dict]:
        """Pieces read, pieces written, and the maps of one forced pass.

        The maps are (1, H, T, S), by name as in `record`; row t is where
        the model looks as it writes piece t.
        """
        if not (ids := self.ids(text)):
            raise ValueError(f"{text!r} has no words to attend to")
        ((best,),) = self.search([ids], beam)
        src, tgt = self.tensor([ids]), self.tensor([[BOS, *best.tokens]])
        with torch.no_grad(), record(self.model.eval()) as maps:
            self.model(src, tgt[:, :-1])
        show = self.tokenizer.decode
        words = ids[len(self.mark) :]
        read = [show([i], skip_special=False) for i in words]
        return read, [show([i], False) for i in best.tokens], maps


def exact_match(translations: Sequence[str], references: _Right) -> float:
    """The share that is one of its references, both normalised.

    :eq:`exact-match`. Raises ValueError for none, and for a sentence
    without references.
    """
    each = list(zip(translations, references, strict=True))
    if not each or not all(right for _, right in each):
        raise ValueError("expected translations, each with its references")
    return sum(normalise(t) in map(normalise, r) for t, r in each) / len(each)
