"""What a worker does with one submission: claim it, verify it, commit the outcome. Whatever happens, the record has its
state and reason, and the message is deleted only when the record no longer needs it."""

import asyncio
import random
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from shared.db import find_long_scan_queue, get_queue, now
from shared.errors import Deferred, LostLease, TakesLong, Unavailable
from shared.evidence.blocklist import block_reason, find_block
from shared.evidence.receipt_store import receipt_puts
from shared.marketplace.publishing import Approval, publish
from shared.records.submissions import (
    ACTIVE_STATES,
    Delivery,
    State,
    Submission,
    claimed_by,
    is_deferred,
    is_superseded,
    move,
    was_resumed,
)
from shared.submissions.pause import PAUSE_KEY, Pause, pause_of
from shared.submissions.skill_source import UPLOADS
from shared.submissions.submission_store import (
    claim_submission,
    get_submission,
    get_submission_and,
    move_submission,
    touch_submission,
)
from shared.telemetry import logger
from shared.timing import DEFER_LIMIT, LEASE_MARGIN, LONGEST_DELAY, MAX_ATTEMPTS, RETRY_BASE
from shared.verification.recovery import give_up
from shared.verification.verification import LeasedSubmission, Outcome, verify


class Processed(NamedTuple):
    """What happens to the message: without a delay it is deleted, with one it reappears after it."""

    retry_in: timedelta | None = None


DONE = Processed()


async def process_submission(
    submission_id: str, worker: str, time_left: timedelta, delivery: Delivery, is_patient: bool = True
) -> Processed:
    """Raises only when the queue itself must deliver the message again. Who is not patient hands long scans over."""
    try:
        submission, paused = await get_submission_and(submission_id, PAUSE_KEY)
        at = now()
        if submission.state not in ACTIVE_STATES or submission.has_live_lease(at):
            return DONE  # finished, parked, or leased by another worker
        if was_resumed(submission) and is_superseded(submission, delivery):
            return DONE  # delayed since the pause: it would overtake what was sent when the queue was resumed
        early = _early_until(submission, pause_of(paused, at), at)
        if early is not None:
            return await _wait(submission, early, at, delivery)
        if submission.attempts >= MAX_ATTEMPTS:
            await give_up(submission)
            return DONE
        if await _block_listed(submission):
            return DONE
        claimed = await claim_submission(submission, worker, time_left + LEASE_MARGIN, delivery)
        delivery = msgspec.structs.replace(delivery, generation=claimed.generation)  # the record's message from now on
        return await _attempt(LeasedSubmission(claimed, is_patient), time_left)
    except LostLease:
        logger.info("changed by another writer meanwhile", extra={"submission": submission_id})
        return await _after_losing(submission_id, delivery)


async def _after_losing(submission_id: str, delivery: Delivery) -> Processed:
    """The other writer takes care of the record. Unless it waits again, unclaimed: the message that the other one meant
    to send may be lost, and this may be the only one left."""
    submission = await get_submission(submission_id)
    if submission.state not in ACTIVE_STATES or submission.has_live_lease(now()) or is_superseded(submission, delivery):
        return DONE
    return Processed(retry_in=RETRY_BASE)


def _early_until(submission: Submission, pause: Pause | None, at: datetime) -> datetime | None:
    waits = [wait for wait in (pause and pause.until, submission.not_before) if wait and wait > at]
    return max(waits, default=None)


async def _wait(submission: Submission, until: datetime, at: datetime, delivery: Delivery) -> Processed:
    """A successor replaces a message that came too early, so waiting never uses up its receives. One for each wait:
    copies of a message get none."""
    if is_superseded(submission, delivery):
        return DONE
    next_look = min(until, at + LONGEST_DELAY)
    waits = {} if is_deferred(submission, at) else {"not_before": next_look, "paused_until": next_look}
    waiting = await touch_submission(submission, **waits, **claimed_by(submission, delivery))
    await get_queue().send(waiting.id, next_look - at, waiting.generation)
    return DONE


