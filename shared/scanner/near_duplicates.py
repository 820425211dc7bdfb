"""Near-duplicates. Most malicious skills are renamed copies of each other, so their signatures are alike.

One-permutation MinHash: every three consecutive words are hashed once, the hash selects a slot, each slot keeps its
smallest value. The share of equal slots estimates the share of common word triples.
"""

import re
import zlib
from collections.abc import Mapping, Sequence

SLOTS = 64
BANDS = 16
SHINGLE = 3
MIN_SIMILARITY = 0.7
MAX_TEXT = 400_000  # enough to recognise a copy; hashing all of a large skill would take longer than scanning it
WORD = re.compile(r"[^\W_]+")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
MAX_REPLACED = 100  # different marks: for more, one pass over the text is faster than one per mark
ENOUGH = 1000  # hashes
# Every ASCII mark becomes a space; the bytes of other letters stay.
_SEPARATED = bytes(code if code >= 128 or chr(code).isalnum() else 32 for code in range(256))

TextSignature = tuple[int, ...]


def signature_of(text: str) -> TextSignature:
    """Line ends, case, punctuation and the byte order mark make no difference."""
    hashes = _shingle_hashes(_words(text[:MAX_TEXT].lower()))
    # A few hundred of the smallest values fill all slots; only a text that repeats itself needs the others.
    limit = (ENOUGH << 32) // max(ENOUGH, len(hashes))
    smallest = [value for value in hashes if value < limit]
    slots = _slots_of(smallest)
    return _filled(slots if len(smallest) == len(hashes) or -1 not in slots else _slots_of(hashes))


def _slots_of(hashes: list[int]) -> list[int]:
    slots = [-1] * SLOTS
    for value in sorted(hashes, reverse=True):  # the smallest value of a slot is the last one that it gets
        slots[value % SLOTS] = value // SLOTS
    return slots


def similar_to(
    signature: Sequence[int], known: Mapping[str, Sequence[int]], at_least: float = MIN_SIMILARITY
) -> list[tuple[str, float]]:
    """The names in `known` that this signature resembles, closest first, with the estimated similarity (0 to 1)."""
    compared = [(name, similarity(signature, other)) for name, other in known.items()]
    return sorted(
        ((name, score) for name, score in compared if score >= at_least), key=lambda pair: (-pair[1], pair[0])
    )


def similarity(one: Sequence[int], other: Sequence[int]) -> float:
    if len(one) != SLOTS or len(other) != SLOTS:
        return 0.0
    return sum(a == b for a, b in zip(one, other, strict=True)) / SLOTS


def bands(signature: Sequence[int]) -> list[str]:
    """Keys to store a signature under: similar signatures share at least one, so a lookup needs no scan."""
    width = SLOTS // BANDS
    rows = [signature[start : start + width] for start in range(0, len(signature), width)]
    return [f"{number}:{zlib.crc32(repr(tuple(row)).encode()):08x}" for number, row in enumerate(rows)]


def _words(text: str) -> list[bytes]:
    if text.isascii():
        return text.encode().translate(_SEPARATED).split()
    marks = [mark for mark in set("".join(_NOT_ASCII.findall(text))) if not mark.isalnum()]
    if len(marks) > MAX_REPLACED:
        return [word.encode("utf-8", "replace") for word in WORD.findall(text)]
    for mark in marks:
        text = text.replace(mark, " ")
    return text.encode().translate(_SEPARATED).split()


def _shingle_hashes(words: list[bytes]) -> list[int]:
    if len(words) < SHINGLE:
        return [zlib.crc32(b" ".join(words))] if words else []
    return list(map(zlib.crc32, map(b" ".join, zip(*(words[first:] for first in range(SHINGLE)), strict=False))))


def _filled(slots: list[int]) -> TextSignature:
    """A short text leaves slots empty; they borrow from the next filled slot, marked with the distance."""
    if all(value < 0 for value in slots):
        return ()
    return tuple(_borrowed(slots, index) for index in range(SLOTS))


def _borrowed(slots: list[int], index: int) -> int:
    distance = next(step for step in range(SLOTS) if slots[(index + step) % SLOTS] >= 0)
    return slots[(index + distance) % SLOTS] + distance * 2**32
