"""Right forms, and no entry malformed: chapter 2b."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lib.lexicon import (
    ADJECTIVES,
    AFFECT,
    ALONE,
    EXPLORE,
    GIVE,
    GO,
    JOBS,
    NOUNS,
    VERBS,
    agree,
    feminine,
    fitting,
    plural,
    with_ed,
    with_s,
)

EVERY_VERB = (*VERBS, *ALONE, *EXPLORE, *AFFECT, GIVE, GO)
FRENCH = re.compile(r"\*?[a-zàâçéèêëîïôöùûüœ]+")
ENGLISH = re.compile(r"[a-z]+( for)?")
KINDS = set("pagliotfmw")
steady = settings(deadline=None, derandomize=True, max_examples=100)


def entry(words, english):
    (found,) = [word for word in words if word.en == english]
    return found


@pytest.mark.parametrize(
    ("one", "many"),
    [
        ("rue", "rues"),
        ("garçon", "garçons"),
        ("animal", "animaux"),
        ("hôpital", "hôpitaux"),
        ("gâteau", "gâteaux"),
        ("eau", "eaux"),
        ("souris", "souris"),
        ("heureux", "heureux"),
        ("riz", "riz"),
        ("hôtel", "hôtels"),
        ("bleu", "bleus"),
    ],
)
def test_french_plurals(one, many):
    assert plural(one) == many


@pytest.mark.parametrize(
    ("masculine", "other"),
    [
        ("petit", "petite"),
        ("fatigué", "fatiguée"),
        ("triste", "triste"),
        ("paresseux", "paresseuse"),
        ("léger", "légère"),
        ("infirmier", "infirmière"),
        ("vu", "vue"),
    ],
)
def test_french_feminines(masculine, other):
    assert feminine(masculine) == other


@pytest.mark.parametrize(
    ("gender", "many", "form"),
    [
        ("m", False, "allé"),
        ("m", True, "allés"),
        ("f", False, "allée"),
        ("f", True, "allées"),
    ],
)
def test_participles_agree(gender, many, form):
    assert agree("allé", gender, many) == form


@pytest.mark.parametrize(
    ("word", "form"),
    [
        ("street", "streets"),
        ("box", "boxes"),
        ("beach", "beaches"),
        ("wash", "washes"),
        ("cross", "crosses"),
        ("go", "goes"),
        ("city", "cities"),
        ("key", "keys"),
        ("buy", "buys"),
    ],
)
def test_english_s(word, form):
    assert with_s(word) == form


@pytest.mark.parametrize(
    ("word", "form"),
    [
        ("watch", "watched"),
        ("like", "liked"),
        ("cry", "cried"),
        ("stay", "stayed"),
    ],
)
def test_english_ed(word, form):
    assert with_ed(word) == form


@pytest.mark.parametrize(
    ("english", "forms"),
    [
        ("horse", ("cheval", "chevaux", "m", "horse", "horses")),
        ("owl", ("*hibou", "*hiboux", "m", "owl", "owls")),
        ("woman", ("femme", "femmes", "f", "woman", "women")),
        ("man", ("homme", "hommes", "m", "man", "men")),
        ("mouse", ("souris", "souris", "f", "mouse", "mice")),
        ("child", ("enfant", "enfants", "m", "child", "children")),
        ("hospital", ("hôpital", "hôpitaux", "m", "hospital", "hospitals")),
        ("knife", ("couteau", "couteaux", "m", "knife", "knives")),
        ("library", ("bibliothèque", "bibliothèques", "f", "library",
                     "libraries")),
    ],
)  # fmt: skip
def test_nouns(english, forms):
    assert entry(NOUNS, english)[:5] == forms


@pytest.mark.parametrize(
    ("english", "forms"),
    [
        ("old", ("vieux", "vieille", "vieux", "vieilles", "vieil")),
        ("new", ("nouveau", "nouvelle", "nouveaux", "nouvelles", "nouvel")),
        ("beautiful", ("beau", "belle", "beaux", "belles", "bel")),
        ("white", ("blanc", "blanche", "blancs", "blanches", "blanc")),
        ("happy", ("heureux", "heureuse", "heureux", "heureuses", "heureux")),
        ("flat", ("plat", "plate", "plats", "plates", "plat")),
        ("young", ("jeune", "jeune", "jeunes", "jeunes", "jeune")),
    ],
)
def test_adjectives(english, forms):
    assert entry(ADJECTIVES, english)[:5] == forms


@pytest.mark.parametrize(
    ("english", "masculine", "other"),
    [
        ("student", "étudiant", "étudiante"),
        ("doctor", "médecin", "médecin"),
        ("singer", "chanteur", "chanteuse"),
        ("nurse", "infirmier", "infirmière"),
        ("baker", "boulanger", "boulangère"),
    ],
)
def test_professions(english, masculine, other):
    job = entry(JOBS, english)
    assert (job.ms, job.fs) == (masculine, other)


def test_what_stands_before_the_noun():
    before = {a.en for a in ADJECTIVES if a.before}
    assert before == {"small", "big", "beautiful", "old", "new", "young"}


@pytest.mark.parametrize(
    ("words", "english", "present", "participle"),
    [
        (VERBS, "eat", "mange manges mange mangeons mangez mangent", "mangé"),
        (VERBS, "watch", "regarde regardes regarde regardons regardez "
         "regardent", "regardé"),
        (VERBS, "drink", "bois bois boit buvons buvez boivent", "bu"),
        (VERBS, "open", "ouvre ouvres ouvre ouvrons ouvrez ouvrent",
         "ouvert"),
        (ALONE, "swim", "nage nages nage nageons nagez nagent", "nagé"),
        (AFFECT, "protect", "protège protèges protège protégeons protégez "
         "protègent", "protégé"),
        ((GO,), "go", "vais vas va allons allez vont", "allé"),
    ],
)  # fmt: skip
def test_french_verbs(words, english, present, participle):
    verb = entry(words, english)
    assert verb.present == tuple(present.split())
    assert verb.participle == participle


@pytest.mark.parametrize(
    ("words", "english", "third", "past"),
    [
        (VERBS, "see", "sees", "saw"),
        (VERBS, "look for", "looks for", "looked for"),
        (VERBS, "wait for", "waits for", "waited for"),
        (VERBS, "carry", "carries", "carried"),
        (VERBS, "open", "opens", "opened"),
        (ALONE, "cry", "cries", "cried"),
        (AFFECT, "stop", "stops", "stopped"),
        ((GO,), "go", "goes", "went"),
    ],
)
def test_english_verbs(words, english, third, past):
    verb = entry(words, english)
    assert (verb.third, verb.past) == (third, past)


def test_the_verbs_with_etre():
    with_etre = {v.en for v in EVERY_VERB if v.etre}
    assert with_etre == {"fall", "arrive", "leave", "stay", "go"}


def test_one_verb_has_the_same_forms_in_every_table():
    forms = {}
    for verb in EVERY_VERB:
        key = verb.present, verb.en
        assert forms.setdefault(key, verb[:6]) == verb[:6]
    assert len({v.present for v in EVERY_VERB}) == len(forms)


@pytest.mark.parametrize("noun", NOUNS, ids=lambda noun: noun.en)
def test_no_noun_is_malformed(noun):
    assert noun.gender in {"m", "f"}
    assert noun.kinds
    assert set(noun.kinds) <= KINDS
    for form in (noun.fr, noun.fr_plural):
        assert FRENCH.fullmatch(form)
    for form in (noun.en, noun.en_plural):
        assert ENGLISH.fullmatch(form)
    assert noun.en != noun.en_plural


@pytest.mark.parametrize("word", ADJECTIVES + JOBS, ids=lambda word: word.en)
def test_no_adjective_is_malformed(word):
    assert set(word.kinds) <= KINDS
    assert ENGLISH.fullmatch(word.en)
    for form in word[:5]:
        assert FRENCH.fullmatch(form)
    assert word.mp[-1] in "sx"
    assert (word.fs + "s", word.fs[-1]) == (word.fp, word.fp[-2])


@pytest.mark.parametrize("verb", EVERY_VERB, ids=lambda verb: verb.en)
def test_no_verb_is_malformed(verb):
    assert set(verb.kinds) <= KINDS
    assert len(verb.present) == 6
    for form in (*verb.present, verb.participle):
        assert FRENCH.fullmatch(form)
    assert verb.present[1][-1] == "s"
    assert verb.present[3].endswith("ons")
    assert verb.present[4].endswith("ez")
    assert verb.present[5].endswith("nt")
    assert ENGLISH.fullmatch(verb.en)
    assert ENGLISH.fullmatch(verb.third)
    assert ENGLISH.fullmatch(verb.past)


def test_no_noun_or_adjective_is_listed_twice():
    for words in (NOUNS, ADJECTIVES, JOBS):
        assert len({word[0] for word in words}) == len(words)
        assert len({word.en for word in words}) == len(words)


def test_food_and_drink_without_number_are_mass_nouns():
    mass = {noun.en for noun in NOUNS if noun.mass}
    food = {"bread", "rice", "soup", "meat", "cheese"}
    assert mass == food | {"water", "milk", "tea", "coffee", "beer"}


def test_both_genders_are_found_among_animals_and_places():
    for kind in "pal":
        assert {n.gender for n in fitting(NOUNS, kind)} == {"m", "f"}


@steady
@given(st.sets(st.sampled_from(sorted(KINDS))))
def test_fitting_words_share_a_kind_and_the_others_none(kinds):
    fit = fitting(NOUNS, "".join(sorted(kinds)))
    for noun in NOUNS:
        assert (noun in fit) == any(kind in kinds for kind in noun.kinds)


def test_nobody_eats_a_street():
    assert [v.en for v in fitting(VERBS, "w")] == ["drink"]
    eaten = fitting(NOUNS, entry(VERBS, "eat").kinds)
    assert entry(NOUNS, "apple") in eaten
    assert entry(NOUNS, "street") not in eaten
    crossed = fitting(NOUNS, entry(VERBS, "cross").kinds)
    assert entry(NOUNS, "street") in crossed
    assert entry(NOUNS, "animal") not in crossed


def test_tired_is_said_of_animals_and_wide_of_streets():
    animal, street = entry(NOUNS, "animal"), entry(NOUNS, "street")
    tired, wide = entry(ADJECTIVES, "tired"), entry(ADJECTIVES, "wide")
    assert tired in fitting(ADJECTIVES, animal.kinds)
    assert tired not in fitting(ADJECTIVES, street.kinds)
    assert wide in fitting(ADJECTIVES, street.kinds)
    assert wide not in fitting(ADJECTIVES, animal.kinds)
