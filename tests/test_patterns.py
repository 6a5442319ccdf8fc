"""What each pattern says, word for word, and what it never says."""

import re
from collections import Counter

import pytest

from transformer_lib.clauses import spell
from transformer_lib.lexicon import ADJECTIVES, JOBS, NOUNS, VERBS, agree
from transformer_lib.patterns import (
    FIXED,
    LIMIT,
    PATTERNS,
    again,
    ask,
    because,
    both,
    chain,
    fixed,
    relative,
    there,
)
from transformer_lib.plans import CONTEXTS, SIMPLE, Plan

MAN, WOMAN = CONTEXTS[0], CONTEXTS[-1]
YES, NO = True, False


class Script(Plan):
    """A plan whose choices are written down: options by what they say,
    by their place, or, for a percentage, yes or no."""

    def __init__(self, *choices, context=MAN):
        super().__init__(0, context)
        self.choices = list(choices)

    def of(self, options):
        choice = self.choices.pop(0)
        assert not isinstance(choice, bool)
        if isinstance(choice, int):
            return options[choice]
        return next(o for o in options if choice in (o, names(o)))

    def percent(self, share):
        choice = self.choices.pop(0)
        assert isinstance(choice, bool)
        return choice


def names(option):
    for attribute in ("en", "__name__"):
        if hasattr(option, attribute):
            return getattr(option, attribute)
    return option[-1] if option else None


def said(pattern, *choices, context=MAN):
    plan = Script(*choices, context=context)
    fr, en = pattern(plan)
    assert not plan.choices, "choices left"
    return spell(fr), en


def drawn(pattern, n=1500):
    """What a pattern says of many plans, and their tags."""
    found = []
    for number in range(n):
        plan = Plan(number, CONTEXTS[number % len(CONTEXTS)])
        fr, en = pattern(plan)
        found.append((spell(fr), en, plan.tags))
    return found


def test_set_phrases_are_said_as_they_stand():
    assert said(fixed, "thanks") == ("merci", "thanks")
    assert said(fixed, "goodbye") == ("au revoir", "goodbye")
    assert {pair[:2] for pair in drawn(fixed, 200)} == set(FIXED)


# A plain noun takes its kind, the noun, whether many, its determiner.
GARDEN = ("i", "garden", NO, "the")
HOSPITAL = ("i", "hospital", NO, "the")


@pytest.mark.parametrize(
    ("choices", "fr", "en"),
    [
        (
            ("a", "owl", NO, "a", NO, NO, *GARDEN, NO, YES),
            "il y a un hibou dans le jardin",
            "there is an owl in the garden",
        ),
        (
            ("m", "bread", NO, "a", NO, YES, *GARDEN, NO, NO),
            "il y avait du pain",
            "there was some bread",
        ),
        (
            ("w", "water", NO, "a", NO, NO, *HOSPITAL, YES, YES),
            "il n'y a pas d'eau dans l'hôpital",
            "there isn't any water in the hospital",
        ),
        (
            ("t", "tree", YES, "a", NO, YES, *GARDEN, YES, NO),
            "il n'y avait pas d'arbres",
            "there weren't any trees",
        ),
        (
            ("f", "orange", NO, "a", NO, NO, *GARDEN, YES, NO),
            "il n'y a pas d'orange",
            "there isn't an orange",
        ),
    ],
)
def test_there_is_and_there_is_not(choices, fr, en):
    assert said(there, *choices) == (fr, en)


HE = (YES, "3", NO, "m")  # a pronoun: person, whether many, gender
YOU = (YES, "2", NO, "m")
GIRL = (NO, "p", "girl", NO, "the", NO)


