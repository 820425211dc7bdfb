"""The marketplace at rest: skills, their versions and the short names that lead to them."""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

import msgspec

from shared.db import get_content, get_kv, now
from shared.errors import ConditionFailed, Conflict, NotFound, Unavailable
from shared.evidence.blocklist import block_keys, blocked_by, find_block
from shared.evidence.receipt_store import Receipt, deciding_rules
from shared.marketplace.diffs import count_files
from shared.marketplace.external_scan_dispatch import configured_scanners, dispatch_external_scans
from shared.marketplace.external_scan_store import scan_requests
from shared.marketplace.skill_aliases import Namesakes, alias_put, find_namesakes
from shared.marketplace.skill_index import (
    alike_put,
    counts_put,
    decode_skill,
    index_skill,
    no_counts,
    read_skills,
    skill_put,
    skill_writes,
)
from shared.marketplace.skill_index import skill_key as skill_key
from shared.records.skills import (
    Skill,
    SkillCounts,
    SkillVersion,
    VersionMetadata,
    folder_spelled,
    full_name,
    is_version,
    next_version,
    sort_key,
    version_metadata_of,
)
from shared.records.submissions import CATEGORIES, Change, State, Submission, move
from shared.scanner import ScanReport
from shared.storage.content import Files, content_hash_of
from shared.storage.documents import encode
from shared.storage.kv import ABSENT, Check, Delete, Key, Put, Write, query_all
from shared.submissions.counters import count_skill
from shared.submissions.submission_store import commit, move_submission
from shared.telemetry import logger

WRITES_AT_ONCE = 100  # a transaction takes no more
Writes = Callable[[Change], list[Write]]
LONGEST_NAME = 500  # in any script it fits a key
MAX_CANDIDATES = 20  # of a short name that several skills have
LOOK_ALIKE = "NAME-LOOK-ALIKE"  # the rule for a new name that people take for a published one


class Enumerated(NamedTuple):
    skills: list[Skill]
    failed: list[str]


async def publish_stored(submission: Submission, receipt: Receipt, current: Skill | None) -> Submission:
    """From the stored bytes: what is published is what was scanned, or it is scanned again."""
    assert submission.content_hash  # it was set when the submission was approved
    files = await get_content().get_files(submission.content_hash)
    if content_hash_of(files) != receipt.content_hash:
        reason = "The stored content is not the content that was scanned."
        return await move_submission(submission, State.RESCAN_REQUIRED, "system", reason, parked_by="rule")
    scanners = await configured_scanners()
    is_new = current is None or current.content_hash != submission.content_hash
    since = await _since(current, files) if is_new else ""
    published = await publish(submission, receipt, current, scanners, since)
    if published.state not in CATEGORIES["published"]:
        return published
    if is_new:
        skill = _skill_of(published, current, receipt.report)
        await make_findable(skill, may_have_moved=current is not None and not _is_where_it_was(skill, current))
    else:
        await _ask_scanners_elsewhere(published, scanners)
    return published


async def publish(
    submission: Submission,
    receipt: Receipt,
    current: Skill | None,
    scanners: Sequence[str] = (),
    since: str = "first version",
) -> Submission:
    """The move, the skill, its version, its short name and the requests to scanners elsewhere in one transaction: all
    of them or none. A worker that dies right after it leaves nothing out."""
    if current and current.is_deleted:
        return await move_submission(submission, State.BLOCKED, "system", name_is_gone(current), parked_by="person")
    if current and current.submission_id != submission.id:
        reason = f"The name {current.name} is taken by the skill of submission {current.submission_id}."
        return await move_submission(submission, State.ON_HOLD, "system", reason, parked_by="person")
    if current and current.is_blocked and not current.is_blocked_by_rule:
        # A person decided, and only a person lifts it: neither new content does, nor that the entry is gone.
        reason = f"The skill {current.name} is blocked: {current.block_reason}"
        return await move_submission(submission, State.BLOCKED, "system", reason, parked_by="person")
    if current and current.content_hash == submission.content_hash:
        version = current.current_version  # nothing new to publish
        as_read = Check(skill_key(current.name), {"recordVersion": current.record_version})
        writes: Writes = lambda change: (  # noqa: E731
            _lifted(current, change.after) if current.is_blocked_by_rule else [as_read]
        )
    else:
        wanted = receipt.report.front_matter.version or None
        version = next_version((current.latest_version or current.current_version) if current else None, wanted)
        writes = lambda change: _publication(change, current, receipt.report, scanners, since)  # noqa: E731
    return await _commit_unless_listed(submission, version, writes)


async def find_skill(name: str) -> Skill | None:
    doc = await get_kv().get(skill_key(name))
    return None if doc is None else decode_skill(doc)


async def get_skill(name: str) -> Skill:
    """By its full name, or by its last part alone where only one skill has it."""
    return (await get_skill_with_counts(name))[0]


