"""The signals of skills: trust, installs, and the state of their repositories and authors.

Read beside the skills themselves, for a whole page at once. What could not be read is None: unknown, never 0.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from shared.db import now
from shared.marketplace.community import trust_of
from shared.marketplace.repo_health_store import RepoHealth, find_repo_healths
from shared.marketplace.skill_store import get_blocked_counts
from shared.records.decision import Trust
from shared.records.skills import Skill, SkillCounts, full_name, split_name


class SkillSignals(NamedTuple):
    trust: Trust
    installs: int | None
    stars: int | None
    is_tainted: bool | None  # another skill of its author is blocked


async def get_skill_signals(skills: Sequence[Skill], counts: Mapping[str, SkillCounts]) -> dict[str, SkillSignals]:
    """By name. `counts` by the name in lower case."""
    sources = {skill.repo_url.lower() for skill in skills if skill.repo_url}
    healths, blocked = await asyncio.gather(find_repo_healths(sources), get_blocked_counts(map(_owner, skills)))
    at = now()
    return {skill.name: _signals(skill, counts.get(skill.name.lower()), healths, blocked, at) for skill in skills}


def _signals(
    skill: Skill,
    counts: SkillCounts | None,
    healths: Mapping[str, RepoHealth],
    blocked: Mapping[str, int],
    at: datetime,
) -> SkillSignals:
    health = healths.get((skill.repo_url or "").lower())
    others = blocked.get(_owner(skill).lower())
    return SkillSignals(
        trust=trust_of(skill, counts, at),
        installs=counts.installs if counts else None,
        stars=health.stars if health else None,
        is_tainted=None if others is None else others > skill.is_blocked,
    )


def _owner(skill: Skill) -> str:
    return split_name(full_name(skill)).owner
