"""Many names to skills at once, as people write them: in full, or the last part alone where one skill has it."""

import asyncio
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import NamedTuple

from shared.db import get_kv
from shared.kv import Query
from shared.skill_index import read_skills
from shared.skill_store import LONGEST_NAME
from shared.skills import Skill

NAMESAKES = 8  # so many may have been deleted before the one that is left


class FoundSkills(NamedTuple):
    skills: dict[str, Skill]  # by the name as it was sent; a name that leads to none or to several is not there
    failed: set[str]  # names whose skill could not be read


async def find_skills(names: Iterable[str]) -> FoundSkills:
    """Two round trips, however many names there are."""
    asked = list(dict.fromkeys(names))
    candidates = dict(zip(asked, await asyncio.gather(*map(_candidates, asked)), strict=True))
    read = await read_skills(chain.from_iterable(candidates.values()), with_counts=False)
    failed = set(read.failed)
    return FoundSkills(
        {name: skill for name in asked if (skill := _only(candidates[name], read.skills)) is not None},
        {name for name in asked if failed & {full.lower() for full in candidates[name]}},
    )


async def _candidates(name: str) -> list[str]:
    if not name.isprintable() or len(name) > LONGEST_NAME or name.count("/") == 1:
        return []
    if "/" in name:
        return [name]
    page = await get_kv().query(Query(f"skill:alias:{name.lower()}", limit=NAMESAKES))
    return [row.sort for row in page.rows]


def _only(names: list[str], skills: Mapping[str, Skill]) -> Skill | None:
    found = [skills[name.lower()] for name in names if name.lower() in skills]
    alive = [skill for skill in found if not skill.is_deleted]
    return alive[0] if len(alive) == 1 else None
