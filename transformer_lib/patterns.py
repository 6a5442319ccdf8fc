"""Patterns of sentences.

Questions, relative clauses, lists, and the pronoun that only the last
word decides.

Chapter 2e; generated from
notebooks/02e_patterns.md by `make export`: edit the chapter.
"""

import re

from transformer_lib.clauses import Phrase, being
from transformer_lib.lexicon import ADJECTIVES, AFFECT, EXPLORE, fitting
from transformer_lib.plans import (
    OBJECT,
    SIMPLE,
    SUBJECT,
    THE,
    Plan,
    Said,
    action,
    alone,
    do,
    give,
    go,
    is_so,
    pronoun,
    see,
)

__all__ = [
    "AND",
    "BECAUSE",
    "BUT",
    "FIXED",
    "LIMIT",
    "PATTERNS",
    "again",
    "ask",
    "because",
    "both",
    "chain",
    "fixed",
    "relative",
    "there",
]


LIMIT = 40  # English words of the longest sentence
FIXED = (
    ("merci", "thanks"),
    ("bonjour", "hello"),
    ("bonsoir", "good evening"),
    ("oui", "yes"),
    ("non", "no"),
    ("au revoir", "goodbye"),
)
AND, BUT, BECAUSE = ("et", "and"), ("mais", "but"), ("parce que", "because")


def fixed(p: Plan) -> Said:
    """One of the expressions that are said as they stand."""
    return p.of(FIXED)


def there(p: Plan) -> Said:
    """There is something, or there isn't: il y a, il n'y a pas de."""
    thing, past = p.noun("patofmw", ("a",)), p.percent(30)
    before = set(p.tags)
    place = p.noun("i", ("the",), plain=True)
    of_place, p.tags = p.tags - before, before
    be, has = ("are", "were") if thing.many else ("is", "was"), ("a", "avait")
    if p.percent(30):
        p.tags.add("negation")
        said = [f"il n'y {has[past]} pas", thing.negated[0]]
        told = [f"there {be[past]}n't", thing.negated[1]]
    else:
        said = [f"il y {has[past]}", thing.fr]
        told = [f"there {be[past]}", thing.en]
    if p.percent(70):
        p.tags |= of_place
        said, told = [*said, "dans", place.fr], [*told, "in", place.en]
    return " ".join(said), " ".join(told)


def ask(p: Plan) -> Said:
    """A question: yes or no, why, who, where, what, how many."""
    p.tags.add("questions")
    kind = p.of(("", "", "", "why", "who", "who", "where", "what", "count"))
    if kind == "where":
        what = p.noun("patoflg", THE)
        fr, en = ("sont", "are") if what.many else ("est", "is")
        return f"où {fr} {what.fr} ?", f"where {en} {what.en}?"
    if kind == "who":
        fr, en = p.of((do, alone))(p, Phrase("qui", "who"))
        return f"{fr} ?", f"{en}?"
    p.asked = True
    if kind in ("", "why"):
        fr, en = p.of((is_so, alone, do, do, see, go))(p)
        why = ("pourquoi ", "why ") if kind else ("", "")
        return f"{why[0]}est-ce que {fr} ?", f"{why[1]}{en}?"
    subject = p.subject("p")
    verb = action(p, subject, "tf")
    if kind == "what":
        fr, en = p.clause(subject, verb)
        return f"qu'est-ce que {fr} ?", f"what {en}?"
    what = p.noun(sorted(set(verb.kinds) - set("lgmw")), ("a",), many=True)
    fr, en = p.clause(subject, verb, clitic=what._replace(fr="", en=""))
    of, any_ = what.negated
    return f"combien {of} est-ce que {fr} ?", f"how many {any_[4:]} {en}?"


