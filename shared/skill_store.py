"""The marketplace at rest: skills, their versions and the short names that lead to them."""

import asyncio
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

import msgspec

from shared.content import content_hash_of
from shared.db import get_content, get_kv
from shared.documents import encode, parse_each, stamp
from shared.errors import ConditionFailed, Conflict, NotFound, Unavailable
from shared.external_scan_dispatch import configured_scanners, dispatch_external_scans
from shared.kv import ABSENT, LISTS, SHARDS, Delete, Expect, Key, Put, Query, Write, query_all, shard_of
from shared.receipt_store import Receipt
from shared.scanner import ScanReport
from shared.skills import Skill, SkillVersion, full_name, next_version, sort_key, split_name
from shared.submission_store import commit, find_submission, move_submission
from shared.submissions import CATEGORIES, Change, State, Submission, move
from shared.telemetry import logger

LONGEST_NAME = 500  # in any script it fits a key


class SkillPage(NamedTuple):
    skills: list[Skill]
    next_position: str | None
    failed: list[str]


class Enumerated(NamedTuple):
    skills: list[Skill]
    failed: list[str]


def skill_key(name: str) -> Key:
    """GitHub compares names without regard to case, so do we; the document keeps the name as it is written."""
    return Key(f"skill:{name.lower()}")


async def publish_stored(submission: Submission, receipt: Receipt, current: Skill | None) -> Submission:
    """From the stored bytes: what is published is what was scanned, or it is scanned again."""
    assert submission.content_hash  # it was set when the submission was approved
    files = await get_content().get_files(submission.content_hash)
    if content_hash_of(files) != receipt.content_hash:
        reason = "The stored content is not the content that was scanned."
        return await move_submission(submission, State.RESCAN_REQUIRED, "system", reason, parked_by="rule")
    published = await publish(submission, receipt, current)
    await _ask_scanners_elsewhere(published)
    return published


async def publish(submission: Submission, receipt: Receipt, current: Skill | None) -> Submission:
    """The move, the skill, its version and its short name in one transaction: all of them or none."""
    if current and current.content_hash == submission.content_hash:
        return await commit(lambda at: _published(submission, current.current_version, at))  # nothing new to publish
    wanted = receipt.report.front_matter.version or None
    version = next_version(current.current_version if current else None, wanted)
    return await commit(
        lambda at: _published(submission, version, at),
        lambda change: _publication(change, current, receipt.report),
    )


async def find_skill(name: str) -> Skill | None:
    doc = await get_kv().get(skill_key(name))
    return None if doc is None else _SKILL.decode(doc)


async def get_skill(name: str) -> Skill:
    """By its full name, or by its last part alone where only one skill has it."""
    if not name.isprintable() or len(name) > LONGEST_NAME:
        raise _not_found(name)
    full_name = name if name.count("/") >= 2 else await _resolve(name)
    skill = await find_skill(full_name)
    if skill is None:
        raise _not_found(name)
    return skill


async def get_versions(name: str) -> list[SkillVersion]:
    """Newest first."""
    rows = await query_all(get_kv(), f"version:{name.lower()}")
    return [_VERSION.decode(row.text) for row in reversed(rows)]


async def get_published_skills_list(limit: int, after: str | None = None) -> SkillPage:
    """A page of the marketplace, newest first: the index names candidates, their documents decide."""
    queries = [
        Query(f"{LISTS['skill:']}#{shard}", "list", before=after, descending=True, limit=limit + 1)
        for shard in range(SHARDS)
    ]
    pages = await asyncio.gather(*map(get_kv().query, queries))
    rows = sorted((row for page in pages for row in page.rows), key=lambda row: row.sort, reverse=True)
    read = await _read_skills(row.key.pk.removeprefix("skill:") for row in rows[:limit])
    by_name = {skill.name: skill for skill in read.skills}
    names = [row.key.pk.removeprefix("skill:") for row in rows[:limit]]
    shown = [by_name[name] for name in names if name in by_name]
    return SkillPage(shown, rows[limit - 1].sort if len(rows) > limit else None, read.failed)


async def block_skill(name: str, reason: str, actor: str) -> Submission | None:
    """Out of the marketplace at once: one field on the skill, never a fan-out; its submission moves with it."""
    skill = await get_skill(name)
    blocked = msgspec.structs.replace(
        skill, is_blocked=True, was_blocked=True, block_reason=reason, record_version=skill.record_version + 1
    )
    put = _skill_put(blocked, {"recordVersion": skill.record_version})
    submission = await find_submission(skill.submission_id)
    if submission is None or submission.state not in CATEGORIES["published"]:
        await get_kv().put(put)
        return submission
    change = lambda at: move(submission, State.BLOCKED, actor, at, reason, parked_by="person")  # noqa: E731
    return await commit(change, lambda _: [put])


async def put_rescanned(skill: Skill, report: ScanReport, rule_set: str) -> None:
    """What a newer rule set says of a published skill, when it says nothing worse."""
    scanned = msgspec.structs.replace(
        skill,
        rule_set=rule_set,
        verdict=report.verdict,
        score=report.score,
        record_version=skill.record_version + 1,
    )
    await get_kv().put(_skill_put(scanned, {"recordVersion": skill.record_version}))


async def enumerate_published_skills() -> Enumerated:
    """Every published skill, read all at once. Aliases are in no list, so they are never read."""
    return await _read_skills(await get_kv().ids("skill:"))


