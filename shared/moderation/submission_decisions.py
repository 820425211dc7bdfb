"""Decisions of reviewers and admins. Each is one transaction: the move, its history, the audit entry with who and why.

The admin pages and the admin API call the same functions, so a rule about roles or reasons holds in both.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from shared.access.audit import audit_put
from shared.access.audit import reason_of as _reason
from shared.access.auth import require_role
from shared.db import get_kv, now
from shared.errors import ConditionFailed, Conflict, IllegalMove, InvalidRequest, LostLease, NotFound, Unavailable
from shared.evidence.appeal_store import find_open_appeal
from shared.evidence.receipt_store import Receipt, clearance_of, clearance_put, find_receipt
from shared.marketplace.blocking import BlockTarget, blocking_writes, lifting_writes, receipt_keys, unlisted_checks
from shared.marketplace.publishing import publish
from shared.marketplace.skill_admin import block_target, blocked, despite_upkeep, unblock_skill, unblocked
from shared.marketplace.skill_store import find_skill, get_skill, skill_writes, unchanged_check
from shared.moderation.review_claims import claim_guard
from shared.records.appeals import APPEALABLE
from shared.records.skills import Skill
from shared.records.submissions import ACTIVE_STATES, CATEGORIES, Change, Rescue, State, Submission, move, reopen
from shared.storage.kv import Write
from shared.storage.secret_store import AdminToken
from shared.submissions.dead_letter_store import (
    DeadLetter,
    deletion_of,
    find_dead_letter,
    get_dead_letters,
    position_of,
)
from shared.submissions.intake import send_or_leave_to_scan
from shared.submissions.pause import Pause, pause_queue, resume_queue
from shared.submissions.submission_list import find_by_reason
from shared.submissions.submission_store import commit, get_submission
from shared.telemetry import logger
from shared.timing import API_TIMEOUT, DEFAULT_PAUSE, seconds_left
from shared.verification.recovery import RecoveryReport, recover_stuck, rescue
from shared.verification.resumption import send_waiting

if TYPE_CHECKING:
    from shared.verification.rescan import Rescanned, RescanReport

HOUR = timedelta(hours=1)
RETRY_LIMIT = 100  # at once; the result says what is left
LETTERS_AT_ONCE = 500
TIME_TO_ANSWER = API_TIMEOUT / 4  # kept back when many are retried
SHORT_RESCAN = timedelta(seconds=3)  # a person waits: most scans take far less
NOTHING: Mapping[str, Any] = MappingProxyType({})
ChangeAt = Callable[[datetime], Change]


async def approve(
    submission_id: str, by: AdminToken, why: str, seen: int | None = None, also: Sequence[Write] = ()
) -> Submission:
    """Published as CERTIFIED, from the stored bytes. The clearance is for exactly this content and these rules: one
    changed byte is held again."""
    reason = _reason(why)
    submission = await get_submission(submission_id)
    require_role(by, role_for(submission))
    await _refuse_appealed(submission, also)
    receipt = await find_receipt(submission)
    if receipt is None or _nothing_was_read(receipt) or submission.scanned_commit not in (None, submission.commit):
        raise Conflict("Its scan never finished, so there is nothing to approve. Requeue it instead.")
    if receipt.report.front_matter.errors:
        raise Conflict("Its SKILL.md has no usable name and description, so it cannot be published.", code="unusable")
    skill = await find_skill(submission.skill_name)
    _refuse_taken(submission, skill)
    # A person's block is lifted by an admin, or by the answer to an appeal: with its own entries, and only those.
    is_overturned = bool(also) and submission.parked_by == "person"
    unlisted = await (lifting_writes if is_overturned else unlisted_checks)(_block_target(submission, skill))
    fresh = {"attempts": 0, "error": None, "not_before": None, "resent_at": None}
    certified = {"cert_tier": "CERTIFIED", "publish_as": State.PUBLISHED}
    clearance = clearance_put(submission.skill_name, clearance_of(receipt, by.name, reason, now()))
    lifted, writes = _lift(skill)
    all_writes = [clearance, *unlisted, *writes, *also]
    approved = await _decide(
        submission, State.AUTO_APPROVED, "approve", by, reason, seen, fresh | certified, all_writes
    )
    return await publish(approved, receipt, lifted)


def _nothing_was_read(receipt: Receipt) -> bool:
    return not receipt.is_reusable and not receipt.report.front_matter.name


async def reject(submission_id: str, by: AdminToken, why: str, seen: int | None = None) -> Submission:
    reason = _reason(why)
    submission = await get_submission(submission_id)
    require_role(by, role_for(submission))
    await _refuse_appealed(submission)
    return await _decide(submission, State.REJECTED, "reject", by, reason, seen)


async def block(
    submission_id: str, by: AdminToken, why: str, seen: int | None = None, files: Collection[str] = ()
) -> Submission:
    """Until a person lifts it: its published skill is removed at once, and copies of it are stopped. `files`: what the
    block rests on, where that is not what the scan found."""
    require_role(by, "admin")
    reason = _reason(why)
    submission = await get_submission(submission_id)

    async def block_with(skill: Skill | None) -> Submission:
        kept_out = await blocking_writes(_block_target(submission, skill), reason, files=files)
        also = [*kept_out, *(skill_writes(skill, blocked(skill, reason)) if skill else [])]
        return await _decide(submission, State.BLOCKED, "block", by, reason, seen, {"parked_by": "person"}, also)

    skill = await _published(submission)
    return await (despite_upkeep(skill, block_with) if skill else block_with(None))


async def unblock(
    submission_id: str, by: AdminToken, why: str, seen: int | None = None, also: Sequence[Write] = ()
) -> Submission:
    """A published skill is restored; anything else is verified again from the start."""
    require_role(by, "admin")
    reason = _reason(why)
    submission = await get_submission(submission_id)
    refuse_changed(submission, seen)
    if submission.state is not State.BLOCKED:
        raise Conflict("It is not blocked, so there is nothing to lift.", code="not_blocked")
    await _refuse_appealed(submission, also)
    skill = await _published(submission)
    if skill and skill.is_blocked and skill.content_hash == submission.content_hash:
        audit, guard = audit_put(by, "unblock", submission.id, reason), await claim_guard(submission.id, by)
        await unblock_skill(skill.name, reason, f"admin:{by.name}", [audit, guard, *also])
        return await get_submission(submission.id)
    lifted = [*await lifting_writes(_block_target(submission, skill)), *_lift(skill)[1]]
    reopened = await _decide(submission, State.RECEIVED, "unblock", by, reason, seen, also=[*lifted, *also])
    return await send_or_leave_to_scan(reopened)


async def dequeue(submission_id: str, by: AdminToken, why: str, seen: int | None = None) -> Submission:
    require_role(by, "admin")
    reason = _reason(why)
    return await _decide(await get_submission(submission_id), State.DEQUEUED, "dequeue", by, reason, seen)


async def requeue(
    submission_id: str, by: AdminToken, why: str, seen: int | None = None, also: Sequence[Write] = ()
) -> Submission:
    """Back to the start with a full set of attempts."""
    reason = _reason(why)
    submission = await get_submission(submission_id)
    require_role(by, role_for(submission))
    if submission.state in CATEGORIES["published"]:
        raise Conflict("It is published. Submit new content, or rescan it.", code="illegal_move")
    await _refuse_appealed(submission, also)
    requeued = await _decide(submission, State.RECEIVED, "requeue", by, reason, seen, also=also)
    return await send_or_leave_to_scan(requeued)


async def _refuse_appealed(submission: Submission, answer: Sequence[Write] = ()) -> None:
    """The answer to an appeal is the decision: no other one leaves its owner without an answer. An appeal that is
    opened meanwhile changes the record. Blocking and removing, which protect others, are always possible."""
    if answer or submission.state not in APPEALABLE:
        return
    if await find_open_appeal(submission.id, submission.content_hash):
        raise Conflict(
            "Its owner has appealed against it. Answer the appeal first: overturned points approve it.",
            code="appeal_open",
        )


def _refuse_taken(submission: Submission, skill: Skill | None) -> None:
    if skill and skill.submission_id != submission.id:
        raise Conflict(f"The name {skill.name} was published by submission {skill.submission_id}. Reject this one.")
    if skill and submission.content_hash in skill.yanked_content:
        raise Conflict(f"A version of {skill.name} with exactly this content was yanked. Restore that version instead.")


class Retried(NamedTuple):
    retried: list[str]  # ids of submissions
    failed: list[str]  # could not be read, changed meanwhile, or may not be retried now
    left: int  # of those that were read, still to be retried
    more: bool  # not all that match were read
    next_position: str | None  # to continue from; None: nothing is left


async def requeue_all(
    state: State, reason_prefix: str, by: AdminToken, why: str, after: str | None = None, limit: int = RETRY_LIMIT
) -> Retried:
    """Some of the submissions in a state whose reason begins so, the oldest first: what an outage parked."""
    require_role(by, "admin")
    _reason(why)
    if state in ACTIVE_STATES:
        raise InvalidRequest("Active submissions are in progress already. Choose another state.", code="invalid_state")
    matching = await find_by_reason(state, reason_prefix, after)
    portion = await _retry_each(requeue, matching.found, limit, matching.next_position, by, why)
    return portion._replace(failed=[*matching.failed, *portion.failed])


async def rescue_stuck(submission_id: str, by: AdminToken, why: str) -> Rescue:
    """Does at once what the stuck scan would do."""
    require_role(by, "admin")
    reason = _reason(why)
    submission = await get_submission(submission_id)
    await _record(audit_put(by, "requeue stuck", submission_id, reason))
    return await rescue(submission)


async def rescue_all_stuck(by: AdminToken, why: str) -> RecoveryReport:
    require_role(by, "admin")
    await _record(audit_put(by, "requeue all stuck", "everything stuck", _reason(why)))
    return await recover_stuck()


async def retry_dead_letter(letter_id: str, by: AdminToken, why: str) -> Submission:
    """Its submission starts again and the letter is deleted, in one transaction."""
    require_role(by, "reviewer")
    reason = _reason(why)
    letter = await _get_letter(letter_id)
    if letter.submission_id is None:
        raise Conflict("This message names no submission, so there is nothing to retry. Discard it instead.")
    submission = await get_submission(letter.submission_id)
    require_role(by, role_for(submission))
    if submission.state in CATEGORIES["published"]:
        raise Conflict("Its submission was published since. Discard the letter instead.", code="illegal_move")
    audit = audit_put(by, "retry dead letter", submission.id, reason)
    writes: list[Write] = [deletion_of(letter), audit, await claim_guard(submission.id, by)]
    return await send_or_leave_to_scan(await _commit(_reopened(submission, by, reason), writes))


async def retry_dead_letters(
    reason: str, by: AdminToken, why: str, after: str | None = None, limit: int = RETRY_LIMIT
) -> Retried:
    """Some of the dead letters of one reason that name a submission, the newest first."""
    require_role(by, "admin")
    _reason(why)
    page = await get_dead_letters(LETTERS_AT_ONCE, after)
    matching = [(position_of(one), one.id) for one in page.letters if one.reason == reason and one.submission_id]
    portion = await _retry_each(retry_dead_letter, matching, limit, page.next_position, by, why)
    return portion._replace(failed=[*page.failed, *portion.failed])


async def discard_dead_letter(letter_id: str, by: AdminToken, why: str) -> None:
    require_role(by, "admin")
    audit = audit_put(by, "discard dead letter", letter_id, _reason(why))
    letter = await _get_letter(letter_id)
    await _record(deletion_of(letter), audit)


async def pause(by: AdminToken, why: str, duration: timedelta = DEFAULT_PAUSE) -> Pause:
    require_role(by, "admin")
    reason = _reason(why)
    return await pause_queue(
        by.name, reason, duration, [audit_put(by, "pause", f"the queue for {duration / HOUR:g} h", reason)]
    )


async def rescan_skill(name: str, by: AdminToken, why: str) -> "Rescanned":
    """Under the current rules. Only a worse verdict removes it from the marketplace."""
    from shared.verification.rescan import rescan  # here: it loads the rule matcher, which nothing else here needs

    require_role(by, "admin")
    reason = _reason(why)
    skill = await get_skill(name)
    if skill.is_blocked:
        raise Conflict("It is blocked already. Requeue its submission to have it scanned again.", code="blocked")
    await _record(audit_put(by, "rescan", skill.name, reason))
    return await rescan(skill)


async def rescan_all(by: AdminToken, why: str) -> "RescanReport":
    """The same round as that of the schedule, as far as there is time now; `more`: something is left."""
    from shared.verification.rescan import rescan_published

    require_role(by, "admin")
    await _record(audit_put(by, "rescan all", "everything published under older rules", _reason(why)))
    return await rescan_published(longest=SHORT_RESCAN)


async def resume(by: AdminToken, why: str) -> Pause:
    """What waited is sent at once, the oldest first; what is beyond one tick's worth follows with the stuck scan."""
    require_role(by, "admin")
    reason = _reason(why)
    resumed = await resume_queue(by.name, reason, [audit_put(by, "resume", "the queue", reason)])
    try:
        await send_waiting()
    except Unavailable:
        logger.exception("what waited was not sent, left to the stuck scan")
    return resumed


