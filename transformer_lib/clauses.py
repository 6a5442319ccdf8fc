"""Phrases and clauses.

Gender, number and person are stated once and agree everywhere; each
language keeps its own order.

Chapter 2c; generated from
notebooks/02c_clauses.md by `make export`: edit the chapter.
"""

import functools
import re
from typing import NamedTuple

from transformer_lib.lexicon import Adjective, Noun, Verb, agree

__all__ = [
    "AVOIR",
    "DETERMINERS",
    "ETRE",
    "NUMBERS",
    "VOWELS",
    "WAS",
    "Phrase",
    "being",
    "clause",
    "phrase",
    "spell",
]


ETRE = "suis es est sommes êtes sont".split()
AVOIR = "ai as a avons avez ont".split()
WAS = "étais étais était étions étiez étaient".split()
DETERMINERS = {  # French singular m, f, plural; English singular, plural
    "the": ("le", "la", "les", "the", "the"),
    "a": ("un", "une", "des", "a", "some"),
    "this": ("ce", "cette", "ces", "this", "these"),
    "my": ("mon", "ma", "mes", "my", "my"),
    "our": ("notre", "notre", "nos", "our", "our"),
}
NUMBERS = {
    "two": "deux",
    "three": "trois",
    "four": "quatre",
    "five": "cinq",
    "six": "six",
    "seven": "sept",
    "eight": "*huit",  # no elision before it
    "nine": "neuf",
    "ten": "dix",
    "twenty": "vingt",
}
VOWELS = "aâeéèêhioôuyœ"
_APART = {"de le ": "du ", "de les ": "des ", "à le ": "au ", "à les ": "aux "}


class Phrase(NamedTuple):
    """What can be subject or object, in both languages."""

    fr: str
    en: str
    gender: str = "m"
    many: bool = False
    person: int = 3
    kinds: str = "p"
    noun: str = ""  # the French noun in it; none in a pronoun
    negated: tuple[str, str] = ("", "")  # what a negation makes of it

    @property
    def form(self) -> int:
        """Its place among the six forms of a verb; :eq:`form`."""
        return self.person - 1 + 3 * self.many


@functools.cache
def phrase(
    noun: Noun,
    determiner: str,
    many: bool = False,
    before: Adjective | None = None,
    after: Adjective | None = None,
) -> Phrase:
    """A noun, its determiner and adjectives, by :eq:`agreement`.

    determiner is a key of DETERMINERS or of NUMBERS, which want many.
    """
    form = noun.gender + "sp"[many]
    fr = [noun.fr_plural if many else noun.fr]
    en = [noun.en_plural if many else noun.en]
    if after:
        fr.append(getattr(after, form))
        en.insert(0, after.en)
    if before:
        vowel = form == "ms" and fr[0][0] in VOWELS
        fr.insert(0, getattr(before, "mv" if vowel else form))
        en.insert(0, before.en)
    said = " ".join(fr), " ".join(en)
    if determiner == "a":
        whole, negated = _indefinite(noun, many, bool(before), said)
    else:
        first = _definite(noun, determiner, many, said[0])
        whole, negated = _both(first, said), ("", "")
    return Phrase(*whole, noun.gender, many, 3, noun.kinds, noun.fr, negated)


def _definite(noun: Noun, key: str, many: bool, fr: str) -> tuple[str, str]:
    """A determiner in both languages, the French one before fr."""
    if key in NUMBERS:
        return NUMBERS[key], key
    row = DETERMINERS[key]
    first = row[2 if many else noun.gender == "f"]
    if fr[0] in VOWELS and not many:
        first = {"ma": "mon", "ce": "cet"}.get(first, first)
    return first, row[3 + many]


def _indefinite(
    noun: Noun, many: bool, before: bool, said: tuple[str, str]
) -> tuple[tuple[str, str], tuple[str, str]]:
    """ "A" or "some" with what is said, and what a negation makes of it."""
    first, second = _definite(noun, "a", many, said[0])
    if noun.mass:
        first, second = "de la" if noun.gender == "f" else "de le", "some"
    elif many and before:
        first = "de"
    elif not many and said[1][0] in "aeiou":
        second = "an"
    negated = "de", "any" if second == "some" else second
    return _both((first, second), said), _both(negated, said)


