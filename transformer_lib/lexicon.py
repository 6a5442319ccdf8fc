"""Words and their forms.

Nouns, adjectives and verbs of two languages: what rules say of their
forms, and what has to be listed.

Chapter 2b; generated from
notebooks/02b_lexicon.md by `make export`: edit the chapter.
"""

import functools
import re
from typing import NamedTuple

__all__ = [
    "ADJECTIVES",
    "AFFECT",
    "ALONE",
    "EXPLORE",
    "GIVE",
    "GO",
    "JOBS",
    "NOUNS",
    "VERBS",
    "Adjective",
    "Noun",
    "Verb",
    "agree",
    "feminine",
    "fitting",
    "plural",
    "with_ed",
    "with_s",
]


# Irregular forms stand behind a stroke; a star is an h aspiré.
_NOUNS = """
p fille f girl, garçon m boy, femme f woman/women, homme m man/men
p enfant m child/children, reine f queen, roi m king, sœur f sister
p frère m brother, mère f mother, père m father, tante f aunt, oncle m uncle
a animal m animal, chien m dog, chat m cat, cheval m horse, oiseau m bird
a lapin m rabbit, âne m donkey, *hibou/*hiboux m owl, renard m fox
a souris f mouse/mice, vache f cow, tortue f turtle, grenouille f frog
a poule f hen, girafe f giraffe, abeille f bee, fourmi f ant, chèvre f goat
l rue f street, route f road, rivière f river, vallée f valley, pont m bridge
l champ m field, chemin m path, passage m passage, avenue f avenue
lg place f square, plage f beach
lgi jardin m garden, parc m park
gi gare f station, école f school, église f church, bibliothèque f library
gi marché m market, musée m museum, hôpital m hospital, hôtel m hotel
t voiture f car, table f table, chaise f chair, clé f key, lampe f lamp
t assiette f plate, horloge f clock, stylo m pen, couteau m knife/knives
t chapeau m hat, vélo m bicycle, bateau m boat, avion m plane, arbre m tree
to boîte f box, porte f door, fenêtre f window, bouteille f bottle
to livre m book, sac m bag, parapluie m umbrella, ordinateur m computer
f pomme f apple, orange f orange, banane f banana, poire f pear
f gâteau m cake, œuf m egg, citron m lemon, sandwich m sandwich
m pain m bread, riz m rice, soupe f soup, viande f meat, fromage m cheese
w eau f water, lait m milk, thé m tea, café m coffee, bière f beer
"""

# Those before the noun come first; what it can be said of, then the words.
_BEFORE = """
algtof petit small, grand big, beau/belle/bel beautiful
palgtof vieux/vieille/vieil old
lgtof nouveau/nouvelle/nouvel new
pa jeune young
"""
_AFTER = """
pa fatigué tired, malade sick, affamé hungry, assoiffé thirsty
pa effrayé frightened, paresseux lazy, nerveux nervous, curieux curious
pa timide shy, distrait distracted, triste sad, courageux brave
pa heureux happy
lto large wide, étroit narrow, plat flat, moderne modern
l ensoleillé sunny, inondé flooded
atof noir black, blanc/blanche white, vert green
tof rouge red, jaune yellow
to bleu blue, lourd heavy, léger light, solide solid
p riche rich, pauvre poor, célèbre famous
f sucré sweet, amer bitter
"""
_PROFESSIONS = """
p étudiant student, avocat lawyer, boulanger baker, médecin/médecin doctor
p chanteur/chanteuse singer, danseur/danseuse dancer, infirmier nurse
p professeur/professeur teacher
"""

# What they are done to, then the words; a plus is for those with être.
_VERBS = """
paltof vois/vois/voit/voyons/voyez/voient/vu see/saw, regarder watch
paltof chercher look_for, trouver find/found
paglt aimer like
pa suis/suis/suit/suivons/suivez/suivent/suivi follow, aider help
pa entends/entends/entend/entendons/entendez/entendent/entendu hear/heard
p attends/attends/attend/attendons/attendez/attendent/attendu wait_for
at porter carry, laver wash
tof achète/achètes/achète/achetons/achetez/achètent/acheté buy/bought
tof vends/vends/vend/vendons/vendez/vendent/vendu sell/sold
to perds/perds/perd/perdons/perdez/perdent/perdu lose/lost
to oublier forget/forgot
o ouvre/ouvres/ouvre/ouvrons/ouvrez/ouvrent/ouvert open
lg visiter visit, quitter leave/left
l traverser cross
fm manger eat/ate, préparer prepare
w bois/bois/boit/buvons/buvez/boivent/bu drink/drank
"""
# Who does them, with no object.
_ALONE = """
pa dors/dors/dort/dormons/dormez/dorment/dormi sleep/slept, tomber+ fall/fell
pa cours/cours/court/courons/courez/courent/couru run/ran, nager swim/swam
pa arriver+ arrive, pars+/pars/part/partons/partez/partent/parti leave/left
pa marcher walk, rester+ stay
p chanter sing/sang, travailler work, danser dance, pleurer cry
p ris/ris/rit/rions/riez/rient/ri laugh
"""
# From a thing or a place to an animal, and the other way.
_AFFECT = """
a arrêter stop/stopped, effrayer frighten, intéresser interest
a attirer attract, amuser amuse
a protège/protèges/protège/protégeons/protégez/protègent/protégé protect
"""
_EXPLORE = """
lt éviter avoid, regarder watch
lt vois/vois/voit/voyons/voyez/voient/vu see/saw, trouver find/found
l traverser cross, quitter leave/left, explorer explore
t toucher touch, suis/suis/suit/suivons/suivez/suivent/suivi follow
"""