def role_for(submission: Submission) -> str:
    """A reviewer decides what awaits a decision; overriding a decision takes an admin."""
    is_undecided = submission.state in (State.ON_HOLD, State.RESCAN_REQUIRED)
    is_held_by_rule = submission.state == State.BLOCKED and submission.parked_by == "rule"
    return "reviewer" if is_undecided or is_held_by_rule else "admin"


async def _published(submission: Submission) -> Skill | None:
    skill = await find_skill(submission.skill_name)
    return skill if skill and skill.submission_id == submission.id and not skill.is_deleted else None


def _block_target(submission: Submission, skill: Skill | None) -> BlockTarget:
    """Its own content, and that of its published version."""
    receipts = block_target(skill).receipts if skill and not skill.is_deleted else {}
    own = receipt_keys(submission.content_hash, submission.rule_set, submission.unscanned)
    return BlockTarget(submission.skill_name, submission.source, {**receipts, **own})


def _lift(skill: Skill | None) -> tuple[Skill | None, list[Write]]:
    """The skill without a person's block, and what writes it. A rule's block is lifted by the publication alone."""
    if skill is None:
        return None, []
    if not skill.is_blocked or skill.is_blocked_by_rule or skill.is_deleted:
        return skill, [unchanged_check(skill)]
    lifted = unblocked(skill)
    return lifted, skill_writes(skill, lifted)