def _both(first: tuple[str, str], then: tuple[str, str]) -> tuple[str, str]:
    """One behind the other, in both languages."""
    return f"{first[0]} {then[0]}", f"{first[1]} {then[1]}"


def clause(
    subject: Phrase,
    verb: Verb,
    obj: Phrase | None = None,
    *,
    past: bool = False,
    negated: bool = False,
    asked: bool = False,
    often: bool = False,
    clitic: Phrase | None = None,
    tail: tuple[str, str] = ("", ""),
) -> tuple[str, str]:
    """Subject, verb and the rest, each language in its own order.

    clitic is an object before the French verb. What is asked is what
    "est-ce que" takes and begins with "do". A clause that is both asked
    and negated raises ValueError.
    """
    _refuse(asked and negated)
    form, participle = _french_verb(subject, verb, past, clitic)
    fr, en = (clitic.fr, clitic.en) if clitic else ("", "")
    fr_obj, en_obj = (obj.fr, obj.en) if obj else ("", en)
    if negated and obj and obj.negated[0]:
        fr_obj, en_obj = obj.negated
    third = subject.form == 2
    do = "did" if past else "does" if third else "do"
    main = verb.past if past else verb.third if third else verb.en
    no = "ne" * negated, "pas" * negated, f"{do}n't" * negated
    now = "souvent" * often, "often" * often
    main = verb.en if asked or negated else main
    return (
        _join(subject.fr, no[0], fr, form, no[1], now[0], participle, fr_obj)
        + (tail[0] and f" {tail[0]}"),
        _join(do * asked, subject.en, no[2], now[1], main, en_obj, tail[1]),
    )


def _french_verb(
    subject: Phrase, verb: Verb, past: bool, clitic: Phrase | None
) -> tuple[str, str]:
    """The finite form and, in the past, the participle; :eq:`participle`."""
    if not past:
        return verb.present[subject.form], ""
    auxiliary = (ETRE if verb.etre else AVOIR)[subject.form]
    owner = subject if verb.etre else clitic
    if owner is None:
        return auxiliary, verb.participle
    return auxiliary, agree(verb.participle, owner.gender, owner.many)


def _refuse(both: bool) -> None:
    if both:
        raise ValueError("asked and negated are both True: pass only one")


def being(
    subject: Phrase,
    word: Adjective,
    *,
    past: bool = False,
    negated: bool = False,
    asked: bool = False,
    degree: tuple[str, str] = ("", ""),
    job: bool = False,
) -> tuple[str, str]:
    """Subject, to be, and an adjective or a profession that agrees.

    degree stands before it: ("très", "very"). A clause that is both
    asked and negated raises ValueError.
    """
    _refuse(asked and negated)
    form = subject.form
    fr = (WAS if past else ETRE)[form]
    if past:
        en = "was" if form in (0, 2) else "were"
    else:
        en = {0: "am", 2: "is"}.get(form, "are")
    said = word.en
    if job:
        an = "an" if said[0] in "aeiou" else "a"
        said = f"{said}s" if subject.many else f"{an} {said}"
    right = getattr(word, subject.gender + "sp"[subject.many])
    no = " not" if en == "am" else "n't"
    front, back = (en, subject.en) if asked else (subject.en, en)
    return (
        _join(
            subject.fr, "ne" * negated, fr, "pas" * negated, degree[0], right
        ),
        _join(front, back + no * negated, degree[1], said),
    )


def _join(*words: str) -> str:
    return " ".join(filter(None, words))


def spell(french: str) -> str:
    """Elision, then contraction, by :eq:`spelling`: de le pain → du pain."""
    french = re.sub(
        rf"\b(je|me|te|le|la|ne|de|que) (?=[{VOWELS}])",
        lambda found: found[1][:-1] + "'",
        french,
    )
    french = re.sub(r"\b(de|à) les? ", lambda found: _APART[found[0]], french)
    return french.replace("*", "")
