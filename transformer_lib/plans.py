"""A sentence from a number.

Every choice is a digit of one number, so that a sentence is a function
of its number.

Chapter 2d; generated from
notebooks/02d_plans.md by `make export`: edit the chapter.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from transformer_lib.clauses import NUMBERS, Phrase, being, clause, phrase
from transformer_lib.lexicon import (
    ADJECTIVES,
    ALONE,
    GIVE,
    GO,
    JOBS,
    NOUNS,
    VERBS,
    fitting,
)

__all__ = [
    "CONTEXTS",
    "DEGREES",
    "OBJECT",
    "SIMPLE",
    "SUBJECT",
    "THE",
    "WHEN",
    "Context",
    "Plan",
    "Said",
    "action",
    "alone",
    "do",
    "give",
    "go",
    "is_so",
    "pronoun",
    "see",
]


Said = tuple[str, str]  # French, English


class Context(NamedTuple):
    """What one of the languages hides: who speaks, to whom, of whom.

    All are genders but polite: "vous", which agrees as several do.
    """

    i: str
    you: str
    polite: bool
    they: str
    whom: str


CONTEXTS = [
    Context(i, you, polite, they, whom)
    for i in "mf"
    for you in "mf"
    for polite in (False, True)
    for they in "mf"
    for whom in "mf"
]
THE = ("the", "the", "this", "my", "our")
SUBJECT = {  # person and number, and gender of the third
    "1s": ("je", "i"),
    "1p": ("nous", "we"),
    "2s": ("tu", "you"),
    "2p": ("vous", "you"),
    "3sm": ("il", "he"),
    "3sf": ("elle", "she"),
    "3pm": ("ils", "they"),
    "3pf": ("elles", "they"),
}
OBJECT = {
    "1s": ("me", "me"),
    "1p": ("nous", "us"),
    "2s": ("te", "you"),
    "2p": ("vous", "you"),
    "3sm": ("le", "him"),
    "3sf": ("la", "her"),
    "3pm": ("les", "them"),
    "3pf": ("les", "them"),
}
DEGREES = (("", ""), ("", ""), ("très", "very"), ("trop", "too"))
WHEN = {  # by whether it is past
    False: (("aujourd'hui", "today"), ("maintenant", "now")),
    True: (("hier", "yesterday"), ("ce matin", "this morning")),
}


def pronoun(table: dict, person: int, many: bool, gender: str) -> Phrase:
    """A pronoun of the table; only the third person shows its gender."""
    key = f"{person}{'sp'[many]}" + gender * (person == 3)
    return Phrase(*table[key], gender, many, person)


class Plan:
    """Choices made by the digits of a number, :eq:`mixed-radix`.

    number is 0 … 2^64 - 1. The context is no choice: it changes words
    and never which digit decides what. tags says what is to be seen in
    the sentence, nouns which nouns meet in a clause.
    """

    def __init__(self, number: int, context: Context):
        digest = hashlib.blake2b(number.to_bytes(8, "big")).digest()
        self.left = int.from_bytes(digest, "big")
        self.context, self.asked = context, False
        self.tags: set[str] = set()
        self.nouns: list[Said] = []

    def of(self, options: Sequence) -> Any:
        """One of the options, all with the same probability."""
        self.left, i = divmod(self.left, len(options))
        return options[i]

    def percent(self, share: int) -> bool:
        """True in so many of a hundred plans."""
        self.left, i = divmod(self.left, 100)
        return i < share

    def noun(self, kinds, determiners=None, many=None, plain=False):
        """A noun phrase; kinds is what to choose its kind from."""
        noun = self.of(fitting(NOUNS, self.of(kinds)))
        many, mass = self.percent(25) if many is None else many, noun.mass
        determiner = self.of(determiners or (*THE, "a", "a", "a"))
        many = many and not mass
        if mass and determiner != "a":
            determiner = "the"
        elif many and determiner == "a" and not determiners:
            determiner = self.of(("a", self.of(tuple(NUMBERS))))
        before = after = None
        if not plain and self.percent(35):
            fit = fitting(ADJECTIVES, noun.kinds)
            which = self.of(("before", "after", "after", "both"))
            if which != "after":
                before = self.of([a for a in fit if a.before] or [None])
            if which != "before":
                after = self.of([a for a in fit if not a.before] or [None])
        self.tags |= {"numbers"} if many else set()
        self.tags |= {"adjectives"} if before or after else set()
        return phrase(noun, determiner, many, before, after)

    def pronoun(self, table=SUBJECT, persons="112333") -> Phrase:
        """A pronoun; the context has what a language does not show."""
        person, many = int(self.of(persons)), self.percent(35)
        c, gender = self.context, self.of("mf")
        if person == 3:
            one = gender if table is SUBJECT else c.whom
            return pronoun(table, 3, many, c.they if many else one)
        if person == 2:
            return pronoun(table, 2, c.polite, c.you)
        return pronoun(table, 1, many, c.i)

    def subject(self, kinds="ppa") -> Phrase:
        """Somebody, or an animal."""
        return self.pronoun() if self.percent(45) else self.noun(kinds)

    def clause(self, subject, verb, obj=None, **how) -> Said:
        """A clause whose tense and negation are drawn unless given."""
        past = how.setdefault("past", self.percent(45))
        negated = how.setdefault("negated", self.percent(25))
        how["negated"] = negated = negated and not self.asked
        if past and (verb.etre or how.get("clitic")):
            self.tags.add("agreement")
        self.tags |= {"negation"} if negated else set()
        if obj and obj.noun and subject.noun:
            self.nouns.append((subject.noun, obj.noun))
        return clause(subject, verb, obj, asked=self.asked, **how)

    def being(self, subject, **how) -> Said:
        """Somebody is something, or something is somehow."""
        negated = self.percent(25) and not self.asked
        self.tags |= {"agreement", "negation"} if negated else {"agreement"}
        job = subject.kinds == "p" and self.percent(25)
        words = JOBS if job else fitting(ADJECTIVES, subject.kinds)
        how |= {} if job else {"degree": self.of(DEGREES)}
        how |= {"past": self.percent(40), "negated": negated, "job": job}
        return being(subject, self.of(words), asked=self.asked, **how)


def is_so(p: Plan) -> Said:
    """Somebody or something is somehow, or has a profession."""
    before, thing = set(p.tags), p.noun("ppaltof", THE, plain=True)
    if p.percent(40):
        p.tags, thing = before, p.pronoun()
    return p.being(thing)


def alone(p: Plan, subject: Phrase | None = None) -> Said:
    """Somebody does something, somewhere, some day, often, or just so."""
    subject, past = subject or p.subject(), p.percent(45)
    before, tail = set(p.tags), ("", "")
    place = p.noun("i", ("the",), plain=True)
    kind = p.of(("place", "when", "often", "", ""))
    if kind == "place":
        tail = f"dans {place.fr}", f"in {place.en}"
    else:
        p.tags = before  # what is not said is not tagged
    if kind == "when":
        tail = p.of(WHEN[past])
    verb = p.of(fitting(ALONE, subject.kinds))
    # "the girl who left often runs" would say two things.
    inner = " who " in subject.en or " that " in subject.en
    often = kind == "often" and not inner
    return p.clause(subject, verb, past=past, often=often, tail=tail)


def action(p: Plan, subject: Phrase, kinds: str) -> Any:
    """A verb for one of the kinds as object, and for the subject."""
    fit = fitting(VERBS, kinds)
    if "a" in subject.kinds:
        fit = [v for v in fit if "a" in v.kinds or v.kinds in ("l", "fm")]
    return p.of(fit)


def do(p: Plan, subject: Phrase | None = None) -> Said:
    """Somebody does something to something."""
    subject = subject or p.subject()
    verb = action(p, subject, "paltofmwg")
    known = THE if verb.en == "like" else None
    return p.clause(subject, verb, p.noun(verb.kinds, known))


def see(p: Plan) -> Said:
    """Something is done to a pronoun."""
    p.tags.add("clitics")
    subject = p.subject("pppa")
    others = "123".replace(str(subject.person), "") + "33"
    return p.clause(
        subject, action(p, subject, "p"), clitic=p.pronoun(OBJECT, others)
    )


def give(p: Plan) -> Said:
    """Somebody gives something to somebody."""
    subject, gift = p.subject("p"), p.noun("tof")
    to = p.noun("ppa", THE, plain=True)
    return p.clause(subject, GIVE, gift, tail=(f"à {to.fr}", f"to {to.en}"))


def go(p: Plan) -> Said:
    """Somebody goes somewhere."""
    subject, to = p.subject(), p.noun("g", ("the",))
    return p.clause(subject, GO, tail=(f"à {to.fr}", f"to {to.en}"))


SIMPLE = (is_so, alone, do, do, see, give, go)
