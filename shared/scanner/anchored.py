"""Patterns that `re` alone would search for too slowly: yara-x finds where a match may begin, `re` matches there."""

import io
import re
import threading
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import yara_x

from shared.scanner.flow_words import WORD_LISTS
from shared.scanner.pack import load_pack

MAX_PLACES = 2000  # where a match may begin; with more of them `re` searches the whole text
LONG = 2000  # bytes: below, looking for each word is as fast
_OTHER_CASES = ("\u0131", "\u017f", "\u212a")  # for `re` these are an i, an s and a k in another case
_scanners = threading.local()


class AnchoredPattern:
    """A compiled pattern with the methods of `re`, by the name of its anchor in anchors.py."""

    def __init__(self, anchor: str, pattern: re.Pattern[str]) -> None:
        self.pattern = pattern
        self._anchor = anchor

    def search(self, text: str) -> re.Match[str] | None:
        return next(self.finditer(text), None)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        data = _bytes_of(text)
        places = self._places(data, text)
        if places is None:
            yield from self.pattern.finditer(text)
            return
        end = 0
        for place in places if text.isascii() else _in_characters(places, data):
            if place >= end and (match := self.pattern.match(text, place)):
                end = max(match.end(), place + 1)
                yield match

    def lines_of(self, text: str) -> str:
        """The lines in which a match of a pattern that ends with its line may be."""
        data = b"\n" + _bytes_of(text)  # for a match at the very beginning
        places = self._places(data, text)
        if places is None:
            return text
        lines, end = [], 0
        for place in places:
            if place >= end:
                # A place may be the end of the line before: what follows is the first character of the match.
                start, end = data.rfind(b"\n", 0, place + 1) + 1, data.find(b"\n", place + 1)
                end = len(data) if end < 0 else end
                lines.append(data[start:end])
        return b"\n".join(lines).decode("utf-8", "surrogatepass")

    def _places(self, data: bytes, text: str) -> list[int] | None:
        if not text.isascii() and any(letter in text for letter in _OTHER_CASES):
            return None
        found = [
            m.offset
            for rule in _scanner_of(self._anchor).scan(data).matching_rules
            for p in rule.patterns
            for m in p.matches
        ]
        return sorted(found) if len(found) < MAX_PLACES else None


class AnchorWords:
    """Words of which any may be in a text, by the name of their list in flow_words.py."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._words = tuple(word.encode() for word in WORD_LISTS[name])

    def any_in(self, data: bytes) -> bool:
        if len(data) >= LONG:
            return len(_scanner_of(self._name).scan(data).matching_rules) > 0
        for word in self._words:  # noqa: SIM110 - `any` would take twice as long
            if word in data:
                return True
        return False


def _scanner_of(name: str) -> yara_x.Scanner:
    """A scanner can be reused, but not by two threads."""
    scanner = getattr(_scanners, name, None)
    if scanner is None:
        scanner = yara_x.Scanner(_load(name))
        scanner.max_matches_per_pattern(MAX_PLACES)
        setattr(_scanners, name, scanner)
    return scanner


@cache
def _load(name: str) -> yara_x.Rules:
    return yara_x.Rules.deserialize_from(io.BytesIO(load_pack().anchors[name]))


def _bytes_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _in_characters(places: list[int], data: bytes) -> Iterator[int]:
    """Places count bytes. Nothing begins inside a character."""
    counted = 0
    for before, place in pairwise([0, *(place for place in places if data[place] & 0xC0 != 0x80)]):
        counted += len(data[before:place].decode("utf-8", "surrogatepass"))
        yield counted
