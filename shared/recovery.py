"""Finding and recovering what got stuck. The schedule and the admin panel both call `recover_stuck`."""

import asyncio

import msgspec

from shared.db import get_queue, now
from shared.errors import LostLease
from shared.pause import find_pause
from shared.pipeline import give_up
from shared.submission_store import commit, get_stuck_submissions, touch_submission
from shared.submissions import Rescue, State, Submission, move, rescue_of
from shared.telemetry import count, logger
from shared.timing import MAX_ATTEMPTS, RECOVERY_DELAYS, SCAN_LIMIT

RESCUES_IN_FLIGHT = 20


class RecoveryReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    found: int
    sent_again: int
    requeued: int
    given_up: int
    left_alone: int  # moved by somebody else meanwhile
    failed: list[str]  # could not be read or rescued; the next tick tries again
    more: bool  # the tick was full; the rest is next
    paused: bool


async def recover_stuck(limit: int = SCAN_LIMIT) -> RecoveryReport:
    paused = await find_pause() is not None
    stuck = await get_stuck_submissions(now(), paused, limit)
    in_flight = asyncio.Semaphore(RESCUES_IN_FLIGHT)

    async def rescue_in_turn(submission: Submission) -> Rescue:
        async with in_flight:
            return await rescue(submission)

    outcomes = await asyncio.gather(*map(rescue_in_turn, stuck.submissions), return_exceptions=True)
    failed = _failed(stuck.submissions, outcomes)
    report = RecoveryReport(
        found=len(stuck.submissions),
        sent_again=outcomes.count(Rescue.SEND_AGAIN),
        requeued=outcomes.count(Rescue.REQUEUE),
        given_up=outcomes.count(Rescue.GIVE_UP),
        left_alone=outcomes.count(Rescue.LEAVE),
        failed=[*stuck.failed, *failed],
        more=stuck.more,
        paused=paused,
    )
    _tell(report)
    return report


async def rescue(submission: Submission) -> Rescue:
    """What the record needs, written under its version: of two scans, or a scan and a worker, one wins."""
    decision = rescue_of(submission, now())
    try:
        if decision is Rescue.SEND_AGAIN:
            await touch_submission(submission, resent_at=now())
            await get_queue().send(submission.id)
        elif decision is Rescue.REQUEUE:
            await _requeue(submission)
        elif decision is Rescue.GIVE_UP:
            await give_up(submission)
    except LostLease:
        return Rescue.LEAVE
    return decision


async def _requeue(submission: Submission) -> None:
    delay = RECOVERY_DELAYS[min(submission.attempts, len(RECOVERY_DELAYS)) - 1]
    reason = f"attempt {submission.attempts} of {MAX_ATTEMPTS} stopped without a result"
    requeued = await commit(
        lambda at: move(submission, State.RECEIVED, "recovery", at, reason, error=reason, not_before=at + delay)
    )
    await get_queue().send(requeued.id, delay)


def _failed(submissions: list[Submission], outcomes: list[Rescue | BaseException]) -> list[str]:
    failed = []
    for submission, outcome in zip(submissions, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            logger.error("rescue failed", exc_info=outcome, extra={"submission": submission.id})
            failed.append(submission.id)
    return failed


def _tell(report: RecoveryReport) -> None:
    logger.info("stuck scan finished", extra={"report": msgspec.to_builtins(report)})
    count("StuckScanFinished")
    count("StuckFound", report.found)
    count("StuckRecovered", report.sent_again + report.requeued + report.given_up)
    count("StuckFailed", len(report.failed))
