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

Signature = tuple[int, ...]


def signature_of(text: str) -> Signature:
    """Line ends, case, punctuation and the byte order mark make no difference."""
    words = WORD.findall(text[:MAX_TEXT].lower())
    slots = [-1] * SLOTS
    for value in _shingle_hashes(words):
        slot, rest = value % SLOTS, value // SLOTS
        if slots[slot] < 0 or rest < slots[slot]:
            slots[slot] = rest
    return _filled(slots)


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


def _shingle_hashes(words: list[str]) -> list[int]:
    count = max(1, len(words) - SHINGLE + 1) if words else 0
    return [zlib.crc32(" ".join(words[start : start + SHINGLE]).encode("utf-8", "replace")) for start in range(count)]


def _filled(slots: list[int]) -> Signature:
    """A short text leaves slots empty; they borrow from the next filled slot, marked with the distance."""
    if all(value < 0 for value in slots):
        return ()
    return tuple(_borrowed(slots, index) for index in range(SLOTS))


def _borrowed(slots: list[int], index: int) -> int:
    distance = next(step for step in range(SLOTS) if slots[(index + step) % SLOTS] >= 0)
    return slots[(index + distance) % SLOTS] + distance * 2**32
