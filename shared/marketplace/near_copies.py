"""Near-copies of published skills: which skill published text like this first.

One record for each of some bands of a signature. Similar texts share at least one band, so a lookup is a few keys in a
read that is made anyway. A near-copy does not take over the records of the skill that it resembles.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from shared.records.skills import Skill, full_name, split_name
from shared.scanner import near_duplicates
from shared.storage.documents import encode
from shared.storage.kv import Key, Put

# With 0.7 in common one of eight bands is shared in 89 of 100 cases, with 0.85 in 99.7; sixteen cost twice as much.
BANDS = 8
UPLOADER = "uploads"  # the owner of everything that is uploaded, by anyone


class PublishedText(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    content_hash: str
    published_at: datetime  # the skill, for the first time
    signature: tuple[int, ...]


class NearCopy(NamedTuple):
    original: PublishedText
    share: float  # in common


_TEXT = msgspec.json.Decoder(PublishedText)


def near_copy_keys(signature: Sequence[int]) -> list[Key]:
    return [Key(f"like:{band}") for band in near_duplicates.bands(signature)[:BANDS]]


def near_copy_puts(skill: Skill, signature: Sequence[int]) -> list[Put]:
    text = PublishedText(full_name(skill), skill.content_hash, skill.published_at, tuple(signature))
    return [Put(key, encode(text)) for key in near_copy_keys(signature)]


def find_near_copy(
    docs: Mapping[Key, str], signature: Sequence[int], name: str, published_at: datetime | None
) -> NearCopy | None:
    """The closest skill of another publisher that was here first. `published_at`: of this skill, if it is published."""
    texts = {_TEXT.decode(docs[key]) for key in near_copy_keys(signature) if key in docs}
    others = [
        text
        for text in texts
        if not _has_one_publisher(name, text.name) and (published_at is None or text.published_at < published_at)
    ]
    alike = [NearCopy(text, near_duplicates.similarity(signature, text.signature)) for text in others]
    close = [copy for copy in alike if copy.share >= near_duplicates.MIN_SIMILARITY]
    return max(close, key=lambda copy: (copy.share, copy.original.name), default=None)


def shares_of(docs: Iterable[str], signature: Sequence[int]) -> dict[str, float]:
    """How much each of these texts has in common with this one, by the name of its skill in lower case."""
    texts = {_TEXT.decode(doc) for doc in docs}
    return {text.name.lower(): near_duplicates.similarity(signature, text.signature) for text in texts}


def _has_one_publisher(name: str, other: str) -> bool:
    mine, theirs = split_name(name.lower()), split_name(other.lower())
    return mine == theirs or (mine.owner == theirs.owner and mine.owner != UPLOADER)
