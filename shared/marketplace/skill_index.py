"""What finds skills: words, names, facets, look-alikes.

The skill's record is the truth; everything here can be written again from it. Readers take a name from an index as a
candidate and drop it when its record no longer matches, so nothing has to be removed from an index.
"""

from contextlib import suppress
from datetime import datetime

import msgspec

from shared.db import get_kv
from shared.errors import ConditionFailed, Unavailable
from shared.marketplace.skill_store import counts_put, facet_partition, read_skills, skill_put, write_counts
from shared.records.search_words import LONGEST_WORD, joined, look_alike, skill_words
from shared.records.skills import Skill, full_name, split_name
from shared.storage.documents import encode, stamp
from shared.storage.kv import Expect, Key, Put, Query, Write, query_shards
from shared.submissions.word_index import word_puts
from shared.telemetry import logger

FACETS = ("category", "tier", "author")
WORDS = "find"
NAMES = "named"


def look_alike_key(name: str) -> Key:
    return Key(f"alike:{look_alike(name)}")


def look_alike_put(name: str) -> Put:
    return Put(look_alike_key(name), encode({"name": name}))


def first_key(content_hash: str) -> Key:
    return Key(f"first:{content_hash}")


def first_put(content_hash: str, name: str, expect: Expect | None = None) -> Put:
    """Which skill published this content here first."""
    return Put(first_key(content_hash), encode({"name": name}), expect=expect)


def decode_name(doc: str) -> str:
    name: str = msgspec.json.decode(doc)["name"]
    return name


def is_confusable(name: str, other: str) -> bool:
    """Within one repository nothing is confused: its owner chose both names."""
    return split_name(name.lower())[:2] != split_name(other.lower())[:2]


def index_puts(skill: Skill) -> list[Put]:
    """Facets keep the first publication's time: a page between two versions neither loses nor repeats a skill."""
    name = skill.name.lower()
    at = stamp(skill.published_at)
    facets = [Put(Key(facet_partition(key, facet_of(skill, key)), f"{at}#{name}"), "{}") for key in FACETS]
    return [*word_puts(WORDS, skill_words(skill), name), *word_puts(NAMES, names_of(skill.name), name), *facets]


def names_of(name: str) -> set[str]:
    """Its last part and its full name, as far as an entry of the index takes them."""
    called = (joined(name.rpartition("/")[2]), joined(name))
    return {each[:LONGEST_WORD] for each in called if each}


def facet_of(skill: Skill, key: str) -> str:
    values = {"category": skill.category, "tier": skill.cert_tier, "author": split_name(full_name(skill)).owner}
    return values[key].lower()


async def index_skill(skill: Skill, may_have_moved: bool = True) -> None:
    """After the publication; the record is due until then. `may_have_moved`: to another category."""
    if may_have_moved:
        await _follow_category(skill)
    indexed = msgspec.structs.replace(skill, unindexed_since=None, record_version=skill.record_version + 1)
    record = skill_put(indexed, {"recordVersion": skill.record_version})
    with suppress(ConditionFailed):  # it changed meanwhile, and its new record is due if it has to be indexed
        await get_kv().transact(lambda: [record, *index_puts(skill)])


async def try_to_index(skill: Skill, may_have_moved: bool = True) -> None:
    """Until its words are written, the record is due, and the stuck scan writes them."""
    try:
        await index_skill(skill, may_have_moved)
    except Unavailable:
        logger.exception("words not written, left to the stuck scan", extra={"skill": skill.name})


async def get_unindexed(at: datetime, limit: int) -> list[str]:
    """The names of skills whose words should have been written by now, at most one more than the limit."""
    due = await query_shards(get_kv(), Query("due:unindexed", "due", before=stamp(at), limit=limit + 1))
    return [row.key.pk.removeprefix("skill:") for row in due.rows[: limit + 1]]


async def _follow_category(skill: Skill) -> None:
    """Moves its counts to the category that the record has by now: a newer version may have moved them already."""
    name = skill.name.lower()

    async def build() -> list[Write]:
        read = await read_skills([name])
        category, counts = facet_of(read.skills.get(name, skill), "category"), read.counts.get(name)
        if counts is None or not counts.record_version or counts.category == category:
            return []
        moved = msgspec.structs.replace(counts, category=category, record_version=counts.record_version + 1)
        return [counts_put(moved, {"recordVersion": counts.record_version})]

    await write_counts(build)
