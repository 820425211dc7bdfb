"""What finds skills: words, names, facets, look-alikes.

The skill's record is the truth; everything here can be written again from it. Readers take a name from an index as a
candidate and drop it when its record no longer matches, so nothing has to be removed from an index.
"""

from contextlib import suppress
from datetime import datetime

import msgspec

from shared.db import get_kv
from shared.errors import ConditionFailed, Unavailable
from shared.marketplace.skill_store import (
    UPLOADS_OWNER,
    counts_put,
    facet_partition,
    read_skills,
    skill_name_in,
    skill_put,
    write_counts,
)
from shared.records.facets import FACETS, facet_of, facets_of
from shared.records.look_alikes import is_look_alike, skeleton, sought_forms, stem, stored_forms
from shared.records.search_words import LONGEST_WORD, joined, look_alike, skill_words
from shared.records.skills import Skill, split_name
from shared.storage.documents import encode, stamp
from shared.storage.kv import Expect, Key, Put, Query, Write, query_shards
from shared.submissions.word_index import word_puts
from shared.telemetry import logger

WORDS = "find"
NAMES = "named"


def look_alike_keys(name: str) -> list[Key]:
    """Keys of the name as people read it, and of the parts that a look-alike may not extend."""
    owner, repo, slug = split_name(name)
    forms = (look_alike(name), f"{stem(owner)}/{skeleton(repo)}/{skeleton(slug)}")
    return [Key(f"alike:{form}") for form in dict.fromkeys(forms)]


def look_alike_puts(name: str) -> list[Put]:
    return [Put(key, encode({"name": name})) for key in look_alike_keys(name)]


def owner_keys(name: str) -> list[Key]:
    """Where an owner that people take for this one's would be found."""
    owner = split_name(name).owner
    return [] if owner == UPLOADS_OWNER else [Key(f"alike-owner:{form}") for form in sorted(sought_forms(owner))]


def owner_puts(name: str) -> list[Put]:
    owner = split_name(name).owner
    forms = () if owner == UPLOADS_OWNER else sorted(stored_forms(owner))
    return [Put(Key(f"alike-owner:{form}"), encode({"name": name})) for form in forms]


def known_owner_key(name: str) -> Key:
    """There for every owner that has published here: a person compared it with its look-alikes, or it had none."""
    return Key(f"owner:{split_name(name).owner.lower()}")


def known_owner_puts(name: str) -> list[Put]:
    """None of uploads: what they have in common is no owner, so it is compared with nobody."""
    is_upload = split_name(name).owner == UPLOADS_OWNER
    return [] if is_upload else [Put(known_owner_key(name), encode({"name": name}))]


def first_key(content_hash: str) -> Key:
    return Key(f"first:{content_hash}")


def first_put(content_hash: str, name: str, expect: Expect | None = None) -> Put:
    """Which skill published this content here first."""
    return Put(first_key(content_hash), encode({"name": name}), expect=expect)


def decode_name(doc: str) -> str:
    name: str = msgspec.json.decode(doc)["name"]
    return name


def is_confusable(name: str, other: str) -> bool:
    """Within one repository nothing is confused: its owner chose both names. Of one owner, what reads the same is."""
    mine, theirs = split_name(name.lower()), split_name(other.lower())
    return mine[:2] != theirs[:2] and (mine.owner != theirs.owner or look_alike(name) == look_alike(other))


def has_look_alike_owner(name: str, other: str) -> bool:
    return is_look_alike(split_name(name).owner, split_name(other).owner)


def index_puts(skill: Skill) -> list[Put]:
    """Facets keep the first publication's time: a page between two versions neither loses nor repeats a skill."""
    name = skill.name.lower()
    at = stamp(skill.published_at)
    values = [(key, value) for key in FACETS for value in facets_of(skill, key)]
    facets = [Put(Key(facet_partition(key, value), f"{at}#{name}"), "{}") for key, value in values]
    return [*word_puts(WORDS, skill_words(skill), name), *word_puts(NAMES, names_of(skill.name), name), *facets]


def names_of(name: str) -> set[str]:
    """Its last part and its full name, as far as an entry of the index takes them."""
    called = (joined(name.rpartition("/")[2]), joined(name))
    return {each[:LONGEST_WORD] for each in called if each}


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
    return [skill_name_in(row.key) for row in due.rows[: limit + 1]]


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