async def _block_listed(submission: Submission) -> bool:
    """Before its content is fetched. An upload is its content; a repository may have other content now."""
    content_hash = submission.content_hash if submission.source == UPLOADS else None
    entry = await find_block(submission.skill_name, submission.source, content_hash)
    if entry is None:
        return False
    await move_submission(submission, State.BLOCKED, "worker", block_reason(entry), parked_by="blocklist")
    return True


async def _attempt(held: LeasedSubmission, time_left: timedelta) -> Processed:
    try:
        async with asyncio.timeout(time_left.total_seconds()):
            outcome = await verify(held)
            approval = await _move_or_approve(held, outcome)
            if outcome.receipt and outcome.state is State.AUTO_APPROVED:
                approved = approval.change_at(now()).after if approval else held.submission
                held.submission = await publish(approved, outcome.receipt, outcome.skill, outcome.new_name, approval)
    except LostLease:
        raise
    except Deferred as deferred:
        return await _defer(held, deferred)
    except TakesLong:
        return await _hand_over(held)
    except Exception as fault:  # noqa: BLE001 - whatever went wrong, the record must not stay leased without a worker
        return await _retry_or_hold(held, fault)
    logger.info("submission processed", extra={"submission": held.submission.id, "state": held.submission.state})
    return DONE


async def _move_or_approve(held: LeasedSubmission, outcome: Outcome) -> Approval | None:
    """An approval that cost no judgement is stored with the publication, in one transaction instead of two."""
    before, receipt = held.submission, outcome.receipt
    also = receipt_puts(receipt, before) if receipt else []
    decided = {"reason": outcome.reason, "parked_by": outcome.parked_by, **outcome.facts}
    if not also or outcome.state is not State.AUTO_APPROVED or before.state is not State.TIER1_SCANNING:
        await held.move(outcome.state, also=also, **decided)
        return None
    shared, *own = also
    return Approval(lambda at: move(before, outcome.state, "worker", at, **decided), shared, own)


async def _defer(held: LeasedSubmission, deferred: Deferred) -> Processed:
    """Gives the attempt back: an external outage is not this submission's fault."""
    submission = held.submission
    at = now()
    waits = max(timedelta(seconds=1), min(LONGEST_DELAY, deferred.until - at))
    total = submission.deferred_for + waits
    if total > DEFER_LIMIT:
        reason = f"{deferred.what} has been unavailable for a day: {deferred}"
        await held.move(State.ON_HOLD, reason, parked_by="faults")
        return DONE
    await held.move(
        State.RECEIVED,
        f"deferred: {deferred}",
        attempts=submission.attempts - 1,
        not_before=at + waits,
        deferred_for=total,
    )
    await get_queue().send(submission.id, waits, submission.generation)
    return DONE


async def _hand_over(held: LeasedSubmission) -> Processed:
    """To the few workers that wait for long scans, so that those never keep all workers from short ones. No attempt was
    used up. Should the message be lost, the recovery sends one to the other queue, and it is handed over again."""
    submission = held.submission
    await held.move(State.RECEIVED, "its scan takes longer than most: it waits", attempts=submission.attempts - 1)
    queue = find_long_scan_queue()
    assert queue  # else every worker is patient
    await queue.send(submission.id, generation=submission.generation)
    return DONE


async def _retry_or_hold(held: LeasedSubmission, fault: Exception) -> Processed:
    submission = held.submission
    error = describe(fault)
    logger.warning(
        "attempt failed", exc_info=fault, extra={"submission": submission.id, "attempt": submission.attempts}
    )
    if submission.attempts >= MAX_ATTEMPTS:
        await give_up(msgspec.structs.replace(submission, error=error))
        return DONE
    delay = RETRY_BASE * 2 ** (submission.attempts - 1) * random.uniform(1, 1.5)  # noqa: S311 - spreads load
    reason = f"attempt {submission.attempts} of {MAX_ATTEMPTS} failed: {error}"
    await held.move(State.RECEIVED, reason, error=error, not_before=now() + delay)
    return Processed(retry_in=delay)


def describe(fault: BaseException) -> str:
    """For the record and its readers: never an internal message."""
    if isinstance(fault, TimeoutError):
        return "it took too long"
    if isinstance(fault, Unavailable):
        return str(fault).rstrip(".")
    return f"an unexpected fault ({type(fault).__name__})"