@pytest.mark.parametrize(
    ("choices", "fr", "en"),
    [
        (
            ("where", "t", "key", NO, "my", NO),
            "où est ma clé ?",
            "where is my key?",
        ),
        (
            ("where", "a", "bird", YES, "the", NO),
            "où sont les oiseaux ?",
            "where are the birds?",
        ),
        (
            ("who", "do", "eat", "f", "apple", NO, "a", NO, YES, NO),
            "qui a mangé une pomme ?",
            "who ate an apple?",
        ),
        (
            ("who", "do", "eat", "f", "apple", NO, "a", NO, NO, YES),
            "qui ne mange pas de pomme ?",
            "who doesn't eat an apple?",
        ),
        (  # a question is asked without its negation
            (0, "go", *HE, "g", "school", NO, "the", NO, YES, YES),
            "est-ce qu'il est allé à l'école ?",
            "did he go to the school?",
        ),
        (
            ("why", "do", *GIRL, "open", "o", "box", YES, "the", NO, NO, NO),
            "pourquoi est-ce que la fille ouvre les boîtes ?",
            "why does the girl open the boxes?",
        ),
        (
            ("what", *GIRL, "eat", NO, NO),
            "qu'est-ce que la fille mange ?",
            "what does the girl eat?",
        ),
        (  # the object stands first, and the participle agrees with it
            ("count", *GIRL, "eat", "f", "pear", "a", NO, YES, NO),
            "combien de poires est-ce que la fille a mangées ?",
            "how many pears did the girl eat?",
        ),
        (
            ("count", *YOU, "buy", "f", "egg", "a", NO, NO, NO),
            "combien d'œufs est-ce que tu achètes ?",
            "how many eggs do you buy?",
        ),
    ],
)
def test_questions(choices, fr, en):
    assert said(ask, *choices) == (fr, en)


@pytest.mark.parametrize(
    ("context", "participle"), [(MAN, "allé"), (WOMAN, "allée")]
)
def test_the_context_has_what_english_hides(context, participle):
    i = (YES, "1", NO, "m")  # the gender drawn is that of a third person
    choices = (0, "go", *i, "g", "beach", NO, "the", NO, YES, NO)
    fr, en = said(ask, *choices, context=context)
    assert fr == f"est-ce que je suis {participle} à la plage ?"
    assert en == "did i go to the beach?"


IS = (NO, 0, NO)  # what is said last: not negated, no degree, present
SINGS = ("alone", NO, *GARDEN, "", "sing", NO, NO, NO)
SLEPT = ("alone", YES, *GARDEN, "", "sleep", NO, NO, NO)


@pytest.mark.parametrize(
    ("choices", "fr", "en"),
    [
        (  # que: the participle agrees with the noun before it
            ("f", "pear", YES, "the", *GIRL, "eat", YES, NO, *IS, "bitter"),
            "les poires que la fille a mangées sont amères",
            "the pears that the girl ate are bitter",
        ),
        (  # qui: a person is who; the choice more is of a profession
            ("p", "woman", NO, "the", YES, *SINGS, NO, *IS, "happy"),
            "la femme qui chante est heureuse",
            "the woman who sings is happy",
        ),
        (  # and an animal that
            ("a", "cow", NO, "the", YES, *SLEPT, *IS, "young"),
            "la vache qui a dormi est jeune",
            "the cow that slept is young",
        ),
    ],
)
def test_relative_clauses(choices, fr, en):
    assert said(relative, *choices) == (fr, en)


GENDER = {n.fr.strip("*"): n.gender for n in NOUNS}
GENDER |= {n.fr_plural.strip("*"): n.gender for n in NOUNS}


def test_a_participle_behind_que_agrees_with_the_noun_of_the_clause():
    things = {n.fr for n in NOUNS if not set("pa") & set(n.kinds)}
    things |= {n.fr_plural for n in NOUNS if n.fr in things}
    participles = {
        agree(v.participle, g, many): v.participle
        for v in VERBS
        for g in "mf"
        for many in (False, True)
    }
    seen = Counter()
    for fr, _, _ in drawn(relative, 4000):
        the, noun, *rest = re.findall(r"\w+", fr)
        many = the in ("les", "ces", "mes", "nos")
        if noun in things:
            for word in set(rest) & participles.keys():
                right = agree(participles[word], GENDER[noun], many)
                assert word == right, fr
                seen[GENDER[noun], many] += 1
    assert len(seen) == 4
    assert min(seen.values()) > 30