async def get_skill_with_counts(name: str) -> tuple[Skill, SkillCounts | None]:
    """Beside the skill what readers do with it, in the same round trip. None: that could not be read."""
    if not name.isprintable() or len(name) > LONGEST_NAME:
        raise _not_found(name)
    named = await _named(name)
    read = await read_skills(named.names)
    if read.failed:
        raise Unavailable("The store did not give this skill.")
    deleted = {skill.name.lower() for skill in read.skills.values() if skill.is_deleted}
    left = [name for name in named.names if name.lower() not in deleted]
    if len(left) > 1 or named.has_more:
        raise _ambiguous(name, left, named.has_more)
    if not left or left[0].lower() not in read.skills:
        raise _deleted(name) if deleted or named.was_deleted else _not_found(name)
    return read.skills[left[0].lower()], read.counts.get(left[0].lower())


async def get_versions(name: str) -> list[SkillVersion]:
    """Newest first."""
    rows = await query_all(get_kv(), f"version:{name.lower()}")
    return [_VERSION.decode(row.text) for row in reversed(rows)]


async def get_version(name: str, version: str) -> SkillVersion:
    doc = await get_kv().get(_key_of_version(name, version)) if is_version(version) else None
    found = None if doc is None else _VERSION.decode(doc)
    if found is None or found.version != version:
        raise NotFound(f"The skill {name[:80]!r} has no version {version[:40]!r}.", code="version_not_found")
    return found


async def put_rescanned(skill: Skill, report: ScanReport, rule_set: str) -> None:
    """What a newer rule set says of a published skill, when it says nothing worse."""
    scanned = msgspec.structs.replace(
        skill,
        rule_set=rule_set,
        verdict=report.verdict,
        score=report.score,
        record_version=skill.record_version + 1,
    )
    await get_kv().put(skill_put(scanned, {"recordVersion": skill.record_version}))


async def enumerate_published_skills() -> Enumerated:
    """Every published skill, read all at once. Aliases are in no list, so they are never read."""
    read = await enumerate_skills()
    return Enumerated([skill for skill in read.skills if skill.is_listed], read.failed)


async def enumerate_skills() -> Enumerated:
    """Those that are blocked or yanked too: their records and their content are still there."""
    read = await read_skills(await get_kv().ids("skill:"), with_counts=False)
    return Enumerated([skill for skill in read.skills.values() if not skill.is_deleted], read.failed)


async def migrate_skill_slugs() -> list[str]:
    """Skills that an older release stored under a bare slug get their full name; the slug goes on leading to them."""
    read = await enumerate_published_skills()
    old = [skill for skill in read.skills if "/" not in skill.name]
    return sorted([full_name(skill) for skill in old if await _rename(skill, full_name(skill))])


async def _commit_unless_listed(submission: Submission, version: str, writes: Writes) -> Submission:
    """The blocklist is asked once more by the transaction itself: an entry made while the content was being scanned
    found no skill to take out, so it must keep this one from getting in."""
    keys = block_keys(submission.skill_name, submission.source, submission.content_hash)
    try:
        return await commit(
            lambda at: _published(submission, version, at),
            lambda change: [*writes(change), *(Check(key, ABSENT) for key in keys)],
        )
    except ConditionFailed:
        entry = await find_block(submission.skill_name, submission.source, submission.content_hash)
        if entry is None:
            raise
        block = blocked_by(entry)
        return await move_submission(submission, State.BLOCKED, "system", str(block), parked_by=block.parked_by)


def _is_where_it_was(skill: Skill, before: Skill) -> bool:
    return skill.category == before.category and before.unindexed_since is None


async def make_findable(skill: Skill, may_have_moved: bool = True) -> None:
    """It is published whatever becomes of this: until its words are written, the skill says so, and the stuck scan
    writes them."""
    try:
        await index_skill(skill, may_have_moved)
    except Unavailable:
        logger.exception("words not written, left to the stuck scan", extra={"skill": skill.name})


def name_is_gone(skill: Skill) -> str:
    return (
        f"The skill {skill.name} was deleted ({skill.delete_reason}). Its name is not used again: choose another one."
    )


async def _since(current: Skill | None, files: Files) -> str:
    """What the version before has otherwise; that it cannot be read keeps nothing from being published."""
    if current is None:
        return "first version"
    try:
        before = await get_content().get_files(current.content_hash)
    except (NotFound, Unavailable):
        return f"changed since {current.current_version}"
    return f"{count_files(before, files)} since {current.current_version}"


async def _ask_scanners_elsewhere(published: Submission, scanners: Sequence[str]) -> None:
    """Those who were not asked about this content yet. It is published whatever becomes of this."""
    try:
        await dispatch_external_scans(published.skill_name, published.content_hash or "", scanners)
    except Unavailable:
        logger.exception("external scans not requested", extra={"skill": published.skill_name})


_VERSION = msgspec.json.Decoder(SkillVersion)


def _published(submission: Submission, version: str, at: datetime) -> Change:
    reason = f"published as version {version}"
    return move(submission, submission.publish_as, "worker", at, reason, published_version=version)