def refuse_changed(submission: Submission, seen: int | None) -> None:
    if seen is not None and seen != submission.version:
        raise Conflict("It has changed since you viewed it. Review it again, then decide.", code="changed_meanwhile")


async def _decide(
    submission: Submission,
    to: State,
    action: str,
    by: AdminToken,
    reason: str,
    seen: int | None,
    set_: Mapping[str, Any] = NOTHING,
    also: Sequence[Write] = (),
) -> Submission:
    refuse_changed(submission, seen)
    change_at = _reopened(submission, by, reason)
    if to != State.RECEIVED:
        change_at = _moved(submission, to, by, reason, set_)
    guard = await claim_guard(submission.id, by)
    moved = await _commit(change_at, [audit_put(by, action, submission.id, reason), guard, *also])
    logger.info("decided by a person", extra={"submission": submission.id, "action": action, "by": by.name})
    return moved


def _reopened(submission: Submission, by: AdminToken, reason: str) -> ChangeAt:
    return lambda at: reopen(submission, f"admin:{by.name}", at, reason)


def _moved(submission: Submission, to: State, by: AdminToken, reason: str, set_: Mapping[str, Any]) -> ChangeAt:
    return lambda at: move(submission, to, f"admin:{by.name}", at, reason, **set_)


async def _commit(change_at: ChangeAt, also: list[Write]) -> Submission:
    try:
        return await commit(change_at, lambda _: also)
    except IllegalMove as error:
        message = f"The submission {str(error).rstrip('.')}: not allowed in its state."
        raise Conflict(message, code="illegal_move") from error


