"""What a worker does with one submission: claim it, judge it, publish or refuse it. Whatever happens, the record says
where it stands and why, and the message is only given up when the record no longer needs it."""

import asyncio
import random
from collections.abc import Awaitable
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from shared.db import get_kv, get_queue, now
from shared.errors import Blocked, Deferred, Duplicate, LostLease, NeedsPerson, Refused, Unavailable
from shared.evidence.blocklist import blocked_by, find_block
from shared.records.submissions import ACTIVE_STATES, Delivery, State, Submission, claimed_by, is_superseded
from shared.submissions.pause import PAUSE_KEY, Pause, pause_of
from shared.submissions.skill_source import UPLOADS
from shared.submissions.submission_store import (
    claim_submission,
    get_submission,
    move_submission,
    submission_key,
    touch_submission,
)
from shared.telemetry import logger
from shared.timing import DEFER_LIMIT, LEASE_MARGIN, LONGEST_DELAY, MAX_ATTEMPTS, RETRY_BASE
from shared.verification.recovery import give_up
from shared.verification.verification import LeasedSubmission, verify


class Settled(NamedTuple):
    """What becomes of the message: None deletes it, a delay lets it come back."""

    retry_in: timedelta | None = None


DONE = Settled()


async def process_submission(submission_id: str, worker: str, time_left: timedelta, delivery: Delivery) -> Settled:
    """Raises only when the message must be delivered again by the queue itself."""
    return await _unless_lost(submission_id, delivery, _process(submission_id, worker, time_left, delivery))


async def _process(submission_id: str, worker: str, time_left: timedelta, delivery: Delivery) -> Settled:
    submission, pause = await _read(submission_id)
    at = now()
    if submission.state not in ACTIVE_STATES or submission.has_live_lease(at):
        return DONE  # finished, parked, or somebody else's
    early = _early_until(submission, pause, at)
    if early is not None:
        return await _wait(submission, early, at, delivery)
    if submission.attempts >= MAX_ATTEMPTS:
        await give_up(submission)
        return DONE
    if await _block_known_bad(submission):
        return DONE
    claimed = await claim_submission(submission, worker, time_left + LEASE_MARGIN, delivery)
    ours = msgspec.structs.replace(delivery, generation=claimed.generation)  # this message stands for it from now on
    return await _unless_lost(submission_id, ours, _work(LeasedSubmission(claimed), time_left))


async def _unless_lost(submission_id: str, delivery: Delivery, work: Awaitable[Settled]) -> Settled:
    try:
        return await work
    except LostLease:
        logger.info("changed by somebody else meanwhile", extra={"submission": submission_id})
        return await _after_losing(submission_id, delivery)


async def _after_losing(submission_id: str, delivery: Delivery) -> Settled:
    """Whoever changed the record sees to it. Unless it waits again and was not taken on by a worker: what they wanted
    to send may never have been sent, and this message may be the only one it has."""
    submission = await get_submission(submission_id)
    if submission.state not in ACTIVE_STATES or submission.has_live_lease(now()) or is_superseded(submission, delivery):
        return DONE
    return Settled(retry_in=RETRY_BASE)


async def _read(submission_id: str) -> tuple[Submission, Pause | None]:
    read = await get_kv().get_many([submission_key(submission_id), PAUSE_KEY])
    doc = read.found.get(submission_key(submission_id))
    if doc is None:
        submission = await get_submission(submission_id)  # tells "not there" from "not readable" by its error
    else:
        submission = msgspec.json.decode(doc, type=Submission)
    return submission, pause_of(read.found.get(PAUSE_KEY), now())


def _early_until(submission: Submission, pause: Pause | None, at: datetime) -> datetime | None:
    waits = [wait for wait in (pause and pause.until, submission.not_before) if wait and wait > at]
    return max(waits, default=None)


async def _wait(submission: Submission, until: datetime, at: datetime, delivery: Delivery) -> Settled:
    """A successor takes the place of a message that came too early, so waiting never uses up its receives. One for each
    wait: copies of a message have none."""
    if is_superseded(submission, delivery):
        return DONE
    next_look = min(until, at + LONGEST_DELAY)  # not the end of a pause: it may be lifted before
    not_before = max(next_look, submission.not_before or next_look)
    waiting = await touch_submission(submission, not_before=not_before, **claimed_by(submission, delivery))
    await get_queue().send(waiting.id, next_look - at, waiting.generation)
    return DONE


async def _block_known_bad(submission: Submission) -> bool:
    """Before anybody is asked for its content. An upload is its content; a repository may have other content now."""
    content_hash = submission.content_hash if submission.source == UPLOADS else None
    entry = await find_block(submission.skill_name, submission.source, content_hash)
    if entry is None:
        return False
    block = blocked_by(entry)
    await move_submission(submission, State.BLOCKED, "worker", str(block), parked_by=block.parked_by)
    return True


async def _work(held: LeasedSubmission, time_left: timedelta) -> Settled:
    try:
        async with asyncio.timeout(time_left.total_seconds()):
            await _decide(held)
    except LostLease:
        raise
    except Deferred as deferred:
        return await _defer(held, deferred)
    except Exception as fault:  # noqa: BLE001 - whatever went wrong, the record must not stay leased without a worker
        return await _retry_or_hold(held, fault)
    logger.info("submission settled", extra={"submission": held.submission.id, "state": held.submission.state})
    return DONE


async def _decide(held: LeasedSubmission) -> None:
    try:
        await verify(held)
    except Refused as refusal:
        await held.move(State.REJECTED, str(refusal))
    except Duplicate as duplicate:
        await held.move(State.DEQUEUED, str(duplicate))
    except Blocked as block:
        await held.move(State.BLOCKED, str(block), parked_by=block.parked_by)
    except NeedsPerson as hold:
        await held.move(State.ON_HOLD, str(hold), parked_by=hold.parked_by)


async def _defer(held: LeasedSubmission, deferred: Deferred) -> Settled:
    """Gives the attempt back: what is down elsewhere is not this submission's fault."""
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


async def _retry_or_hold(held: LeasedSubmission, fault: Exception) -> Settled:
    submission = held.submission
    error = describe(fault)
    logger.warning(
        "attempt failed", exc_info=fault, extra={"submission": submission.id, "attempt": submission.attempts}
    )
    if submission.attempts >= MAX_ATTEMPTS:
        held.submission = await give_up(msgspec.structs.replace(submission, error=error))
        return DONE
    delay = RETRY_BASE * 2 ** (submission.attempts - 1) * random.uniform(1, 1.5)  # noqa: S311 - spreads load
    reason = f"attempt {submission.attempts} of {MAX_ATTEMPTS} failed: {error}"
    await held.move(State.RECEIVED, reason, error=error, not_before=now() + delay)
    return Settled(retry_in=delay)


def describe(fault: BaseException) -> str:
    """For the record and its readers: our own words, never an internal message."""
    if isinstance(fault, TimeoutError):
        return "it took too long"
    if isinstance(fault, Unavailable):
        return str(fault).rstrip(".")
    return f"an unexpected fault ({type(fault).__name__})"
