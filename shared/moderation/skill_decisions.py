"""Decisions of admins about the marketplace: the blocklist, published skills, reports. Every action is audited."""

import asyncio
import re
from collections.abc import Collection
from typing import NamedTuple

from shared.access.audit import audit_put, reason_of
from shared.access.auth import require_role
from shared.db import get_settings, now
from shared.errors import Conflict, InvalidRequest, Unavailable
from shared.evidence.blocklist import BlockEntry, add_block, block_reason, remove_block
from shared.marketplace import community, skill_admin
from shared.marketplace.community import ReaderReport
from shared.marketplace.reputation import FULL_NAME, source_named
from shared.marketplace.skill_admin import source_of
from shared.marketplace.skill_store import (
    LONGEST_NAME,
    Enumerated,
    find_skill,
    get_names_by_slug,
    get_skill,
    read_skills,
    walk_skills,
)
from shared.records.skills import Skill
from shared.storage.kv import Put
from shared.storage.secret_store import AdminToken
from shared.submissions.skill_source import UPLOADS, parse_repo_url
from shared.telemetry import logger

REMOVED_AT_ONCE = 20
TRIES = 5  # for a skill that changes at the same moment
CONTENT_HASH = re.compile("[0-9a-f]{64}", re.ASCII)


class Added(NamedTuple):
    entry: BlockEntry
    taken_out: list[str]  # skills that were removed from the marketplace
    failed: list[str]  # could not be removed or read: repeat the request


class Removed(NamedTuple):
    entry: BlockEntry
    still_blocked: list[str]  # skills that stay blocked until their block is lifted
    failed: list[str]  # could not be read


def scoped(
    skill_name: str, source_url: str | None, content_hash: str | None, is_global: bool
) -> tuple[str, str | None, str | None]:
    """The scope of an entry. Global only on request: blocking one "google" must not block every skill of that name."""
    source = source_url and _source(source_url)
    if content_hash and not CONTENT_HASH.fullmatch(content_hash):
        raise InvalidRequest("`contentHash` has 64 of the characters 0-9 and a-f.", code="invalid_content_hash")
    if len(skill_name) > LONGEST_NAME:
        raise InvalidRequest(f"A name has at most {LONGEST_NAME} characters.", code="invalid_skill_name")
    if is_global and (source or content_hash):
        raise InvalidRequest("Either a source or content, or everywhere: not both.", code="invalid_scope")
    if source is None and content_hash is None and not is_global:
        if not FULL_NAME.fullmatch(skill_name):
            raise InvalidRequest(
                "Name its repository (`sourceUrl`), or send `global` to ban it everywhere.",
                code="scope_required",
            )
        source = source_named(skill_name)
    return skill_name, source, content_hash


async def add_to_blocklist(entry: BlockEntry, by: AdminToken, why: str) -> Added:
    """What it names is removed from the marketplace at once. A repeated request removes what failed before."""
    require_role(by, "admin")
    audit = audit_put(by, "add to blocklist", entry.id, reason_of(why))
    stored = await add_block(entry, [audit])
    found = await _find_named_by(stored)
    names = [skill.name for skill in found.skills if not skill.is_blocked]
    in_flight = asyncio.Semaphore(REMOVED_AT_ONCE)
    outcomes = await asyncio.gather(*(_remove_from_marketplace(name, stored, by, in_flight) for name in names))
    failed = [name for name, is_out in zip(names, outcomes, strict=True) if not is_out]
    return Added(stored, [name for name in names if name not in failed], [*failed, *found.failed])


async def remove_from_blocklist(entry_id: str, by: AdminToken, why: str) -> Removed:
    """No skill is unblocked by this: lifting its block is a separate decision."""
    require_role(by, "admin")
    entry = await remove_block(entry_id, [audit_put(by, "remove from blocklist", entry_id, reason_of(why))])
    found = await _find_named_by(entry)
    return Removed(entry, [skill.name for skill in found.skills if skill.is_blocked], found.failed)