async def migrate_skill_slugs() -> list[str]:
    """Skills that an older release stored under a bare slug get their full name; the slug goes on leading to them."""
    read = await enumerate_published_skills()
    old = [skill for skill in read.skills if "/" not in skill.name]
    return sorted([full_name(skill) for skill in old if await _rename(skill, full_name(skill))])


async def _ask_scanners_elsewhere(published: Submission) -> None:
    """It is published whatever becomes of this: a later critical result blocks it."""
    try:
        await dispatch_external_scans(published.skill_name, published.content_hash or "", await configured_scanners())
    except Unavailable:
        logger.exception("external scans not requested", extra={"skill": published.skill_name})


_SKILL = msgspec.json.Decoder(Skill)
_VERSION = msgspec.json.Decoder(SkillVersion)


def _published(submission: Submission, version: str, at: datetime) -> Change:
    reason = f"published as version {version}"
    return move(submission, submission.publish_as, "worker", at, reason, published_version=version)


def _publication(change: Change, current: Skill | None, report: ScanReport) -> list[Write]:
    skill = _skill_of(change.after, current, report)
    expect: Expect = {"recordVersion": current.record_version} if current else ABSENT
    return [_skill_put(skill, expect), _version_put(_version_of(skill, current)), _alias_put(skill.name)]


def _skill_of(submission: Submission, current: Skill | None, report: ScanReport) -> Skill:
    assert submission.content_hash  # what is published was scanned, and what is scanned is stored
    assert submission.published_version
    front_matter = report.front_matter
    return Skill(
        name=submission.skill_name,
        display_name=front_matter.name,
        description=front_matter.description,
        repo_url=submission.repo_url,
        current_version=submission.published_version,
        content_hash=submission.content_hash,
        submission_id=submission.id,
        published_at=current.published_at if current else submission.updated_at,
        updated_at=submission.updated_at,
        category=front_matter.category,
        tags=front_matter.tags,
        capabilities=tuple(capability.name for capability in report.capabilities),
        cert_tier=submission.cert_tier or "SCANNED",
        verdict=submission.verdict,
        score=submission.score,
        judge_score=submission.judge_score,
        commit=submission.commit,
        ref=submission.ref,
        repo_id=submission.repo_id,
        rule_set=submission.rule_set,
        versions=current.versions + 1 if current else 1,
        record_version=current.record_version + 1 if current else 1,
        # New content does not lift what a person decided.
        is_blocked=current.is_blocked if current else False,
        block_reason=current.block_reason if current else None,
        was_blocked=current.was_blocked if current else False,
    )


def _version_of(skill: Skill, current: Skill | None) -> SkillVersion:
    return SkillVersion(
        name=skill.name,
        version=skill.current_version,
        content_hash=skill.content_hash,
        submission_id=skill.submission_id,
        created_at=skill.updated_at,
        cert_tier=skill.cert_tier,
        score=skill.score,
        commit=skill.commit,
        diff_summary=f"changed since {current.current_version}" if current else "first version",
    )


def _skill_put(skill: Skill, expect: Expect) -> Put:
    attrs: dict[str, str | int] = {
        "recordVersion": skill.record_version,
        "row": encode({"name": skill.name}),
        "listPk": f"{LISTS['skill:']}#{shard_of(skill.name)}",
        "listSk": f"{stamp(skill.published_at)}#{skill.name}",
    }
    return Put(skill_key(skill.name), encode(skill), attrs, expect)


def _version_put(version: SkillVersion) -> Put:
    return Put(_version_key(version), encode(version), expect=ABSENT)


def _version_key(version: SkillVersion) -> Key:
    return Key(f"version:{version.name.lower()}", sort_key(version.version))


def _alias_put(name: str) -> Put:
    return Put(Key(f"skill:alias:{split_name(name).slug.lower()}", name), encode({"name": name}))


async def _resolve(slug: str) -> str:
    names = [row.sort for row in await query_all(get_kv(), f"skill:alias:{slug.lower()}")]
    if not names:
        raise _not_found(slug)
    if len(names) > 1:
        raise Conflict(
            f"Several skills are called {slug!r}. Ask for one of them by its full name.",
            code="ambiguous_name",
            details={"candidates": names},
        )
    return names[0]


def _not_found(name: str) -> NotFound:
    return NotFound(f"There is no skill {name[:80]!r} here.", code="skill_not_found")


async def _read_skills(names: Iterable[str]) -> Enumerated:
    read = await get_kv().get_many(map(skill_key, names))
    skills, malformed = parse_each(read.found, _SKILL)
    unread = [key.pk.removeprefix("skill:") for key in [*read.failed, *malformed]]
    return Enumerated([skill for skill in skills if not skill.is_blocked], unread)


async def _rename(skill: Skill, name: str) -> bool:
    versions = [_VERSION.decode(row.text) for row in await query_all(get_kv(), f"version:{skill.name}")]
    writes: list[Write] = [
        _skill_put(msgspec.structs.replace(skill, name=name), ABSENT),
        _alias_put(name),
        Delete(skill_key(skill.name), {"recordVersion": skill.record_version}),
        *(_version_put(msgspec.structs.replace(version, name=name)) for version in versions),
        *(Delete(_version_key(version), {"pk": f"version:{skill.name}"}) for version in versions),
    ]
    try:
        await get_kv().transact(lambda: writes)
    except ConditionFailed:
        logger.warning("skill not renamed: it changed, or its full name is taken", extra={"skill": skill.name})
        return False
    return True
