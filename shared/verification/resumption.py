"""What waited for the end of a pause is sent again when the queue is resumed: the oldest at once, the rest with every
tick. Messages that are still delayed from the pause are superseded by these."""

import asyncio
from collections.abc import Iterable

from shared.db import get_queue, now
from shared.errors import LostLease
from shared.records.submissions import State, Submission, is_deferred
from shared.submissions.pause import find_resume, note_resumed
from shared.submissions.submission_store import get_submissions_fresh, get_waiting_until, touch_submission
from shared.timing import API_TIMEOUT, SCAN_LIMIT, seconds_left

TOGETHER = 25  # written at once; sent one after the other, in order


async def send_waiting(limit: int = SCAN_LIMIT) -> int:
    """Continues where the last call stopped. Returns how many were sent; a call that fails is repeated by the next."""
    resume = await find_resume()
    if resume is None:
        return 0
    waiting, end = await get_waiting_until(resume.at, resume.after, limit)
    positions, sent, after = list(waiting), 0, resume.after
    for start in range(0, len(positions), TOGETHER):
        if _is_late():
            break
        part = positions[start : start + TOGETHER]
        sent += await _send_in_order([waiting[position] for position in part])
        after = part[-1]
    is_done = end is None and (not positions or after == positions[-1])
    await note_resumed(resume, after, is_done)
    return sent


async def _send_in_order(ids: list[str]) -> int:
    fresh = await get_submissions_fresh(ids)
    by_id = {submission.id: submission for submission in fresh.submissions}
    renewed = await asyncio.gather(*(_renew(by_id[one]) for one in ids if one in by_id))
    return await _send_each(submission for submission in renewed if submission)


async def _send_each(renewed: Iterable[Submission]) -> int:
    sent = 0
    for submission in renewed:  # one after the other: the queue keeps their order as well as it can
        await get_queue().send(submission.id, generation=submission.generation)
        sent += 1
    return sent


async def _renew(submission: Submission) -> Submission | None:
    """A new generation, so that its delayed messages are superseded. None if it does not wait for the pause."""
    at = now()
    if submission.state != State.RECEIVED or is_deferred(submission, at):
        return None
    fresh = {"not_before": None, "paused_until": None, "resent_at": at, "claimed_delivery": None}
    try:
        return await touch_submission(submission, generation=submission.generation + 1, **fresh)
    except LostLease:  # a worker has it already
        return None


def _is_late() -> bool:
    return seconds_left(API_TIMEOUT) < API_TIMEOUT.total_seconds() / 4
