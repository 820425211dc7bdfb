"""Decisions of owners about what is theirs. Each requires ownership and a reason, and leaves an audit entry in the same
transaction. The pages and the API call the same functions."""

import math
from datetime import timedelta
from typing import TYPE_CHECKING

from shared.access.audit import audit_put, reason_of
from shared.access.owners import require_owner
from shared.db import get_kv, now
from shared.errors import Conflict, InvalidRequest, TooManyRequests
from shared.marketplace import owner_marks, skill_admin
from shared.marketplace.published_content import refuse_blocked
from shared.marketplace.skill_store import find_skill, get_skill, get_version
from shared.records.owners import Owner, owns
from shared.records.skills import Skill, SkillVersion, split_name
from shared.records.submissions import State, Submission, move, reopen
from shared.storage.kv import Key, Put
from shared.submissions.admission import count_skills, refuse_when_full, sender_of
from shared.submissions.intake import send_or_leave_to_scan
from shared.submissions.skill_source import parse_slug
from shared.submissions.submission_store import commit, get_last_entry, get_submission

if TYPE_CHECKING:
    from shared.verification.rescan import Rescanned

RESCANS_A_DAY = 3  # of one version
DAY = timedelta(days=1)


# --- submissions ----------------------------------------------------------------------------------------------------


async def cancel(submission_id: str, owner: Owner, why: str) -> Submission:
    """Only while it waits: what a worker has claimed is decided."""
    reason = reason_of(why)
    submission = await get_owned_submission(submission_id, owner)
    if submission.state != State.RECEIVED:
        raise Conflict("Only a submission that waits for a worker can be cancelled.", code="illegal_move")
    text = f"Cancelled by its owner: {reason}"
    audit = audit_put(owner, "cancel", submission.id, reason)
    own = {"repo_id": owner.repo_id}  # known from here on: a later owner of the name cannot reopen it
    return await commit(lambda at: move(submission, State.DEQUEUED, owner.name, at, text, **own), lambda _: [audit])


async def reopen_cancelled(submission_id: str, owner: Owner, why: str, ip: str | None = None) -> Submission:
    """Counts like a new submission of this address: cancelling must not make room for more than its share."""
    reason = reason_of(why)
    submission = await get_owned_submission(submission_id, owner)
    is_cancelled = submission.state == State.DEQUEUED and await _was_moved_by_owner(submission)
    if not is_cancelled:
        raise Conflict("An owner can only reopen a submission that an owner cancelled.", code="illegal_move")
    sender = await sender_of(submission.sent_by, ip)
    await refuse_when_full(sender)
    await count_skills(sender, 1)
    audit = audit_put(owner, "reopen", submission.id, reason)
    held = {"held_by": sender.holder}
    reopened = await commit(lambda at: reopen(submission, owner.name, at, reason, **held), lambda _: [audit])
    return await send_or_leave_to_scan(reopened)


async def get_owned_submission(submission_id: str, owner: Owner) -> Submission:
    submission = await get_submission(submission_id)
    require_owner(owner, submission)
    return submission


async def _was_moved_by_owner(submission: Submission) -> bool:
    return (await get_last_entry(submission)).actor.startswith("owner:")


# --- skills ---------------------------------------------------------------------------------------------------------


async def rescan_now(name: str, owner: Owner, why: str) -> "Rescanned":
    """Of the stored files, under the current rules. Only a worse verdict removes it from the marketplace."""
    from shared.verification.rescan import rescan  # here: it loads the rule matcher, which nothing else here needs

    reason = reason_of(why)
    skill = await get_owned_skill(name, owner)
    refuse_blocked(skill)
    await _take_rescan(skill)
    audit = audit_put(owner, "rescan", f"{skill.name} {skill.current_version}", reason)
    await get_kv().transact(lambda: [audit])
    return await rescan(skill)


async def withdraw(name: str, owner: Owner, why: str, version: str | None = None) -> Skill:
    """All of it, or one version, which is a yank by its owner. It stays visible."""
    reason = reason_of(why)
    skill = await get_owned_skill(name, owner)
    audit = _about(owner, "withdraw", skill, version, reason)
    if version is None:
        return await owner_marks.withdraw_skill(skill, reason, [audit])
    return await skill_admin.yank_version(skill.name, version, reason, [audit], owner.name)


