"""Many names to skills at once, as people write them: in full, or the last part alone where one skill has it."""

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from shared.marketplace.skill_aliases import find_namesakes
from shared.marketplace.skill_index import read_skills
from shared.marketplace.skill_store import LONGEST_NAME
from shared.records.skills import Skill


class FoundSkills(NamedTuple):
    skills: dict[str, Skill]  # by the name as it was sent; a name that leads to none or to several is not there
    failed: set[str]  # names whose skill could not be read


async def find_skills(names: Iterable[str]) -> FoundSkills:
    """Two round trips, however many names there are and however many skills share them."""
    asked = list(dict.fromkeys(names))
    in_full = dict(zip(asked, await asyncio.gather(*map(_full_name, asked)), strict=True))
    known = {name: full.lower() for name, full in in_full.items() if full is not None}
    read = await read_skills(known.values(), with_counts=False)
    failed = set(read.failed)
    alive = {key: skill for key, skill in read.skills.items() if not skill.is_deleted}
    return FoundSkills(
        {name: alive[key] for name, key in known.items() if key in alive},
        {name for name, key in known.items() if key in failed},
    )


async def _full_name(name: str) -> str | None:
    if not name.isprintable() or len(name) > LONGEST_NAME or name.count("/") == 1:
        return None
    if "/" in name:
        return name
    namesakes = await find_namesakes(name, limit=1)
    return namesakes.names[0] if namesakes.names and not namesakes.has_more else None