class Noun(NamedTuple):
    """A noun of one gender, "m" or "f"; what it is stands in kinds."""

    fr: str
    fr_plural: str
    gender: str
    en: str
    en_plural: str
    kinds: str

    @property
    def mass(self) -> bool:
        """Whether it is not counted: bread, water."""
        return self.kinds in "mw"


class Adjective(NamedTuple):
    """French forms by gender and number; "mv" before a vowel."""

    ms: str
    fs: str
    mp: str
    fp: str
    mv: str
    en: str
    kinds: str
    before: bool = False


class Verb(NamedTuple):
    """Six forms of the present, the participle, and English ones."""

    present: tuple[str, ...]
    participle: str
    etre: bool
    en: str
    third: str
    past: str
    kinds: str


def plural(word: str) -> str:
    """The regular French plural; :eq:`plural`."""
    if word.endswith("al"):
        return word[:-1] + "ux"
    return word + (
        "" if word[-1] in "sxz" else "x" * word.endswith("eau") or "s"
    )


def feminine(word: str) -> str:
    """The regular feminine of an adjective or participle; :eq:`feminine`."""
    for end, other in (("e", "e"), ("eux", "euse"), ("er", "ère")):
        if word.endswith(end):
            return word.removesuffix(end) + other
    return word + "e"


def agree(word: str, gender: str, many: bool) -> str:
    """A participle in a gender, "m" or "f", and number."""
    word = feminine(word) if gender == "f" else word
    return plural(word) if many else word


def with_s(word: str) -> str:
    """English plural, or third person: box, boxes; cry, cries."""
    word = re.sub(r"(?<=[^aeou])y$", "ie", word)
    return word + ("es" if re.search(r"(s|x|o|ch|sh)$", word) else "s")


def with_ed(word: str) -> str:
    """The regular English past."""
    word = re.sub(r"(?<=[^aeou])y$", "i", word)
    return word.removesuffix("e") + "ed"


def _entries(table: str):
    """Every entry of a table: its kinds, then its words."""
    for line in table.strip().splitlines():
        kinds, rest = line.split(" ", 1)
        for entry in rest.split(", "):
            yield kinds, entry.split(" ")


def _forms(word: str) -> list[str]:
    return word.replace("_", " ").split("/")


def _read_nouns(table: str) -> tuple[Noun, ...]:
    found = []
    for kinds, (fr, gender, en) in _entries(table):
        fr, en = _forms(fr), _forms(en)
        found.append(
            Noun(
                fr[0],
                (fr[1:] or [plural(fr[0])])[0],
                gender,
                en[0],
                (en[1:] or [with_s(en[0])])[0],
                kinds,
            )
        )
    return tuple(found)


def _read_adjectives(table: str, before: bool) -> tuple[Adjective, ...]:
    found = []
    for kinds, (fr, en) in _entries(table):
        m, *rest = _forms(fr)
        f = rest[0] if rest else feminine(m)
        forms = m, f, plural(m), plural(f), rest[1] if rest[1:] else m
        found.append(Adjective(*forms, en, kinds, before))
    return tuple(found)


def _read_verbs(table: str) -> tuple[Verb, ...]:
    found = []
    for kinds, (fr, en) in _entries(table):
        etre, fr = "+" in fr, _forms(fr.replace("+", ""))
        stem = fr[0].removesuffix("er")
        e = "e" * stem.endswith("g")
        regular = [stem + x for x in ("e", "es", "e", e + "ons", "ez", "ent")]
        present = fr[:6] if fr[1:] else regular
        base, *past = _forms(en)
        verb, _, rest = base.partition(" ")
        rest = rest and " " + rest
        found.append(
            Verb(
                tuple(present),
                fr[-1] if fr[1:] else stem + "é",
                etre,
                base,
                with_s(verb) + rest,
                (past or [with_ed(verb) + rest])[0],
                kinds,
            )
        )
    return tuple(found)


NOUNS = _read_nouns(_NOUNS)
ADJECTIVES = _read_adjectives(_BEFORE, True) + _read_adjectives(_AFTER, False)
JOBS = _read_adjectives(_PROFESSIONS, False)
VERBS, ALONE = _read_verbs(_VERBS), _read_verbs(_ALONE)
EXPLORE, AFFECT = _read_verbs(_EXPLORE), _read_verbs(_AFFECT)
(GIVE,) = _read_verbs("t donner give/gave")
(GO,) = _read_verbs("g vais+/vas/va/allons/allez/vont/allé go/went")


@functools.cache
def fitting(words: tuple, kinds: str) -> tuple:
    """The words that share a kind with the kinds; :eq:`fitting`."""
    return tuple(word for word in words if set(word.kinds) & set(kinds))
