"""Finding and recovering what got stuck. The schedule and the admin panel both call `recover_stuck`."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, TypeVar

import msgspec

from shared.db import get_queue, now
from shared.errors import LostLease, Unavailable
from shared.evidence.receipt_store import find_receipt
from shared.marketplace.publishing import publish
from shared.marketplace.skill_index import get_unindexed, index_skill
from shared.marketplace.skill_store import find_skill, read_skills
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
from shared.timing import MAX_ATTEMPTS, RECOVERY_DELAYS, SCAN_LIMIT, STUCK_SCAN_BUDGET, seconds_left
from shared.verification.resumption import send_waiting

RESCUES_IN_FLIGHT = 20

T = TypeVar("T")
R = TypeVar("R")


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

    @property
    def recovered(self) -> int:
        return self.sent_again + self.requeued + self.given_up + self.indexed

    def followed_by(self, other: "RecoveryReport") -> "RecoveryReport":
        return RecoveryReport(
            found=self.found + other.found,
            sent_again=self.sent_again + other.sent_again,
            requeued=self.requeued + other.requeued,
            given_up=self.given_up + other.given_up,
            left_alone=self.left_alone + other.left_alone,
            indexed=self.indexed + other.indexed,
            failed=sorted({*self.failed, *other.failed}),
            more=other.more,
            paused=other.paused,
        )


async def recover_stuck(limit: int = SCAN_LIMIT) -> RecoveryReport:
    """Lost leases first, then skills that nothing finds yet, then what waited for the end of a pause, then what waits
    too long, as far as a tick goes."""
    at = now()
    paused = await find_pause() is not None
    lost = await get_stuck_submissions(at, paused, limit, ("lease",))
    rescues, failed = await _try_each(rescue, _by_id(lost))  # at once: nothing that follows may cost them their tick
    unindexed = await _index_due(limit - len(lost.submissions))
    room = limit - len(lost.submissions) - unindexed.found
    resumed, not_resumed = await _resume(0 if paused else room)
    room -= resumed
    waiting = await get_stuck_submissions(at, paused, room, ("waiting",)) if room > 0 else Stuck([], [], more=True)
    later_rescues, later_failed = await _try_each(rescue, _by_id(waiting))
    rescues += later_rescues
    report = RecoveryReport(
        found=len(lost.submissions) + unindexed.found + resumed + len(waiting.submissions),
        sent_again=resumed + rescues.count(Rescue.SEND_AGAIN),
        requeued=rescues.count(Rescue.REQUEUE),
        given_up=rescues.count(Rescue.GIVE_UP),
        left_alone=rescues.count(Rescue.LEAVE),
        indexed=unindexed.done,
        failed=[*lost.failed, *failed, *unindexed.failed, *not_resumed, *waiting.failed, *later_failed],
        more=lost.more or unindexed.more or waiting.more,
        paused=paused,
    )
    _publish_metrics(report)
    return report


async def recover_all_stuck(limit: int = SCAN_LIMIT) -> RecoveryReport:
    """Scan after scan, while more is stuck, the last one recovered something, and there is time for one that takes
    twice as long: ten thousand after an outage are not a matter of twenty ticks."""
    clock = asyncio.get_running_loop().time
    report = latest = await recover_stuck(limit)
    began, took = clock(), 0.0
    while latest.more and latest.recovered and seconds_left(STUCK_SCAN_BUDGET) > 2 * took:
        latest = await recover_stuck(limit)
        report = report.followed_by(latest)
        began, took = clock(), clock() - began
    return report


async def _resume(limit: int) -> tuple[int, list[str]]:
    if limit <= 0:
        return 0, []
    done, failed = await _try_each(send_waiting, {"resumed queue": limit})
    return sum(done), failed


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
    due = {skill.name: skill for skill in read.skills.values() if skill.unindexed_since}
    done, failed = await _try_each(index_skill, due)
    return _Indexed(len(due), len(done), [*read.failed, *failed], more=len(names) > limit)


def _by_id(stuck: Stuck) -> dict[str, Submission]:
    return {submission.id: submission for submission in stuck.submissions}


async def _try_each(fn: Callable[[T], Awaitable[R]], subjects: Mapping[str, T]) -> tuple[list[R], list[str]]:
    """The results, and the names of those that failed: one failure does not stop the others."""
    in_flight = asyncio.Semaphore(RESCUES_IN_FLIGHT)

    async def try_one(subject: T) -> R:
        async with in_flight:
            return await fn(subject)

    outcomes = await asyncio.gather(*map(try_one, subjects.values()), return_exceptions=True)
    failed = {name: each for name, each in zip(subjects, outcomes, strict=True) if isinstance(each, BaseException)}
    for name, error in failed.items():
        logger.error("rescue failed", exc_info=error, extra={"subject": name})
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)], list(failed)


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
    receipt = await find_receipt(submission) if submission.state is State.AUTO_APPROVED else None
    if receipt and receipt.is_reusable:
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


def _publish_metrics(report: RecoveryReport) -> None:
    logger.info("stuck scan finished", extra={"report": msgspec.to_builtins(report)})
    count(Watched.STUCK_SCAN_FINISHED)
    count(Watched.STUCK_FOUND, report.found)
    count(Watched.STUCK_RECOVERED, report.recovered)
    count(Watched.STUCK_FAILED, len(report.failed))
