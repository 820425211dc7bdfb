"""Short names: `skill:alias:{slug}`/full name, one row per skill. Thousands may share one, so it is read as far as the
question needs: whether a name is unique is told by the first two, who has it by a page."""

from typing import NamedTuple

from shared.db import get_kv
from shared.records.skills import Skill, split_name
from shared.storage.documents import encode
from shared.storage.kv import Delete, Key, Put, Query, Write, query_all

_GONE = "~"  # sorts behind every owner's name: deleted skills never stand before those that are there


class Namesakes(NamedTuple):
    names: list[str]  # in full, of skills that are not deleted
    has_more: bool
    was_deleted: bool  # the page also has skills that are gone


def alias_put(name: str) -> Put:
    return Put(_key(name), encode({"name": name}))


async def alias_removal(skill: Skill) -> list[Write]:
    """For the transaction that deletes the skill: its short name may be another's alone from now on."""
    gone = Put(Key(_key(skill.name).pk, f"{_GONE}{skill.name}"), encode({"name": skill.name}))
    if await get_kv().get(_key(skill.name)) is None:
        return [gone]
    return [gone, Delete(_key(skill.name), {"pk": _key(skill.name).pk})]


async def find_namesakes(slug: str, limit: int) -> Namesakes:
    """One page, one more than the limit: that tells whether these are all."""
    page = await get_kv().query(Query(_partition(slug), limit=limit + 1))
    names = [row.sort for row in page.rows if not row.sort.startswith(_GONE)]
    return Namesakes(names[:limit], len(names) > limit, len(names) < len(page.rows))


async def get_namesakes(slug: str) -> list[str]:
    """All of them, for a ban that must reach each."""
    return [row.sort for row in await query_all(get_kv(), _partition(slug)) if not row.sort.startswith(_GONE)]


def _key(name: str) -> Key:
    slug = split_name(name).slug if "/" in name else name
    return Key(_partition(slug), name)


def _partition(slug: str) -> str:
    return f"skill:alias:{slug.lower()}"
