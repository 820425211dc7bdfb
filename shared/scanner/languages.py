"""Instruction text in a language that no rule reads: prose in which the frequent words of the read languages are rare,
letters of other scripts, and Cyrillic that is not Russian. A run of such words is enough, however long the rest is."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import PurePosixPath
from typing import NamedTuple

from shared.scanner.context import MARKDOWN
from shared.scanner.matching import TextFile
from shared.scanner.pack import load_pack

PAGES = (*MARKDOWN, ".txt", ".rst", ".adoc")
MIN_LETTERS = 60  # a greeting or a name in another script is no instruction
MIN_CYRILLIC_SIGNS = 2
# An unknown word counts one, a frequent word of an unread language two, a known word takes one away.
MIN_RUN = 6
TELLING = 2
SHORT = 3  # English words up to this length are words of many languages
SCRIPTS = {
    "Greek": "\u0370-\u03ff",
    "Armenian or Georgian": "\u0530-\u058f\u10a0-\u10ff",
    "Hebrew": "\u0590-\u05ff",
    "Arabic": "\u0600-\u06ff\u0750-\u077f",
    "an Indian": "\u0900-\u0dff",
    "Thai or another South-East Asian": "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff",
    "Ethiopic": "\u1200-\u137f",
}
_UNREAD = re.compile(f"[{''.join(SCRIPTS.values())}]")
_SCRIPTS = {name: re.compile(f"[{letters}]") for name, letters in SCRIPTS.items()}
_CYRILLIC = re.compile("[\u0400-\u04ff]{2}")
# Letters and words that Russian does not have; ъ stands only before a few vowels there.
_NOT_RUSSIAN = re.compile(
    "[їєґіўјљњђћџѓќѕәғқңөұүһ]|ъ(?![еёюя])|\\b(?:със|във|ще|като|която|който|които|всички|всяка|този|тази)\\b",
    re.IGNORECASE,
)
_FENCED = re.compile(r"^ {0,3}```[^\n]*\n(?:(?! {0,3}```)[^\n]*\n)*", re.MULTILINE)
# Each begins with a literal, which is fast to search for.
_NO_PROSE = re.compile(r"`[^`\n]*`|h(?<!\wh)ttps?://\S+|<[^<>\n]{1,200}>|\]\([^()\n]{0,300}\)")
_WORD = re.compile(
    # Group 1 is the first letter of a word directly after another one.
    r"(?<![\w/.@#$\\-])(?:(?:(?<=[^\s.,;:|*/+>-] )|(?<=[^\s.,;:|*/+>-]\n)(?=[a-z]))(?=(.)))?"
    r"([A-Za-z][a-z]{1,40}(?:['’][a-z]{1,20})?)(?![\w/@=(\\]|[.-]\w)"
)


class _Language(NamedTuple):
    known: frozenset[str]
    neutral: frozenset[str]
    endings: re.Pattern[str]
    telling: frozenset[str]


def find_unread_prose(texts: Iterable[TextFile]) -> list[str]:
    """For SKILL.md and the pages that it leads to: which of them no rule can read, and why."""
    return [
        f"{page.path}: contains text in {language}, which the rules do not read"
        for page in pages_followed(texts)
        if (language := unread_language(page))
    ]


def pages_followed(texts: Iterable[TextFile]) -> list[TextFile]:
    """SKILL.md, the pages that it names, and those that they name."""
    pages = [(PurePosixPath(file.path).name, file) for file in texts if file.path.lower().endswith(PAGES)]
    skill_page = next((page for page in pages if page[0].lower() == "skill.md"), None)
    found = [skill_page[1]] if skill_page else []
    left = [page for page in pages if page is not skill_page]
    for page in found:  # grows while it is read
        found += [file for name, file in left if name in page.text]
        left = [(name, file) for name, file in left if name not in page.text]
    return found


def unread_language(page: TextFile) -> str:
    """The name of a language or script, or nothing."""
    return _unread_script(page.original) or _unread_words(page.text)


def _unread_script(text: str) -> str:
    if text.isascii():
        return ""
    prose = _FENCED.sub("", text)
    if _UNREAD.search(prose):
        counts = {name: len(letters.findall(prose)) for name, letters in _SCRIPTS.items()}
        script = max(counts, key=lambda name: counts[name])
        if counts[script] >= MIN_LETTERS:
            return f"{script} script"
    is_other = _CYRILLIC.search(prose) and len(_NOT_RUSSIAN.findall(prose)) >= MIN_CYRILLIC_SIGNS
    return "a language in Cyrillic letters other than Russian" if is_other else ""


def _unread_words(text: str) -> str:
    words = _WORD.findall(_NO_PROSE.sub(" ", _FENCED.sub("\n", text)))
    lowered = {word: word.lower() for word in {word for _, word in words}}
    english, *others = _languages()
    run = _unread_run(words, lowered, english)
    if len(run) < MIN_RUN or not all(_unread_run(words, lowered, language) for language in others):
        return ""
    counts = Counter(name for word in run for name, frequent in load_pack().unread_words.items() if word in frequent)
    return counts.most_common(1)[0][0] if counts else "another language"


def _unread_run(words: list[tuple[str, str]], lowered: Mapping[str, str], language: _Language) -> list[str]:
    """The words of the first run that shows another language, or none. A word comes with a letter if it follows the
    word before it, with nothing but a space between them: no item of a list."""
    weighed = {word: _weight(word, language) for word in set(lowered.values())}
    if sum(weight for weight in weighed.values() if weight > 0) < MIN_RUN:
        return []
    weights = {word: weighed[lower] for word, lower in lowered.items()}
    start = score = 0
    seen = set[str]()
    for at, (follows, word) in enumerate(words):
        weight = weights[word]
        if score == 0:
            if weight <= 0:
                continue  # most words
            start, seen = at, set()
        if weight != 1 or (follows and lowered[word] not in seen):
            score = score + weight if score + weight > 0 else 0  # max() takes longer than all else here
            seen.add(lowered[word])
        if score >= MIN_RUN and at - start + 1 >= MIN_RUN:
            return [lowered[word] for _, word in words[start : at + 1]]
    return []


def _weight(word: str, language: _Language) -> int:
    if word in language.known:
        return -1
    if word in language.telling:
        return TELLING
    return 0 if word in language.neutral or language.endings.search(word) else 1


@cache
def _languages() -> tuple[_Language, ...]:
    """English, and each other language that is read: in it English terms are known, but not its short words."""
    read, endings = load_pack().read_words, load_pack().read_endings
    english = read["english"]
    telling = frozenset().union(*load_pack().unread_words.values()).difference(*read.values())
    short = frozenset(word for word in english if len(word) <= SHORT)
    others = [
        _Language(words | (english - short), short, re.compile(f"{endings['english']}|{endings[name]}"), telling)
        for name, words in read.items()
        if name != "english"
    ]
    return (_Language(english, frozenset(), re.compile(endings["english"]), telling), *others)
