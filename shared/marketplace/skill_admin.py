"""Blocking, yanking and deleting a published skill, and undoing it. Each is one transaction, guarded by the skill's
version, and includes the caller's own writes, such as the audit entry. A change by the platform's own upkeep, such as
indexing, is no reason to ask a person again: the action is repeated with the new record.

Yank: a version stays visible, marked, and the newest version that is not yanked becomes the current one. A skill whose
versions are all yanked is in no list but can still be viewed. Delete: a tombstone. Nothing of the skill is served any
more, and its name is never used again.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec

from shared.db import get_kv, now
from shared.errors import ConditionFailed, Conflict, LostLease, NotFound, Unavailable
from shared.evidence.receipt_store import (
    Receipt,
    clearance_of,
    clearance_put,
    read_receipt,
    receipt_key,
    with_own_findings,
)
from shared.marketplace.blocking import BlockTarget, blocking_writes, lifting_writes, receipt_keys, unlisted_checks
from shared.marketplace.external_scan_dispatch import configured_scanners
from shared.marketplace.external_scan_store import scan_requests
from shared.marketplace.skill_index import try_to_index
from shared.marketplace.skill_store import alias_removal, get_skill, get_versions, skill_writes, version_update
from shared.notifications.events import EventType, RepoEvent, event_puts, skill_event
from shared.records.skills import Skill, SkillVersion, version_metadata_of
from shared.records.submissions import CATEGORIES, Change, State, Submission, move
from shared.storage.kv import Put, Write
from shared.submissions.skill_source import UPLOADS
from shared.submissions.submission_store import commit, find_submission

Result = TypeVar("Result")
CHANGED = "changed_meanwhile"
ATTEMPTS = 3
# What upkeep writes to a skill (indexing, packaging, a rescan that found nothing worse); no decision depends on it.
UPKEEP = {"record_version": 0, "unindexed_since": None, "rule_set": None, "verdict": None, "score": None}


async def despite_upkeep(skill: Skill, act: Callable[[Skill], Awaitable[Result]]) -> Result:
    """Repeats what failed because upkeep wrote the record at the same time. It is still refused if another decision was
    made or the content is new."""
    for _ in range(ATTEMPTS):
        try:
            return await act(skill)
        except (ConditionFailed, Conflict) as error:
            if isinstance(error, Conflict) and error.code != CHANGED:
                raise
            latest = await get_skill(skill.name)
            if not _is_only_upkeep(skill, latest):
                raise
            skill = latest
    raise changed_meanwhile()


def _is_only_upkeep(before: Skill, after: Skill) -> bool:
    seen, found = (msgspec.structs.replace(skill, **UPKEEP) for skill in (before, after))
    return before.record_version != after.record_version and seen == found


async def block_skill(
    name: str,
    reason: str,
    actor: str,
    severity: str = "high",
    also: Sequence[Write] = (),
    files: Collection[str] = (),
) -> Submission | None:
    """Removed from the marketplace at once: one field on the skill, never a fan-out. Its submission moves with it, and
    the blocklist stops it and its copies."""

    async def block(skill: Skill) -> Submission | None:
        kept_out = await blocking_writes(block_target(skill), reason, severity, files)
        return await _commit_with_submission(skill, blocked(skill, reason), reason, actor, [*kept_out, *also])

    return await despite_upkeep(await get_skill(name), block)


async def block_by_entry(skill: Skill, reason: str, actor: str) -> Submission | None:
    """For a skill that an existing blocklist entry names."""
    return await _commit_with_submission(skill, blocked(skill, reason), reason, actor, [], parked_by="blocklist")


async def block_by_rule(skill: Skill, reason: str, **learned: str | int) -> Submission | None:
    """By a newer rule set. A reviewer may overrule it, and fixed content may be published: no blocklist entry."""
    after = msgspec.structs.replace(blocked(skill, reason), is_blocked_by_rule=True, **learned)
    return await _commit_with_submission(skill, after, reason, "system", [], parked_by="rule", **learned)


async def unblock_skill(name: str, reason: str, actor: str, also: Sequence[Write] = ()) -> Submission | None:
    """Back in the marketplace, with its submission published again. `was_blocked` stays."""
    return await despite_upkeep(await get_skill(name), lambda skill: _unblock(skill, reason, actor, also))


async def _unblock(skill: Skill, reason: str, actor: str, also: Sequence[Write]) -> Submission | None:
    if not skill.is_blocked:
        raise Conflict(f"The skill {skill.name} is not blocked.", code="not_blocked")
    submission = await find_submission(skill.submission_id)
    cleared = await _cleared_by(skill, submission, actor, reason)
    tier = {"cert_tier": "CERTIFIED"} if cleared else {}
    lifting = await lifting_writes(block_target(skill))
    after = unblocked(skill, **tier)
    writes = [*skill_writes(skill, after), *lifting, *cleared, *also]
    if submission is None or submission.state != State.BLOCKED or submission.content_hash != skill.content_hash:
        events = event_puts(skill_event(after, EventType.RESTORED, now(), "It is no longer blocked."))
        await transact_change([*writes, *events])
        return submission
    return await _commit(lambda at: _published_again(submission, skill, actor, at, reason, **tier), writes)


async def yank_version(
    name: str, version: str, reason: str, also: Sequence[Write] = (), owner: str | None = None
) -> Skill:
    """`owner`: who withdraws it, where that is not an operator."""
    skill = await get_skill(name)
    return await despite_upkeep(skill, lambda skill: _mark(skill, version, True, reason, also, owner))


async def unyank_version(name: str, version: str, also: Sequence[Write] = ()) -> Skill:
    return await despite_upkeep(await get_skill(name), lambda skill: _mark(skill, version, False, None, also))


async def delete_skill(name: str, reason: str, actor: str, also: Sequence[Write] = ()) -> Submission | None:
    history = f"The skill was deleted: {reason.rstrip('.')}. Its name is not used again."

    async def delete(skill: Skill) -> Submission | None:
        deleted = next_record(skill, is_deleted=True, delete_reason=reason, unindexed_since=None)
        return await _commit_with_submission(skill, deleted, history, actor, [*await alias_removal(skill), *also])

    return await despite_upkeep(await get_skill(name), delete)


def source_of(skill: Skill) -> str:
    """As in submissions and blocklist entries."""
    return skill.repo_url.lower() if skill.repo_url else UPLOADS


def block_target(skill: Skill) -> BlockTarget:
    receipts = receipt_keys(skill.content_hash, skill.rule_set, skill.unscanned)
    return BlockTarget(skill.name, source_of(skill), receipts)


def blocked(skill: Skill, reason: str) -> Skill:
    return next_record(skill, is_blocked=True, is_blocked_by_rule=False, was_blocked=True, block_reason=reason)


def unblocked(skill: Skill, **set_: object) -> Skill:
    index = {"unindexed_since": now()} if set_ else {}  # its tier may have changed: the stuck scan writes the facet
    return next_record(skill, is_blocked=False, is_blocked_by_rule=False, block_reason=None, **index, **set_)


async def _cleared_by(skill: Skill, submission: Submission | None, actor: str, reason: str) -> list[Put]:
    """Unblocking what rules blocked clears their findings, for this content and these rules. A block by a person is not
    about rules."""
    receipt = await _find_last_receipt(skill, submission)
    if receipt is None or not (skill.is_blocked_by_rule or receipt.report.verdict == "FAIL"):
        return []
    return [clearance_put(skill.name, clearance_of(receipt, actor.removeprefix("admin:"), reason, now()))]


async def _find_last_receipt(skill: Skill, submission: Submission | None) -> Receipt | None:
    """The last scan of this content. Of a block by an older release only the submission knows the rule set."""
    keys = [receipt_key(skill.content_hash, skill.rule_set or "", skill.unscanned)]
    if submission and submission.content_hash == skill.content_hash:
        keys.append(receipt_key(skill.content_hash, submission.rule_set or "", submission.unscanned))
    read = await get_kv().get_many(keys)
    if read.failed:
        raise Unavailable("The receipt of this skill could not be read.")
    last = max(map(read_receipt, read.found.values()), key=lambda receipt: receipt.ended_at, default=None)
    has_own = submission is not None and (skill.has_own_findings or submission.has_own_findings)
    return await with_own_findings(last, submission) if last and submission and has_own else last


async def _commit_with_submission(
    before: Skill,
    after: Skill,
    reason: str,
    actor: str,
    also: Sequence[Write],
    parked_by: str = "person",
    **learned: str | int,
) -> Submission | None:
    """A published submission is parked with its skill; an active one is decided by its worker."""
    writes = [*skill_writes(before, after), *also]
    submission = await find_submission(before.submission_id)
    if submission is None or submission.state not in CATEGORIES["published"]:
        type_ = EventType.SKILL_DELETED if after.is_deleted else EventType.SKILL_BLOCKED
        await transact_change([*writes, *event_puts(skill_event(after, type_, now(), reason))])
        return submission
    return await _commit(
        lambda at: move(submission, State.BLOCKED, actor, at, reason, parked_by=parked_by, **learned), writes
    )


async def _commit(change_at: Callable[[datetime], Change], writes: Sequence[Write]) -> Submission:
    try:
        return await commit(change_at, lambda _: writes)
    except (ConditionFailed, LostLease) as error:
        raise changed_meanwhile() from error


async def transact_change(writes: Sequence[Write]) -> None:
    try:
        await get_kv().transact(lambda: writes)
    except ConditionFailed as error:
        raise changed_meanwhile() from error


def changed_meanwhile() -> Conflict:
    return Conflict("It has changed since you viewed it. Review it again, then decide.", code=CHANGED)


def _published_again(
    submission: Submission, skill: Skill, actor: str, at: datetime, reason: str, **tier: str
) -> Change:
    """Two moves, as the states require, in one change."""
    approved = move(submission, State.AUTO_APPROVED, actor, at, reason, attempts=0, error=None)
    published = f"published as version {skill.current_version}"
    again = move(approved.after, submission.publish_as, actor, at, published, parked_by=None, **tier)
    after = msgspec.structs.replace(again.after, version=submission.version + 1)
    return Change(submission, after, approved.entries + again.entries)


async def _mark(
    skill: Skill, version: str, is_yanked: bool, reason: str | None, also: Sequence[Write], owner: str | None = None
) -> Skill:
    versions = {one.version: one for one in await get_versions(skill.name)}
    if version not in versions:
        raise NotFound(f"There is no version {version[:40]!r} of {skill.name}.", code="version_not_found")
    # An operator's yank replaces an owner's, so that the owner cannot restore the version.
    is_taken_over = is_yanked and owner is None and versions[version].yanked_by is not None
    if versions[version].is_yanked == is_yanked and not is_taken_over:
        state = "yanked already" if is_yanked else "not yanked"
        raise Conflict(f"Version {version} of {skill.name} is {state}.", code="nothing_to_change")
    marked = msgspec.structs.replace(versions[version], is_yanked=is_yanked, yank_reason=reason, yanked_by=owner)
    after = _with_versions(skill, list({**versions, version: marked}.values()))
    # Another version may become current, and the blocklist may name its content.
    unlisted = await unlisted_checks(block_target(after)) if not after.is_yanked and not skill.is_blocked else []
    requests = await _requests_after(skill, after)
    events = event_puts(_marking_event(after, marked))
    await transact_change([*skill_writes(skill, after), version_update(marked), *unlisted, *requests, *events, *also])
    if after.unindexed_since:
        await try_to_index(after)
    return after


def _marking_event(skill: Skill, version: SkillVersion) -> RepoEvent | None:
    """Its owner is notified of a yank by an operator too."""
    by = "its owner" if version.yanked_by else "an operator"
    type_, reason = EventType.VERSION_RESTORED, "It can be installed again."
    if version.is_yanked:
        type_, reason = EventType.VERSION_WITHDRAWN, f"Withdrawn by {by}: {version.yank_reason or 'no reason given'}"
    return skill_event(skill, type_, now(), reason, version=version.version)


async def _requests_after(before: Skill, after: Skill) -> list[Put]:
    """External scans are about the current content: when that changes, they are requested again."""
    if after.content_hash == before.content_hash:
        return []
    return scan_requests(after.name, after.content_hash, await configured_scanners(), after.updated_at)


def _with_versions(skill: Skill, versions: Sequence[SkillVersion]) -> Skill:
    """The current version is the newest that is not yanked. `versions`: newest first."""
    alive = [version for version in versions if not version.is_yanked]
    current = alive[0] if alive else None
    yanked = {version.content_hash for version in versions} - {version.content_hash for version in alive}
    after = next_record(skill, is_yanked=current is None, yanked_content=tuple(sorted(yanked)))
    if current and current.version != skill.current_version:
        after = _with_current(after, current)
    latest = versions[0].version if versions[0].version != after.current_version else None
    return msgspec.structs.replace(after, latest_version=latest)


def _with_current(skill: Skill, version: SkillVersion) -> Skill:
    at = now()
    return msgspec.structs.replace(
        skill,
        current_version=version.version,
        content_hash=version.content_hash,
        cert_tier=version.cert_tier,
        score=version.score,
        commit=version.commit,
        updated_at=at,
        unindexed_since=at,
        **(version_metadata_of(version.metadata) if version.metadata else {}),
    )


def next_record(skill: Skill, **set_: object) -> Skill:
    return msgspec.structs.replace(skill, record_version=skill.record_version + 1, **set_)