def relative(p: Plan) -> Said:
    """A noun with a relative clause, and what it is or does."""
    p.tags.add("relatives")
    head = p.noun("patofl", THE, plain=True)
    if set("pa") & set(head.kinds) and p.percent(50):
        who = ("qui", "who" if head.kinds == "p" else "that")
        fr, en = p.of((alone, do))(p, head._replace(fr=who[0], en=who[1]))
    else:
        subject, gap = p.subject("p"), head._replace(fr="", en="")
        verb = action(p, subject, head.kinds)
        fr, en = p.clause(subject, verb, clitic=gap)
        fr, en = f"que {fr}", f"that {en}"
        p.nouns += [(subject.noun, head.noun)] if subject.noun else []
    whole = head._replace(fr=f"{head.fr} {fr}", en=f"{head.en} {en}")
    if set("pa") & set(head.kinds) and p.percent(40):
        return p.of((alone, do))(p, whole)
    return p.being(whole)


def both(p: Plan) -> Said:
    """Two nouns as one subject, which is plural."""
    p.tags.add("coordination")
    kinds = p.of("ppa")
    a, b = (p.noun(kinds, THE, plain=True) for _ in range(2))
    gender = "f" if a.gender == b.gender == "f" else "m"
    p.nouns.append((a.noun, b.noun))
    fr, en = f"{a.fr} et {b.fr}", f"{a.en} and {b.en}"
    pair = Phrase(fr, en, gender, True, kinds=kinds)
    return p.being(pair) if p.percent(40) else p.of((alone, do))(p, pair)


def again(p: Plan) -> Said:
    """Something, and then what is done to it."""
    p.tags |= {"clitics", "coordination"}
    thing, subject = p.noun("atofl", THE, plain=True), p.pronoun()
    if p.percent(50):
        fr, en = p.being(thing)
    else:
        first = p.subject("p")
        fr, en = p.clause(first, action(p, first, thing.kinds), thing)
        if first.noun:
            subject = pronoun(SUBJECT, 3, first.many, first.gender)
        else:
            subject = first
    clitic = pronoun(OBJECT, 3, thing.many, thing.gender)
    clitic = clitic if thing.many else clitic._replace(en="it")
    verb = action(p, subject, thing.kinds)
    fr_2, en_2 = p.clause(subject, verb, clitic=clitic)
    link = p.of((AND, BUT))
    return f"{fr} {link[0]} {fr_2}", f"{en} {link[1]} {en_2}"


def chain(p: Plan) -> Said:
    """Up to six simple sentences in a row, within LIMIT words."""
    p.tags.add("coordination")
    fr, en = p.of(SIMPLE)(p)
    for _ in range(p.of((1, 1, 1, 1, 2, 2, 3, 4, 5))):
        kept = set(p.tags), [*p.nouns]
        link, (fr_2, en_2) = p.of((AND, BUT, BECAUSE)), p.of(SIMPLE)(p)
        if link is BECAUSE and re.match("(il|elle) était trop", fr_2):
            link = AND  # else it would read as because() has it
        if len(f"{en} {en_2}".split()) >= LIMIT:
            p.tags, p.nouns = kept
            break
        fr, en = f"{fr} {link[0]} {fr_2}", f"{en} {link[1]} {en_2}"
    return fr, en


def because(p: Plan) -> Said:
    """ "It" is whichever of two the adjective can be said of."""
    kind = p.of("llt")
    animal, place = (p.noun(k, THE, False, plain=True) for k in ("a", kind))
    if p.percent(50):
        subject, obj, verbs = animal, place, fitting(EXPLORE, kind)
    else:
        subject, obj, verbs = place, animal, AFFECT
    how = {"past": True, "negated": p.percent(70)}
    fr, en = p.clause(subject, p.of(verbs), obj, **how)
    one, kinds = p.of(((animal, ("pa",)), (place, ("l", "lto"))))
    fit = [a for a in fitting(ADJECTIVES, one.kinds) if a.kinds in kinds]
    it = one._replace(fr="il" if one.gender == "m" else "elle", en="it")
    fr_2, en_2 = being(it, p.of(fit), past=True, degree=("trop", "too"))
    hard = animal.gender != place.gender
    p.tags |= {"agreement", "coreference"} if hard else {"agreement"}
    return f"{fr} parce que {fr_2}", f"{en} because {en_2}"


PATTERNS = {
    is_so: 14,
    alone: 8,
    do: 16,
    see: 8,
    give: 5,
    go: 4,
    there: 5,
    ask: 14,
    relative: 12,
    both: 6,
    again: 10,
    because: 24,
    chain: 12,
    fixed: 1,
}
