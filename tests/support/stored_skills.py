"""Published skills put straight into a store, with their index entries, as publishing leaves them."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta

import msgspec

from shared.marketplace.skill_index import first_put, index_puts, known_owner_puts, look_alike_puts, owner_puts
from shared.marketplace.skill_store import counts_put, new_counts, skill_put, version_put
from shared.records.skills import Skill, SkillVersion, split_name
from shared.storage.documents import encode
from shared.storage.kv import ABSENT, Key, Put
from tests.support.builders import WHEN
from tests.support.memory import MemoryKV, Stored


def a_skill(name: str, number: int = 0, **more) -> Skill:
    at = more.pop("at", None) or WHEN + timedelta(seconds=number)
    defaults = {
        "display_name": name.rpartition("/")[2],
        "description": "",
        "repo_url": f"https://github.com/{name.rpartition('/')[0]}",
        "current_version": "1.0.0",
        "content_hash": f"{number:064x}",
        "submission_id": f"sub_{number:026}",
        "verdict": "PASS",
        "score": 100,
    }
    return Skill(name=name, published_at=at, updated_at=at, **(defaults | more))


def puts_of(skill: Skill, installs: int = 0) -> list[Put]:
    alias = Put(Key(f"skill:alias:{split_name(skill.name).slug.lower()}", skill.name), encode({"name": skill.name}))
    counts = counts_put(msgspec.structs.replace(new_counts(skill), installs=installs), None)
    first = first_put(skill.content_hash, skill.name)
    alike = [*look_alike_puts(skill.name), *owner_puts(skill.name), *known_owner_puts(skill.name), first]
    return [skill_put(skill, None), alias, counts, *alike, *index_puts(skill)]


def fill(kv: MemoryKV, skills: Iterable[Skill], installs: dict[str, int] | None = None) -> None:
    """All at once, for large markets in memory."""
    for skill in skills:
        for put in puts_of(skill, (installs or {}).get(skill.name, 0)):
            kv.items[put.key] = Stored(put.doc, dict(put.attrs))


async def put_skills(kv, *skills: Skill, installs: dict[str, int] | None = None) -> None:
    puts = {put.key: put for skill in skills for put in puts_of(skill, (installs or {}).get(skill.name, 0))}
    for some in batched(puts.values(), 20):  # one by one: moto copies the whole table for a transaction
        await asyncio.gather(*map(kv.put, some))


async def put_bare(kv, skill: Skill, *versions: SkillVersion) -> None:
    """The record and its versions alone, without anything that finds them."""
    await kv.put(skill_put(skill, ABSENT))
    for version in versions:
        await kv.put(version_put(version))


def batched(puts, size: int):
    puts = list(puts)
    return (puts[start : start + size] for start in range(0, len(puts), size))