async def block_skill(name: str, by: AdminToken, why: str, files: Collection[str] = ()) -> Skill:
    """With its submission; its name and content are added to the blocklist, which also stops copies. `files`: what the
    block rests on, where that is not what the scan found."""
    skill, reason, audit = await _about(name, "block skill", by, why)
    await skill_admin.block_skill(skill.name, reason, f"admin:{by.name}", also=[audit], files=files)
    return await get_skill(skill.name)


async def unblock_skill(name: str, by: AdminToken, why: str) -> Skill:
    skill, reason, audit = await _about(name, "unblock skill", by, why)
    await skill_admin.unblock_skill(skill.name, reason, f"admin:{by.name}", [audit])
    return await get_skill(skill.name)


async def yank(name: str, version: str, by: AdminToken, why: str) -> Skill:
    skill, reason, audit = await _about(name, "yank", by, why, f" {version}")
    return await skill_admin.yank_version(skill.name, version, reason, [audit])


async def unyank(name: str, version: str, by: AdminToken, why: str) -> Skill:
    skill, _, audit = await _about(name, "unyank", by, why, f" {version}")
    return await skill_admin.unyank_version(skill.name, version, [audit])


async def delete_skill(name: str, by: AdminToken, why: str) -> Skill:
    """A tombstone: nothing of it is served any more, and its name is never used again."""
    skill, reason, audit = await _about(name, "delete skill", by, why)
    await skill_admin.delete_skill(skill.name, reason, f"admin:{by.name}", [audit])
    return await find_skill(skill.name) or skill


async def confirm_report(report_id: str, by: AdminToken, why: str) -> ReaderReport:
    """A reviewer found it to be right: it costs the skill trust until it is resolved."""
    require_role(by, "reviewer")
    audit = audit_put(by, "confirm report", report_id, reason_of(why))
    return await community.confirm_report(report_id, by.name, now(), [audit])


async def resolve_report(report_id: str, by: AdminToken, why: str) -> ReaderReport:
    """With its outcome: the report no longer costs the skill any trust."""
    require_role(by, "admin")
    reason = reason_of(why)
    audit = audit_put(by, "settle report", report_id, reason)
    return await community.resolve_report(report_id, reason, by.name, now(), [audit])


async def _about(name: str, action: str, by: AdminToken, why: str, more: str = "") -> tuple[Skill, str, Put]:
    require_role(by, "admin")
    reason = reason_of(why)
    skill = await get_skill(name)
    return skill, reason, audit_put(by, action, f"{skill.name}{more}", reason)


async def _remove_from_marketplace(name: str, entry: BlockEntry, by: AdminToken, in_flight: asyncio.Semaphore) -> bool:
    async with in_flight:
        return await _try_to_remove(name, entry, by)


async def _try_to_remove(name: str, entry: BlockEntry, by: AdminToken) -> bool:
    for _ in range(TRIES):
        skill = await find_skill(name)
        if skill is None or skill.is_blocked:
            return True
        try:
            await skill_admin.block_by_entry(skill, block_reason(entry), f"admin:{by.name}")
        except Conflict:
            continue  # it changed at this moment: read it again
        except Unavailable:
            break  # the entry is stored: a repeated request removes the skill
        return True
    logger.error("skill not removed from the marketplace", extra={"skill": name, "entry": entry.id})
    return False


async def _find_named_by(entry: BlockEntry) -> Enumerated:
    """Published or yanked skills: a yanked version can still be viewed, and restored."""
    is_full = FULL_NAME.fullmatch(entry.skill_name)
    read = await read_skills([entry.skill_name] if is_full else await get_names_by_slug(entry.skill_name), False)
    found = list(read.skills.values())
    if entry.content_hash:
        # The index may be seconds old: the skill that the entry names is read by its name too.
        copies = {skill.name: skill for skill in found if skill.content_hash == entry.content_hash}
        failed = set(read.failed)
        async for page in walk_skills():
            copies |= {skill.name: skill for skill in page.skills if skill.content_hash == entry.content_hash}
            failed |= set(page.failed)
        return Enumerated(list(copies.values()), list(failed))
    return Enumerated([skill for skill in found if entry.source_url in (None, source_of(skill))], read.failed)


def _source(text: str) -> str:
    return UPLOADS if text == UPLOADS else parse_repo_url(text, get_settings().github_host).source
