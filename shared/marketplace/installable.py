"""What clients may install at this moment: published skills, and their versions that are neither yanked nor banned.

Every client surface reads here, so that one write takes a skill away from all of them. A skill of another branch or tag
is on no surface: clients know a skill by owner, repository and folder alone.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from shared.evidence.blocklist import BlockEntry, find_bans
from shared.marketplace.client_listing import MCP, SKILLS_CLI, find_obstacles_of
from shared.marketplace.manifest_store import read_manifests
from shared.marketplace.published_content import (
    refuse_banned,
    refuse_blocked,
    refuse_held,
    refuse_withdrawn,
    refuse_yanked,
)
from shared.marketplace.skill_store import (
    get_version,
    get_versions,
    is_usable_name,
    read_skills,
    read_versions,
    skill_not_found,
    unread_skill,
)
from shared.records.manifests import Manifest
from shared.records.skills import Skill, SkillVersion

READS_MANIFESTS = (SKILLS_CLI, MCP)


class Installable(NamedTuple):
    skill: Skill
    version: SkillVersion
    manifest: Manifest | None = None  # None: not asked for, or an older release published it


async def read_installable(skills: Iterable[Skill], client: str) -> list[Installable]:
    """The current versions that this client can list, in one round trip however many skills there are."""
    listed = [skill for skill in skills if skill.is_listed and skill.ref is None]
    current = [(skill.name, skill.current_version) for skill in listed]
    versions, bans, manifests = await asyncio.gather(
        read_versions(current),
        find_bans({skill.content_hash for skill in listed}),
        read_manifests(current if client in READS_MANIFESTS else ()),
    )
    pairs = zip(listed, current, strict=True)
    found = [Installable(skill, versions[key], manifests.get(key)) for skill, key in pairs if key in versions]
    return [each for each in found if is_served(each.version, bans) and not find_obstacles_of(client, *each)]


async def get_installable(name: str, version: str | None = None) -> Installable:
    """By the full name of the skill; its current version unless one is named."""
    return await installable_of(require_served(await find_first_published([name]), name), version)


async def installable_of(skill: Skill, version: str | None = None) -> Installable:
    found = await get_version(skill.name, version or skill.current_version)
    refuse_yanked(found)
    await refuse_banned(found)
    return Installable(skill, found)


async def get_installable_versions(skill: Skill) -> list[SkillVersion]:
    """Newest first."""
    versions = await get_versions(skill.name)
    bans = await find_bans({version.content_hash for version in versions})
    return [version for version in versions if is_served(version, bans)]


async def find_first_published(names: Sequence[str]) -> Skill | None:
    """Of the skills with one of these full names, the one that was published first: it keeps a name that several would
    get, even when it is blocked or deleted, so that no other skill is installed in its place."""
    return min(await find_recorded(names), key=lambda skill: skill.published_at, default=None)


async def find_recorded(names: Sequence[str]) -> list[Skill]:
    """Also those that are blocked or deleted."""
    read = await read_skills(filter(is_usable_name, names), with_counts=False)
    if read.failed:
        raise unread_skill()
    return list(read.skills.values())


def require_served(skill: Skill | None, name: str) -> Skill:
    if skill is None or skill.is_deleted or skill.is_yanked or skill.ref is not None:
        raise skill_not_found(name)
    refuse_blocked(skill)
    refuse_held(skill)
    refuse_withdrawn(skill)
    return skill


def is_served(version: SkillVersion, bans: Mapping[str, BlockEntry]) -> bool:
    return not version.is_yanked and version.content_hash not in bans
