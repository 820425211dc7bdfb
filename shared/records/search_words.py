"""The words something is found by, and the form that names people confuse have in common. Pure: no store, no I/O."""

import re
import unicodedata
from collections.abc import Collection, Iterable
from itertools import chain, islice

from shared.records.skills import Skill, full_name, split_name
from shared.records.submissions import Submission

MAX_SKILL_WORDS = 32
MAX_NEEDS = 8  # of what a skill says that it needs (`compatibility`)
MAX_SUBMISSION_WORDS = 12
LONGEST_WORD = 40
SHORTEST_WITH_TYPO = 4  # shorter words are near too many others
_UPLOADS = "uploads/anonymous/"
_WORD = re.compile(r"[^\W_]+")
_STOP_WORDS = (
    "a about after all also an and any are as at be been before being between both but by can do does each for from"
    " get gets has have how if in into is it its may more most not of off on one only or other our out over own same"
    " should so some such than that the their them then there these they this those through to too under up use used"
    " user users uses using very via was we were what when where which while who why will with within without would"
    " you your"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())


def skill_words(skill: Skill) -> tuple[str, ...]:
    """Its name first and its description last, so that a long one pushes nothing else out."""
    name = split_name(full_name(skill))
    needs = islice((word for word in tokens(skill.compatibility) if word not in STOP_WORDS), MAX_NEEDS)
    is_upload = f"{name.owner}/{name.repo}/".lower() == _UPLOADS
    named = chain(tokens(name.slug), *([] if is_upload else [tokens(name.owner), tokens(name.repo)]))
    described = chain(*map(tokens, skill.tags), tokens(skill.display_name), needs, tokens(skill.description))
    return _first(chain(named, (word for word in described if word not in STOP_WORDS)), MAX_SKILL_WORDS)


def submission_words(submission: Submission) -> tuple[str, ...]:
    """Owner, repository, slug and its parts. The address keeps the repository's name where the skill's does not."""
    source = submission.source.partition("://")[2].partition("/")[2] or submission.source
    placed = [] if f"{source}/" == _UPLOADS else tokens(source)
    return _first(chain(name_tokens(submission.skill_name), placed), MAX_SUBMISSION_WORDS)


def query_words(q: str) -> tuple[str, ...]:
    """The words of a search. Stop words count only where there is nothing else."""
    words = tuple(dict.fromkeys(name_tokens(q)))
    return tuple(word for word in words if word not in STOP_WORDS) or words


def is_match(wanted: Iterable[str], words: Collection[str]) -> bool:
    """Whether each wanted word begins one of these words."""
    return all(any(begins(word, one) for one in words) for word in wanted)


def begins(prefix: str, word: str) -> bool:
    """A single letter is a word like `c` or `r`, not the beginning of others."""
    return word == prefix or (len(prefix) > 1 and word.startswith(prefix))


def tokens(text: str) -> list[str]:
    return [word[:LONGEST_WORD] for word in _WORD.findall(unicodedata.normalize("NFKC", text).casefold())]


def name_tokens(name: str) -> list[str]:
    """Without the place that all uploads share: it tells none apart, and its words would be one hot partition."""
    place, slug = name[: len(_UPLOADS)], name[len(_UPLOADS) :]
    return tokens(slug if slug and place.lower() == _UPLOADS else name)


def joined(text: str) -> str:
    """A name as searches compare it: its words and nothing between them that people write in different ways."""
    return "-".join(name_tokens(text))


def look_alike(name: str) -> str:
    """Names that people confuse have one form in common; slashes stay, so that parts are compared with their like."""
    plain = unicodedata.normalize("NFKD", name).translate(_HOMOGLYPHS).lower().translate(_LOOK_ALIKES)
    return "".join(letter for letter in plain if unicodedata.category(letter) not in _INVISIBLE)


_INVISIBLE = ("Mn", "Cf", "Cc")  # accents, zero-width and control characters
_LOOK_ALIKES = str.maketrans({"1": "l", "i": "l", "|": "l", "0": "o", "_": None, "-": None, ".": None})
# The letters of other scripts that are drawn like Latin ones.
_HOMOGLYPHS = str.maketrans(
    "АВЕКМНОРСТУХЅІЈаеорсухѕіјһԁԛԝ" + "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧαικνορυχı",
    "ABEKMHOPCTYXSIJaeopcyxsijhdqw" + "ABEZHIKMNOPTYXaiknopuxi",
)


def _first(words: Iterable[str], limit: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))[:limit]


def is_typo_of(word: str, known: str) -> bool:
    """Whether a beginning of the known word differs by one letter: missing, added, wrong, or swapped with the next. The
    first two letters are right, so that one page of the index has all candidates."""
    if len(word) < SHORTEST_WITH_TYPO or word[:2] != known[:2]:
        return False
    lengths = range(len(word) - 1, len(word) + 2)
    return any(_differs_by_one(word, known[:length]) for length in lengths if length <= len(known))


def _differs_by_one(a: str, b: str) -> bool:
    if len(a) > len(b):
        a, b = b, a
    start = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), len(a))
    if len(a) != len(b):
        return a[start:] == b[start + 1 :]
    is_swapped = a[start : start + 2] == b[start : start + 2][::-1] and a[start + 2 :] == b[start + 2 :]
    return a[start + 1 :] == b[start + 1 :] or is_swapped
