"""What is known of authors: how many of their skills are blocked. Counted in the transaction that blocks one, so that
nobody has to look through all skills of an author to know it."""

from collections.abc import Iterable

from shared.db import get_kv
from shared.records.skills import Skill, full_name, split_name
from shared.storage.kv import Add, Key

UPLOADS_OWNER = "uploads"  # a place, not a person: uploads have nothing else in common


def blocked_count(before: Skill, after: Skill) -> list[Add]:
    """For the transaction that makes one of the other: guarded by the skill's version, so nothing counts twice."""
    owner = split_name(full_name(after)).owner.lower()
    change = after.is_blocked - before.is_blocked
    return [Add(_key(owner), {"blocked": change})] if change and owner != UPLOADS_OWNER else []


async def count_blocked(owners: Iterable[str]) -> dict[str, int]:
    """By owner in lower case. One that could not be read is not there: unknown, not 0."""
    asked = {owner.lower() for owner in owners} - {UPLOADS_OWNER}
    read = await get_kv().get_counts(map(_key, sorted(asked)))
    failed = set(read.failed)
    known = {owner: read.found.get(_key(owner), {}) for owner in asked if _key(owner) not in failed}
    return {UPLOADS_OWNER: 0} | {owner: counts.get("blocked", 0) for owner, counts in known.items()}


def _key(owner: str) -> Key:
    return Key(f"author:{owner}")
