"""What is known against a skill before it is installed: a block, a rejection, a blocked skill of its author."""

import asyncio
import re
from typing import NamedTuple

from shared.db import get_settings
from shared.errors import Unavailable
from shared.evidence.blocklist import BlockEntry, find_block
from shared.marketplace.skill_admin import source_of
from shared.marketplace.skill_store import find_names_by_slug, find_skill, get_blocked_counts
from shared.records.skills import Skill
from shared.records.submissions import Submission
from shared.submissions.skill_source import UPLOADS
from shared.submissions.submission_search import find_refused

FULL_NAME = re.compile(r"[^/\s]+/[^/\s]+/[^/\s]+")


class Reputation(NamedTuple):
    entry: BlockEntry | None
    rejection: Submission | None
    taint: str | None  # another skill of its author is blocked
    changed_hands: bool = False  # the name of its repository leads to another one than was scanned


async def get_reputation(name: str, source: str | None, content_hash: str | None) -> Reputation:
    """A full name contains its repository; a short one has one when only one published skill matches."""
    skill = await _find_named(name, source)
    if skill:
        name, source = skill.name, source_of(skill)
    source = source or (source_named(name) if FULL_NAME.fullmatch(name) else None)
    entry, refused, taint = await asyncio.gather(
        find_block(name, source or "", content_hash), find_refused(name, source), _find_taint(source, skill)
    )
    if entry is None and skill and skill.is_blocked:
        entry = _entry_of(skill)
    elif entry is None and refused.blocked:
        entry = _entry_of_blocked(refused.blocked)
    return Reputation(entry, refused.rejected, taint, skill is not None and skill.changed_hands)


def source_named(full_name: str) -> str:
    owner_and_repo = full_name.rpartition("/")[0].lower()
    return UPLOADS if owner_and_repo == UPLOADS else f"https://{get_settings().github_host}/{owner_and_repo}"


def name_in(source: str, slug: str) -> str:
    return "/".join([*source.split("/")[-2:], slug])


async def _find_named(name: str, source: str | None) -> Skill | None:
    """At most two requests, however many skills share a short name: with its source it is a full one."""
    if FULL_NAME.fullmatch(name):
        return await find_skill(name)
    if source is not None:
        skill = await find_skill(name_in(source, name))
        return skill if skill and source_of(skill) == source else None
    namesakes = await find_names_by_slug(name, limit=1)
    return await find_skill(namesakes.names[0]) if namesakes.names and not namesakes.has_more else None


async def _find_taint(source: str | None, skill: Skill | None) -> str | None:
    """As in lists of skills: by author, and never for uploads, which have no author in common."""
    if source is None or source == UPLOADS:
        return None
    owner = source.split("/")[-2]
    blocked = (await get_blocked_counts([owner])).get(owner)
    if blocked is None:
        raise Unavailable("The counts of this author could not be read.")
    others = blocked - bool(skill and skill.is_blocked)
    if others <= 0:
        return None
    return f"Another skill of {owner} is blocked." if others == 1 else f"{others} other skills of {owner} are blocked."


def _entry_of(skill: Skill) -> BlockEntry:
    """A block without an entry: by an external scanner, or by newer rules."""
    return BlockEntry(
        skill_name=skill.name,
        source_url=source_of(skill),
        content_hash=skill.content_hash,
        reason=skill.block_reason or "blocked",
        discovered_at=skill.updated_at,
    )


def _entry_of_blocked(submission: Submission) -> BlockEntry:
    """Blocked by a rule and not reviewed yet. Clients install from the repository, so this is what they would get."""
    return BlockEntry(
        skill_name=submission.skill_name,
        source_url=submission.source,
        content_hash=submission.content_hash,
        threat_type="suspected",
        reason=submission.reason or "blocked",
        discovered_at=submission.updated_at,
    )
