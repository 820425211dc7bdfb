"""Instruction text in a language that no rule reads. Cheap on purpose: it counts letters of other scripts and a few
function words, and says nothing about text in the languages of the rules."""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from shared.scanner.context import MARKDOWN
from shared.scanner.matching import TextFile

MIN_LETTERS = 60  # a greeting or a name in another script is no instruction
MIN_WORDS = 15
MIN_KINDS = 4
ENGLISH = (" the ", " and ", " to ", " of ")
SCRIPTS = {
    "Greek": "\u0370-\u03ff",
    "Ukrainian": "їєґЇЄҐ",
    "Armenian or Georgian": "\u0530-\u058f\u10a0-\u10ff",
    "Hebrew": "\u0590-\u05ff",
    "Arabic": "\u0600-\u06ff\u0750-\u077f",
    "an Indian": "\u0900-\u0dff",
    "Thai or another South-East Asian": "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff",
    "Ethiopic": "\u1200-\u137f",
}
_UNREAD = re.compile(f"[{''.join(SCRIPTS.values())}]")
_SCRIPTS = {name: re.compile(f"[{letters}]") for name, letters in SCRIPTS.items()}
# Words that the languages of the rules (English, Spanish, German, French, Portuguese) do not have, in folded letters.
WORDS = {
    "Italian": "della sono degli nella questo questa anche gli perche delle",
    "Dutch": "het een niet voor wordt zijn deze naar",
    "Polish": "nie jest oraz przez ktore dla lub tylko",
    "Turkish": "ve bir icin ile bu olarak veya kullanici",
    "Vietnamese": "khong cua cac duoc nguoi nhung trong nay",
    "Indonesian": "yang dan untuk dengan tidak atau dari pengguna",
    "Finnish": "ovat kun joka myos tai eli ole kuin",
    "a Scandinavian language": "och att som inte ikke eller ett jag",
    "Czech": "jsou nebo ktere pokud aby jako bude neni",
    "Hungarian": "nem egy hogy vagy csak ezt kell ha",
    "Romanian": "este pentru sau sunt din fara daca prin",
}
_WORDS = {name: [f" {word} " for word in words.split()] for name, words in WORDS.items()}
_FENCED = re.compile(r"^ {0,3}```[^\n]*\n(?:(?! {0,3}```)[^\n]*\n)*", re.MULTILINE)


def find_unread_prose(texts: Iterable[TextFile]) -> list[str]:
    """For SKILL.md and the pages that it names: which of them no rule can read, and why."""
    pages = [file for file in texts if file.path.lower().endswith(MARKDOWN)]
    skill_page = next((page for page in pages if PurePosixPath(page.path).name.lower() == "skill.md"), None)
    if skill_page is None:
        return []
    followed = [page for page in pages if page is skill_page or PurePosixPath(page.path).name in skill_page.text]
    return [
        f"{page.path}: contains text in {language}, which the rules do not read"
        for page in followed
        if (language := unread_language(page))
    ]


def unread_language(page: TextFile) -> str:
    """The name of a language or script, or nothing."""
    return _unread_script(page.original) or _unread_words(page.text)


def _unread_script(text: str) -> str:
    if text.isascii() or not _UNREAD.search(text):
        return ""
    prose = _FENCED.sub("", text)
    counts = {name: len(letters.findall(prose)) for name, letters in _SCRIPTS.items()}
    script = max(counts, key=lambda name: counts[name])
    # Only a few letters tell Ukrainian from Russian.
    enough = MIN_LETTERS // 4 if script == "Ukrainian" else MIN_LETTERS
    return f"{script} script" if counts[script] >= enough else ""


def _unread_words(text: str) -> str:
    text = text.lower()
    for language, words in _WORDS.items():
        if words[0] not in text and words[1] not in text:  # the two most frequent ones, to be quick
            continue
        counts = [text.count(word) for word in words]
        if sum(counts) >= MIN_WORDS and sum(map(bool, counts)) >= MIN_KINDS:
            return language if 4 * sum(counts) > sum(map(text.count, ENGLISH)) else ""
    return ""