def test_two_subjects_are_plural_and_feminine_only_together():
    forms = {a.mp: "m" for a in ADJECTIVES + JOBS if a.mp != a.fp}
    forms |= {a.fp: "f" for a in ADJECTIVES + JOBS if a.mp != a.fp}
    seen = Counter()
    for fr, en, _ in drawn(both, 3000):
        words = re.findall(r"\w+", fr)
        first, second = words[1], words[words.index("et") + 2]
        two = GENDER[first] + GENDER[second]
        if words[-1] in forms and {"sont", "étaient"} & set(words):
            assert forms[words[-1]] == ("f" if two == "ff" else "m"), fr
            assert re.search(r" (are|were)", en)
            seen[two] += 1
    assert seen.keys() == {"mm", "mf", "fm", "ff"}


@pytest.mark.parametrize(
    ("first", "second", "last"),
    [
        ("girl", "queen", "fatiguées"),
        ("girl", "king", "fatigués"),
        ("king", "girl", "fatigués"),
    ],
)
def test_a_man_among_them_makes_them_masculine(first, second, last):
    two = ("p", "p", first, NO, "the", "p", second, NO, "the")
    fr, en = said(both, *two, YES, NO, NO, 0, NO, "tired")
    assert fr.endswith(f"sont {last}")
    assert en == f"the {first} and the {second} are tired"


@pytest.mark.parametrize(
    ("noun", "many", "clitic", "it"),
    [
        ("lamp", NO, "la lampe et il l'a lavée", "it"),
        ("bicycle", NO, "le vélo et il l'a lavé", "it"),
        ("lamp", YES, "les lampes et il les a lavées", "them"),
    ],
)
def test_the_second_clause_takes_the_noun_up(noun, many, clitic, it):
    he = ("3", NO, "m")  # drawn twice: what there would be without him
    fr, en = said(
        again, "t", noun, many, "the", *he, NO, YES, *he,
        "find", NO, NO, "wash", YES, NO, "and",
    )  # fmt: skip
    assert fr == f"il trouve {clitic}"
    assert en.startswith("he finds the ")
    assert en.endswith(f"and he washed {it}")


def test_who_acts_first_acts_on():
    first = (NO, "p", "queen", NO, "the", NO)  # instead of a pronoun
    fr, en = said(
        again, "l", "street", NO, "the", "1", NO, "m", NO, *first,
        "see", NO, NO, "cross", YES, YES, "but",
    )  # fmt: skip
    assert fr == "la reine voit la rue mais elle ne l'a pas traversée"
    assert en == "the queen sees the street but she didn't cross it"


ANIMAL, STREET = ("a", "animal", "the"), ("l", "street", "the")
ENDINGS = [
    (0, "tired", "il était trop fatigué"),
    (1, "wide", "elle était trop large"),
]


@pytest.mark.parametrize(
    ("which", "adjective", "ending"),
    [
        (0, "tired", "il était trop fatigué"),
        (1, "wide", "elle était trop large"),
    ],
)
def test_the_last_word_decides_what_it_is(which, adjective, ending):
    fr, en = said(
        because, "l", *ANIMAL, *STREET, YES, YES, "cross", NO, NO,
        which, adjective,
    )  # fmt: skip
    assert fr == f"l'animal n'a pas traversé la rue parce qu'{ending}"
    start = "the animal didn't cross the street because it was too "
    assert en == start + adjective


@pytest.mark.parametrize(
    ("which", "adjective", "ending"),
    [
        (0, "tired", "il était trop fatigué"),
        (1, "wide", "elle était trop large"),
    ],
)
def test_and_the_place_may_be_the_subject(which, adjective, ending):
    fr, en = said(
        because, "l", *ANIMAL, *STREET, NO, NO, "frighten", NO, NO,
        which, adjective,
    )  # fmt: skip
    assert fr == f"la rue a effrayé l'animal parce qu'{ending}"
    assert en.startswith("the street frightened the animal because it was")


FRAME = r"\w+ (\w+) (?:didn't )?(\w+) \w+ (\w+) because it was too (\w+)"
NOUN = {n.en: n for n in NOUNS}
ADJECTIVE = {a.en: a for a in ADJECTIVES}