async def restore(name: str, owner: Owner, why: str, version: str | None = None) -> Skill:
    """Only what an owner withdrew: what an operator yanked stays yanked."""
    reason = reason_of(why)
    skill = await get_owned_skill(name, owner)
    audit = _about(owner, "restore", skill, version, reason)
    if version is None:
        return await owner_marks.restore_skill(skill, [audit])
    found = await get_version(skill.name, version)
    if _is_by_operator(found):
        raise Conflict(f"Version {version} was yanked by an operator, not by you.", code="yanked_by_operator")
    return await skill_admin.unyank_version(skill.name, version, [audit])


async def deprecate(name: str, owner: Owner, sentence: str, successor: str | None = None) -> Skill:
    """It can still be installed; clients show the sentence and the successor, which must be published here."""
    notice = reason_of(sentence)
    skill = await get_owned_skill(name, owner)
    audit = _about(owner, "deprecate", skill, None, notice)
    return await owner_marks.deprecate_skill(skill, notice, await _successor_of(skill, successor), [audit])


async def undeprecate(name: str, owner: Owner, why: str) -> Skill:
    reason = reason_of(why)
    skill = await get_owned_skill(name, owner)
    return await owner_marks.undeprecate_skill(skill, [_about(owner, "undeprecate", skill, None, reason)])


async def transfer(name: str, owner: Owner, to: Owner, why: str, slug: str | None = None) -> Skill:
    """Both repositories are proven by the caller. This name keeps its versions and points to the new one."""
    reason = reason_of(why)
    skill = await get_owned_skill(name, owner)
    if skill.transferred_to:
        raise Conflict(f"The skill {skill.name} was transferred to {skill.transferred_to}.", code="already_transferred")
    if to.repo_id == owner.repo_id:
        raise InvalidRequest("This is the repository it is in.", code="invalid_target")
    refuse_blocked(skill)
    to_name = f"{to.repo}/{parse_slug((slug or split_name(skill.name).slug.partition('@')[0]).lower())}"
    target = await find_skill(to_name)
    _refuse_target(skill, target, to, to_name)
    audit = _about(owner, "transfer", skill, None, f"to {to_name}: {reason}")
    return await owner_marks.transfer_skill(skill, to_name, to.repo_id, target, [audit])


async def get_owned_skill(name: str, owner: Owner) -> Skill:
    skill = await get_skill(name)
    require_owner(owner, skill)
    return skill


def _about(owner: Owner, action: str, skill: Skill, version: str | None, reason: str) -> Put:
    return audit_put(owner, action, f"{skill.name} {version}" if version else skill.name, reason)


def _is_by_operator(version: SkillVersion) -> bool:
    return version.is_yanked and version.yanked_by is None


async def _take_rescan(skill: Skill) -> None:
    at = now()
    left = math.ceil(DAY.total_seconds() - at.timestamp() % DAY.total_seconds())
    key = Key(f"owner-rescan:{skill.name.lower()}", f"{skill.current_version}#{at:%Y-%m-%d}")
    if await get_kv().take(key, RESCANS_A_DAY, math.ceil(at.timestamp()) + left) is None:
        message = f"A version can be rescanned {RESCANS_A_DAY} times a day. Try again tomorrow (UTC)."
        raise TooManyRequests(message, code="rescans_used_up", retry_after=left)


async def _successor_of(skill: Skill, successor: str | None) -> str | None:
    if not successor:
        return None
    found = await get_skill(successor)
    if found.name.lower() == skill.name.lower() or not found.is_listed:
        raise InvalidRequest(
            "The successor must be another skill that can be installed here.", code="invalid_successor"
        )
    return found.name


def _refuse_target(skill: Skill, target: Skill | None, to: Owner, to_name: str) -> None:
    if target is None:
        return
    is_free = not (target.is_deleted or target.is_blocked or target.transferred_to or target.transferred_from)
    if not is_free or not owns(to, target):
        raise Conflict(
            f"The skill {skill.name} cannot be transferred to {to_name}: that name is in use.", code="name_taken"
        )