async def _retry_each(
    verb: Callable[..., Awaitable[Submission]],
    matching: Sequence[tuple[str, str]],
    limit: int,
    next_position: str | None,
    by: AdminToken,
    why: str,
) -> Retried:
    """As many as the limit and the time allow, with the position to continue from."""
    outcomes: list[str | None] = []
    for _, subject in matching[:limit]:
        if outcomes and seconds_left(API_TIMEOUT) < TIME_TO_ANSWER.total_seconds():
            break
        outcomes.append(await _try(verb, subject, by, why))
    left = len(matching) - len(outcomes)
    return Retried(
        retried=[outcome for outcome in outcomes if outcome],
        failed=[subject for (_, subject), outcome in zip(matching, outcomes, strict=False) if outcome is None],
        left=left,
        more=next_position is not None,
        next_position=matching[len(outcomes) - 1][0] if left else next_position,
    )


async def _try(verb: Callable[..., Awaitable[Submission]], subject: str, by: AdminToken, why: str) -> str | None:
    """The id of the submission that was retried, or None where that is not possible now."""
    try:
        return (await verb(subject, by, why)).id
    except (Conflict, NotFound, LostLease, ConditionFailed):
        return None


async def _record(*writes: Write) -> None:
    await get_kv().transact(lambda: writes)


async def _get_letter(letter_id: str) -> DeadLetter:
    letter = await find_dead_letter(letter_id)
    if letter is None:
        raise NotFound("This dead letter does not exist any more: it was retried or discarded.")
    return letter