@pytest.fixture(scope="module")
def cases():
    """Of each sentence: which noun it is, whether the first is the animal,
    whether the adjective is one of animals, its verb, and all of it."""
    found = []
    for fr, en, tags in drawn(because, 6000):
        one, verb, two, last = re.fullmatch(FRAME, en).groups()
        fits = [
            bool(set(NOUN[w].kinds) & set(ADJECTIVE[last].kinds))
            for w in (one, two)
        ]
        found.append(
            {
                "fr": fr,
                "tags": tags,
                "genders": NOUN[one].gender + NOUN[two].gender,
                "fits": fits,
                "animal first": NOUN[one].kinds == "a",
                "animal's": "a" in ADJECTIVE[last].kinds,
                "verb": verb,
            }
        )
    return found


def test_the_adjective_fits_one_noun_and_the_pronoun_agrees_with_it(cases):
    for c in cases:
        assert sum(c["fits"]) == 1, c
        gender = c["genders"][c["fits"].index(True)]
        assert f"qu'{'il' if gender == 'm' else 'elle'} était" in c["fr"]


def test_only_two_genders_make_it_a_case_of_coreference(cases):
    for c in cases:
        hard = len(set(c["genders"])) == 2
        assert ("coreference" in c["tags"]) == hard


def test_both_kinds_of_noun_are_subjects_and_it_is_either(cases):
    count = Counter((c["animal first"], c["animal's"]) for c in cases)
    assert len(count) == 4
    assert max(count.values()) - min(count.values()) < 0.04 * len(cases)


@pytest.mark.parametrize("feature", ["animal first", "animal's", "genders"])
def test_one_feature_alone_says_nothing_of_the_answer(cases, feature):
    share = {}
    for c in cases:
        share.setdefault(c[feature], []).append(c["fits"][0])
    assert all(0.46 < sum(s) / len(s) < 0.54 for s in share.values())


def test_no_verb_says_the_answer(cases):
    half, share = len(cases) // 2, {}
    for c in cases[:half]:
        share.setdefault(c["verb"], []).append(c["fits"][0])
    guess = {verb: sum(s) * 2 > len(s) for verb, s in share.items()}
    right = [guess.get(c["verb"]) == c["fits"][0] for c in cases[half:]]
    assert 0.46 < sum(right) / half < 0.54


def test_simple_sentences_make_a_chain():
    fr, en = said(
        chain, "go", *HE, "g", "park", NO, "the", NO, NO, NO,
        0, "because", "go", *HE, "g", "market", NO, "the", NO, YES, YES,
    )  # fmt: skip
    assert fr == "il va au parc parce qu'il n'est pas allé au marché"
    assert en == "he goes to the park because he didn't go to the market"


def test_no_chain_is_longer_than_the_limit():
    lengths = [len(en.split()) for _, en, _ in drawn(chain, 4000)]
    assert max(lengths) == LIMIT == 40
    assert min(lengths) < 8


def test_no_chain_reads_like_coreference():
    for fr, _, _ in drawn(chain, 6000):
        assert not re.search(r"parce qu'(il|elle) était trop", fr), fr


def test_a_chain_says_and_where_because_would_mislead():
    he_was = ("p", "king", NO, "the", YES, "3", NO, "m", NO, NO)
    go = ("go", *HE, "g", "park", NO, "the", NO, NO, NO, 0, "because", "is_so")
    assert said(chain, *go, *he_was, "too", YES, "tired") == (
        "il va au parc et il était trop fatigué",
        "he goes to the park and he was too tired",
    )
    assert said(chain, *go, *he_was, "very", YES, "tired") == (
        "il va au parc parce qu'il était très fatigué",
        "he goes to the park because he was very tired",
    )


TAGS = {
    ask: {"questions"},
    relative: {"relatives"},
    both: {"coordination"},
    chain: {"coordination"},
    again: {"clitics", "coordination"},
}


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.__name__)
def test_a_pattern_says_what_is_in_it(pattern):
    for _, en, tags in drawn(pattern, 400):
        assert tags >= TAGS.get(pattern, set())
        assert ("questions" in tags) == en.endswith("?")
        if pattern is not chain:
            assert ("negation" in tags) == bool(re.search("n't| not ", en))
        if pattern not in (ask, chain):
            assert ("coordination" in tags) == (pattern in (both, again))


def test_the_patterns_hold_the_simple_ones():
    assert set(SIMPLE) < set(PATTERNS)
    assert all(weight > 0 for weight in PATTERNS.values())