def _publication(
    change: Change, current: Skill | None, report: ScanReport, scanners: Sequence[str], since: str
) -> list[Write]:
    skill = _skill_of(change.after, current, report)
    writes = [*skill_writes(current, skill), version_put(_version_of(skill, since)), alias_put(skill.name)]
    if current is None:
        writes.append(counts_put(no_counts(skill), expect=None))
        writes += [] if LOOK_ALIKE in deciding_rules(report) else [alike_put(skill.name)]
    return [*writes, *scan_requests(skill.name, skill.content_hash, scanners, skill.updated_at)]


def _lifted(current: Skill, submission: Submission) -> list[Write]:
    """A person has seen what a newer rule set found, and let it through."""
    lifted = msgspec.structs.replace(
        current,
        is_blocked=False,
        is_blocked_by_rule=False,
        block_reason=None,
        cert_tier=submission.cert_tier or current.cert_tier,
        verdict=submission.verdict,
        score=submission.score,
        rule_set=submission.rule_set,
        unscanned=submission.unscanned,
        unindexed_since=submission.updated_at,  # its tier may be another one: the stuck scan writes the facet
        record_version=current.record_version + 1,
    )
    return skill_writes(current, lifted)


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
        folder=folder_spelled(submission.skill_name, submission.skill_path, submission.repo_url),
        rule_set=submission.rule_set,
        unscanned=submission.unscanned,
        versions=current.versions + 1 if current else 1,
        record_version=current.record_version + 1 if current else 1,
        was_blocked=current.was_blocked if current else False,
        yanked_content=current.yanked_content if current else (),
        unindexed_since=submission.updated_at,
    )


def _version_of(skill: Skill, since: str) -> SkillVersion:
    return SkillVersion(
        name=skill.name,
        version=skill.current_version,
        content_hash=skill.content_hash,
        submission_id=skill.submission_id,
        created_at=skill.updated_at,
        cert_tier=skill.cert_tier,
        score=skill.score,
        commit=skill.commit,
        diff_summary=since,
        metadata=VersionMetadata(**version_metadata_of(skill)),
    )


def version_put(version: SkillVersion) -> Put:
    return Put(version_key(version), encode(version), expect=ABSENT)


def version_key(version: SkillVersion) -> Key:
    return _key_of_version(version.name, version.version)


def _key_of_version(name: str, version: str) -> Key:
    return Key(f"version:{name.lower()}", sort_key(version))


async def _named(name: str) -> Namesakes:
    if name.count("/") >= 2:
        return Namesakes([name], has_more=False, was_deleted=False)
    return await find_namesakes(name, MAX_CANDIDATES)


def _ambiguous(name: str, candidates: Sequence[str], has_more: bool) -> Conflict:
    several = f"More than {MAX_CANDIDATES} skills are" if has_more else "Several skills are"
    return Conflict(
        f"{several} called {name!r}. Ask for one of them by its full name.",
        code="ambiguous_name",
        details={"candidates": candidates, **({"more": True} if has_more else {})},
    )


def _deleted(name: str) -> NotFound:
    return NotFound(f"The skill {name[:80]!r} was deleted. Its name is not used again.", code="skill_deleted")


def _not_found(name: str) -> NotFound:
    return NotFound(f"There is no skill {name[:80]!r} here.", code="skill_not_found")


async def _rename(skill: Skill, name: str) -> bool:
    """In one transaction where it fits one. A longer past is copied first and cleared away last: in between, and after
    a crash, the skill is under one name or the other with all its versions."""
    versions = [_VERSION.decode(row.text) for row in await query_all(get_kv(), f"version:{skill.name}")]
    copies: list[Write] = [version_put(msgspec.structs.replace(version, name=name)) for version in versions]
    leftovers: list[Write] = [Delete(version_key(version), {"pk": f"version:{skill.name}"}) for version in versions]
    renamed = msgspec.structs.replace(skill, name=name, unindexed_since=now())
    writes: list[Write] = [
        skill_put(renamed, ABSENT),
        alias_put(name),
        counts_put(no_counts(renamed), expect=None),
        Delete(skill_key(skill.name), {"recordVersion": skill.record_version}),
        *count_skill(skill, renamed),
    ]
    try:
        if len(writes) + len(copies) + len(leftovers) <= WRITES_AT_ONCE:
            await get_kv().transact(lambda: [*writes, *copies, *leftovers])
        else:
            await _rename_in_steps(name, writes, copies, leftovers)
    except ConditionFailed:
        logger.warning("skill not renamed: it changed, or its full name is taken", extra={"skill": skill.name})
        return False
    await make_findable(renamed)
    return True


async def _rename_in_steps(name: str, writes: list[Write], copies: list[Write], leftovers: list[Write]) -> None:
    if await find_skill(name):
        raise ConditionFailed([0])
    for start in range(0, len(copies), WRITES_AT_ONCE):
        chunk = [Put(copy.key, copy.doc) for copy in copies[start : start + WRITES_AT_ONCE] if isinstance(copy, Put)]
        await get_kv().transact(partial(list, chunk))  # unguarded: a copy that a crash left is written again
    await get_kv().transact(lambda: writes)
    for start in range(0, len(leftovers), WRITES_AT_ONCE):
        await get_kv().transact(partial(list, leftovers[start : start + WRITES_AT_ONCE]))
