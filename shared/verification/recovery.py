"""Finding and recovering what got stuck. The schedule and the admin panel both call `recover_stuck`."""

import asyncio
from typing import NamedTuple

import msgspec

from shared.db import get_queue, now
from shared.errors import LostLease, Unavailable
from shared.evidence.receipt_store import find_receipt
from shared.marketplace.publishing import publish
from shared.marketplace.skill_index import get_unindexed, index_skill, read_skills
from shared.marketplace.skill_store import find_skill
from shared.records.skills import Skill
from shared.records.submissions import ACTIVE_STATES, Rescue, State, Submission, is_id, move, rescue_of
from shared.submissions.pause import find_pause
from shared.submissions.submission_store import (
    Stuck,
    commit,
    find_submission,
    get_stuck_submissions,
    move_submission,
    touch_submission,
)
from shared.telemetry import Watched, count, logger
from shared.timing import MAX_ATTEMPTS, RECOVERY_DELAYS, SCAN_LIMIT

RESCUES_IN_FLIGHT = 20


class RecoveryReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    found: int
    sent_again: int
    requeued: int
    given_up: int
    left_alone: int  # changed by another writer meanwhile
    indexed: int  # skills that can be found from now on
    failed: list[str]  # could not be read or rescued; the next tick tries again
    more: bool  # the tick was full; the rest is next
    paused: bool

    @property
    def still_stuck(self) -> int:
        """Submissions that this scan found and did not recover; all that lies beyond its limit counts as one."""
        return sum(map(is_id, self.failed)) + self.more


async def recover_stuck(limit: int = SCAN_LIMIT) -> RecoveryReport:
    """Lost leases first, then skills that nothing finds yet, then what waits, as far as a tick goes."""
    at = now()
    paused = await find_pause() is not None
    lost = await get_stuck_submissions(at, paused, limit, ("lease",))
    outcomes = await _rescue_each(lost.submissions)  # at once: nothing that follows may cost them their tick
    unindexed = await _index_due(limit - len(lost.submissions))
    room = limit - len(lost.submissions) - unindexed.found
    waiting = await get_stuck_submissions(at, paused, room, ("waiting",)) if room > 0 else Stuck([], [], more=True)
    stuck = Stuck(
        [*lost.submissions, *waiting.submissions],
        [*lost.failed, *unindexed.failed, *waiting.failed],
        more=lost.more or unindexed.more or waiting.more,
    )
    outcomes += await _rescue_each(waiting.submissions)
    failed = _failed(stuck.submissions, outcomes)
    report = RecoveryReport(
        found=len(stuck.submissions) + unindexed.found,
        sent_again=outcomes.count(Rescue.SEND_AGAIN),
        requeued=outcomes.count(Rescue.REQUEUE),
        given_up=outcomes.count(Rescue.GIVE_UP),
        left_alone=outcomes.count(Rescue.LEAVE),
        indexed=unindexed.done,
        failed=[*stuck.failed, *failed],
        more=stuck.more,
        paused=paused,
    )
    _publish_metrics(report)
    return report


class _Indexed(NamedTuple):
    found: int
    done: int
    failed: list[str]
    more: bool


async def _index_due(limit: int) -> _Indexed:
    """Skills whose publication was cut off before their words were written."""
    if limit <= 0:
        return _Indexed(0, 0, [], more=True)
    names = await get_unindexed(now(), limit)
    read = await read_skills(names[:limit], with_counts=False)
    due = [skill for skill in read.skills.values() if skill.unindexed_since]
    in_flight = asyncio.Semaphore(RESCUES_IN_FLIGHT)

    async def index_one(skill: Skill) -> None:
        async with in_flight:
            await index_skill(skill)

    outcomes = await asyncio.gather(*map(index_one, due), return_exceptions=True)
    failed = list(read.failed)
    for skill, outcome in zip(due, outcomes, strict=True):
        if outcome is not None:
            logger.error("skill not indexed", exc_info=outcome, extra={"skill": skill.name})
            failed.append(skill.name)
    return _Indexed(len(due), outcomes.count(None), failed, more=len(names) > limit)


async def _rescue_each(submissions: list[Submission]) -> list[Rescue | BaseException]:
    in_flight = asyncio.Semaphore(RESCUES_IN_FLIGHT)

    async def rescue_one(submission: Submission) -> Rescue:
        async with in_flight:
            return await rescue(submission)

    return await asyncio.gather(*map(rescue_one, submissions), return_exceptions=True)


async def rescue(submission: Submission) -> Rescue:
    """What the record needs, written under its version: of two scans, or a scan and a worker, one wins."""
    decision = rescue_of(submission, now())
    try:
        if decision is Rescue.SEND_AGAIN:
            await _send_again(submission)
        elif decision is Rescue.REQUEUE:
            await _requeue(submission)
        elif decision is Rescue.GIVE_UP:
            await give_up(submission)
    except LostLease:
        return Rescue.LEAVE
    return decision


async def give_up(submission: Submission) -> Submission:
    """Every attempt is used up. What was decided already is finished; else a person decides, with the last error."""
    if submission.state is State.AUTO_APPROVED and (receipt := await find_receipt(submission)):
        return await publish(submission, receipt, await find_skill(submission.skill_name))
    detail = f": {submission.error}" if submission.error else ""
    reason = f"stuck: gave up after {MAX_ATTEMPTS} attempts{detail}"
    return await commit(lambda at: move(submission, State.ON_HOLD, "recovery", at, reason, parked_by="faults"))


async def park_undelivered(submission_id: str, reason: str) -> None:
    """For a message that died in the queue. A record that is done, or that a live worker holds, is left alone."""
    submission = await find_submission(submission_id)
    if submission is None or submission.state not in ACTIVE_STATES or submission.has_live_lease(now()):
        return
    try:
        await move_submission(submission, State.ON_HOLD, "system", f"its message {reason}", parked_by="faults")
    except LostLease:
        logger.info("moved while being parked, left alone", extra={"submission": submission_id})


async def _send_again(submission: Submission) -> None:
    """Noted first, so that of two scans one sends. What could not be sent is due again at the next tick."""
    noted = await touch_submission(submission, resent_at=now())
    try:
        await get_queue().send(submission.id, generation=submission.generation)
    except Unavailable:
        await touch_submission(noted, resent_at=submission.resent_at)
        raise


async def _requeue(submission: Submission) -> None:
    delay = RECOVERY_DELAYS[min(max(submission.attempts, 1), len(RECOVERY_DELAYS)) - 1]
    reason = f"attempt {submission.attempts} of {MAX_ATTEMPTS} stopped without a result"
    requeued = await commit(
        lambda at: move(submission, State.RECEIVED, "recovery", at, reason, error=reason, not_before=at + delay)
    )
    await get_queue().send(requeued.id, delay, requeued.generation)


def _failed(submissions: list[Submission], outcomes: list[Rescue | BaseException]) -> list[str]:
    failed = []
    for submission, outcome in zip(submissions, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            logger.error("rescue failed", exc_info=outcome, extra={"submission": submission.id})
            failed.append(submission.id)
    return failed


def _publish_metrics(report: RecoveryReport) -> None:
    logger.info("stuck scan finished", extra={"report": msgspec.to_builtins(report)})
    count(Watched.STUCK_SCAN_FINISHED)
    count(Watched.STUCK_FOUND, report.found)
    count(Watched.STUCK_RECOVERED, report.sent_again + report.requeued + report.given_up + report.indexed)
    count(Watched.STUCK_FAILED, len(report.failed))
