"""What people decide. Every verb is one transaction: the move, its history and the audit entry that says who and why.

The admin pages and the admin API call the same functions, so a rule about roles or reasons holds in both.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from shared.audit import audit_put
from shared.auth import require_role
from shared.blocklist import find_block
from shared.db import get_kv, get_queue, now
from shared.dead_letter_store import DeadLetter, deletion_of, find_dead_letter, get_dead_letters
from shared.errors import Conflict, IllegalMove, InvalidRequest, LostLease, NotFound, Unavailable
from shared.kv import Write
from shared.pause import Pause, pause_queue, resume_queue
from shared.receipt_store import Clearance, clearance_put, deciding_rules, find_receipt
from shared.recovery import RecoveryReport, recover_stuck, rescue
from shared.secret_store import AdminToken
from shared.skill_store import find_skill, get_skill, publish_stored
from shared.stats import get_stats
from shared.submission_store import commit, get_submission, get_submissions_fresh
from shared.submissions import Change, Rescue, State, Submission, move, reopen
from shared.telemetry import logger
from shared.timing import DEFAULT_PAUSE

if TYPE_CHECKING:
    from shared.rescan import Rescanned, RescanReport

MAX_REASON = 500
HOUR = timedelta(hours=1)
RECOUNT_CHUNK = 2000
SHORT_RESCAN = timedelta(seconds=3)  # somebody waits: most scans take far less
ChangeAt = Callable[[datetime], Change]


async def approve(submission_id: str, by: AdminToken, why: str, seen: int | None = None) -> Submission:
    """Published as CERTIFIED, from the stored bytes. The clearance is for exactly this content and these rules: one
    changed byte is held again."""
    reason = _reason(why)
    submission = await get_submission(submission_id)
    require_role(by, role_for(submission))
    receipt = await find_receipt(submission)
    if receipt is None:
        raise Conflict("This was never scanned to the end, so there is nothing to approve. Requeue it instead.")
    if receipt.report.front_matter.errors:
        raise Conflict("Its SKILL.md has no usable name and description, so it cannot be published.", code="unusable")
    entry = await find_block(submission.skill_name, submission.source, submission.content_hash)
    if entry:
        raise Conflict(f"The blocklist names it: {entry.reason}. Remove that entry first.", code="blocklisted")
    fresh = {"attempts": 0, "error": None, "not_before": None, "resent_at": None}
    certified = {"cert_tier": "CERTIFIED", "publish_as": State.PUBLISHED}
    clearance = clearance_put(
        Clearance(
            content_hash=receipt.content_hash,
            rules=frozenset(deciding_rules(receipt.report)),
            allows_incomplete=bool(receipt.report.incomplete),
            unseen=receipt.unseen,
            by=by.name,
            why=reason,
            at=now(),
        )
    )
    approved = await _decide(
        submission_id, State.AUTO_APPROVED, "approve", by, why, seen, fresh | certified, [clearance]
    )
    return await publish_stored(approved, receipt, await find_skill(approved.skill_name))


async def reject(submission_id: str, by: AdminToken, why: str, seen: int | None = None) -> Submission:
    return await _decide(submission_id, State.REJECTED, "reject", by, why, seen, {})


async def block(submission_id: str, by: AdminToken, why: str, seen: int | None = None) -> Submission:
    return await _decide(submission_id, State.BLOCKED, "block", by, why, seen, {"parked_by": "person"})


async def dequeue(submission_id: str, by: AdminToken, why: str, seen: int | None = None) -> Submission:
    return await _decide(submission_id, State.DEQUEUED, "dequeue", by, why, seen, {})


async def requeue(submission_id: str, by: AdminToken, why: str, seen: int | None = None) -> Submission:
    """Back to the start with a full set of attempts."""
    return await _decide(submission_id, State.RECEIVED, "requeue", by, why, seen, {})


async def rescue_stuck(submission_id: str, by: AdminToken, why: str) -> Rescue:
    """What the stuck scan would do with it, at once."""
    require_role(by, "reviewer")
    reason = _reason(why)
    submission = await get_submission(submission_id)
    await _record(audit_put(by, "requeue stuck", submission_id, reason))
    return await rescue(submission)


async def rescue_all_stuck(by: AdminToken, why: str) -> RecoveryReport:
    require_role(by, "admin")
    await _record(audit_put(by, "requeue all stuck", "everything stuck", _reason(why)))
    return await recover_stuck()


async def retry_dead_letter(letter_id: str, by: AdminToken, why: str) -> Submission:
    """Its submission starts again, and the letter is settled, in one transaction."""
    require_role(by, "reviewer")
    reason = _reason(why)
    letter = await _get_letter(letter_id)
    if letter.submission_id is None:
        raise Conflict("This message names no submission, so there is nothing to retry. Discard it instead.")
    submission = await get_submission(letter.submission_id)
    audit = audit_put(by, "retry dead letter", submission.id, reason)
    reopened = await _commit(_reopened(submission, by, reason), [deletion_of(letter), audit])
    await _send(reopened)
    return reopened


async def retry_dead_letters(reason: str, by: AdminToken, why: str) -> tuple[int, list[str]]:
    """Every dead letter of one reason that names a submission. How many were retried, and those that could not be."""
    require_role(by, "admin")
    letters = [letter for letter in (await get_dead_letters(500)).letters if letter.reason == reason]
    failed = []
    for letter in letters:
        try:
            await retry_dead_letter(letter.id, by, why)
        except (Conflict, NotFound, LostLease):
            failed.append(letter.id)
    return len(letters) - len(failed), failed


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
    """Under the rules of today, whatever it was published under. Only a worse verdict takes it out."""
    from shared.rescan import rescan  # here: it loads the matcher, which nothing else of the panel needs

    require_role(by, "admin")
    reason = _reason(why)
    skill = await get_skill(name)
    if skill.is_blocked:
        raise Conflict("It is blocked already. Requeue its submission to have it scanned again.", code="blocked")
    await _record(audit_put(by, "rescan", skill.name, reason))
    return await rescan(skill)


async def rescan_all(by: AdminToken, why: str) -> "RescanReport":
    """What the daily schedule does, as far as there is time now; `more` tells whether something is left."""
    from shared.rescan import rescan_published

    require_role(by, "admin")
    await _record(audit_put(by, "rescan all", "everything published under older rules", _reason(why)))
    return await rescan_published(longest=SHORT_RESCAN)


async def resume(by: AdminToken, why: str) -> Pause:
    require_role(by, "admin")
    reason = _reason(why)
    return await resume_queue(by.name, reason, [audit_put(by, "resume", "the queue", reason)])


class Recount(NamedTuple):
    """What the counters say and what the records say. `unread`: records that could not be read, so no verdict."""

    counted: dict[State, int]
    found: dict[State, int]
    unread: int

    @property
    def drift(self) -> dict[State, int]:
        return {state: n for state in State if (n := self.counted[state] - self.found[state])}


async def recount(by: AdminToken) -> Recount:
    """Reads every record, a chunk at a time. Moves meanwhile may show as drift; a second recount tells."""
    require_role(by, "reviewer")
    ids = await get_kv().ids("sub:")
    found: Counter[State] = Counter()
    unread = 0
    for start in range(0, len(ids), RECOUNT_CHUNK):
        fresh = await get_submissions_fresh(ids[start : start + RECOUNT_CHUNK])
        found.update(submission.state for submission in fresh.submissions)
        unread += len(fresh.failed)
    stats = await get_stats()
    if stats.by_state is None:
        raise Unavailable("The counters cannot be read.")
    return Recount(stats.by_state, {state: found[state] for state in State}, unread)


def role_for(submission: Submission) -> str:
    """A reviewer decides what waits for a decision; overriding one that was made is for an admin."""
    is_undecided = submission.state in (State.ON_HOLD, State.RESCAN_REQUIRED)
    is_held_by_rule = submission.state == State.BLOCKED and submission.parked_by == "rule"
    return "reviewer" if is_undecided or is_held_by_rule else "admin"


async def _decide(
    submission_id: str,
    to: State,
    action: str,
    by: AdminToken,
    why: str,
    seen: int | None,
    set_: dict[str, Any],
    also: Sequence[Write] = (),
) -> Submission:
    reason = _reason(why)
    submission = await get_submission(submission_id)
    require_role(by, "admin" if action in ("block", "dequeue") else role_for(submission))
    if seen is not None and seen != submission.version:
        raise Conflict("It has changed since you looked at it. Look again, then decide.", code="changed_meanwhile")
    change_at = _reopened(submission, by, reason)
    if to != State.RECEIVED:
        change_at = _moved(submission, to, by, reason, set_)
    moved = await _commit(change_at, [audit_put(by, action, submission_id, reason), *also])
    if to is State.RECEIVED:
        await _send(moved)
    logger.info("decided by a person", extra={"submission": submission_id, "action": action, "by": by.name})
    return moved


def _reopened(submission: Submission, by: AdminToken, reason: str) -> ChangeAt:
    return lambda at: reopen(submission, f"admin:{by.name}", at, reason)


def _moved(submission: Submission, to: State, by: AdminToken, reason: str, set_: dict[str, Any]) -> ChangeAt:
    return lambda at: move(submission, to, f"admin:{by.name}", at, reason, **set_)


async def _commit(change_at: ChangeAt, also: list[Write]) -> Submission:
    try:
        return await commit(change_at, lambda _: also)
    except IllegalMove as error:
        raise Conflict(f"{str(error).rstrip('.')}: that is not open to it now.", code="illegal_move") from error


async def _send(submission: Submission) -> None:
    """The record is its own outbox: what cannot be sent now, the stuck scan sends."""
    try:
        await get_queue().send(submission.id)
    except Unavailable:
        logger.exception("send failed, left to the stuck scan", extra={"submission": submission.id})


async def _record(*writes: Write) -> None:
    await get_kv().transact(lambda: writes)


async def _get_letter(letter_id: str) -> DeadLetter:
    letter = await find_dead_letter(letter_id)
    if letter is None:
        raise NotFound("This dead letter is not there any more; somebody settled it.")
    return letter


def _reason(why: str) -> str:
    reason = " ".join(why.split())
    if not reason:
        raise InvalidRequest("Say why: the author and the audit list need a reason.", code="reason_required")
    if len(reason) > MAX_REASON:
        raise InvalidRequest(f"A reason has at most {MAX_REASON} characters.", code="reason_too_long")
    return reason
